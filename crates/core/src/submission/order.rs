//! The plan of a session, judged as it lies there before anything is implemented: which sub-plan runs after which.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::Value;

use super::plan::{self, index_values};
use super::rules::{ParsedGroup, ParsedPlan};
use super::stale::found;
use super::{SubmissionContext, SubmissionValues, markdown, path, roles, yaml};
use crate::contract::Submission;
use crate::diag::{Code, Diagnostic, Diagnostics};
use crate::lookup::Library;
use crate::request::Layout;
use crate::source::{SourceId, SourceRoot};
use crate::text::SharedText;

/// The contract by which the order of sub-plans is handed in.
const CONTRACT: &str = "submit_execution_plan";

/// Sub-plans that run one after the other, or at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExecutionGroup {
    pub(crate) id: String,
    pub(crate) parallel: bool,
    pub(crate) plans: Vec<ExecutionSubplan>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExecutionSubplan {
    pub(crate) number: u64,
    pub(crate) name: String,
    /// What it may write; nothing where it does not say it.
    pub(crate) owned: Vec<String>,
}

/// The session's execution plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExecutionPlan {
    /// In their order.
    pub(crate) groups: Vec<ExecutionGroup>,
    pub(crate) needs_design: bool,
    /// How closely the change is to be reviewed.
    pub(crate) severity: String,
}

impl ExecutionPlan {
    pub(crate) fn plans(&self) -> impl Iterator<Item = &ExecutionSubplan> {
        self.groups.iter().flat_map(|group| &group.plans)
    }
}

/// The session's execution plan, once the whole plan was judged as it lies in the session, whoever wrote it and however:
/// the order, the overview, every sub-plan and its checklist. Nothing is implemented without it.
pub(crate) fn order(library: &Library<'_>, layout: &Layout) -> Result<ExecutionPlan, Diagnostics> {
    let roles = roles(library.sources, layout);
    let desk =
        SubmissionContext { library: Library::new(library.sources), layout, roles, shared_names: &Vec::new };
    let contract = desk.submission(CONTRACT)?;
    let subplan = desk.submission(contract.plan.as_ref().map_or("", |plan| plan.subplan.as_str()))?;
    let file = contract.file.as_deref().unwrap_or_default();
    let mut wrong = Vec::new();
    let Some(text) = desk.needed(file, &mut wrong)? else { return Err(Diagnostics(wrong)) };
    // What cannot be read says nothing of the others, which are judged all the same.
    let read = yaml::read_yaml(file, &text)
        .map_err(Diagnostics::from)
        .and_then(|given| desk.judge(&contract, &given));
    let (data, mut in_order) = read.unwrap_or_else(|Diagnostics(diags)| {
        wrong.extend(diags);
        (SubmissionValues::new(), Vec::new())
    });
    let groups = plan::groups(&data, Some(&subplan), &mut in_order);
    let is_order_known = plan::is_order_known(&data, &groups);
    let docs = plan::docs(&data);
    let mut judged =
        ParsedPlan { groups, is_order_known, docs, are_lanes_known: true, ..ParsedPlan::default() };
    let (before, mut empty) = (wrong.len(), Vec::new());
    for number in desk.numbers(&judged.groups, &subplan) {
        let named = index_values(number.into());
        let mut files = subplan.write.iter().map(|companion| path(&companion.path, &named));
        let Some(plan_file) = files.next() else { continue };
        let Some(text) = desk.needed(&plan_file, &mut wrong)? else { continue };
        judged.lanes.insert(number, markdown::lane(&plan_file, &text, &mut wrong));
        for file in files {
            if let Some(text) = desk.needed(&file, &mut wrong)? {
                markdown::checklist(&file, &text, &mut empty);
            }
        }
    }
    // What is not there or cannot be read was told; nothing follows from its absence.
    judged.are_lanes_known = wrong.len() == before;
    judged.is_owned_known = judged.are_lanes_known;
    if let Some(overview) = contract.write.first()
        && let Some(text) = desk.needed(&overview.path, &mut wrong)?
    {
        judged.conflicts = markdown::overview(&overview.path, &text, &mut wrong);
    }
    wrong.extend(empty);
    judged.check(&Vec::new, &mut wrong);
    if !in_order.is_empty() || !wrong.is_empty() {
        let folder = file.rsplit_once('/').map_or(file, |(folder, _)| folder);
        let in_file = |mut diag: Diagnostic| {
            diag.message = format!("{file}: {}", diag.message);
            diag
        };
        // What names no file of the plan is about the order.
        let (elsewhere, here): (Vec<Diagnostic>, Vec<Diagnostic>) =
            wrong.into_iter().partition(|diag| diag.place.is_some() || diag.message.contains(folder));
        let all = in_order.into_iter().chain(here).map(in_file).chain(elsewhere);
        return Err(Diagnostics(all.collect()));
    }
    Ok(to_execution_plan(&data, &judged))
}

fn to_execution_plan(data: &SubmissionValues, judged: &ParsedPlan) -> ExecutionPlan {
    let owned = |number: &u64| {
        let owned = judged.lanes.get(number).into_iter().flat_map(|lane| &lane.owned);
        owned.map(|owned| owned.glob.clone()).collect()
    };
    let named = |(nth, group): (usize, &ParsedGroup)| {
        let plans = group.plans.iter().enumerate().map(|(at, (_, number))| {
            let name = data["groups"][nth]["plans"][at]["name"].as_str().unwrap_or_default();
            ExecutionSubplan { number: *number, name: name.to_string(), owned: owned(number) }
        });
        ExecutionGroup { plans: plans.collect(), id: group.id.clone(), parallel: group.parallel }
    };
    ExecutionPlan {
        groups: judged.groups.iter().enumerate().map(named).collect(),
        needs_design: data.get("needs_design").and_then(Value::as_bool).unwrap_or_default(),
        severity: data["review_strategy"]["severity"].as_str().unwrap_or_default().to_string(),
    }
}

impl SubmissionContext<'_> {
    /// The numbers of the sub-plans that are named, and of those that are there.
    fn numbers(&self, groups: &[ParsedGroup], subplan: &Submission) -> BTreeSet<u64> {
        let pattern = subplan.write.first().map(|companion| companion.path.as_str()).unwrap_or_default();
        let there = found(self.library.sources, pattern, None).into_iter();
        let there = there.filter_map(|(_, data)| data.values().next()?.as_u64());
        groups.iter().flat_map(|group| &group.plans).map(|plan| plan.1).chain(there).collect()
    }

    /// A file of the session that has to be there.
    fn needed(&self, file: &str, wrong: &mut Vec<Diagnostic>) -> Result<Option<SharedText>, Diagnostics> {
        let text = self.session_text(file)?;
        if text.is_none() {
            let looked = SourceId::new(SourceRoot::Session, file).ok();
            wrong.push(
                Diagnostic::error(Code::IncludeNotFound, format!("`{file}` is not there")).looked(looked),
            );
        }
        Ok(text)
    }
}
