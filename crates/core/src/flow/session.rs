//! What a staged session shows of itself: `state.json`, and the reviews of several reviewers as one.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::{Map, Value, json};

use super::{At, Each, Flow, LaneState, Left, Stage, State};

/// What the state cannot know.
#[derive(Clone, Copy, Debug)]
pub struct Session<'s> {
    /// The flow's folder, relative to the project.
    pub feature_dir: &'s str,
    pub session_name: &'s str,
    /// What happened last, and when, in UTC.
    pub last_event: &'s str,
    pub updated_at: &'s str,
}

/// The contents of `state.json`. It is made from the state and never read back, but for the number of the round.
pub fn session_state(flow: &Flow, state: &State, session: &Session<'_>) -> Value {
    let lanes = |each: Each| lanes(flow, state, each);
    let plans = lanes(Each::Plans);
    let reviewers = lanes(Each::Reviewers);
    let phase = match &state.at {
        At::New => "new",
        At::Done => "done",
        At::Rejected => "rejected",
        At::Entering | At::Running | At::Waiting { .. } => &state.phase,
    };
    let mut shown = json!({
        "feature_dir": session.feature_dir,
        "session_name": session.session_name,
        "phase": phase,
        "product_manager": flow.phase.iter().any(|phase| phase.optional && state.settings.with.contains(&phase.name)),
        "last_event": session.last_event,
        "subplan_count": plans.count,
        "completed_subplans": plans.done,
        "review_iteration": review_iteration(flow, state),
        "implementation_group_total": plans.groups.len(),
        "implementation_group_index": plans.group,
        "implementation_group_mode": if plans.parallel { "parallel" } else { "serial" },
        "implementation_single_coder": state.settings.single_coder,
        "implementation_active_plan_ids": plans.running,
        "implementation_completed_group_ids": plans.groups_done,
        "awaiting_summary": false,
        "active_reviews": reviewers.running,
        "updated_at": session.updated_at,
        "updated_by": "callsheet",
    });
    if let (At::Waiting { why }, Value::Object(shown)) = (&state.at, &mut shown) {
        shown.insert("waiting_for".to_string(), json!(why));
    }
    if let Value::Object(shown) = &mut shown {
        shown.insert("research_tasks".to_string(), topics(&lanes(Each::Topics), "code-"));
        shown.insert("web_research_tasks".to_string(), topics(&lanes(Each::Topics), "web-"));
        let is_last = flow.phase.last().is_some_and(|last| last.name == state.phase);
        let awaiting = is_last && matches!(state.at, At::Entering | At::Running);
        shown.insert("awaiting_summary".to_string(), awaiting.into());
    }
    shown
}

/// How many reviews led to another round.
fn review_iteration(flow: &Flow, state: &State) -> u32 {
    let reviews = flow.phase.iter().find(|phase| phase.ask.each == Some(Each::Reviewers));
    let rounds = reviews.and_then(|phase| state.rounds.get(&phase.name)).copied().unwrap_or_default();
    let in_review = reviews.is_some_and(|phase| phase.name == state.phase);
    if in_review { rounds.saturating_sub(1) } else { rounds }
}

/// The lanes of one kind, wherever the flow is.
#[derive(Default)]
struct Shown {
    count: usize,
    done: Vec<String>,
    running: Vec<String>,
    open: Vec<String>,
    groups: Vec<String>,
    groups_done: Vec<String>,
    /// From 1; 0 where none was begun.
    group: usize,
    parallel: bool,
}

fn lanes(flow: &Flow, state: &State, each: Each) -> Shown {
    let Some(phase) = flow.phase.iter().find(|phase| phase.ask.each == Some(each)) else {
        return Shown::default();
    };
    if phase.name != state.phase || state.has_ended() {
        let Some(Left { lanes, done, groups, parallel }) = state.left.get(&phase.name) else {
            return Shown::default();
        };
        return Shown {
            count: *lanes,
            done: done.clone(),
            groups: groups.clone(),
            groups_done: groups.clone(),
            group: groups.len(),
            parallel: *parallel,
            ..Shown::default()
        };
    }
    let ids = |wanted: fn(&Stage) -> bool| -> Vec<String> {
        let lanes = state.lanes.iter().filter(|lane| wanted(&lane.stage));
        lanes.flat_map(|LaneState { lane, .. }| lane.covers().iter().cloned()).collect()
    };
    let groups: Vec<String> = state.groups.iter().map(|group| group.id.clone()).collect();
    Shown {
        count: state.lanes.iter().map(|lane| lane.lane.covers().len()).sum(),
        done: ids(|stage| matches!(stage, Stage::Done { .. })),
        running: ids(|stage| matches!(stage, Stage::Running { .. })),
        open: ids(|stage| !matches!(stage, Stage::Done { .. })),
        groups_done: groups.iter().take(state.group).cloned().collect(),
        group: (state.group + 1).min(groups.len()),
        groups,
        parallel: state.groups.get(state.group).is_some_and(|group| group.parallel),
    }
}

fn topics(lanes: &Shown, kind: &str) -> Value {
    let named = |ids: &[String], word: &str| -> Map<String, Value> {
        let topics = ids.iter().filter_map(|id| id.strip_prefix(kind));
        topics.map(|topic| (topic.to_string(), word.into())).collect()
    };
    let mut topics = named(&lanes.open, "dispatched");
    topics.extend(named(&lanes.done, "done"));
    Value::Object(topics)
}

/// The review that one reviewer handed in.
#[derive(Clone, Copy, Debug)]
pub struct Review<'r> {
    pub reviewer: &'r str,
    /// The file, whose first line is the verdict.
    pub text: &'r str,
}

/// Reviews that were put together, the reviewers in the order of their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reviews {
    /// All of them under the verdict of the worst.
    pub all: String,
    /// Those that failed; `None` where none did.
    pub failed: Option<String>,
}

const PASS: &str = "verdict: pass";

/// One reviewer's failure does not hide what another one found.
pub fn put_together(reviews: &[Review<'_>]) -> Reviews {
    let by_name: BTreeMap<&str, (bool, &str)> = reviews
        .iter()
        .map(|review| {
            let (first, rest) = review.text.split_once('\n').unwrap_or((review.text, ""));
            let passed = first.trim_end() == PASS;
            // What does not begin with a verdict is shown whole.
            let rest = if first.starts_with("verdict: ") { rest } else { review.text };
            (review.reviewer, (passed, rest.trim()))
        })
        .collect();
    let section = |(name, (_, text)): (&&str, &(bool, &str))| format!("## {name}\n\n{text}\n");
    let failed: Vec<String> = by_name.iter().filter(|(_, (passed, _))| !passed).map(section).collect();
    let verdict = if failed.is_empty() && !by_name.is_empty() { PASS } else { "verdict: fail" };
    let all: Vec<String> = by_name.iter().map(section).collect();
    let failed = (!failed.is_empty()).then(|| failed.join("\n"));
    Reviews { all: format!("{verdict}\n\n{}", all.join("\n")), failed }
}
