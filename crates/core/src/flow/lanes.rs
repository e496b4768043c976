//! Determines the lanes of a phase when it is entered, from the documents at that time.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::findings::{ReviewFinding, parse_findings};
use super::{Flow, FlowState, Lane, LaneGroup, LaneSource, Phase, ReviewSeverity};
use crate::compose::derive::task_ids;
use crate::diag::{Code, Diagnostic, Diagnostics};
use crate::library::contract;
use crate::library::layout::Layout;
use crate::library::lookup::{DynLibrary, read_source};
use crate::library::plan::{self, ExecutionPlan, SharedName};
use crate::source::{ListingLimits, SourceId, SourceRoot};
use crate::text::name::is_name;

const TASKS: &str = "tasks.md";
const RESEARCH: &str = "03_research";

/// Id of the lane of a phase that has only one.
const ALL: &str = "all";

/// Result of preparing a phase entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PreparedPhase {
    /// Groups of lanes.
    pub groups: Vec<LaneGroup>,
    /// Whether the phase asks its retry request.
    pub again: bool,
}

/// Determines the lanes of the phase that is being entered. The flow's folder is the session root of the
/// sources, before anything is set aside. `shared_names` returns the files of the project that have several
/// names. A missing or invalid document is an error: the phase is refused.
pub fn prepare_phase(
    flow: &Flow,
    state: &FlowState,
    shared_names: &dyn Fn() -> Vec<SharedName>,
    library: &DynLibrary<'_>,
    layout: &Layout,
) -> Result<PreparedPhase, Diagnostics> {
    let phase = flow.phase(&state.phase).ok_or_else(|| {
        Diagnostic::error(Code::FlowBad, format!("the flow no longer has the phase `{}`", state.phase))
    })?;
    let again = match &phase.again {
        Some(again) => read_session_text(library, &again.file)?.is_some(),
        None => false,
    };
    let whole = phase.phase_request(again).each.is_none();
    let file = phase.findings.as_ref().filter(|_| whole).map(|findings| &findings.file);
    let found = match file {
        Some(file) => read_session_text(library, file)?.map(|text| parse_findings(&text)).unwrap_or_default(),
        None => Vec::new(),
    };
    let of_contract = match &phase.contract {
        Some(contract) => contract::find_contract(library, contract, layout)?.1.tasks,
        None => Vec::new(),
    };
    let groups = match phase.ask.each {
        _ if !found.is_empty() => alloc::vec![new_group("findings", alloc::vec![findings_lane(&found)])],
        None if !of_contract.is_empty() => {
            alloc::vec![new_group("all", alloc::vec![combined_lane(of_contract)])]
        }
        None => alloc::vec![new_group("all", alloc::vec![new_lane(ALL)])],
        Some(LaneSource::Tasks) => alloc::vec![new_group("tasks", task_lanes(whole, library)?)],
        Some(LaneSource::Plans) => {
            plan_groups(whole || state.settings.single_coder, shared_names, library, layout)?
        }
        Some(LaneSource::Reviewers) => {
            let lanes = reviewer_lanes(phase, &plan::find_execution_plan(library, layout)?)?;
            alloc::vec![LaneGroup { parallel: true, ..new_group("reviewers", lanes) }]
        }
        Some(LaneSource::Topics) => {
            let lanes = topic_lanes(&state.rerun, library)?;
            alloc::vec![LaneGroup { parallel: true, ..new_group("topics", lanes) }]
        }
    };
    Ok(PreparedPhase { groups, again })
}

fn new_group(id: &str, lanes: Vec<Lane>) -> LaneGroup {
    LaneGroup { id: id.to_string(), parallel: false, worktrees: false, lanes }
}

fn new_lane(id: &str) -> Lane {
    Lane { id: id.to_string(), ..Lane::default() }
}

/// Returns the lane that answers these findings.
fn findings_lane(found: &[ReviewFinding]) -> Lane {
    let line =
        |finding: &ReviewFinding| format!("- [ ] {} {}", finding.id, finding.title).trim_end().to_string();
    let lines: Vec<String> = found.iter().map(line).collect();
    let values = [("findings".to_string(), lines.join("\n"))];
    Lane { values: values.into(), ..combined_lane(found.iter().map(|finding| finding.id.clone()).collect()) }
}

/// Returns one lane that covers all of these ids.
fn combined_lane(of: Vec<String>) -> Lane {
    Lane { of, ..new_lane(ALL) }
}

fn read_session_text(
    library: &DynLibrary<'_>,
    path: &str,
) -> Result<Option<crate::text::SharedText>, Diagnostics> {
    let id = SourceId::new(SourceRoot::Session, path)
        .map_err(|why| Diagnostic::error(Code::FlowBad, format!("invalid path `{path}`: {why}")))?;
    Ok(read_source(&library.sources, &id)?)
}

fn task_lanes(as_one: bool, library: &DynLibrary<'_>) -> Result<Vec<Lane>, Diagnostics> {
    let text = read_session_text(library, TASKS)?.ok_or_else(|| {
        Diagnostic::error(Code::IncludeNotFound, format!("file not found: `{TASKS}`"))
            .searched(SourceId::new(SourceRoot::Session, TASKS).ok())
    })?;
    let mut seen = BTreeSet::new();
    let mut ids = task_ids(&text);
    ids.retain(|id| seen.insert(id.clone()));
    // The ids become values and parts of file names.
    let is_bad = |id: &&String| !id.split('.').all(is_name);
    if let Some(bad) = ids.iter().find(is_bad) {
        let error =
            Diagnostic::error(Code::FlowRefused, format!("`{TASKS}` has a task with the invalid id `{bad}`"));
        return Err(error.hint("an id is a name, or names with dots between them, such as `1.1`").into());
    }
    if ids.is_empty() {
        let error = Diagnostic::error(Code::FlowRefused, format!("`{TASKS}` has no task"));
        let hint = "a task begins `- [ ] 1.1 …`, or is YAML in a code fence with `id: 1.1`";
        return Err(error.hint(hint).into());
    }
    Ok(if as_one { alloc::vec![combined_lane(ids)] } else { ids.iter().map(|id| new_lane(id)).collect() })
}

fn plan_groups(
    as_one: bool,
    shared_names: &dyn Fn() -> Vec<SharedName>,
    library: &DynLibrary<'_>,
    layout: &Layout,
) -> Result<Vec<LaneGroup>, Diagnostics> {
    let order = plan::find_execution_plan(library, layout)?;
    if as_one {
        let mut numbers: Vec<u64> = order.plans().map(|plan| plan.number).collect();
        numbers.sort_unstable();
        let numbers = numbers.iter().map(ToString::to_string).collect();
        return Ok(alloc::vec![new_group(ALL, alloc::vec![combined_lane(numbers)])]);
    }
    let at_once = order.groups.iter().any(|group| group.parallel && group.plans.len() > 1);
    let shared_names = if at_once { shared_names() } else { Vec::new() };
    let shared_names = shared_names.as_slice();
    let groups = order.groups.iter().map(|group| {
        let lanes = group.plans.iter().map(|plan| {
            // A sub-plan without owned files may write any file, so it runs alone.
            let owned = match plan.owned.is_empty() {
                true => alloc::vec!["**".to_string()],
                false => plan.owned.clone(),
            };
            let also = plan::find_other_names(&owned, shared_names);
            Lane { owned, also, ..new_lane(&plan.number.to_string()) }
        });
        let worktrees = group.parallel && group.plans.len() > 1;
        LaneGroup { id: group.id.clone(), parallel: group.parallel, worktrees, lanes: lanes.collect() }
    });
    Ok(groups.collect())
}

fn reviewer_lanes(phase: &Phase, order: &ExecutionPlan) -> Result<Vec<Lane>, Diagnostics> {
    let severity = match order.severity.as_str() {
        "low" => ReviewSeverity::Low,
        "high" => ReviewSeverity::High,
        _ => ReviewSeverity::Medium,
    };
    let called = phase.reviewer.iter().filter(|reviewer| reviewer.severity.contains(&severity));
    let lanes: Vec<Lane> = called
        .map(|reviewer| {
            let says = reviewer.instructions.clone().map(|words| ("says".to_string(), words));
            Lane { values: says.into_iter().collect(), ..new_lane(&reviewer.name) }
        })
        .collect();
    if lanes.is_empty() {
        let message = format!("`{}` has no reviewer for the severity `{}`", phase.name, order.severity);
        return Err(Diagnostic::error(Code::FlowRefused, message).into());
    }
    Ok(lanes)
}

/// Returns the requested research topics that are not done or must be done again, in the order of the
/// folders.
pub(super) fn topic_lanes(
    rerun: &BTreeSet<String>,
    library: &DynLibrary<'_>,
) -> Result<Vec<Lane>, Diagnostics> {
    let Ok(dir) = SourceId::new(SourceRoot::Session, RESEARCH) else { return Ok(Vec::new()) };
    let limits = ListingLimits { depth: 2, entries: 10_000, ignored: true };
    let listing = library.sources.list(&dir, limits).map_err(|error| {
        Diagnostic::error(Code::SourceUnreadable, format!("cannot list `{dir}`: {error}"))
    })?;
    let entries = listing.unwrap_or_default().entries;
    let files: BTreeSet<&str> = entries.iter().filter(|entry| !entry.dir).map(|e| e.path.as_str()).collect();
    let mut lanes = Vec::new();
    for folder in entries.iter().filter(|entry| entry.dir && is_name(&entry.path)) {
        let has = |file: &str| files.contains(format!("{}/{file}", folder.path).as_str());
        let Some((kind @ ("code" | "web"), topic)) = folder.path.split_once('-') else { continue };
        let is_done = has("done") && has("summary.md") && !rerun.contains(&folder.path);
        if has("request.md") && !is_done {
            let values = [("type", kind), ("topic", topic)];
            let values: BTreeMap<String, String> =
                values.into_iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
            lanes.push(Lane { values, ..new_lane(&folder.path) });
        }
    }
    Ok(lanes)
}
