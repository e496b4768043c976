//! Sub-plans: their texts, and how the agent reports that each is finished.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::{Map, Value};

use super::session::read_required;
use super::{RowBuilder, use_value};
use crate::compose::Composer;
use crate::compose::fill::DerivedRow;
use crate::compose::reply_instructions;
use crate::diag::{Code, Diagnostic, Diagnostics, Severity};
use crate::library::contract;
use crate::library::contract::FieldType;
use crate::library::contract::paths::fill_path;
use crate::library::omission::{OmissionReason, OmittedInput};
use crate::library::plan::{ExecutionGroup, ExecutionPlan, ExecutionSubplan, find_execution_plan};
use crate::library::recipe::DeriveSpec;
use crate::source::origin::Trust;

/// No rows, for a value whose errors are already reported: its slot must not report that nothing fills it.
const NOTHING: Option<Vec<DerivedRow>> = Some(Vec::new());

/// Returns the sub-plan that the value `plan` names, or `None` for the whole plan.
fn parse_plan_number(c: &mut Composer<'_>) -> Result<Option<u64>, Diagnostics> {
    let Some(given) = use_value(c, "plan") else { return Ok(None) };
    let number = given.parse().ok().filter(|number| *number > 0);
    number.map(Some).ok_or_else(|| {
        let message = format!("invalid value `{given}` for `plan`: expected the number of a sub-plan");
        Diagnostic::error(Code::RequestBad, message).hint("sub-plans are numbered from 1").into()
    })
}

/// Unwraps `result` or reports its errors. Both the text and the completion of a plan read it, so each error
/// is reported once.
fn report_errors<T>(c: &mut Composer<'_>, result: Result<T, Diagnostics>) -> Option<T> {
    let Diagnostics(diags) = match result {
        Ok(fine) => return Some(fine),
        Err(failure) => failure,
    };
    for diag in diags {
        if !c.errors.contains(&diag) {
            c.errors.push(diag);
        }
    }
    None
}

pub(super) fn plan_rows(c: &mut Composer<'_>, name: &str) -> Option<Vec<DerivedRow>> {
    let mut make = RowBuilder { name: name.into(), trust: Trust::Agent, lines: true };
    let asked = parse_plan_number(c);
    let Some(one) = report_errors(c, asked) else { return NOTHING };
    // One sub-plan is implemented only if the whole plan is valid.
    let order = find_execution_plan(c.library, &c.request.layout);
    let Some(order) = report_errors(c, order) else { return NOTHING };
    if let Some(number) = one {
        let is_planned = ensure_planned(&order, number);
        let row = report_errors(c, is_planned).and_then(|()| plan_row(c, &mut make, "one", number, ""));
        let is_in = |group: &&ExecutionGroup| group.plans.iter().any(|plan| plan.number == number);
        let is_beside = |group: &ExecutionGroup| group.parallel && group.plans.len() > 1;
        make.trust = Trust::Ours;
        let beside = order.groups.iter().find(is_in).is_some_and(is_beside);
        let beside = beside.then(|| make.row(c, "beside", []));
        return Some(beside.into_iter().chain(row).collect());
    }
    let count = order.plans().count();
    let mut rows = alloc::vec![make.row(c, "all", [("count", count.to_string().into())])];
    for ExecutionGroup { id, parallel, plans } in order.groups {
        let kind = if parallel { "parallel" } else { "serial" };
        rows.push(make.row(c, kind, [("group", id.into())]));
        for ExecutionSubplan { number, name, .. } in plans {
            rows.extend(plan_row(c, &mut make, "plan", number, &name));
        }
    }
    make.trust = Trust::Ours;
    rows.push(match c.agent.tools.sub_agent.clone() {
        Some(tool) => make.row(c, "delegate", [("tool", tool.into())]),
        None => make.row(c, "alone", []),
    });
    Some(rows)
}

/// Returns a row for every sub-plan in the order of the execution plan. Errors in the plan are only warnings
/// here: a review of the implementation continues without the plan.
pub(super) fn sub_plan_rows(c: &mut Composer<'_>, name: &str) -> Vec<DerivedRow> {
    let mut make = RowBuilder { name: name.into(), trust: Trust::Agent, lines: true };
    let order = match find_execution_plan(c.library, &c.request.layout) {
        Ok(order) => order,
        Err(Diagnostics(diags)) => {
            let absent = diags.iter().all(|diag| diag.code == Code::IncludeNotFound);
            let why = if absent { OmissionReason::NotThere } else { OmissionReason::Empty };
            c.omitted.push(OmittedInput::new("the execution plan", why, ""));
            let wrong = diags.into_iter().filter(|_| !absent);
            c.diagnostics.extend(wrong.map(|diag| Diagnostic { severity: Severity::Warning, ..diag }));
            return Vec::new();
        }
    };
    order.plans().filter_map(|plan| plan_row(c, &mut make, "plan", plan.number, &plan.name)).collect()
}

fn ensure_planned(order: &ExecutionPlan, number: u64) -> Result<(), Diagnostics> {
    let mut numbers: Vec<u64> = order.plans().map(|plan| plan.number).collect();
    if numbers.contains(&number) {
        return Ok(());
    }
    numbers.sort_unstable();
    let numbers: Vec<String> = numbers.iter().map(ToString::to_string).collect();
    let error = Diagnostic::error(Code::RequestBad, format!("the execution plan has no sub-plan {number}"));
    Err(error.hint(format!("its sub-plans: {}", numbers.join(", "))).into())
}

fn plan_row(
    c: &mut Composer<'_>,
    make: &mut RowBuilder,
    kind: &'static str,
    number: u64,
    title: &str,
) -> Option<DerivedRow> {
    let (plan_file, tasks_file) =
        (format!("04_planning/plan_{number}.md"), format!("04_planning/tasks_{number}.md"));
    // Search for both, so that both are reported if both are missing.
    let (plan, tasks) = (read_required(c, "plan", &plan_file), read_required(c, "tasks", &tasks_file));
    let mut row = make.row(
        c,
        kind,
        [
            ("number", number.to_string().into()),
            ("title", title.into()),
            ("plan_file", plan_file.into()),
            ("tasks_file", tasks_file.into()),
        ],
    );
    row.fields.extend([("plan_text", plan?), ("tasks_text", tasks?)]);
    Some(row)
}

/// Returns one row for each completion that the agent must report.
pub(super) fn completion_rows(
    c: &mut Composer<'_>,
    name: &str,
    spec: &DeriveSpec,
) -> Option<Vec<DerivedRow>> {
    let contract = spec.contract.first()?;
    let read = contract::find_contract(c.library, contract, &c.request.layout);
    let Some((_, contract_read)) = report_errors(c, read) else { return NOTHING };
    let submission = contract_read.submission?;
    let marker = submission.write.first().map(|companion| companion.path.clone()).or(submission.file)?;
    let mut numbers = alloc::vec![None];
    if spec.per_plan.is_some() {
        let asked = parse_plan_number(c);
        let Some(one) = report_errors(c, asked) else { return NOTHING };
        numbers = match one {
            Some(number) => alloc::vec![Some(number)],
            None => {
                let order = find_execution_plan(c.library, &c.request.layout);
                let Some(order) = report_errors(c, order) else { return NOTHING };
                let mut numbers: Vec<Option<u64>> = order.plans().map(|plan| Some(plan.number)).collect();
                numbers.sort_unstable();
                numbers
            }
        };
    }
    let mut rows = Vec::new();
    for number in numbers {
        let mut arguments = Map::new();
        for field in
            submission.field.iter().filter(|field| field.kind != FieldType::Preferences && !field.asks)
        {
            let given = match number.filter(|_| spec.per_plan.as_ref() == Some(&field.name)) {
                Some(number) => number.into(),
                None => match spec.given.get(&field.name) {
                    Some(given) => Value::from(given.as_str()),
                    None => use_value(c, &field.name)?.as_str().into(),
                },
            };
            arguments.insert(field.name.clone(), given);
        }
        rows.push(completion_row(c, name, contract, &marker, number, arguments));
    }
    Some(rows)
}

fn completion_row(
    c: &mut Composer<'_>,
    name: &str,
    contract: &str,
    marker: &str,
    number: Option<u64>,
    arguments: Map<String, Value>,
) -> DerivedRow {
    let mut make = RowBuilder { name: name.into(), trust: Trust::Ours, lines: true };
    let number: String = number.map(|number| number.to_string()).unwrap_or_default();
    let path = fill_path(marker, &arguments);
    if !c.request.mcp {
        return make.row(c, "file", [("number", number.into()), ("path", path.into())]);
    }
    let tool = reply_instructions::tool_name(c, contract);
    let fields = [
        ("number", number.into()),
        ("tool", tool.into()),
        ("arguments", Value::Object(arguments).to_string().into()),
        ("path", path.into()),
    ];
    make.row(c, "tool", fields)
}
