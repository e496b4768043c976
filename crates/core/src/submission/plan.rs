//! Plans as data: a whole one, or its order with the sub-plans that are in the session, and the files that they become.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::{Value, json};

use super::rules::{self, ConflictRow, DocumentationFiles, OwnedEntry, ParsedGroup, ParsedSubplan, bad};
use super::stale::{find_surplus_files, fits, found};
use super::{SessionChanges, SubmissionContext, SubmissionValues, markdown, path, yaml};
use crate::contract::{CompanionFile, PlanContracts, Submission};
use crate::diag::{Code, Diagnostic, Diagnostics};
use crate::lookup::read;
use crate::source::{SourceId, SourceRoot};
use crate::text::SharedText;

/// The fields that the overview is made from: all of them are given, or none.
const OVERVIEW: [&str; 4] = ["plan_overview", "phase_1", "phase_2", "phase_3"];

impl SubmissionContext<'_> {
    /// What a plan, or the order of one, becomes. Nothing is written where something is wrong.
    pub(super) fn plan(
        &self,
        submission: &Submission,
        plan: &PlanContracts,
        data: &SubmissionValues,
        changes: &mut SessionChanges,
        wrong: &mut Vec<Diagnostic>,
    ) -> Result<(), Diagnostics> {
        let subplan = self.submission(&plan.subplan)?;
        let files_of = plan.order.is_none().then_some(&subplan);
        let mut judged = rules::ParsedPlan { docs: docs(data), ..rules::ParsedPlan::default() };
        judged.groups = groups(data, files_of, wrong);
        judged.is_order_known = is_order_known(data, &judged.groups);
        let named: BTreeSet<u64> =
            judged.groups.iter().flat_map(|group| &group.plans).map(|plan| plan.1).collect();
        let subplans: Vec<(String, SubmissionValues)> = match &plan.order {
            Some(_) => {
                judged.are_lanes_known = are_lanes_known(data);
                judged.lanes = parse_subplans(data, wrong);
                let items = list(data, "subplans").iter().enumerate();
                items
                    .filter_map(|(nth, item)| {
                        Some((format!("subplans[{}]", nth + 1), item.as_object()?.clone()))
                    })
                    .collect()
            }
            None => {
                judged.are_lanes_known = true;
                let earlier = self.earlier(submission, &subplan)?;
                self.read_session_subplans(&subplan, &named, &earlier, &mut judged.lanes, wrong)?
            }
        };
        let is_owned = |data: &SubmissionValues| {
            find_list(data, "owned_files").is_some_and(|owned| !owned.contains(&Value::Null))
        };
        judged.is_owned_known = subplans.iter().all(|(_, data)| is_owned(data));
        let order = plan.order.as_deref().map(|order| self.submission(order)).transpose()?;
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
            Some(overview) if !is_given => self.overview_in_session(overview, wrong)?,
            _ => conflicts(data),
        };
        if is_given {
            for field in OVERVIEW.iter().filter(|field| !data.contains_key(**field)) {
                bad(wrong, format!("`{field}` is missing: it is part of the overview"));
            }
        }
        judged.check(self.shared_names, wrong);
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
            // The numbers of all sub-plans are here, so what was handed in one by one before is worth nothing.
            let data_file = Submission { write: Vec::new(), ..subplan.clone() };
            changes.remove = find_surplus_files(self.library.sources, &data_file, true, &|_| false);
        }
        let is_kept = |number| named.contains(&number);
        let beyond = find_surplus_files(self.library.sources, &subplan, plan.order.is_none(), &is_kept);
        changes.remove.extend(beyond);
        Ok(())
    }

    /// The sub-plans that the session holds: as data where they were handed in one by one, else as somebody wrote them.
    /// Gives those that are data, each with its file.
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
        let there: BTreeSet<u64> = found(self.library.sources, pattern, None)
            .into_iter()
            .filter_map(|(_, data)| data.values().next()?.as_u64())
            .collect();
        for number in named.union(&there) {
            let file = path(pattern, &index_values((*number).into()));
            let Some(text) = self.session_text(&file)? else {
                let by_hand = self.read_markdown_subplan(subplan, *number, wrong)?;
                lanes.extend(by_hand.map(|lane| (*number, lane)));
                continue;
            };
            if !named.contains(number) {
                // A sub-plan of the plan before this one; its files go.
                if !earlier.contains(number) {
                    let message = format!("`{file}` was handed in, and no group has it");
                    let diag = Diagnostic::error(Code::SubmissionBad, message);
                    wrong.push(diag.hint(format!("put it into a group, or remove `{file}`")));
                }
                continue;
            }
            let judged = yaml::read_yaml(&file, &text)
                .map_err(Diagnostics::from)
                .and_then(|value| self.judge(subplan, &value));
            let (data, mistakes) = match judged {
                Ok(judged) => judged,
                // It is there; what else can be said of it waits until it can be read.
                Err(Diagnostics(mistakes)) => {
                    (SubmissionValues::from_iter([(ISOLATION.to_string(), Value::Null)]), mistakes)
                }
            };
            wrong.extend(mistakes.into_iter().map(|mut diag| {
                diag.message = format!("{file}: {}", diag.message);
                diag
            }));
            if let Some(index) = data.get("index").and_then(Value::as_u64).filter(|index| index != number) {
                bad(wrong, format!("{file}: `index` is {index}, and the name of the file says {number}"));
            }
            lanes.insert(*number, lane(&data, &file, ": "));
            all.push((file, data));
        }
        Ok(all)
    }

    /// The sub-plan that somebody wrote as Markdown.
    pub(super) fn read_markdown_subplan(
        &self,
        subplan: &Submission,
        number: u64,
        wrong: &mut Vec<Diagnostic>,
    ) -> Result<Option<ParsedSubplan>, Diagnostics> {
        let Some(companion) = subplan.write.first() else { return Ok(None) };
        let file = path(&companion.path, &index_values(number.into()));
        let text = self.session_text(&file)?;
        Ok(text.map(|text| markdown::lane(&file, &text, wrong)))
    }

    /// The overview that is in the session.
    pub(super) fn overview_in_session(
        &self,
        overview: &CompanionFile,
        wrong: &mut Vec<Diagnostic>,
    ) -> Result<Option<Vec<ConflictRow>>, Diagnostics> {
        let file = &overview.path;
        if let Some(text) = self.session_text(file)? {
            return Ok(markdown::overview(file, &text, wrong));
        }
        let message = format!("there is no overview: `{file}` is not in the session");
        let hint = format!("write it, or hand it in as {}", OVERVIEW.map(|it| format!("`{it}`")).join(", "));
        wrong.push(Diagnostic::error(Code::SubmissionBad, message).hint(hint));
        Ok(None)
    }

    /// The numbers that the order of the plan before this one names; none where that order was overwritten.
    fn earlier(&self, order: &Submission, subplan: &Submission) -> Result<BTreeSet<u64>, Diagnostics> {
        let file = order.file.as_deref().unwrap_or_default();
        let text = self.session_text(file)?;
        let value = text.and_then(|text| yaml::read_yaml(file, &text).ok());
        let groups = value.as_ref().and_then(|value| value["groups"].as_array()).into_iter().flatten();
        let plans = groups.filter_map(|group| group["plans"].as_array()).flatten();
        Ok(plans.filter_map(|plan| subplan_number(plan["file"].as_str()?, subplan)).collect())
    }

    pub(super) fn session_text(&self, file: &str) -> Result<Option<SharedText>, Diagnostics> {
        let Ok(id) = SourceId::new(SourceRoot::Session, file) else { return Ok(None) };
        Ok(read(self.library.sources, &id)?)
    }
}

const ISOLATION: &str = "isolation_rationale";

fn find_list<'d>(data: &'d SubmissionValues, name: &str) -> Option<&'d [Value]> {
    data.get(name).and_then(Value::as_array).map(Vec::as_slice)
}

fn list<'d>(data: &'d SubmissionValues, name: &str) -> &'d [Value] {
    find_list(data, name).unwrap_or_default()
}

fn text(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_default().to_string()
}

/// The data that the name of a numbered file holds.
pub(super) fn index_values(index: Value) -> SubmissionValues {
    SubmissionValues::from_iter([("index".to_string(), index)])
}

/// What the files of sub-plans are called: `plan_{index}.md`.
fn file_name(subplan: &Submission) -> &str {
    let path = subplan.write.first().map(|companion| companion.path.as_str()).unwrap_or_default();
    path.rsplit('/').next().unwrap_or_default()
}

/// The number in the name of a sub-plan's file.
fn subplan_number(file: &str, subplan: &Submission) -> Option<u64> {
    fits(file, file_name(subplan), None)?.values().next()?.as_u64().filter(|number| *number > 0)
}

/// `files_of` is given where groups name the sub-plans by their files, not by their numbers.
pub(super) fn groups(
    data: &SubmissionValues,
    files_of: Option<&Submission>,
    wrong: &mut Vec<Diagnostic>,
) -> Vec<ParsedGroup> {
    let mut groups: Vec<ParsedGroup> = Vec::new();
    for (nth, group) in list(data, "groups").iter().enumerate() {
        let at = format!("groups[{}]", nth + 1);
        let id = text(group, "group_id");
        if let Some(first) = groups.iter().find(|known| !id.is_empty() && known.id == id) {
            bad(wrong, format!("`{at}.group_id` is `{id}`, which `{}` has already", first.at));
        }
        let mut plans = Vec::new();
        for (nth, plan) in group["plans"].as_array().into_iter().flatten().enumerate() {
            let at = format!("{at}.plans[{}]", nth + 1);
            let Some(subplan) = files_of else {
                plans.extend(plan["index"].as_u64().map(|number| (format!("{at}.index"), number)));
                continue;
            };
            let Some(file) = plan["file"].as_str() else { continue };
            match subplan_number(file, subplan) {
                Some(number) => plans.push((format!("{at}.file"), number)),
                None => {
                    let first = path(file_name(subplan), &index_values(1.into()));
                    bad(wrong, format!("`{at}.file` is `{file}`; expected `{first}` and so on"));
                }
            }
        }
        groups.push(ParsedGroup { at, id, parallel: group["mode"] == "parallel", plans });
    }
    groups
}

/// Whether every reference to a sub-plan was read.
pub(super) fn is_order_known(data: &SubmissionValues, groups: &[ParsedGroup]) -> bool {
    let given = list(data, "groups").iter().map(|group| group["plans"].as_array().map(Vec::len));
    let read = groups.iter().map(|group| Some(group.plans.len()));
    find_list(data, "groups").is_some() && given.eq(read)
}

fn are_lanes_known(data: &SubmissionValues) -> bool {
    find_list(data, "subplans").is_some_and(|all| all.iter().all(|subplan| subplan["index"].is_u64()))
}

fn parse_subplans(data: &SubmissionValues, wrong: &mut Vec<Diagnostic>) -> BTreeMap<u64, ParsedSubplan> {
    let mut lanes: BTreeMap<u64, ParsedSubplan> = BTreeMap::new();
    for (nth, subplan) in list(data, "subplans").iter().enumerate() {
        let at = format!("subplans[{}]", nth + 1);
        let (Some(index), Some(data)) = (subplan["index"].as_u64(), subplan.as_object()) else { continue };
        if let Some(first) = lanes.get(&index) {
            bad(wrong, format!("`{at}.index` is {index}, which `{}` has already", first.at));
            continue;
        }
        lanes.insert(index, lane(data, &at, "."));
    }
    lanes
}

/// `between` stands between the place of the sub-plan and the name of a field.
fn lane(data: &SubmissionValues, at: &str, between: &str) -> ParsedSubplan {
    let owned = globs(data, "owned_files", &format!("{at}{between}"));
    let mut lacks = Vec::new();
    if !data.contains_key(ISOLATION) {
        let message = format!("`{at}{between}{ISOLATION}` is missing");
        lacks.push(Diagnostic::error(Code::SubmissionBad, message));
    }
    ParsedSubplan { at: at.to_string(), owned, lacks }
}

/// The paths and globs of a field, each with its place.
fn globs(data: &SubmissionValues, field: &str, before: &str) -> Vec<OwnedEntry> {
    let entries = list(data, field).iter().enumerate();
    let read = entries.filter_map(|(nth, glob)| {
        Some(OwnedEntry { at: format!("{before}{field}[{}]", nth + 1), glob: glob.as_str()?.to_string() })
    });
    read.collect()
}

pub(super) fn docs(data: &SubmissionValues) -> DocumentationFiles {
    let files = find_list(data, "doc_files").filter(|files| !files.contains(&Value::Null));
    DocumentationFiles {
        needed: data.get("needs_docs").and_then(Value::as_bool),
        files: files.map(|_| globs(data, "doc_files", "")),
    }
}

/// The conflict map, unless some of it could not be read. Where none is given no file has two authors.
fn conflicts(data: &SubmissionValues) -> Option<Vec<ConflictRow>> {
    if !data.contains_key("conflict_map") {
        return Some(Vec::new());
    }
    let rows = find_list(data, "conflict_map")?.iter().enumerate().map(|(nth, row)| {
        let lanes = row["lanes"].as_array()?.iter().map(Value::as_u64);
        Some(ConflictRow {
            at: format!("conflict_map[{}]", nth + 1),
            file: row["file"].as_str()?.to_string(),
            lanes: lanes.collect::<Option<Vec<u64>>>()?,
            owner: row["owner"].as_u64()?,
        })
    });
    rows.collect()
}

/// The Markdown of a sub-plan says what its data says: it is what the coder reads, and what is judged before.
fn check_lane(
    at: &str,
    lanes: &BTreeMap<u64, ParsedSubplan>,
    subplan: &Submission,
    data: &SubmissionValues,
    changes: &SessionChanges,
    wrong: &mut Vec<Diagnostic>,
) {
    let Some(companion) = subplan.write.first() else { return };
    let file = path(&companion.path, data);
    let own = data.get("index").and_then(Value::as_u64).and_then(|number| lanes.get(&number));
    let (Some(own), Some(written)) = (own, changes.write.get(&file)) else { return };
    let mut mistakes = Vec::new();
    let read = markdown::lane(&file, &written.as_str().into(), &mut mistakes);
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
    let read = markdown::overview(&overview.path, &written.as_str().into(), &mut mistakes);
    let rows = |all: &[ConflictRow]| {
        all.iter().map(|row| (row.file.clone(), row.lanes.clone(), row.owner)).collect::<Vec<_>>()
    };
    let hides = read.is_none_or(|read| rows(&read) != rows(own)) || !mistakes.is_empty();
    push_hidden_error(hides, "plan_overview", &overview.path, wrong);
}

fn push_hidden_error(hides: bool, at: &str, file: &str, wrong: &mut Vec<Diagnostic>) {
    if hides {
        let message = format!("`{at}`: in `{file}` a text hides the sections below it, or passes for one");
        let diag = Diagnostic::error(Code::SubmissionBad, message);
        let hint = "close code fences and comments, and leave headings of the first two levels to the fields";
        wrong.push(diag.hint(hint));
    }
}

/// The order of a whole plan, as the contract for the order has it: files instead of numbers.
fn to_order_values(data: &SubmissionValues, subplan: &Submission, order: &Submission) -> SubmissionValues {
    let file = |plan: &Value| path(file_name(subplan), &index_values(plan["index"].clone()));
    let mut made = SubmissionValues::new();
    for field in &order.field {
        let value = match (field.fixed, field.name.as_str()) {
            (Some(fixed), _) => Some(fixed.into()),
            (None, "groups") => {
                let groups = list(data, "groups").iter().map(|group| {
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
