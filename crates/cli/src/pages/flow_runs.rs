//! Renders the runs of a flow as a table.

use callsheet::flow::status::{FlowRunView, run_word};
use callsheet::run::cost::cost_words;
use callsheet_core::record::{ChecksOutcome, RunSummary};
use callsheet_core::reply::Outcome;

use super::result::duration_words;
use super::{heading, table};
use crate::print::OutputPrinter;

/// Renders the runs of a flow. The result is empty if it has none.
pub(super) fn runs_table(print: &OutputPrinter, runs: &[FlowRunView]) -> String {
    if runs.is_empty() {
        return String::new();
    }
    let head = ["PHASE", "ROUND", "LANE", "AGENT", "OUTCOME", "REPLY", "CHECKS", "TOOK", "COST", "RUN"];
    format!("{}{}", heading(print, "Runs"), table(print, head, runs.iter().map(run_cells)))
}

fn run_cells(view: &FlowRunView) -> [String; 10] {
    let (place, summary) = (&view.place, view.summary.as_ref());
    let exit = summary.and_then(|summary| summary.exit.as_ref());
    let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let reply = summary.and_then(RunSummary::reply).filter(|reply| reply.outcome != Outcome::None);
    let checks = summary.map(RunSummary::checks_outcome).and_then(|checks| match checks {
        ChecksOutcome::None => None,
        ChecksOutcome::Pending => Some("pending"),
        ChecksOutcome::Failed => Some("failed"),
        ChecksOutcome::Passed => Some("passed"),
    });
    [
        place.phase.clone(),
        place.round.to_string(),
        place.lane.clone(),
        or_none(summary.and_then(|summary| summary.run.agent.clone())),
        or_none(summary.map(|summary| summary.outcome().words().to_owned())),
        or_none(reply.map(|reply| reply.outcome.name().to_owned())),
        or_none(checks.map(str::to_owned)),
        or_none(exit.and_then(|exit| exit.duration_ms).map(duration_words)),
        or_none(exit.and_then(|exit| exit.cost()).map(cost_words)),
        run_word(&place.run, summary),
    ]
}
