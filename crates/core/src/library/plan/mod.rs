//! The execution plan of a session: checks the whole plan before anything is implemented, and returns its
//! order.

pub(crate) mod markdown;
mod overlap;
pub(crate) mod parse;
pub(crate) mod rules;
mod shared_names;

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::Value;

use self::parse::index_values;
use self::rules::{ParsedGroup, ParsedPlan};
use crate::diag::{Code, Diagnostic, Diagnostics};
use crate::library::contract::Submission;
use crate::library::contract::paths::{fill_path, find_files};
use crate::library::contract::{SubmissionContext, SubmissionValues};
use crate::library::layout::Layout;
use crate::library::lookup::{DynLibrary, Library, list_roles};
use crate::library::yaml;
use crate::source::{SourceId, SourceRoot};
use crate::text::SharedText;

pub(crate) use overlap::{OwnedGlob, escape_path};
pub use shared_names::{SharedName, find_other_names};

/// Contract by which the order of sub-plans is submitted.
const CONTRACT: &str = "submit_execution_plan";

/// Sub-plans that run one after the other, or in parallel.
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
    /// Globs that it may write; empty if it names none.
    pub(crate) owned: Vec<String>,
}

/// The session's execution plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExecutionPlan {
    /// Groups in their order.
    pub(crate) groups: Vec<ExecutionGroup>,
    pub(crate) needs_design: bool,
    /// Severity of the review strategy: how closely the change is reviewed.
    pub(crate) severity: String,
}

impl ExecutionPlan {
    pub(crate) fn plans(&self) -> impl Iterator<Item = &ExecutionSubplan> {
        self.groups.iter().flat_map(|group| &group.plans)
    }
}

/// Checks the session's whole plan and returns its execution plan. It checks the files as they are, no matter
/// who wrote them and how: the order, the overview, every sub-plan and its checklist. Nothing is implemented
/// without it.
pub(crate) fn find_execution_plan(
    library: &DynLibrary<'_>,
    layout: &Layout,
) -> Result<ExecutionPlan, Diagnostics> {
    let roles = list_roles(&library.sources, layout);
    let context = SubmissionContext { library: Library::new(&library.sources), layout, roles };
    let contract = context.find_submission(CONTRACT)?;
    let subplan = context.find_submission(contract.plan.as_ref().map_or("", |plan| plan.subplan.as_str()))?;
    let file = contract.file.as_deref().unwrap_or_default();
    let mut wrong = Vec::new();
    let Some(text) = context.read_needed(file, &mut wrong)? else { return Err(Diagnostics(wrong)) };
    // An unreadable order says nothing about the other files, which are still checked.
    let read = yaml::read_yaml(file, &text)
        .map_err(Diagnostics::from)
        .and_then(|given| context.check_fields(&contract, &given));
    let (data, mut in_order) = read.unwrap_or_else(|Diagnostics(diags)| {
        wrong.extend(diags);
        (SubmissionValues::new(), Vec::new())
    });
    let groups = parse::parse_groups(&data, Some(&subplan), &mut in_order);
    let is_order_known = parse::is_order_known(&data, &groups);
    let docs = parse::parse_documentation(&data);
    let mut judged =
        ParsedPlan { groups, is_order_known, docs, are_lanes_known: true, ..ParsedPlan::default() };
    let (before, mut empty) = (wrong.len(), Vec::new());
    for number in context.subplan_numbers(&judged.groups, &subplan) {
        let named = index_values(number.into());
        let mut files = subplan.write.iter().map(|companion| fill_path(&companion.path, &named));
        let Some(plan_file) = files.next() else { continue };
        let Some(text) = context.read_needed(&plan_file, &mut wrong)? else { continue };
        judged.lanes.insert(number, markdown::parse_subplan(&plan_file, &text, &mut wrong));
        for file in files {
            if let Some(text) = context.read_needed(&file, &mut wrong)? {
                markdown::check_checklist(&file, &text, &mut empty);
            }
        }
    }
    // Missing and unreadable files were reported; their absence allows no conclusions.
    judged.are_lanes_known = wrong.len() == before;
    judged.is_owned_known = judged.are_lanes_known;
    if let Some(overview) = contract.write.first()
        && let Some(text) = context.read_needed(&overview.path, &mut wrong)?
    {
        judged.conflicts = markdown::parse_overview(&overview.path, &text, &mut wrong);
    }
    wrong.extend(empty);
    judged.check(&Vec::new, &mut wrong);
    if !in_order.is_empty() || !wrong.is_empty() {
        let folder = file.rsplit_once('/').map_or(file, |(folder, _)| folder);
        let in_file = |mut diag: Diagnostic| {
            diag.message = format!("{file}: {}", diag.message);
            diag
        };
        // A diagnostic that names no file of the plan is about the order.
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
    /// Returns the numbers of the sub-plans that groups name, and of those that exist.
    fn subplan_numbers(&self, groups: &[ParsedGroup], subplan: &Submission) -> BTreeSet<u64> {
        let pattern = subplan.write.first().map(|companion| companion.path.as_str()).unwrap_or_default();
        let there = find_files(&self.library.sources, pattern, None).into_iter();
        let there = there.filter_map(|(_, data)| data.values().next()?.as_u64());
        groups.iter().flat_map(|group| &group.plans).map(|plan| plan.1).chain(there).collect()
    }

    /// Reads a file of the session. Reports it if it is missing.
    fn read_needed(
        &self,
        file: &str,
        wrong: &mut Vec<Diagnostic>,
    ) -> Result<Option<SharedText>, Diagnostics> {
        let text = self.session_text(file)?;
        if text.is_none() {
            let looked = SourceId::new(SourceRoot::Session, file).ok();
            wrong.push(
                Diagnostic::error(Code::IncludeNotFound, format!("file not found: `{file}`"))
                    .searched(looked),
            );
        }
        Ok(text)
    }
}
