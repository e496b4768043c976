//! Where a task stands: derived from the facts of its runs, never stored.

use alloc::vec::Vec;

use serde::Serialize;

use crate::fact::{Change, Changed, Decision};
use crate::record::{Account, Checked, RunStatus};

/// In the order in which they count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskStatus {
    /// A person stopped its last run.
    Cancelled,
    Running,
    /// A person has to look at it.
    NeedsReview,
    /// What a run of it made is where it belongs, and its checks passed.
    Done,
    /// The checks of its last run failed.
    Failed,
    /// It can be run again.
    Ready,
    /// It was not run yet.
    Open,
}

impl TaskStatus {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cancelled => "cancelled",
            Self::Running => "running",
            Self::NeedsReview => "needs_review",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Ready => "ready",
            Self::Open => "open",
        }
    }
}

/// Why a task stands where it stands; several can hold at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskReason {
    ScopeViolationPending,
    ScopeViolationRejected,
    ChecksPending,
    ChecksFailed,
    MergePending,
    RunFailed,
    /// There is work in the worktree that no commit has.
    Uncommitted,
    /// No run of it has changed anything.
    NothingChanged,
}

impl TaskReason {
    pub const fn name(self) -> &'static str {
        match self {
            Self::ScopeViolationPending => "scope_violation_pending",
            Self::ScopeViolationRejected => "scope_violation_rejected",
            Self::ChecksPending => "checks_pending",
            Self::ChecksFailed => "checks_failed",
            Self::MergePending => "merge_pending",
            Self::RunFailed => "run_failed",
            Self::Uncommitted => "uncommitted",
            Self::NothingChanged => "nothing_changed",
        }
    }
}

/// Where a task stands by its runs, the oldest first. `in_base` says of a commit whether it is part of what the task
/// was to become part of.
pub fn standing(runs: &[Account], in_base: &mut dyn FnMut(&str) -> bool) -> (TaskStatus, Vec<TaskReason>) {
    let mut reasons = Vec::new();
    let runs: Vec<&Account> = runs.iter().filter(|run| run.launch.is_some()).collect();
    let Some(last) = runs.last() else { return (TaskStatus::Open, reasons) };
    let violated = |wanted: Decision| {
        runs.iter().flat_map(|run| run.violations()).any(|violation| violation.decision == wanted)
    };
    let (pending, rejected) = (violated(Decision::Pending), violated(Decision::Rejected));
    let seen = |run: &Account| run.observed.as_ref().and_then(|observed| observed.worktree.clone());
    let head = |run: &Account| seen(run).and_then(|seen| seen.head_after);
    let mut merged = |run: &Account| head(run).is_some_and(|head| in_base(&head));
    let is_evidence = |run: &Account| {
        run.checked() == Checked::Passed
            && run.status() == RunStatus::Completed
            && !run.says_it_failed()
            && seen(run).is_some_and(|seen| !seen.dirty_after && seen.newly_unseen().next().is_none())
    };
    let is_merged = merged(last);
    let made_something = seen(last).is_some_and(|seen| seen.head_before != seen.head_after);
    // Where no run has changed anything, that the checks pass says nothing about the task.
    let changed = |run: &Account| {
        let real = |file: &Changed| file.change != Change::Ignored;
        seen(run).is_some_and(|seen| seen.head_before != seen.head_after || seen.changed.iter().any(real))
    };
    let untouched = !runs.iter().any(|run| changed(run));
    let done = !untouched && runs.iter().any(|run| is_evidence(run) && merged(run));
    let failed = matches!(last.status(), RunStatus::Failed) || last.says_it_failed();
    let dirty = seen(last).is_some_and(|seen| seen.dirty_after);
    for (holds, reason) in [
        (pending, TaskReason::ScopeViolationPending),
        (rejected, TaskReason::ScopeViolationRejected),
        (matches!(last.checked(), Checked::Pending | Checked::None), TaskReason::ChecksPending),
        (last.checked() == Checked::Failed, TaskReason::ChecksFailed),
        (!is_merged && made_something, TaskReason::MergePending),
        (failed, TaskReason::RunFailed),
        (dirty, TaskReason::Uncommitted),
        (untouched && runs.iter().all(|run| run.is_whole()), TaskReason::NothingChanged),
    ] {
        reasons.extend(holds.then_some(reason));
    }
    let status = if last.status() == RunStatus::Cancelled {
        TaskStatus::Cancelled
    } else if runs.iter().any(|run| !run.is_whole()) {
        TaskStatus::Running
    } else if pending || rejected {
        TaskStatus::NeedsReview
    } else if done {
        TaskStatus::Done
    } else if is_merged && made_something {
        TaskStatus::NeedsReview
    } else if last.checked() == Checked::Failed {
        TaskStatus::Failed
    } else {
        TaskStatus::Ready
    };
    if status == TaskStatus::Done {
        reasons.clear();
    }
    (status, reasons)
}
