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
        WaitReason::Decision => format!("`{}` needs a decision", state.phase),
        WaitReason::Evidence { lane, lacks } => format!("`{lane}` lacks evidence for {}", lacks.join(", ")),
        WaitReason::Submission { lane, says } => {
            format!("the submission of `{lane}` was refused: {}", says.join("; "))
        }
        WaitReason::Question { lane, asks } => format!("`{lane}` asks: {}", asks.join("; ")),
        WaitReason::Conflicts { lane, paths } => format!("cannot merge `{lane}`: {}", paths.join(", ")),
        WaitReason::Limit { phase } => format!("phase `{phase}` reached its limit of rounds"),
        WaitReason::Refused { says } => format!("`{}` cannot begin: {}", state.phase, says.join("; ")),
        WaitReason::Cost => "the cost limit was reached".to_owned(),
        WaitReason::Documents { paths, cut: true } => format!(
            "documents changed while the flow was not running, by a person or by the interrupted agent: {}; accept them with `callsheet flow decide approve`",
            paths.join(", ")
        ),
        WaitReason::Documents { paths, cut: false } => {
            format!("`{}` changed documents of other phases: {}", state.phase, paths.join(", "))
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
