//! Says in words why a flow waits, and what a person decided.

use callsheet_core::flow::{FlowDecision, FlowState, FlowStatus, WaitReason};
use callsheet_store::local_time;

/// Explains why the flow waits for a person.
pub fn wait_reasons(state: &FlowState) -> Vec<String> {
    state.wait_reasons().iter().map(|reason| explain_wait(state, reason)).collect()
}

/// Explains one of the reasons why the flow waits.
pub fn explain_wait(state: &FlowState, reason: &WaitReason) -> String {
    let begins = if state.at == FlowStatus::Entering { "begin" } else { "continue" };
    match reason {
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
        WaitReason::Parked { lanes, until } => {
            let time = local_time(until).unwrap_or_else(|| until.clone());
            format!("the quota of the agent of `{}` is used up until {time}", lanes.join("`, `"))
        }
        WaitReason::Failed { says } => format!("`{}` cannot {begins}: {}", state.phase, says.join("; ")),
    }
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
