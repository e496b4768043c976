//! Plans: which sub-plans there are, which runs after which, and who owns what.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::{Value, json};

use super::overlap::Glob;
use super::stale::{fits, found, numbered_beyond};
use super::{Changes, Data, Desk, SharedName, other_names, path, yaml};
use crate::contract::{Plan, Submission};
use crate::diag::{Code, Diag, Failure, tell};
use crate::lookup::read;
use crate::source::{Root, SourceId};

/// More owned entries in one parallel group are not compared with each other.
const MOST_OWNED: usize = 2000;

/// A sub-plan as far as the rules look at it.
struct Lane {
    /// Where it is written, in front of the names of its fields.
    at: String,
    owned: Vec<String>,
    has_rationale: bool,
}

pub(super) struct Group {
    at: String,
    pub(super) id: String,
    pub(super) parallel: bool,
    /// Where each reference is, and the number it gives.
    pub(super) plans: Vec<(String, u64)>,
}

impl Desk<'_> {
    /// What a plan, or the order of one, becomes.
    pub(super) fn plan(
        &self,
        submission: &Submission,
        plan: &Plan,
        data: &Data,
        changes: &mut Changes,
    ) -> Result<(), Failure> {
        let subplan = self.submission(&plan.subplan)?;
        let mut wrong = Vec::new();
        let groups = groups(data, plan.order.is_none().then_some(&subplan), &mut wrong);
        let named: BTreeSet<u64> = groups.iter().flat_map(|group| &group.plans).map(|plan| plan.1).collect();
        let order = match &plan.order {
            Some(order) => {
                let lanes = lanes_here(data, &mut wrong);
                self.check(&groups, &lanes, data, &mut wrong);
                for item in list(data, "subplans").iter().filter_map(Value::as_object) {
                    self.write_companions(&subplan, item, changes)?;
                }
                self.write(submission, data, changes)?;
                // The numbers of all sub-plans are here, so what was handed in one by one before is worth nothing.
                let data_file = Submission { write: Vec::new(), ..subplan.clone() };
                changes.remove = numbered_beyond(self.library.sources, &data_file, true, &|_| false);
                let order = self.submission(order)?;
                (order.clone(), as_order(data, &subplan, &order))
            }
            None => {
                let earlier = self.earlier(submission, &subplan)?;
                let lanes = self.lanes_in_session(&subplan, &named, &earlier, &mut wrong)?;
                self.check(&groups, &lanes, data, &mut wrong);
                (submission.clone(), data.clone())
            }
        };
        if !wrong.is_empty() {
            return Err(Failure(wrong));
        }
        let (order, order_data) = order;
        self.write(&order, &order_data, changes)?;
        let is_kept = |number| named.contains(&number);
        changes.remove.extend(numbered_beyond(
            self.library.sources,
            &subplan,
            plan.order.is_none(),
            &is_kept,
        ));
        Ok(())
    }

    fn check(&self, groups: &[Group], lanes: &BTreeMap<u64, Lane>, data: &Data, wrong: &mut Vec<Diag>) {
        check_numbers(groups, lanes, wrong);
        let parallel: Vec<&Group> = groups.iter().filter(|group| group.parallel).collect();
        let shared_names = if parallel.is_empty() { Vec::new() } else { (self.shared_names)() };
        parallel.into_iter().for_each(|group| check_isolation(group, lanes, &shared_names, wrong));
        check_owned(lanes, data, wrong);
    }

    /// The sub-plans that were handed in one by one.
    fn lanes_in_session(
        &self,
        subplan: &Submission,
        named: &BTreeSet<u64>,
        earlier: &BTreeSet<u64>,
        wrong: &mut Vec<Diag>,
    ) -> Result<BTreeMap<u64, Lane>, Failure> {
        let mut lanes = BTreeMap::new();
        let pattern = subplan.file.as_deref().unwrap_or_default();
        let there: BTreeSet<u64> = found(self.library.sources, pattern, None)
            .into_iter()
            .filter_map(|(_, data)| data.values().next()?.as_u64())
            .collect();
        for number in named.union(&there) {
            let file = path(pattern, &numbered((*number).into()));
            let Ok(id) = SourceId::new(Root::Session, &file) else { continue };
            let Some(text) = read(self.library.sources, &id)? else { continue };
            if !named.contains(number) {
                // A sub-plan of the plan before this one; its files go.
                if !earlier.contains(number) {
                    let message = format!("`{file}` was handed in, and no group has it");
                    let diag = Diag::error(Code::SubmissionBad, message);
                    wrong.push(diag.hint(format!("put it into a group, or remove `{file}`")));
                }
                continue;
            }
            let judged = super::yaml::read_yaml(&file, &text)
                .map_err(Failure::from)
                .and_then(|value| self.judge(subplan, &value));
            let data = judged.unwrap_or_else(|Failure(diags)| {
                wrong.extend(diags.into_iter().map(|mut diag| {
                    diag.message = format!("{file}: {}", diag.message);
                    diag
                }));
                // It is there; what else can be said of it waits until it can be read.
                Data::from_iter([("isolation_rationale".to_string(), Value::Null)])
            });
            if let Some(index) = data.get("index").filter(|index| index.as_u64() != Some(*number)) {
                bad(wrong, format!("{file}: `index` is {index}, and the name of the file says {number}"));
            }
            lanes.insert(*number, lane(&data, format!("{file}: ")));
        }
        Ok(lanes)
    }

    /// The numbers that the order of the plan before this one names; none where that order was overwritten.
    fn earlier(&self, order: &Submission, subplan: &Submission) -> Result<BTreeSet<u64>, Failure> {
        let file = order.file.as_deref().unwrap_or_default();
        let Ok(id) = SourceId::new(Root::Session, file) else { return Ok(BTreeSet::new()) };
        let text = read(self.library.sources, &id)?;
        let value = text.and_then(|text| yaml::read_yaml(file, &text).ok());
        let groups = value.as_ref().and_then(|value| value["groups"].as_array()).into_iter().flatten();
        let plans = groups.filter_map(|group| group["plans"].as_array()).flatten();
        Ok(plans.filter_map(|plan| number_of(plan["file"].as_str()?, subplan)).collect())
    }
}

fn list<'d>(data: &'d Data, name: &str) -> &'d [Value] {
    data.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn text(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_default().to_string()
}

/// The data that the name of a numbered file holds.
fn numbered(index: Value) -> Data {
    Data::from_iter([("index".to_string(), index)])
}

fn bad(wrong: &mut Vec<Diag>, message: String) {
    tell(wrong, Code::SubmissionBad, || Diag::error(Code::SubmissionBad, message));
}

/// What the files of sub-plans are called: `plan_{index}.md`.
fn file_name(subplan: &Submission) -> &str {
    let path = subplan.write.first().map(|companion| companion.path.as_str()).unwrap_or_default();
    path.rsplit('/').next().unwrap_or_default()
}

/// The number in the name of a sub-plan's file.
fn number_of(file: &str, subplan: &Submission) -> Option<u64> {
    fits(file, file_name(subplan), None)?.values().next()?.as_u64().filter(|number| *number > 0)
}

/// `files_of` is given where groups name the sub-plans by their files, not by their numbers.
pub(super) fn groups(data: &Data, files_of: Option<&Submission>, wrong: &mut Vec<Diag>) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for (nth, group) in list(data, "groups").iter().enumerate() {
        let at = format!("groups[{}]", nth + 1);
        let id = text(group, "group_id");
        if let Some(first) = groups.iter().find(|known| known.id == id) {
            bad(wrong, format!("`{at}.group_id` is `{id}`, which `{}` has already", first.at));
        }
        let mut plans = Vec::new();
        for (nth, plan) in group["plans"].as_array().into_iter().flatten().enumerate() {
            let at = format!("{at}.plans[{}]", nth + 1);
            let Some(subplan) = files_of else {
                plans.extend(plan["index"].as_u64().map(|number| (format!("{at}.index"), number)));
                continue;
            };
            let file = text(plan, "file");
            match number_of(&file, subplan) {
                Some(number) => plans.push((format!("{at}.file"), number)),
                None => {
                    let first = path(file_name(subplan), &numbered(1.into()));
                    bad(wrong, format!("`{at}.file` is `{file}`; `{first}` and so on is wanted"));
                }
            }
        }
        groups.push(Group { at, id, parallel: group["mode"] == "parallel", plans });
    }
    groups
}

fn lanes_here(data: &Data, wrong: &mut Vec<Diag>) -> BTreeMap<u64, Lane> {
    let mut lanes: BTreeMap<u64, Lane> = BTreeMap::new();
    for (nth, subplan) in list(data, "subplans").iter().enumerate() {
        let at = format!("subplans[{}]", nth + 1);
        let (Some(index), Some(data)) = (subplan["index"].as_u64(), subplan.as_object()) else { continue };
        if let Some(first) = lanes.get(&index) {
            let first = first.at.trim_end_matches('.');
            bad(wrong, format!("`{at}.index` is {index}, which `{first}` has already"));
            continue;
        }
        lanes.insert(index, lane(data, format!("{at}.")));
    }
    lanes
}

fn lane(data: &Data, at: String) -> Lane {
    let owned = list(data, "owned_files").iter().filter_map(Value::as_str).map(String::from).collect();
    Lane { at, owned, has_rationale: data.contains_key("isolation_rationale") }
}

fn check_numbers(groups: &[Group], lanes: &BTreeMap<u64, Lane>, wrong: &mut Vec<Diag>) {
    let mut first: BTreeMap<u64, &str> = BTreeMap::new();
    for (at, number) in groups.iter().flat_map(|group| &group.plans) {
        if !lanes.contains_key(number) {
            bad(wrong, format!("`{at}` names sub-plan {number}, which was not handed in"));
        }
        match first.get(number) {
            Some(first) => {
                bad(wrong, format!("`{at}` names sub-plan {number}, which `{first}` names already"));
            }
            None => drop(first.insert(*number, at)),
        }
    }
    for (number, lane) in lanes.iter().filter(|(number, _)| !first.contains_key(number)) {
        bad(wrong, format!("`{}` (sub-plan {number}) is in no group", lane.at.trim_end_matches('.')));
    }
    let last = lanes.keys().max().copied().unwrap_or_default();
    let gaps = (1..=last).filter(|number| !lanes.contains_key(number)).take(20);
    let gaps: Vec<String> = gaps.map(|number| number.to_string()).collect();
    if !gaps.is_empty() {
        bad(wrong, format!("sub-plans are numbered from 1 without a gap: there is no {}", gaps.join(", ")));
    }
}

/// What is owned can be owned, and what has to be documented is.
fn check_owned(lanes: &BTreeMap<u64, Lane>, data: &Data, wrong: &mut Vec<Diag>) {
    let mut owned: Vec<Glob> = Vec::new();
    for lane in lanes.values() {
        for (nth, text) in lane.owned.iter().enumerate() {
            let glob = Glob::new(text);
            if let Some(why) = glob.unownable() {
                let at = format!("`{}owned_files[{}]`", lane.at, nth + 1);
                bad(wrong, format!("{at} is `{text}`, which no sub-plan can own: {why}"));
            }
            owned.push(glob);
        }
    }
    for (nth, file) in list(data, "doc_files").iter().filter_map(Value::as_str).enumerate() {
        if !owned.iter().any(|owned| owned.owns(file)) {
            let diag = Diag::error(
                Code::SubmissionBad,
                format!("`doc_files[{}]` is `{file}`, which no sub-plan owns", nth + 1),
            );
            let hint = "add it to the `owned_files` of the sub-plan that writes it";
            tell(wrong, Code::SubmissionBad, || diag.hint(hint));
        }
    }
}

/// Lanes that run at once say why they can, and own nothing in common.
fn check_isolation(
    group: &Group,
    lanes: &BTreeMap<u64, Lane>,
    shared_names: &[SharedName],
    wrong: &mut Vec<Diag>,
) {
    let id = &group.id;
    let mut numbers: Vec<u64> = group.plans.iter().map(|plan| plan.1).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let group: Vec<(u64, &Lane)> =
        numbers.into_iter().filter_map(|number| Some((number, lanes.get(&number)?))).collect();
    for (number, lane) in group.iter().filter(|(_, lane)| !lane.has_rationale) {
        bad(
            wrong,
            format!(
                "`{}isolation_rationale` is missing: sub-plan {number} runs in the parallel group `{id}`",
                lane.at
            ),
        );
    }
    if group.iter().map(|(_, lane)| lane.owned.len()).sum::<usize>() > MOST_OWNED {
        bad(wrong, format!("the sub-plans of `{id}` own more than {MOST_OWNED} entries together"));
        return;
    }
    let globs: Vec<Vec<Glob>> =
        group.iter().map(|(_, lane)| lane.owned.iter().map(|glob| Glob::new(glob)).collect()).collect();
    let also: Vec<Vec<String>> =
        group.iter().map(|(_, lane)| other_names(&lane.owned, shared_names)).collect();
    for (left, (number, lane)) in group.iter().enumerate() {
        for (right, (other_number, other)) in group.iter().enumerate().skip(left + 1) {
            for (i, glob) in globs[left].iter().enumerate() {
                for (j, _) in globs[right].iter().enumerate().filter(|(_, other)| glob.overlaps(other)) {
                    let message = format!(
                        "sub-plans {number} and {other_number} run at once in `{id}`, and both may write the same \
                         file: `{}owned_files[{}]` is `{}`, `{}owned_files[{}]` is `{}`",
                        lane.at,
                        i + 1,
                        lane.owned[i],
                        other.at,
                        j + 1,
                        other.owned[j],
                    );
                    let hint =
                        "merge the two sub-plans, or move what both touch into a serial integration step";
                    tell(wrong, Code::SubmissionBad, || Diag::error(Code::SubmissionBad, message).hint(hint));
                }
            }
            let others: Vec<Glob> = also[left].iter().map(|glob| Glob::new(glob)).collect();
            let shared = also[left].iter().zip(&others).find_map(|(name, glob)| {
                let at = globs[right].iter().position(|other| glob.overlaps(other))?;
                Some((name, at))
            });
            if let Some((name, at)) = shared {
                let message = format!(
                    "sub-plans {number} and {other_number} run at once in `{id}`, and both may write the same \
                     file: by a link sub-plan {number} owns `{name}` too, and `{}owned_files[{}]` is `{}`",
                    other.at,
                    at + 1,
                    other.owned[at],
                );
                bad(wrong, message);
            }
        }
    }
}

/// The order of a whole plan, as the contract for the order has it: files instead of numbers.
fn as_order(data: &Data, subplan: &Submission, order: &Submission) -> Data {
    let file = |plan: &Value| path(file_name(subplan), &numbered(plan["index"].clone()));
    let mut made = Data::new();
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
