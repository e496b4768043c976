//! Tasks, by the facts of their runs.

use callsheet_core::record::task_status::{TaskReason, TaskStatus};
use callsheet_core::record::{ChecksOutcome, Id, RunStatus, RunSummary};
use callsheet_core::request::fact::{EndReason, Violation};
use schemars::JsonSchema;
use serde::Serialize;

use crate::diagnostics::ReasonOutput;
use crate::run::tasks::{TaskRuns, is_lost};

/// Where a task stands.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct TaskOutput {
    /// The id of the task, else of its first run.
    pub task: String,
    /// The status.
    pub status: TaskStatus,
    /// Why it has this status.
    pub reasons: Vec<ReasonOutput>,
    /// Its runs, the oldest first.
    pub runs: Vec<TaskRunOutput>,
}

/// A run of a task.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct TaskRunOutput {
    /// The run.
    pub run: Id,
    /// The run that it retries or continues.
    pub parent: Option<Id>,
    /// The status of its process.
    pub status: RunStatus,
    /// When it started.
    pub started_at: String,
    /// Why it ended.
    pub end: Option<EndReason>,
    /// The result of its checks.
    pub checks_outcome: ChecksOutcome,
    /// The changes that its scope did not allow.
    pub violations: Vec<Violation>,
    /// Whether its callsheet died.
    pub lost: bool,
}

impl TaskOutput {
    /// Describes a task.
    pub fn new(task: &TaskRuns, status: TaskStatus, reasons: &[TaskReason]) -> Self {
        let run = |run: &RunSummary| TaskRunOutput {
            run: run.run.id.clone(),
            parent: run.run.parent.clone(),
            status: run.status(),
            started_at: run.run.started.clone(),
            end: run.exit.as_ref().map(|exit| exit.ended),
            checks_outcome: run.checks_outcome(),
            violations: run.violations(),
            lost: is_lost(run),
        };
        let reason = |reason: &TaskReason| ReasonOutput::new(reason.name(), reason.words());
        Self {
            task: task.name.clone(),
            status,
            reasons: reasons.iter().map(reason).collect(),
            runs: task.runs.iter().map(run).collect(),
        }
    }
}
