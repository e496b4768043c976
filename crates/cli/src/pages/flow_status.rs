//! Renders flows: the status of one, and lists of several.

use std::fmt::Write as _;

use callsheet::diagnostics::join_lines;
use callsheet::flow::explain::ExplainedWait;
use callsheet::flow::status::{FlowRunView, FlowView, total_cost};
use callsheet::project::Project;
use callsheet::run::cost::cost_words;
use callsheet::session::new_preferences;
use callsheet_core::diag::escape_invisible;
use callsheet_core::flow::{FlowCondition, FlowStatus};
use callsheet_core::library::preferences::Preference;

use super::flow_runs::runs_table;
use super::{next_page, table};
use crate::print::{OutputPrinter, TextStyle};

/// Renders the status of a flow.
pub(crate) fn status_page(
    print: &OutputPrinter,
    project: &Project,
    view: &FlowView,
    runs: &[FlowRunView],
) -> String {
    let (known, state) = (&view.known, &view.known.state);
    let paint = match &state.at {
        FlowStatus::Done => TextStyle::Green,
        FlowStatus::Rejected => TextStyle::Red,
        _ => TextStyle::Yellow,
    };
    let (flow, name) = (escape_invisible(&known.plan.flow), escape_invisible(&known.plan.name));
    let mut page = StatusPage(format!("{flow} {name}  {}\n", print.paint(paint, condition_words(view))));
    page.row("request", state.request.lines().next().unwrap_or_default());
    page.row("phase", &format!("{}, round {}", state.phase, state.round()));
    // A lane that failed or is parked runs again when the flow resumes.
    for (lane, run) in state.running_lanes().filter(|_| !state.is_waiting()) {
        page.row("runs", &format!("{} {}", lane.id, run.unwrap_or_default()));
    }
    for (decision, by, _) in &known.decisions {
        page.row("decided", &format!("{decision} ({})", by.name()));
    }
    for (lane, reasons) in &state.refused {
        reasons.iter().for_each(|reason| page.row("refused", &format!("{lane}: {reason}")));
    }
    view.waits.iter().for_each(|wait| page.wait(wait));
    let proposed = new_preferences(project, &state.proposed);
    for Preference { role, bullet } in &proposed {
        page.row("proposed", &format!("{role}: {bullet}"));
    }
    if state.cost > 0 {
        page.row("cost", &cost_words(total_cost(state)));
    }
    page.row("folder", &known.folder());
    page.row("flow", known.id.as_str());
    page.0 += &runs_table(print, runs);
    page.0 += &next_page(print, &view.next);
    page.0
}

/// Returns the condition of a flow in words.
fn condition_words(view: &FlowView) -> &'static str {
    match view.known.state.condition() {
        FlowCondition::Running if !view.driven => "not running",
        condition => condition.name(),
    }
}

struct StatusPage(String);

impl StatusPage {
    fn row(&mut self, name: &str, text: &str) {
        let _ = writeln!(self.0, "  {name:<10} {}", escape_invisible(&join_lines(text)));
    }

    /// Shows a reason to wait, and below it why each word of evidence is missing.
    fn wait(&mut self, wait: &ExplainedWait) {
        self.row("waits for", &wait.message);
        for lack in &wait.lacks {
            self.row("", &format!("- {}: {}", lack.need, lack.message));
            lack.output.iter().for_each(|line| self.row("", &format!("  │ {line}")));
        }
    }
}

/// The most characters of a reason in a list of flows.
const MOST_REASON: usize = 80;

/// Renders flows that have not ended, each as one line.
pub(crate) fn open_flows_page(print: &OutputPrinter, views: &[FlowView]) -> String {
    let head = ["FLOW", "DEFINITION", "PHASE", "STATE", "SINCE", "WAITS FOR", "NEXT"];
    table(print, head, views.iter().map(open_flow_cells))
}

fn open_flow_cells(view: &FlowView) -> [String; 7] {
    let known = &view.known;
    let waits: Vec<&str> = view.waits.iter().map(|wait| wait.message.as_str()).collect();
    let waits = if waits.is_empty() { "-".to_owned() } else { shorten(&join_lines(&waits.join("; "))) };
    let next = view.next.first().map_or("-", |step| step.command.as_str());
    [
        known.plan.name.clone(),
        known.plan.flow.clone(),
        known.state.phase.clone(),
        condition_words(view).to_owned(),
        known.times.1.get(..19).unwrap_or_default().to_owned(),
        waits,
        next.to_owned(),
    ]
}

fn shorten(text: &str) -> String {
    match text.char_indices().nth(MOST_REASON) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

/// Renders all flows, each as one line.
pub(crate) fn flows_page(views: &[FlowView]) -> String {
    let line = |view: &FlowView| {
        let known = &view.known;
        let started = known.times.0.get(..19).unwrap_or_default();
        let (name, flow, word) = (&known.plan.name, &known.plan.flow, known.state.condition().name());
        format!("{started}  {flow:<8} {word:<10} {:<20} {name}\n", known.state.phase)
    };
    views.iter().map(|view| escape_invisible(line(view).trim_end()).into_owned() + "\n").collect()
}
