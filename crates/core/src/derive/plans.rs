//! Sub-plans: their texts, and how each is said to be finished.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::{Map, Value};

use super::session::needed;
use super::{RowBuilder, value};
use crate::compose::Composer;
use crate::contract::FieldType;
use crate::data;
use crate::diag::{Code, Diagnostic, Diagnostics, Severity};
use crate::fill::DerivedRow;
use crate::instruct;
use crate::prompt::{OmissionReason, OmittedInput, Trust};
use crate::recipe::DeriveSpec;
use crate::submission::{self, ExecutionGroup, ExecutionPlan, ExecutionSubplan};

/// What is wrong is told already: no slot has to complain that nothing fills it.
const NOTHING: Option<Vec<DerivedRow>> = Some(Vec::new());

/// The sub-plan that the value `plan` names; `None` where the whole plan is meant.
fn one(c: &mut Composer<'_>) -> Result<Option<u64>, Diagnostics> {
    let Some(given) = value(c, "plan") else { return Ok(None) };
    let number = given.parse().ok().filter(|number| *number > 0);
    number.map(Some).ok_or_else(|| {
        let message = format!("the value `plan` is `{given}`, which is no number of a sub-plan");
        Diagnostic::error(Code::RequestBad, message).hint("sub-plans are numbered from 1").into()
    })
}

/// The plan is asked for by its text and by its completion; what is wrong with it is told once.
fn told<T>(c: &mut Composer<'_>, result: Result<T, Diagnostics>) -> Option<T> {
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

pub(super) fn rows(c: &mut Composer<'_>, name: &str) -> Option<Vec<DerivedRow>> {
    let mut make = RowBuilder { name: name.into(), trust: Trust::Agent, lines: true };
    let asked = one(c);
    let Some(one) = told(c, asked) else { return NOTHING };
    // A part of a plan is carried out only where the whole of it is good.
    let order = submission::order(c.library, &c.request.layout);
    let Some(order) = told(c, order) else { return NOTHING };
    if let Some(number) = one {
        let is_planned = ensure_planned(&order, number);
        let row = told(c, is_planned).and_then(|()| plan_row(c, &mut make, "one", number, ""));
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

/// Every sub-plan in the order of the execution plan. Whoever examines what was made of a plan is told what is wrong with
/// it, and goes on.
pub(super) fn all(c: &mut Composer<'_>, name: &str) -> Vec<DerivedRow> {
    let mut make = RowBuilder { name: name.into(), trust: Trust::Agent, lines: true };
    let order = match submission::order(c.library, &c.request.layout) {
        Ok(order) => order,
        Err(Diagnostics(diags)) => {
            let absent = diags.iter().all(|diag| diag.code == Code::IncludeNotFound);
            let why = if absent { OmissionReason::NotThere } else { OmissionReason::Empty };
            c.absent.push(OmittedInput { what: "the execution plan".into(), why, detail: String::new() });
            let wrong = diags.into_iter().filter(|_| !absent);
            c.talk.extend(wrong.map(|diag| Diagnostic { severity: Severity::Warning, ..diag }));
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
    // Both are looked for, so that both are told where neither is there.
    let (plan, tasks) = (needed(c, "plan", &plan_file), needed(c, "tasks", &tasks_file));
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

/// One row for each time that something has to be said to be finished.
pub(super) fn completion(c: &mut Composer<'_>, name: &str, spec: &DeriveSpec) -> Option<Vec<DerivedRow>> {
    let contract = spec.contract.first()?;
    let read = data::find_contract(c.library, contract, &c.request.layout);
    let Some((_, contract_read)) = told(c, read) else { return NOTHING };
    let submission = contract_read.submission?;
    let marker = submission.write.first().map(|companion| companion.path.clone()).or(submission.file)?;
    let mut numbers = alloc::vec![None];
    if spec.per_plan.is_some() {
        let asked = one(c);
        let Some(one) = told(c, asked) else { return NOTHING };
        numbers = match one {
            Some(number) => alloc::vec![Some(number)],
            None => {
                let order = submission::order(c.library, &c.request.layout);
                let Some(order) = told(c, order) else { return NOTHING };
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
                    None => value(c, &field.name)?.as_str().into(),
                },
            };
            arguments.insert(field.name.clone(), given);
        }
        rows.push(finished(c, name, contract, &marker, number, arguments));
    }
    Some(rows)
}

fn finished(
    c: &mut Composer<'_>,
    name: &str,
    contract: &str,
    marker: &str,
    number: Option<u64>,
    arguments: Map<String, Value>,
) -> DerivedRow {
    let mut make = RowBuilder { name: name.into(), trust: Trust::Ours, lines: true };
    let number: String = number.map(|number| number.to_string()).unwrap_or_default();
    let path = submission::path(marker, &arguments);
    if !c.request.mcp {
        return make.row(c, "file", [("number", number.into()), ("path", path.into())]);
    }
    let tool = instruct::tool(c, contract);
    let fields = [
        ("number", number.into()),
        ("tool", tool.into()),
        ("arguments", Value::Object(arguments).to_string().into()),
        ("path", path.into()),
    ];
    make.row(c, "tool", fields)
}
