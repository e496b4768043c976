//! Why a task is open, in one sentence, and the command that a person can type next.

use callsheet_core::record::task_status::{TaskReason, TaskStatus};
use callsheet_core::record::{RunOutcome, RunSummary};
use callsheet_core::request::fact::{CheckResult, ViolationDecision};

use super::next_steps::{NextStep, approve_command};
use super::tasks::{TaskRuns, TaskStanding, is_lost};
use crate::local_time::LocalClock;
use crate::paths::{path_words, shell_word};

/// The most important reason why a task stands where it does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskSummary {
    /// The reason, with the thing that it is about.
    pub message: String,
    /// The command to type next.
    pub next: Option<NextStep>,
}

impl TaskStanding {
    /// Returns the most important reason, and what to type next.
    pub fn summarize(&self, clock: &LocalClock) -> TaskSummary {
        let task = &self.task;
        let Some(last) = task.runs.last() else {
            return TaskSummary { message: "it has no run".into(), next: None };
        };
        let (message, command, purpose) = self.describe(task, last, clock);
        let next = command
            .map(|command| NextStep { command: format!("callsheet {command}"), purpose: purpose.to_owned() });
        TaskSummary { message, next }
    }

    fn describe(
        &self,
        task: &TaskRuns,
        last: &RunSummary,
        clock: &LocalClock,
    ) -> (String, Option<String>, &'static str) {
        let name = last.name();
        if let Some(closed) = task.closed() {
            let because = closed.detail.get("because").and_then(|why| why.as_str());
            let because = because.map(|why| format!(": {why}")).unwrap_or_default();
            let reopen = format!("task reopen {}", shell_word(&task.name));
            return (format!("closed{because}"), Some(reopen), "reopen the task");
        }
        match self.status {
            TaskStatus::Done => ("done".into(), Some(format!("show {name}")), "see its last run"),
            TaskStatus::Open => {
                let message = format!("{name} was composed and never started");
                (message, Some(format!("show {name} --prompt")), "see its prompt")
            }
            TaskStatus::Running => describe_running(task, clock),
            TaskStatus::Cancelled => (
                format!("{name} was stopped"),
                Some(format!("retry {name}")),
                "run it again with these facts",
            ),
            TaskStatus::NeedsReview | TaskStatus::Failed | TaskStatus::Ready => {
                let first = REASONS.iter().find(|reason| self.reasons.contains(reason));
                match first {
                    Some(reason) => describe_reason(*reason, task, last, clock),
                    None => {
                        let message = format!("{name} {}", last.outcome().words());
                        (message, Some(format!("show {name}")), "see its result")
                    }
                }
            }
        }
    }
}

/// Reasons, the most important first.
const REASONS: [TaskReason; 10] = [
    TaskReason::ScopeViolationPending,
    TaskReason::ScopeViolationRejected,
    TaskReason::RunFailed,
    TaskReason::ChecksFailed,
    TaskReason::ChecksPending,
    TaskReason::Unseen,
    TaskReason::Uncommitted,
    TaskReason::MergePending,
    TaskReason::Unchecked,
    TaskReason::NothingChanged,
];

fn describe_running(task: &TaskRuns, clock: &LocalClock) -> (String, Option<String>, &'static str) {
    let Some(run) = task.runs.iter().rev().find(|run| !run.is_complete()) else {
        return (TaskStatus::Running.name().into(), None, "");
    };
    let name = run.name();
    if is_lost(run) {
        let message = format!("callsheet was killed during {name}");
        return (message, Some(format!("recover {name}")), "complete its records");
    }
    let time = clock.ago(&run.run.started);
    let message = match run.exit {
        Some(_) => format!("{name} has ended, and its checks have not"),
        None => format!("{name} is running, started {time}"),
    };
    (message, Some(format!("show {name} --stream stdout --tail 20")), "see the agent's output")
}

fn describe_reason(
    reason: TaskReason,
    task: &TaskRuns,
    last: &RunSummary,
    clock: &LocalClock,
) -> (String, Option<String>, &'static str) {
    let name = last.name();
    let again = || Some(format!("retry {name}"));
    let find_violation = |decision: ViolationDecision| {
        task.runs.iter().rev().find_map(|run| {
            let found = run.violations().into_iter().find(|violation| violation.decision == decision)?;
            Some((run.name().to_owned(), found.path))
        })
    };
    let seen = last.observed.as_ref().and_then(|observed| observed.worktree.as_ref());
    let check_named = |result: CheckResult| {
        let checks = last.observed.iter().flat_map(|observed| &observed.checks);
        checks.into_iter().find(|check| check.result == result).map(|check| check.name.clone())
    };
    match reason {
        TaskReason::ScopeViolationPending => match find_violation(ViolationDecision::Pending) {
            Some((run, path)) => {
                let command = approve_command(&run, &path);
                (format!("`{path}` is outside the scope and undecided"), Some(command), "accept the change")
            }
            None => (reason.words().into(), Some(format!("show {name}")), "see its result"),
        },
        TaskReason::ScopeViolationRejected => match find_violation(ViolationDecision::Rejected) {
            Some((run, path)) => {
                let command = format!("revert {run} {}", path_words(&path));
                (format!("`{path}` was rejected"), Some(command), "take the change back")
            }
            None => (reason.words().into(), Some(format!("show {name}")), "see its result"),
        },
        TaskReason::RunFailed => {
            let code = last.exit.as_ref().and_then(|exit| exit.code).filter(|code| *code != 0);
            let code = code.map(|code| format!(" with exit code {code}")).unwrap_or_default();
            let message = match last.outcome() {
                RunOutcome::AgentFailed => format!("the agent of {name} failed{code}"),
                outcome => format!("{name} {}{code}", outcome.words()),
            };
            (message, again(), "run it again with these facts")
        }
        TaskReason::Parked => {
            let until = last.exit.as_ref().and_then(|exit| exit.parked_until.as_deref());
            let until = until.map(|until| format!(" until {}", clock.clock_time(until))).unwrap_or_default();
            (format!("the quota of the agent is used up{until}"), again(), "run it again then")
        }
        TaskReason::ChecksFailed => {
            let check =
                check_named(CheckResult::Failed).map(|check| format!(" `{check}`")).unwrap_or_default();
            (format!("check{check} failed in {name}"), again(), "run it again with these facts")
        }
        TaskReason::ChecksPending => {
            let check = check_named(CheckResult::Pending).map(|check| format!(" `{check}`"));
            let check = check.unwrap_or_default();
            (format!("check{check} has no result in {name}"), again(), "run it again with these facts")
        }
        TaskReason::Unseen => {
            let path = seen.and_then(|seen| seen.newly_unseen().next());
            let path = path.map_or_else(|| "a file".into(), |unseen| format!("`{}`", unseen.path));
            (format!("{path} could not be observed"), Some(format!("show {name}")), "see its result")
        }
        TaskReason::Uncommitted => {
            let count = seen.map_or(0, |seen| seen.changed.len());
            let files = match count {
                0 => "changes of an earlier run are".to_owned(),
                1 => "1 changed file is".to_owned(),
                count => format!("{count} changed files are"),
            };
            (format!("{files} not committed"), Some(format!("show {name} --diff")), "see the changes")
        }
        TaskReason::MergePending => {
            let worktree = last.launch.as_ref().filter(|launch| launch.own_worktree);
            let place = worktree.map(|launch| format!(" of {}", launch.worktree)).unwrap_or_default();
            (
                format!("its commit{place} is not merged"),
                Some(format!("show {name} --diff")),
                "see the changes",
            )
        }
        TaskReason::Unchecked => {
            let close = format!("task close {}", shell_word(&task.name));
            ("its work is committed, and no check was configured".into(), Some(close), "close the task")
        }
        TaskReason::NothingChanged => {
            let close = format!("task close {}", shell_word(&task.name));
            ("no run has changed anything".into(), Some(close), "close the task")
        }
    }
}
