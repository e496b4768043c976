//! Plans as data: a whole plan, or an order with the sub-plans of the session; and the files that result from
//! them.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::{Value, json};

use super::SessionChanges;
use super::stale::find_surplus_files;
use crate::diag::{Code, Diagnostic, Diagnostics};
use crate::library::contract::paths::{fill_path, find_files};
use crate::library::contract::{CompanionFile, PlanContracts, Submission};
use crate::library::contract::{SubmissionContext, SubmissionValues};
use crate::library::plan::SharedName;
use crate::library::plan::markdown;
use crate::library::plan::parse::{
    ISOLATION, are_lanes_known, file_name, find_list, index_values, is_order_known, list_or_empty,
    parse_conflicts, parse_documentation, parse_groups, parse_subplan, parse_subplans, subplan_number,
};
use crate::library::plan::rules::{self, ConflictRow, ParsedSubplan, push_error};
use crate::library::yaml;

/// Fields that the overview is rendered from: all of them are given, or none.
const OVERVIEW: [&str; 4] = ["plan_overview", "phase_1", "phase_2", "phase_3"];

impl SubmissionContext<'_> {
    /// Adds the files of a plan, or of the order of a plan, to the changes. Writes nothing if there is an
    /// error.
    pub(super) fn write_plan(
        &self,
        submission: &Submission,
        plan: &PlanContracts,
        data: &SubmissionValues,
        shared_names: &dyn Fn() -> Vec<SharedName>,
        changes: &mut SessionChanges,
        wrong: &mut Vec<Diagnostic>,
    ) -> Result<(), Diagnostics> {
        let subplan = self.find_submission(&plan.subplan)?;
        let files_of = plan.order.is_none().then_some(&subplan);
        let mut judged =
            rules::ParsedPlan { docs: parse_documentation(data), ..rules::ParsedPlan::default() };
        judged.groups = parse_groups(data, files_of, wrong);
        judged.is_order_known = is_order_known(data, &judged.groups);
        let named: BTreeSet<u64> =
            judged.groups.iter().flat_map(|group| &group.plans).map(|plan| plan.1).collect();
        let subplans: Vec<(String, SubmissionValues)> = match &plan.order {
            Some(_) => {
                judged.are_lanes_known = are_lanes_known(data);
                judged.lanes = parse_subplans(data, wrong);
                let items = list_or_empty(data, "subplans").iter().enumerate();
                items
                    .filter_map(|(nth, item)| {
                        Some((format!("subplans[{}]", nth + 1), item.as_object()?.clone()))
                    })
                    .collect()
            }
            None => {
                judged.are_lanes_known = true;
                let earlier = self.earlier_numbers(submission, &subplan)?;
                self.read_session_subplans(&subplan, &named, &earlier, &mut judged.lanes, wrong)?
            }
        };
        let is_owned = |data: &SubmissionValues| {
            find_list(data, "owned_files").is_some_and(|owned| !owned.contains(&Value::Null))
        };
        judged.is_owned_known = subplans.iter().all(|(_, data)| is_owned(data));
        let order = plan.order.as_deref().map(|order| self.find_submission(order)).transpose()?;
        let (order, order_data) = match order {
            Some(order) => {
                let data = to_order_values(data, &subplan, &order);
                (order, data)
            }
            None => (submission.clone(), data.clone()),
        };
        let overview = order.write.first();
        let is_given = OVERVIEW.iter().any(|field| data.contains_key(*field));
        judged.conflicts = match overview {
            Some(overview) if !is_given => self.read_session_overview(overview, wrong)?,
            _ => parse_conflicts(data),
        };
        if is_given {
            for field in OVERVIEW.iter().filter(|field| !data.contains_key(**field)) {
                push_error(wrong, format!("`{field}` is missing: it is part of the overview"));
            }
        }
        judged.check(shared_names, wrong);
        if !wrong.is_empty() {
            return Ok(());
        }
        for (at, data) in &subplans {
            self.write_companions(&subplan, data, changes)?;
            check_lane(at, &judged.lanes, &subplan, data, changes, wrong);
        }
        if let Some(overview) = overview.filter(|_| is_given) {
            self.write_companions(&order, &order_data, changes)?;
            check_overview(overview, judged.conflicts.as_deref().unwrap_or_default(), changes, wrong);
        }
        self.write_data(&order, &order_data, changes)?;
        if plan.order.is_some() {
            self.write_data(submission, data, changes)?;
            // This plan contains all sub-plans, so sub-plans that were submitted one by one are obsolete.
            let data_file = Submission { write: Vec::new(), ..subplan.clone() };
            changes.remove = find_surplus_files(&self.library.sources, &data_file, true, &|_| false);
        }
        let is_kept = |number| named.contains(&number);
        let beyond = find_surplus_files(&self.library.sources, &subplan, plan.order.is_none(), &is_kept);
        changes.remove.extend(beyond);
        Ok(())
    }

    /// Reads the sub-plans of the session: as data if they were submitted one by one, else as hand-written
    /// Markdown. Returns those that are data, each with its file.
    fn read_session_subplans(
        &self,
        subplan: &Submission,
        named: &BTreeSet<u64>,
        earlier: &BTreeSet<u64>,
        lanes: &mut BTreeMap<u64, ParsedSubplan>,
        wrong: &mut Vec<Diagnostic>,
    ) -> Result<Vec<(String, SubmissionValues)>, Diagnostics> {
        let mut all = Vec::new();
        let pattern = subplan.file.as_deref().unwrap_or_default();
        let there: BTreeSet<u64> = find_files(&self.library.sources, pattern, None)
            .into_iter()
            .filter_map(|(_, data)| data.values().next()?.as_u64())
            .collect();
        for number in named.union(&there) {
            let file = fill_path(pattern, &index_values((*number).into()));
            let Some(text) = self.session_text(&file)? else {
                let by_hand = self.read_markdown_subplan(subplan, *number, wrong)?;
                lanes.extend(by_hand.map(|lane| (*number, lane)));
                continue;
            };
            if !named.contains(number) {
                // It is a sub-plan of the previous plan; its files are removed.
                if !earlier.contains(number) {
                    let message = format!("`{file}` was submitted, but no group has it");
                    let diag = Diagnostic::error(Code::SubmissionBad, message);
                    wrong.push(diag.hint(format!("put it into a group, or remove `{file}`")));
                }
                continue;
            }
            let judged = yaml::read_yaml(&file, &text)
                .map_err(Diagnostics::from)
                .and_then(|value| self.check_fields(subplan, &value));
            let (data, mistakes) = match judged {
                Ok(judged) => judged,
                // The file exists; further checks wait until it can be read.
                Err(Diagnostics(mistakes)) => {
                    (SubmissionValues::from_iter([(ISOLATION.to_string(), Value::Null)]), mistakes)
                }
            };
            wrong.extend(mistakes.into_iter().map(|mut diag| {
                diag.message = format!("{file}: {}", diag.message);
                diag
            }));
            if let Some(index) = data.get("index").and_then(Value::as_u64).filter(|index| index != number) {
                push_error(wrong, format!("{file}: `index` is {index}, but the file name says {number}"));
            }
            lanes.insert(*number, parse_subplan(&data, &file, ": "));
            all.push((file, data));
        }
        Ok(all)
    }

    /// Reads a hand-written sub-plan in Markdown.
    pub(super) fn read_markdown_subplan(
        &self,
        subplan: &Submission,
        number: u64,
        wrong: &mut Vec<Diagnostic>,
    ) -> Result<Option<ParsedSubplan>, Diagnostics> {
        let Some(companion) = subplan.write.first() else { return Ok(None) };
        let file = fill_path(&companion.path, &index_values(number.into()));
        let text = self.session_text(&file)?;
        Ok(text.map(|text| markdown::parse_subplan(&file, &text, wrong)))
    }

    /// Reads the overview of the session.
    pub(super) fn read_session_overview(
        &self,
        overview: &CompanionFile,
        wrong: &mut Vec<Diagnostic>,
    ) -> Result<Option<Vec<ConflictRow>>, Diagnostics> {
        let file = &overview.path;
        if let Some(text) = self.session_text(file)? {
            return Ok(markdown::parse_overview(file, &text, wrong));
        }
        let message = format!("the session has no overview `{file}`");
        let hint = format!("write it, or submit it as {}", OVERVIEW.map(|it| format!("`{it}`")).join(", "));
        wrong.push(Diagnostic::error(Code::SubmissionBad, message).hint(hint));
        Ok(None)
    }

    /// Returns the numbers that the order of the previous plan names; empty if that order was overwritten.
    fn earlier_numbers(
        &self,
        order: &Submission,
        subplan: &Submission,
    ) -> Result<BTreeSet<u64>, Diagnostics> {
        let file = order.file.as_deref().unwrap_or_default();
        let text = self.session_text(file)?;
        let value = text.and_then(|text| yaml::read_yaml(file, &text).ok());
        let groups = value.as_ref().and_then(|value| value["groups"].as_array()).into_iter().flatten();
        let plans = groups.filter_map(|group| group["plans"].as_array()).flatten();
        Ok(plans.filter_map(|plan| subplan_number(plan["file"].as_str()?, subplan)).collect())
    }
}

/// Checks that the Markdown of a sub-plan agrees with its data: the coder reads the Markdown, and it is
/// checked before the implementation.
fn check_lane(
    at: &str,
    lanes: &BTreeMap<u64, ParsedSubplan>,
    subplan: &Submission,
    data: &SubmissionValues,
    changes: &SessionChanges,
    wrong: &mut Vec<Diagnostic>,
) {
    let Some(companion) = subplan.write.first() else { return };
    let file = fill_path(&companion.path, data);
    let own = data.get("index").and_then(Value::as_u64).and_then(|number| lanes.get(&number));
    let (Some(own), Some(written)) = (own, changes.write.get(&file)) else { return };
    let mut mistakes = Vec::new();
    let read = markdown::parse_subplan(&file, &written.as_str().into(), &mut mistakes);
    let globs = |lane: &ParsedSubplan| lane.owned.iter().map(|owned| owned.glob.clone()).collect::<Vec<_>>();
    let hides = !mistakes.is_empty() || read.lacks.len() > own.lacks.len() || globs(&read) != globs(own);
    push_hidden_error(hides, at, &file, wrong);
}

fn check_overview(
    overview: &CompanionFile,
    own: &[ConflictRow],
    changes: &SessionChanges,
    wrong: &mut Vec<Diagnostic>,
) {
    let Some(written) = changes.write.get(&overview.path) else { return };
    let mut mistakes = Vec::new();
    let read = markdown::parse_overview(&overview.path, &written.as_str().into(), &mut mistakes);
    let rows = |all: &[ConflictRow]| {
        all.iter().map(|row| (row.file.clone(), row.lanes.clone(), row.owner)).collect::<Vec<_>>()
    };
    let hides = read.is_none_or(|read| rows(&read) != rows(own)) || !mistakes.is_empty();
    push_hidden_error(hides, "plan_overview", &overview.path, wrong);
}

fn push_hidden_error(hides: bool, at: &str, file: &str, wrong: &mut Vec<Diagnostic>) {
    if hides {
        let message = format!("`{at}`: in `{file}` a text hides the sections below it, or imitates one");
        let diag = Diagnostic::error(Code::SubmissionBad, message);
        let hint = "close code fences and comments, and leave headings of the first two levels to the fields";
        wrong.push(diag.hint(hint));
    }
}

/// Converts the order of a whole plan into the form of the order contract: files instead of numbers.
fn to_order_values(data: &SubmissionValues, subplan: &Submission, order: &Submission) -> SubmissionValues {
    let file = |plan: &Value| fill_path(file_name(subplan), &index_values(plan["index"].clone()));
    let mut made = SubmissionValues::new();
    for field in &order.field {
        let value = match (field.fixed, field.name.as_str()) {
            (Some(fixed), _) => Some(fixed.into()),
            (None, "groups") => {
                let groups = list_or_empty(data, "groups").iter().map(|group| {
                    let plans = group["plans"].as_array().into_iter().flatten();
                    let plans = plans.map(|plan| json!({ "file": file(plan), "name": plan["name"] }));
                    json!({
                        "group_id": group["group_id"],
                        "mode": group["mode"],
                        "plans": plans.collect::<Vec<_>>(),
                    })
                });
                Some(Value::Array(groups.collect()))
            }
            (None, name) => data.get(name).cloned(),
        };
        made.extend(value.map(|value| (field.name.clone(), value)));
    }
    made
}
