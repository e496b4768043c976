//! What a staged session shows of itself: `state.json`, and the reviews of several reviewers as one.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::{Map, Value, json};

use super::findings::Numbering;
use super::request::matching;
use super::{At, Each, Flow, LaneState, Left, Stage, State};
use crate::builtin::Builtin;
use crate::diag::{Code, Diag, Failure};
use crate::lookup::{CONTROLLED, Library, read};
use crate::name::is_name;
use crate::request::Layout;
use crate::source::{Root, SourceId};
use crate::template::{Node, Notation};
use crate::text::Text;

/// The file of a session that says what the session is.
pub const CONTEXT: &str = "context.md";

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

/// The contents of `context.md` for the session in `feature_dir`: the shipped template, whatever a project holds.
pub fn session_context(feature_dir: &str) -> Result<String, Failure> {
    let template = Library::new(&Builtin).template(CONTROLLED, Notation::Brackets, &Layout::default())?;
    let missing = || Diag::error(Code::TemplateNotFound, format!("there is no `{CONTROLLED}`"));
    let template = template.ok_or_else(missing)?;
    let mut text = String::new();
    for node in &template.nodes {
        match node {
            Node::Text(span) => text.push_str(span.of(&template.text)),
            Node::Slot(_) => text.push_str(feature_dir),
            Node::Fragment(_) | Node::Include(_) => {}
        }
    }
    text.push('\n');
    Ok(text)
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
    if let (true, Value::Object(shown)) = (state.is_waiting(), &mut shown) {
        shown.insert("waiting_for".to_string(), json!(state.waits_for()));
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
    let rounds = reviews.map(|phase| state.round_of(&phase.name)).unwrap_or_default();
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

const PASS: &str = "verdict: pass";

/// What the reviews that are there come to, as files: all of them under the verdict of the worst, and those that
/// failed. It is written whenever a phase is entered, before anything is set aside; writing it again changes nothing.
pub fn collect(
    flow: &Flow,
    state: &State,
    library: &Library<'_>,
) -> Result<BTreeMap<String, String>, Failure> {
    let mut files = BTreeMap::new();
    for (phase, collect) in
        flow.phase.iter().filter_map(|phase| phase.collect.as_ref().map(|collect| (phase, collect)))
    {
        // The round that is about to begin has no reviews yet, unless it goes on.
        let begins = phase.name == state.phase && state.at == At::Entering && state.refusals == 0;
        let round = state.round_of(&phase.name).saturating_sub(u32::from(begins && state.kept.is_empty()));
        let mut numbering = Numbering::new(round);
        let mut reviews = Vec::new();
        for (reviewer, path) in reviewers(library, &collect.from)? {
            reviews.extend(text(library, &path)?.map(|text| Review::new(reviewer, &text)));
        }
        let several = !reviews.is_empty();
        if !several {
            let only = text(library, &collect.all)?;
            reviews.extend(only.map(|text| Review::new(String::new(), &text)));
        }
        for review in &mut reviews {
            review.text = numbering.number(&review.text, !review.passed);
        }
        let section = |review: &Review| match review.reviewer.as_str() {
            "" => format!("{}\n", review.text),
            name => format!("## {name}\n\n{}\n", review.text),
        };
        let failed: Vec<String> = reviews.iter().filter(|review| !review.passed).map(section).collect();
        if let [only] = reviews.as_slice()
            && !several
        {
            let verdict = if only.passed { PASS } else { "verdict: fail" };
            files.insert(collect.all.clone(), format!("{verdict}\n\n{}\n", only.text));
        }
        if several {
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

/// The review that one reviewer handed in, without its first line, the verdict.
struct Review {
    reviewer: String,
    passed: bool,
    text: String,
}

impl Review {
    fn new(reviewer: String, text: &str) -> Self {
        let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
        // What does not begin with a verdict is shown whole, and did not pass.
        let rest = if first.starts_with("verdict: ") { rest } else { text };
        Self { reviewer, passed: first.trim_end() == PASS, text: rest.trim().to_string() }
    }
}

/// The reviewers whose files `pattern` names with `{lane}`, in the order of their names.
fn reviewers(library: &Library<'_>, pattern: &str) -> Result<BTreeMap<String, String>, Failure> {
    let mut found = BTreeMap::new();
    let Some((before, after)) = pattern.split_once("{lane}") else { return Ok(found) };
    for path in matching(library, "", &pattern.replace("{lane}", "*"))? {
        let name = path.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
        if let Some(name) = name.filter(|name| is_name(name)) {
            found.insert(name.to_string(), path.clone());
        }
    }
    Ok(found)
}

fn text(library: &Library<'_>, path: &str) -> Result<Option<Text>, Failure> {
    let Ok(id) = SourceId::new(Root::Session, path) else { return Ok(None) };
    Ok(read(library.sources, &id)?)
}
