//! Parses the data of plans: groups, sub-plans, documentation files, the conflict map.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::Value;

use super::rules::{ConflictRow, DocumentationFiles, OwnedEntry, ParsedGroup, ParsedSubplan, push_error};
use crate::diag::{Code, Diagnostic};
use crate::library::contract::paths::{fill_path, match_file_name};
use crate::library::contract::{Submission, SubmissionValues};

pub(crate) const ISOLATION: &str = "isolation_rationale";

pub(crate) fn find_list<'d>(data: &'d SubmissionValues, name: &str) -> Option<&'d [Value]> {
    data.get(name).and_then(Value::as_array).map(Vec::as_slice)
}

pub(crate) fn list_or_empty<'d>(data: &'d SubmissionValues, name: &str) -> &'d [Value] {
    find_list(data, name).unwrap_or_default()
}

pub(crate) fn text_or_empty(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_default().to_string()
}

/// Returns the data that the name of a numbered file holds.
pub(crate) fn index_values(index: Value) -> SubmissionValues {
    SubmissionValues::from_iter([("index".to_string(), index)])
}

/// Returns the name pattern of sub-plan files: `plan_{index}.md`.
pub(crate) fn file_name(subplan: &Submission) -> &str {
    let path = subplan.write.first().map(|companion| companion.path.as_str()).unwrap_or_default();
    path.rsplit('/').next().unwrap_or_default()
}

/// Parses the number in the name of a sub-plan's file.
pub(crate) fn subplan_number(file: &str, subplan: &Submission) -> Option<u64> {
    match_file_name(file, file_name(subplan), None)?.values().next()?.as_u64().filter(|number| *number > 0)
}

/// Parses the groups. `files_of` is given if groups name the sub-plans by their files, not by their numbers.
pub(crate) fn parse_groups(
    data: &SubmissionValues,
    files_of: Option<&Submission>,
    wrong: &mut Vec<Diagnostic>,
) -> Vec<ParsedGroup> {
    let mut groups: Vec<ParsedGroup> = Vec::new();
    for (nth, group) in list_or_empty(data, "groups").iter().enumerate() {
        let at = format!("groups[{}]", nth + 1);
        let id = text_or_empty(group, "group_id");
        if let Some(first) = groups.iter().find(|known| !id.is_empty() && known.id == id) {
            push_error(wrong, format!("`{at}.group_id` is `{id}`, which `{}` already has", first.at));
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
                    let first = fill_path(file_name(subplan), &index_values(1.into()));
                    push_error(wrong, format!("`{at}.file` is `{file}`; expected `{first}` and so on"));
                }
            }
        }
        groups.push(ParsedGroup { at, id, parallel: group["mode"] == "parallel", plans });
    }
    groups
}

/// Checks whether every reference to a sub-plan was read.
pub(crate) fn is_order_known(data: &SubmissionValues, groups: &[ParsedGroup]) -> bool {
    let given = list_or_empty(data, "groups").iter().map(|group| group["plans"].as_array().map(Vec::len));
    let read = groups.iter().map(|group| Some(group.plans.len()));
    find_list(data, "groups").is_some() && given.eq(read)
}

pub(crate) fn are_lanes_known(data: &SubmissionValues) -> bool {
    find_list(data, "subplans").is_some_and(|all| all.iter().all(|subplan| subplan["index"].is_u64()))
}

pub(crate) fn parse_subplans(
    data: &SubmissionValues,
    wrong: &mut Vec<Diagnostic>,
) -> BTreeMap<u64, ParsedSubplan> {
    let mut lanes: BTreeMap<u64, ParsedSubplan> = BTreeMap::new();
    for (nth, subplan) in list_or_empty(data, "subplans").iter().enumerate() {
        let at = format!("subplans[{}]", nth + 1);
        let (Some(index), Some(data)) = (subplan["index"].as_u64(), subplan.as_object()) else { continue };
        if let Some(first) = lanes.get(&index) {
            push_error(wrong, format!("`{at}.index` is {index}, which `{}` already has", first.at));
            continue;
        }
        lanes.insert(index, parse_subplan(data, &at, "."));
    }
    lanes
}

/// Parses a sub-plan. In messages, `between` separates the place of the sub-plan from the name of a field.
pub(crate) fn parse_subplan(data: &SubmissionValues, at: &str, between: &str) -> ParsedSubplan {
    let owned = parse_globs(data, "owned_files", &format!("{at}{between}"));
    let mut lacks = Vec::new();
    if !data.contains_key(ISOLATION) {
        let message = format!("`{at}{between}{ISOLATION}` is missing");
        lacks.push(Diagnostic::error(Code::SubmissionBad, message));
    }
    ParsedSubplan { at: at.to_string(), owned, lacks }
}

/// Returns the paths and globs of a field, each with its place.
pub(crate) fn parse_globs(data: &SubmissionValues, field: &str, before: &str) -> Vec<OwnedEntry> {
    let entries = list_or_empty(data, field).iter().enumerate();
    let read = entries.filter_map(|(nth, glob)| {
        Some(OwnedEntry { at: format!("{before}{field}[{}]", nth + 1), glob: glob.as_str()?.to_string() })
    });
    read.collect()
}

pub(crate) fn parse_documentation(data: &SubmissionValues) -> DocumentationFiles {
    let files = find_list(data, "doc_files").filter(|files| !files.contains(&Value::Null));
    DocumentationFiles {
        needed: data.get("needs_docs").and_then(Value::as_bool),
        files: files.map(|_| parse_globs(data, "doc_files", "")),
    }
}

/// Returns the conflict map, or `None` if a part of it could not be read. Without a map, no file has two
/// authors.
pub(crate) fn parse_conflicts(data: &SubmissionValues) -> Option<Vec<ConflictRow>> {
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
