//! Derives the status of a task from the facts of its runs. The status is never stored.

use alloc::vec::Vec;

use crate::record::{ChecksOutcome, ContentIds, RunOutcome, RunStatus, RunSummary};
use crate::request::fact::{ChangeKind, ChangedFile, ViolationDecision, WorktreeObservation};
use crate::text::word_enum::word_enum;

word_enum! {
    /// Status of a task. The variants are in order of precedence.
    TaskStatus {
        /// A person stopped its last run.
        Cancelled "cancelled",
        /// A run is not complete.
        Running "running",
        /// A person must review it.
        NeedsReview "needs_review",
        /// The work of a run is in the commit that the project has checked out, and its checks passed.
        Done "done",
        /// Its last run failed, was lost or never started, or one of its checks failed.
        Failed "failed",
        /// Its last run ended well, and nothing of it failed: the work can be committed or merged.
        Ready "ready",
        /// It was not run yet.
        Open "open",
    }
}

word_enum! {
    /// Reason for the status of a task; several can apply at once.
    TaskReason {
        /// A scope violation waits for a person's decision.
        ScopeViolationPending "scope_violation_pending",
        /// A person rejected a scope violation.
        ScopeViolationRejected "scope_violation_rejected",
        /// Some files could not be observed and may hide changes.
        Unseen "unseen",
        /// A check did not finish, or was not run.
        ChecksPending "checks_pending",
        /// A check failed.
        ChecksFailed "checks_failed",
        /// The work is checked out, and no check was configured for it.
        Unchecked "unchecked",
        /// The work is in a commit that is not checked out in the project.
        MergePending "merge_pending",
        /// The quota of the last run's agent is used up until a known time.
        Parked "parked",
        /// The last run failed.
        RunFailed "run_failed",
        /// The worktree has changes that no commit contains.
        Uncommitted "uncommitted",
        /// No run of it has changed anything.
        NothingChanged "nothing_changed",
    }
}

impl TaskReason {
    /// Returns the reason in words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::ScopeViolationPending => "a change outside the scope waits for a decision",
            Self::ScopeViolationRejected => "a change outside the scope was rejected",
            Self::Unseen => "some files could not be observed",
            Self::ChecksPending => "a check did not finish, or was not run",
            Self::ChecksFailed => "a check failed",
            Self::Unchecked => "the work is checked out, and no check was configured",
            Self::MergePending => "the work is in a commit that is not checked out in the project",
            Self::Parked => "the agent's quota is used up; retry the run when it is available again",
            Self::RunFailed => "the last run failed",
            Self::Uncommitted => "the worktree has uncommitted changes",
            Self::NothingChanged => "no run has changed anything",
        }
    }
}

/// Query with a worktree, the commit before the first run, and the contents in question.
pub type ContentsQuery<'c> = dyn FnMut(Option<&str>, Option<&str>, &ContentIds) -> bool + 'c;

/// Git queries about a task.
#[expect(missing_debug_implementations, reason = "it holds functions")]
pub struct TaskCheckout<'c> {
    /// Whether a commit is part of the commit that the project has checked out.
    pub has_commit: &'c mut dyn FnMut(&str) -> bool,
    /// Whether each of these contents is in that commit, or was in one between the second argument and it.
    /// With a worktree as the first argument, the same about the commit that is checked out there.
    pub has_contents: &'c mut ContentsQuery<'c>,
}

/// Derives the status of a task from its runs, the oldest first.
pub fn derive_task_status(
    runs: &[RunSummary],
    checkout: &mut TaskCheckout<'_>,
) -> (TaskStatus, Vec<TaskReason>) {
    let runs: Vec<&RunSummary> = runs.iter().filter(|run| run.launch.is_some()).collect();
    let Some(last) = runs.last() else { return (TaskStatus::Open, Vec::new()) };
    let violations = || runs.iter().flat_map(|run| run.violations());
    let pending = violations().any(|violation| violation.decision == ViolationDecision::Pending);
    let rejected = violations().any(|violation| violation.decision == ViolationDecision::Rejected);
    let work = TaskWork::from_runs(&runs, checkout);
    let checked = last.checks_outcome();
    let failed = last.status() == RunStatus::Failed || last.has_reported_failure();
    let is_parked = last.outcome() == RunOutcome::Parked;
    let is_unseen = worktree_observation(last).is_some_and(|seen| seen.newly_unseen().next().is_some());
    let mut reasons = Vec::new();
    for (holds, reason) in [
        (pending, TaskReason::ScopeViolationPending),
        (rejected, TaskReason::ScopeViolationRejected),
        (is_unseen, TaskReason::Unseen),
        (checked == ChecksOutcome::Pending, TaskReason::ChecksPending),
        (checked == ChecksOutcome::Failed, TaskReason::ChecksFailed),
        (checked == ChecksOutcome::None && work.is_in_head && !work.is_done, TaskReason::Unchecked),
        (work.is_merge_pending, TaskReason::MergePending),
        (is_parked, TaskReason::Parked),
        (failed && !is_parked, TaskReason::RunFailed),
        (work.is_uncommitted, TaskReason::Uncommitted),
        (work.is_nothing && runs.iter().all(|run| run.is_complete()), TaskReason::NothingChanged),
    ] {
        reasons.extend(holds.then_some(reason));
    }
    let status = if last.status() == RunStatus::Cancelled {
        TaskStatus::Cancelled
    } else if runs.iter().any(|run| !run.is_complete()) {
        TaskStatus::Running
    } else if pending || rejected {
        TaskStatus::NeedsReview
    } else if work.is_done {
        return (TaskStatus::Done, Vec::new());
    } else if work.is_in_head {
        TaskStatus::NeedsReview
    } else if failed || checked == ChecksOutcome::Failed {
        TaskStatus::Failed
    } else {
        TaskStatus::Ready
    };
    (status, reasons)
}

fn worktree_observation(run: &RunSummary) -> Option<&WorktreeObservation> {
    run.observed.as_ref().and_then(|observed| observed.worktree.as_ref())
}

fn has_new_commit(run: &RunSummary) -> bool {
    worktree_observation(run).is_some_and(|seen| seen.head_before != seen.head_after)
}

/// Checks whether a run changed a file that a commit can hold.
fn has_changed(run: &RunSummary) -> bool {
    let is_real = |file: &ChangedFile| file.change != ChangeKind::Ignored;
    has_new_commit(run) || worktree_observation(run).is_some_and(|seen| seen.changed.iter().any(is_real))
}

/// Checks whether a run proves by itself that the task is solved.
fn is_evidence(run: &RunSummary) -> bool {
    run.checks_outcome() == ChecksOutcome::Passed
        && run.status() == RunStatus::Completed
        && !run.has_reported_failure()
        && worktree_observation(run).is_some_and(|seen| seen.unseen.is_empty())
}

/// Location of the changes of a task's runs.
#[derive(Default)]
struct TaskWork {
    is_nothing: bool,
    /// They are in the commit that the project has checked out.
    is_in_head: bool,
    /// The same, and a run that ended well with all checks passed observed all of them.
    is_done: bool,
    is_merge_pending: bool,
    is_uncommitted: bool,
}

impl TaskWork {
    fn from_runs(runs: &[&RunSummary], checkout: &mut TaskCheckout<'_>) -> Self {
        let Some(changed_last) = runs.iter().rposition(|run| has_changed(run)) else {
            return Self { is_nothing: true, ..Self::default() };
        };
        let has_commit = |run: &RunSummary, checkout: &mut TaskCheckout<'_>| match worktree_observation(run)
            .and_then(|seen| seen.head_after.as_deref())
        {
            Some(head) => (checkout.has_commit)(head),
            None => false,
        };
        let last = runs[runs.len() - 1];
        let is_dirty = |run: &RunSummary| worktree_observation(run).is_some_and(|seen| seen.dirty_after);
        let contents = collect_contents(&runs[..=changed_last]);
        let since = runs.first().and_then(|run| worktree_observation(run)?.head_before.as_deref());
        let has_contents = |worktree: Option<&str>, checkout: &mut TaskCheckout<'_>| {
            contents.as_ref().is_some_and(|contents| (checkout.has_contents)(worktree, since, contents))
        };
        let holds_contents = has_contents(None, checkout);
        let mut is_done = false;
        for run in runs[changed_last..].iter().filter(|run| is_evidence(run)) {
            is_done |= holds_contents || !is_dirty(run) && has_commit(run, checkout);
        }
        let is_merged = has_commit(last, checkout);
        let is_in_head = is_done || holds_contents || is_merged && has_new_commit(last);
        let worktree = last.launch.as_ref().map(|launch| launch.worktree.as_str());
        let is_committed =
            contents.is_some() && !holds_contents && (!is_dirty(last) || has_contents(worktree, checkout));
        Self {
            is_nothing: false,
            is_in_head,
            is_done,
            is_merge_pending: is_committed || !holds_contents && !is_merged && has_new_commit(last),
            is_uncommitted: is_dirty(last) && !holds_contents && !is_committed,
        }
    }
}

/// Returns the last contents of every file that these runs changed; `None` if one of them recorded no
/// contents.
fn collect_contents(runs: &[&RunSummary]) -> Option<ContentIds> {
    let mut all = ContentIds::new();
    for run in runs.iter().filter(|run| has_changed(run)) {
        let known = run.observed.as_ref().and_then(|observed| observed.contents.as_ref())?;
        all.extend(known.iter().map(|(path, content)| (path.clone(), content.clone())));
    }
    (!all.is_empty()).then_some(all)
}
