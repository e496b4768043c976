//! Renders the status of a flow as JSON and as text.

use callsheet_core::flow::{FlowDecision, FlowState, FlowStatus, WaitReason};
use serde_json::{Value, json};

use super::RecordedFlow;
use crate::project::Project;
use crate::session::new_preferences;

/// Explains why the flow waits for a person.
pub fn wait_reasons(state: &FlowState) -> Vec<String> {
    let begins = if state.at == FlowStatus::Entering { "begin" } else { "go on" };
    let reason = |why: &WaitReason| match why {
        WaitReason::Decision => format!("`{}` is for a person to decide", state.phase),
        WaitReason::Evidence { lane, lacks } => format!("`{lane}` has no evidence for {}", lacks.join(", ")),
        WaitReason::Submission { lane, says } => {
            format!("`{lane}` submits what is refused: {}", says.join("; "))
        }
        WaitReason::Question { lane, asks } => format!("`{lane}` asks: {}", asks.join("; ")),
        WaitReason::Conflicts { lane, paths } => format!("`{lane}` cannot be merged: {}", paths.join(", ")),
        WaitReason::Limit { phase } => format!("`{phase}` was entered as often as it may be"),
        WaitReason::Refused { says } => format!("`{}` cannot begin: {}", state.phase, says.join("; ")),
        WaitReason::Cost => "as much was spent as may be".to_owned(),
        WaitReason::Documents { paths, cut: true } => format!(
            "documents changed while nobody drove the flow, by a person or by the agent that was cut: {}; \
             `callsheet flow decide approve` goes on with them",
            paths.join(", ")
        ),
        WaitReason::Documents { paths, cut: false } => {
            format!("`{}` changed documents that are not its own: {}", state.phase, paths.join(", "))
        }
        WaitReason::Failed { says } => format!("`{}` cannot {begins}: {}", state.phase, says.join("; ")),
    };
    state.wait_reasons().iter().map(reason).collect()
}

/// Returns the word for a person's decision in a state.
pub(super) fn decision_word(decision: &FlowDecision, state: &FlowState) -> &'static str {
    match decision {
        FlowDecision::Approve => "approve",
        FlowDecision::Reject => "reject",
        FlowDecision::Changes(_) if !state.questions().is_empty() => "answer",
        FlowDecision::Changes(_) => "changes",
    }
}

/// Returns the status of a flow as JSON. `driven` says whether a process drives it.
pub fn status_json(project: &Project, known: &RecordedFlow, driven: bool) -> Value {
    let state = &known.state;
    let running: Vec<Value> =
        state.running_lanes().map(|(lane, run)| json!({ "lane": lane.id, "run": run })).collect();
    let decisions: Vec<Value> = known
        .decisions
        .iter()
        .map(|(decision, by, at)| json!({ "decision": decision, "by": by, "at": at }))
        .collect();
    json!({
        "flow": known.id,
        "name": known.plan.flow,
        "folder": known.folder(),
        "request": state.request,
        "state": state.condition(),
        "phase": state.phase,
        "round": state.round(),
        "running": running,
        "driven": driven,
        "waits_for": wait_reasons(state),
        "questions": state.questions(),
        "refused": state.refused,
        "proposed": new_preferences(project, &state.proposed),
        "decisions": decisions,
        "cost_usd": state.cost as f64 / 1e6,
        "runs": known.runs(),
        "started": known.times.0,
        "last": known.times.1,
    })
}
