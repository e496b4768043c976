//! Judges the result of a run: its exit code, and whose changes it saw.

use callsheet_core::record::{RunOutcome, RunSummary};
use schemars::JsonSchema;
use serde::Serialize;

use crate::error::{AGENT, FINDING, INTERRUPTED, LIMIT, SCOPE};

/// Returns the exit code of the outcome of a run.
pub fn exit_code(summary: &RunSummary) -> u8 {
    match summary.outcome() {
        // The agent of a run without an end continues in a terminal.
        RunOutcome::Composed | RunOutcome::Running | RunOutcome::Succeeded | RunOutcome::NothingChanged => 0,
        RunOutcome::NeedsReview | RunOutcome::FailedChecks => FINDING,
        RunOutcome::OutOfScope => SCOPE,
        RunOutcome::AgentFailed | RunOutcome::Parked | RunOutcome::Lost => AGENT,
        RunOutcome::TimedOut | RunOutcome::OverCost => LIMIT,
        RunOutcome::Stopped => INTERRUPTED,
    }
}

/// To whom the changes of a run can be attributed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ChangeAttribution {
    /// To this run, or to another one that worked in the same checkout.
    Shared,
    /// To this run alone: it had a worktree of its own.
    Worktree,
    /// To this run, or to a person who used the checkout.
    Checkout,
}

/// Returns to whom the changes of a run can be attributed.
pub fn attribution(account: &RunSummary) -> ChangeAttribution {
    let shared = account.observed.as_ref().is_some_and(|observed| !observed.shared_with.is_empty());
    let own = account.launch.as_ref().is_some_and(|launch| launch.own_worktree);
    match (shared, own) {
        (true, _) => ChangeAttribution::Shared,
        (false, true) => ChangeAttribution::Worktree,
        (false, false) => ChangeAttribution::Checkout,
    }
}

/// Converts dollars to millionths of a dollar.
pub fn micro_dollars(dollars: f64) -> u64 {
    // The conversion takes what is no number, or negative, as nothing, and saturates.
    (dollars * 1e6).round() as u64
}
