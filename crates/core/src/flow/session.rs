//! Files that a staged session shows: `context.md`, `state.json`, and the reviews of several reviewers as one
//! file.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::{Map, Value, json};

use super::findings::FindingNumbering;
use super::request::{find_matching, read_session_text};
use super::{FinishedPhase, Flow, FlowState, FlowStatus, LaneSource, LaneStage, LaneState};
use crate::diag::{Code, Diagnostic, Diagnostics};
use crate::library::layout::Layout;
use crate::library::lookup::{CONTROLLED, DynLibrary, Library};
use crate::library::template::{TemplateNode, TemplateNotation};
use crate::source::builtin::Builtin;
use crate::text::name::is_name;

/// File that explains the session to its agents.
pub const CONTEXT: &str = "context.md";

/// Values of `state.json` that the flow's state does not contain.
#[derive(Clone, Copy, Debug)]
pub struct SessionLabels<'s> {
    /// The flow's folder, relative to the project.
    pub feature_dir: &'s str,
    /// Name of the session.
    pub session_name: &'s str,
    /// Last event.
    pub last_event: &'s str,
    /// Time of the last event, in UTC.
    pub updated_at: &'s str,
}

/// Renders `context.md` for the session in `feature_dir`. It always uses the shipped template, even if the
/// project has its own.
pub fn render_session_context(feature_dir: &str) -> Result<String, Diagnostics> {
    let template =
        Library::new(&Builtin).load_template(CONTROLLED, TemplateNotation::Brackets, &Layout::default())?;
    let missing = || Diagnostic::error(Code::TemplateNotFound, format!("no template `{CONTROLLED}`"));
    let template = template.ok_or_else(missing)?;
    let mut text = String::new();
    for node in &template.nodes {
        match node {
            TemplateNode::Text(span) => text.push_str(span.slice(&template.text)),
            TemplateNode::Slot(_) => text.push_str(feature_dir),
            TemplateNode::Fragment(_) | TemplateNode::Include(_) => {}
        }
    }
    text.push('\n');
    Ok(text)
}

/// Builds the contents of `state.json` from the state. The file is never read back, except for the number of
/// the round.
pub fn build_session_state(flow: &Flow, state: &FlowState, session: &SessionLabels<'_>) -> Value {
    let lanes = |each: LaneSource| lane_progress(flow, state, each);
    let plans = lanes(LaneSource::Plans);
    let reviewers = lanes(LaneSource::Reviewers);
    let phase = match &state.at {
        FlowStatus::New => "new",
        FlowStatus::Done => "done",
        FlowStatus::Rejected => "rejected",
        FlowStatus::Entering | FlowStatus::Running | FlowStatus::Waiting { .. } => &state.phase,
    };
    let is_last = flow.phase.last().is_some_and(|last| last.name == state.phase);
    let mut shown = json!({
        "feature_dir": session.feature_dir,
        "session_name": session.session_name,
        "phase": phase,
        "product_manager": flow.phase.iter().any(|phase| phase.optional && state.settings.with.contains(&phase.name)),
        "last_event": session.last_event,
        "subplan_count": plans.count,
        "completed_subplans": plans.done,
        "review_iteration": count_review_iterations(flow, state),
        "implementation_group_total": plans.groups.len(),
        "implementation_group_index": plans.group,
        "implementation_group_mode": if plans.parallel { "parallel" } else { "serial" },
        "implementation_single_coder": state.settings.single_coder,
        "implementation_active_plan_ids": plans.running,
        "implementation_completed_group_ids": plans.groups_done,
        "awaiting_summary": is_last && matches!(state.at, FlowStatus::Entering | FlowStatus::Running),
        "active_reviews": reviewers.running,
        "updated_at": session.updated_at,
        "updated_by": "callsheet",
    });
    if state.is_waiting() {
        shown["waiting_for"] = json!(state.wait_reasons());
    }
    let topics = lanes(LaneSource::Topics);
    shown["research_tasks"] = topic_states(&topics, "code-");
    shown["web_research_tasks"] = topic_states(&topics, "web-");
    shown
}

/// Returns the number of reviews that led to another round.
fn count_review_iterations(flow: &Flow, state: &FlowState) -> u32 {
    let reviews = flow.phase.iter().find(|phase| phase.ask.each == Some(LaneSource::Reviewers));
    let rounds = reviews.map(|phase| state.phase_round(&phase.name)).unwrap_or_default();
    let in_review = reviews.is_some_and(|phase| phase.name == state.phase);
    if in_review { rounds.saturating_sub(1) } else { rounds }
}

/// Progress of the lanes of one kind, in the current phase or a finished one.
#[derive(Default)]
struct LaneProgress {
    count: usize,
    done: Vec<String>,
    running: Vec<String>,
    open: Vec<String>,
    groups: Vec<String>,
    groups_done: Vec<String>,
    /// Number of the current group, from 1; 0 if none was begun.
    group: usize,
    parallel: bool,
}

fn lane_progress(flow: &Flow, state: &FlowState, each: LaneSource) -> LaneProgress {
    let Some(phase) = flow.phase.iter().find(|phase| phase.ask.each == Some(each)) else {
        return LaneProgress::default();
    };
    if phase.name != state.phase || state.has_ended() {
        let Some(FinishedPhase { lanes, done, groups, parallel }) = state.left.get(&phase.name) else {
            return LaneProgress::default();
        };
        return LaneProgress {
            count: *lanes,
            done: done.clone(),
            groups: groups.clone(),
            groups_done: groups.clone(),
            group: groups.len(),
            parallel: *parallel,
            ..LaneProgress::default()
        };
    }
    let ids = |wanted: fn(&LaneStage) -> bool| -> Vec<String> {
        let lanes = state.lanes.iter().filter(|lane| wanted(&lane.stage));
        lanes.flat_map(|LaneState { lane, .. }| lane.covers().iter().cloned()).collect()
    };
    let groups: Vec<String> = state.groups.iter().map(|group| group.id.clone()).collect();
    LaneProgress {
        count: state.lanes.iter().map(|lane| lane.lane.covers().len()).sum(),
        done: ids(|stage| matches!(stage, LaneStage::Done { .. })),
        running: ids(|stage| matches!(stage, LaneStage::Running { .. })),
        open: ids(|stage| !matches!(stage, LaneStage::Done { .. })),
        groups_done: groups.iter().take(state.group).cloned().collect(),
        group: (state.group + 1).min(groups.len()),
        groups,
        parallel: state.groups.get(state.group).is_some_and(|group| group.parallel),
    }
}

fn topic_states(lanes: &LaneProgress, kind: &str) -> Value {
    let named = |ids: &[String], word: &str| -> Map<String, Value> {
        let topics = ids.iter().filter_map(|id| id.strip_prefix(kind));
        topics.map(|topic| (topic.to_string(), word.into())).collect()
    };
    let mut topics = named(&lanes.open, "dispatched");
    topics.extend(named(&lanes.done, "done"));
    Value::Object(topics)
}

const PASS: &str = "verdict: pass";

/// Collects the existing reviews into files: all reviews below the verdict of the worst, and the failed ones.
/// The files are written whenever a phase is entered, before anything is set aside; writing them again
/// changes nothing.
pub fn collect_reviews(
    flow: &Flow,
    state: &FlowState,
    library: &DynLibrary<'_>,
) -> Result<BTreeMap<String, String>, Diagnostics> {
    let mut files = BTreeMap::new();
    for (phase, collect) in
        flow.phase.iter().filter_map(|phase| phase.collect.as_ref().map(|collect| (phase, collect)))
    {
        // The round that is about to begin has no reviews yet, unless it continues an earlier entry.
        let begins = phase.name == state.phase && state.at == FlowStatus::Entering && state.refusals == 0;
        let round = state.phase_round(&phase.name).saturating_sub(u32::from(begins && state.kept.is_empty()));
        let mut numbering = FindingNumbering::new(round);
        let mut reviews = Vec::new();
        for (reviewer, path) in find_reviewers(library, &collect.from)? {
            reviews
                .extend(read_session_text(library, &path)?.map(|text| ReviewerReport::new(reviewer, &text)));
        }
        if reviews.is_empty() {
            let only = read_session_text(library, &collect.all)?;
            reviews.extend(only.map(|text| ReviewerReport::new(String::new(), &text)));
        }
        for review in &mut reviews {
            review.text = numbering.number(&review.text, !review.passed);
        }
        let section = |review: &ReviewerReport| match review.reviewer.as_str() {
            "" => format!("{}\n", review.text),
            name => format!("## {name}\n\n{}\n", review.text),
        };
        let failed: Vec<String> = reviews.iter().filter(|review| !review.passed).map(section).collect();
        if !reviews.is_empty() {
            let verdict = if failed.is_empty() { PASS } else { "verdict: fail" };
            let all: Vec<String> = reviews.iter().map(section).collect();
            files.insert(collect.all.clone(), format!("{verdict}\n\n{}", all.join("\n")));
        }
        if !failed.is_empty() {
            files.insert(collect.failed.clone(), failed.join("\n"));
        }
    }
    Ok(files)
}

/// Review of one reviewer, without its first line, the verdict.
struct ReviewerReport {
    reviewer: String,
    passed: bool,
    text: String,
}

impl ReviewerReport {
    fn new(reviewer: String, text: &str) -> Self {
        let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
        // A review that does not begin with a verdict is shown in full and counts as failed.
        let rest = if first.starts_with("verdict: ") { rest } else { text };
        Self { reviewer, passed: first.trim_end() == PASS, text: rest.trim().to_string() }
    }
}

/// Finds the reviewers whose files `pattern` names with `{lane}`, in the order of their names.
fn find_reviewers(library: &DynLibrary<'_>, pattern: &str) -> Result<BTreeMap<String, String>, Diagnostics> {
    let mut found = BTreeMap::new();
    let Some((before, after)) = pattern.split_once("{lane}") else { return Ok(found) };
    for path in find_matching(library, "", &pattern.replace("{lane}", "*"))? {
        let name = path.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
        if let Some(name) = name.filter(|name| is_name(name)) {
            found.insert(name.to_string(), path.clone());
        }
    }
    Ok(found)
}
