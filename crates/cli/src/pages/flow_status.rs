//! Renders flows.

use callsheet::diagnostics::join_lines;
use callsheet::flow::{RecordedFlow, wait_reasons};
use callsheet::project::Project;
use callsheet::session::new_preferences;
use callsheet_core::diag::escape_invisible;
use callsheet_core::flow::{FlowCondition, FlowStatus};
use callsheet_core::library::preferences::Preference;

use crate::print::{OutputPrinter, TextStyle};

/// Renders the status of a flow.
pub(crate) fn status_page(
    print: &OutputPrinter,
    project: &Project,
    known: &RecordedFlow,
    driven: bool,
) -> String {
    let state = &known.state;
    let word = match state.condition() {
        FlowCondition::Running if !driven => "not running; continue with `callsheet flow resume`",
        condition => condition.name(),
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
    for Preference { role, bullet } in new_preferences(project, &state.proposed) {
        row("proposed", format!("{role}: {bullet}"));
    }
    if state.cost > 0 {
        row("cost", format!("${:.2}", state.cost as f64 / 1e6));
    }
    row("folder", known.folder());
    row("flow", known.id.to_string());
    page
}

/// Renders a flow as one line of a list.
pub(crate) fn flow_line(known: &RecordedFlow) -> String {
    let started = known.times.0.get(..19).unwrap_or_default();
    let (name, flow, word) = (&known.plan.name, &known.plan.flow, known.state.condition().name());
    format!("{started}  {flow:<8} {word:<10} {:<20} {name}\n", known.state.phase)
}
