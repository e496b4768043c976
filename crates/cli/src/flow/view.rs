//! What a flow looks like from outside.

use callsheet_core::diag::visible;
use callsheet_core::flow::{At, Decision, State, Why};
use callsheet_core::prefs::Preference;
use serde_json::{Value, json};

use super::Known;
use crate::app::App;
use crate::print::Paint;
use crate::session::new_preferences;

/// Where a flow is, in one word.
pub(crate) fn word(state: &State) -> &'static str {
    match &state.at {
        _ if state.stopped => "stopped",
        _ if state.is_waiting() => "waiting",
        At::New => "new",
        At::Entering | At::Running => "running",
        At::Waiting { .. } => "waiting",
        At::Done => "done",
        At::Rejected => "rejected",
    }
}

/// Why a person is asked, in words.
pub(crate) fn reasons(state: &State) -> Vec<String> {
    let begins = if state.at == At::Entering { "begin" } else { "go on" };
    let reason = |why: &Why| match why {
        Why::Decision => format!("`{}` is for a person to decide", state.phase),
        Why::Evidence { lane, lacks } => format!("`{lane}` has no evidence for {}", lacks.join(", ")),
        Why::Submission { lane, says } => format!("`{lane}` submits what is refused: {}", says.join("; ")),
        Why::Question { lane, asks } => format!("`{lane}` asks: {}", asks.join("; ")),
        Why::Conflicts { lane, paths } => format!("`{lane}` cannot be merged: {}", paths.join(", ")),
        Why::Limit { phase } => format!("`{phase}` was entered as often as it may be"),
        Why::Refused { says } => format!("`{}` cannot begin: {}", state.phase, says.join("; ")),
        Why::Cost => "as much was spent as may be".to_owned(),
        Why::Documents { paths } => {
            format!("`{}` changed documents that are not its own: {}", state.phase, paths.join(", "))
        }
        Why::Failed { says } => format!("`{}` cannot {begins}: {}", state.phase, says.join("; ")),
    };
    state.waits_for().iter().map(reason).collect()
}

/// The word of a decision that a person takes in a state.
pub(super) fn decision_word(decision: &Decision, state: &State) -> &'static str {
    match decision {
        Decision::Approve => "approve",
        Decision::Reject => "reject",
        Decision::Changes(_) if !state.questions().is_empty() => "answer",
        Decision::Changes(_) => "changes",
    }
}

pub(crate) fn status_json(app: &App<'_>, known: &Known, driven: bool) -> Value {
    let state = &known.state;
    let running: Vec<Value> =
        state.running().map(|(lane, run)| json!({ "lane": lane.id, "run": run })).collect();
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
        "state": word(state),
        "phase": state.phase,
        "round": state.round(),
        "running": running,
        "driven": driven,
        "waits_for": reasons(state),
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

pub(crate) fn status_page(app: &App<'_>, known: &Known, driven: bool) -> String {
    let print = app.print;
    let state = &known.state;
    let word = match word(state) {
        "running" if !driven => "left alone: `callsheet flow resume`",
        word => word,
    };
    let paint = match &state.at {
        At::Done => Paint::Green,
        At::Rejected => Paint::Red,
        _ => Paint::Yellow,
    };
    let mut page = format!(
        "{} {}  {}\n",
        visible(&known.plan.flow),
        visible(&known.plan.name),
        print.paint(paint, word)
    );
    let mut row = |name: &str, text: String| page += &format!("  {name:<10} {}\n", visible(&text));
    row("request", state.request.lines().next().unwrap_or_default().to_owned());
    row("phase", format!("{}, round {}", state.phase, state.round()));
    for (lane, run) in state.running() {
        row("runs", format!("{} {}", lane.id, run.unwrap_or_default()));
    }
    for (decision, by, _) in &known.decisions {
        row("decided", format!("{decision} ({})", by.name()));
    }
    for (lane, reasons) in &state.refused {
        reasons.iter().for_each(|reason| row("refused", format!("{lane}: {reason}")));
    }
    for reason in reasons(state) {
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
