//! Renders the result of a run for people and for programs.

use callsheet_core::record::{ChecksOutcome, RunStatus, RunSummary};
use callsheet_core::request::fact::{CheckRun, EndReason};
use serde_json::{Value, json};

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

/// Returns to whom the changes of a run can be attributed. In its own worktree, all changes are the agent's;
/// in a checkout that people use or that other runs share, a change can be theirs.
pub fn attribution(account: &RunSummary) -> &'static str {
    let shared = account.observed.as_ref().is_some_and(|observed| !observed.shared_with.is_empty());
    let own = account.launch.as_ref().is_some_and(|launch| launch.own_worktree);
    match (shared, own) {
        (true, _) => "shared",
        (false, true) => "worktree",
        (false, false) => "checkout",
    }
}

/// Returns one object, which is the same for every command that ends with a run.
pub fn result_json(account: &RunSummary) -> Value {
    let exit = account.exit.as_ref();
    let seen = account.observed.as_ref().and_then(|observed| observed.worktree.as_ref());
    let checks = account.observed.as_ref().map(|observed| &observed.checks);
    let launch = account.launch.as_ref();
    json!({
        "run": account.run.id,
        "parent": account.run.parent,
        "task": account.run.task,
        "status": account.status(),
        "ended": exit.map(|exit| exit.ended),
        "why": exit.and_then(|exit| exit.why.clone()),
        "exit_code": exit.and_then(|exit| exit.code),
        "signal": exit.and_then(|exit| exit.signal),
        "duration_ms": exit.and_then(|exit| exit.duration_ms),
        "told": exit.map(|exit| &exit.report),
        "checked": account.checks_outcome(),
        "checks": checks.cloned().unwrap_or_default(),
        "changed": seen.map(|seen| seen.changed.clone()).unwrap_or_default(),
        "violations": account.violations(),
        "attribution": attribution(account),
        "shared_with": account.observed.as_ref().map(|observed| observed.shared_with.clone()).unwrap_or_default(),
        "uncertain": account.observed.as_ref().map(|observed| observed.uncertain.clone()).unwrap_or_default(),
        "unseen": seen.map(|seen| seen.unseen.clone()).unwrap_or_default(),
        "commits": seen.map(|seen| seen.commits.clone()).unwrap_or_default(),
        "elsewhere": seen.map(|seen| seen.elsewhere.clone()).unwrap_or_default(),
        "head_before": seen.and_then(|seen| seen.head_before.clone()),
        "head_after": seen.and_then(|seen| seen.head_after.clone()),
        "reply": account.reply(),
        "receipts": account.receipts,
        "worktree": launch.map(|launch| &launch.worktree),
        "tracking": launch.and_then(|launch| launch.tracking.clone()),
        "scope": launch.map(|launch| &launch.scope),
        "no_scope": launch.is_some_and(|launch| launch.options.no_scope),
        "prompt_sha256": account.prompt_sha256,
    })
}
