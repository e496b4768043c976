//! Judges the result of a run: its exit code, and whose changes it saw.

use callsheet_core::record::{ChecksOutcome, RunStatus, RunSummary};
use callsheet_core::request::fact::{CheckRun, EndReason};
use schemars::JsonSchema;
use serde::Serialize;

use crate::error::{AGENT, FINDING, INTERRUPTED, LIMIT, SCOPE};

/// Returns the exit code of the first case that applies.
pub fn exit_code(account: &RunSummary) -> u8 {
    let ended = account.exit.as_ref().map(|exit| exit.ended);
    let pending = account.violations().iter().any(|violation| !violation.decision.is_accepted());
    let seen = account.observed.as_ref().and_then(|observed| observed.worktree.as_ref());
    let unseen = seen.is_some_and(|seen| seen.newly_unseen().next().is_some());
    let outcome = account.reply().map(|reply| reply.outcome).unwrap_or_default();
    match (ended, account.status()) {
        // The agent continues in a terminal.
        (None, _) => 0,
        (Some(EndReason::Stopped), _) => INTERRUPTED,
        (Some(EndReason::Timeout | EndReason::Cost), _) => LIMIT,
        _ if account.observed.iter().flat_map(|observed| &observed.checks).any(is_late) => LIMIT,
        (_, RunStatus::Failed) => AGENT,
        _ if account.has_reported_failure() => AGENT,
        _ if pending || unseen => SCOPE,
        _ if matches!(account.checks_outcome(), ChecksOutcome::Failed | ChecksOutcome::Pending)
            || !outcome.is_good() =>
        {
            FINDING
        }
        _ => 0,
    }
}

/// Returns whether the time limit of the run or of the check itself ended the check.
fn is_late(check: &CheckRun) -> bool {
    check.ended == Some(EndReason::Timeout)
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
