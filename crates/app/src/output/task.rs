//! Tasks, by the facts of their runs.

use callsheet_core::record::task_status::{TaskReason, TaskStatus};
use callsheet_core::record::{ChecksOutcome, DecidedBy, Id, RunStatus, RunSummary, TaskDecision};
use callsheet_core::request::fact::{EndReason, Violation};
use schemars::JsonSchema;
use serde::Serialize;

use crate::diagnostics::ReasonOutput;
use crate::local_time::LocalClock;
use crate::run::close::DecidedTask;
use crate::run::next_steps::NextStep;
use crate::run::task_reason::TaskSummary;
use crate::run::tasks::{TaskStanding, is_lost};

/// Where a task stands.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TaskOutput {
    /// The id of the task, else the name of its first run.
    pub task: String,
    /// The first line of its text.
    pub title: Option<String>,
    /// The status.
    pub status: TaskStatus,
    /// Whether a person closed it.
    pub closed: bool,
    /// The most important reason in words.
    pub summary: String,
    /// Why it has this status.
    pub reasons: Vec<ReasonOutput>,
    /// The command that a person can type next.
    pub next: Option<NextStep>,
    /// Its runs, the oldest first.
    pub runs: Vec<TaskRunOutput>,
}

/// A run of a task.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TaskRunOutput {
    /// The run.
    pub run: Id,
    /// The name by which a person calls it in its project, such as `r42`.
    pub name: Option<String>,
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
    pub fn new(standing: &TaskStanding, clock: &LocalClock) -> Self {
        let run = |run: &RunSummary| TaskRunOutput {
            run: run.run.id.clone(),
            name: run.short_name.clone(),
            parent: run.run.parent.clone(),
            status: run.status(),
            started_at: run.run.started.clone(),
            end: run.exit.as_ref().map(|exit| exit.ended),
            checks_outcome: run.checks_outcome(),
            violations: run.violations(),
            lost: is_lost(run),
        };
        let reason = |reason: &TaskReason| ReasonOutput::new(reason.name(), reason.words());
        let TaskStanding { task, status, reasons } = standing;
        let TaskSummary { message, next } = standing.summarize(clock);
        Self {
            task: task.name.clone(),
            title: Some(task.title.clone()).filter(|title| !title.is_empty()),
            status: *status,
            closed: task.closed().is_some(),
            summary: message,
            reasons: reasons.iter().map(reason).collect(),
            next,
            runs: task.runs.iter().map(run).collect(),
        }
    }
}

/// A decision about a task.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TaskDecisionOutput {
    /// The id of the task, else the name of its first run.
    pub task: String,
    /// The decision.
    pub decision: TaskDecision,
    /// The newest run of the task, which holds the decision.
    pub run: Id,
    /// The name of this run.
    pub name: String,
    /// Who decided.
    pub by: DecidedBy,
    /// The number of the record.
    pub seq: u64,
}

impl From<&DecidedTask> for TaskDecisionOutput {
    fn from(done: &DecidedTask) -> Self {
        let DecidedTask { task, decision, run, name, by, seq } = done.clone();
        Self { task, decision, run, name, by, seq }
    }
}
