//! Renders the status of a flow as JSON and as text.

use callsheet_core::diag::escape_invisible;
use callsheet_core::flow::{FlowDecision, FlowState, FlowStatus, WaitReason};
use callsheet_core::library::preferences::Preference;
use serde_json::{Value, json};

use super::RecordedFlow;
use crate::app::AppContext;
use crate::print::{TextStyle, join_lines};
use crate::session::new_preferences;

/// Returns the state of a flow as one word.
pub(crate) fn state_word(state: &FlowState) -> &'static str {
    match &state.at {
        _ if state.stopped => "stopped",
        _ if state.is_waiting() => "waiting",
        FlowStatus::New => "new",
        FlowStatus::Entering | FlowStatus::Running => "running",
        FlowStatus::Waiting { .. } => "waiting",
        FlowStatus::Done => "done",
        FlowStatus::Rejected => "rejected",
    }
}

/// Explains why the flow waits for a person.
pub(crate) fn wait_reasons(state: &FlowState) -> Vec<String> {
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

pub(crate) fn status_json(app: &AppContext<'_>, known: &RecordedFlow, driven: bool) -> Value {
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
        "state": state_word(state),
        "phase": state.phase,
        "round": state.round(),
        "running": running,
        "driven": driven,
        "waits_for": wait_reasons(state),
        "questions": state.questions(),
        "refused": state.refused,
        "proposed": new_preferences(app, &state.proposed),
        "decisions": decisions,
        "cost_usd": state.cost as f64 / 1e6,
        "runs": known.runs(),
        "started": known.times.0,
        "last": known.times.1,
    })
}

pub(crate) fn status_page(app: &AppContext<'_>, known: &RecordedFlow, driven: bool) -> String {
    let print = app.print;
    let state = &known.state;
    let word = match state_word(state) {
        "running" if !driven => "left alone: `callsheet flow resume`",
        word => word,
    };
    let paint = match &state.at {
        FlowStatus::Done => TextStyle::Green,
        FlowStatus::Rejected => TextStyle::Red,
        _ => TextStyle::Yellow,
    };
    let mut page = format!(
        "{} {}  {}\n",
        escape_invisible(&known.plan.flow),
        escape_invisible(&known.plan.name),
        print.paint(paint, word)
    );
    let mut row = |name: &str, text: String| {
        page += &format!("  {name:<10} {}\n", escape_invisible(&join_lines(&text)));
    };
    row("request", state.request.lines().next().unwrap_or_default().to_owned());
    row("phase", format!("{}, round {}", state.phase, state.round()));
    for (lane, run) in state.running_lanes() {
        row("runs", format!("{} {}", lane.id, run.unwrap_or_default()));
    }
    for (decision, by, _) in &known.decisions {
        row("decided", format!("{decision} ({})", by.name()));
    }
    for (lane, reasons) in &state.refused {
        reasons.iter().for_each(|reason| row("refused", format!("{lane}: {reason}")));
    }
    for reason in wait_reasons(state) {
        row("waits for", reason);
    }
    for Preference { role, bullet } in new_preferences(app, &state.proposed) {
        row("proposed", format!("{role}: {bullet}"));
    }
    if state.cost > 0 {
        row("cost", format!("${:.2}", state.cost as f64 / 1e6));
    }
    row("folder", known.folder());
    row("flow", known.id.to_string());
    page
}
