//! The result of a run.

use callsheet_core::delivery::receipt::DeliveryReceipt;
use callsheet_core::record::{
    ChangedFileData, ChecksOutcome, CostEstimate, Digest, Exit, Id, RunOutcome, RunStatus, RunSummary,
};
use callsheet_core::request::fact::{CheckResult, CheckRun, EndReason, MovedRef, UnseenPath, Violation};
use callsheet_core::request::scope::Scope;
use schemars::JsonSchema;
use serde::Serialize;

use super::reply::RecordedReplyOutput;
use crate::diagnostics::ReasonOutput;
use crate::run::denials::DeniedCallOutput;
use crate::run::end::RecoverReport;
use crate::run::next_steps::{NextStep, next_steps};
use crate::run::result::{ChangeAttribution, attribution};

/// The result of a run.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RunResultOutput {
    /// The run.
    pub run: Id,
    /// The name by which a person calls it in its project, such as `r42`; `null` if it is not known.
    pub name: Option<String>,
    /// The run that it retries or continues.
    pub parent: Option<Id>,
    /// The task.
    pub task: Option<String>,
    /// What a person has to know first.
    pub outcome: RunOutcome,
    /// The status of its process.
    pub status: RunStatus,
    /// Why it ended.
    pub end: Option<EndReason>,
    /// When the quota of a parked run is available again.
    pub parked_until_at: Option<String>,
    /// More about the end.
    pub reason: Option<ReasonOutput>,
    /// The exit code of the agent.
    pub exit_code: Option<i32>,
    /// The signal that ended the agent.
    pub signal: Option<i32>,
    /// How long it took.
    pub duration_ms: Option<u64>,
    /// The agent's report on itself.
    pub usage: Option<UsageOutput>,
    /// The result of all checks together.
    pub checks_outcome: ChecksOutcome,
    /// The checks.
    pub checks: Vec<CheckOutput>,
    /// The changed files.
    pub changed: Vec<ChangedFileData>,
    /// The changes that the scope did not allow.
    pub violations: Vec<Violation>,
    /// Whose changes they can be.
    pub attribution: ChangeAttribution,
    /// The runs that worked in the same checkout at the same time.
    pub shared_with: Vec<String>,
    /// Changed paths that this run may not write, but one of those runs may.
    pub uncertain: Vec<String>,
    /// Places that could not be observed.
    pub unseen: Vec<UnseenOutput>,
    /// References that were moved, with their new commits.
    pub commits: Vec<MovedRefOutput>,
    /// Changes in the main checkout while the run had a worktree of its own.
    pub elsewhere: Vec<ChangedFileData>,
    /// The commit before the run.
    pub head_before: Option<String>,
    /// The commit after the run.
    pub head_after: Option<String>,
    /// The claims of the agent.
    pub reply: Option<RecordedReplyOutput>,
    /// How far the delivery of the prompt is proven, in order.
    pub receipts: Vec<DeliveryReceipt>,
    /// The working directory of the agent.
    pub worktree: Option<String>,
    /// How the processes of the run are found: `cgroup` or `session`.
    pub tracking: Option<String>,
    /// The globs that may be written.
    pub scope: Option<Scope>,
    /// Whether the scope was not checked.
    pub no_scope: bool,
    /// The SHA-256 of the prompt.
    pub prompt_sha256: Digest,
    /// The commands that a person can type next.
    pub next: Vec<NextStep>,
}

/// A check that was run.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CheckOutput {
    /// The name.
    pub name: String,
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// The result.
    pub result: CheckResult,
    /// Why it ended.
    pub end: Option<EndReason>,
    /// The exit code.
    pub exit_code: Option<i32>,
    /// How long it took.
    pub duration_ms: u64,
    /// The output; only its end if it is long.
    pub output: String,
}

impl From<&CheckRun> for CheckOutput {
    fn from(check: &CheckRun) -> Self {
        let CheckRun { name, argv, result, ended, exit_code, duration_ms, output } = check.clone();
        Self { name, argv, result, end: ended, exit_code, duration_ms, output }
    }
}

/// An agent's report on itself.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct UsageOutput {
    /// The id of its session.
    pub session: Option<String>,
    /// The tokens of the input.
    pub input_tokens: Option<u64>,
    /// The tokens of the output.
    pub output_tokens: Option<u64>,
    /// The tokens of the input that were read from a cache.
    pub cached_tokens: Option<u64>,
    /// All tokens of the input, cached ones included.
    pub all_input_tokens: Option<u64>,
    /// The tokens beyond input and output, such as thoughts; they are paid for as output.
    pub thought_tokens: Option<u64>,
    /// The model that it named.
    pub model: Option<String>,
    /// The cost in millionths of a dollar: as reported, else as estimated.
    pub cost_microusd: Option<u64>,
    /// Whether the cost was estimated from tokens and a price.
    pub cost_estimated: bool,
    /// The estimate.
    pub estimate: Option<CostEstimate>,
    /// How often the model answered.
    pub turn_count: Option<u64>,
    /// Whether it reported that it is done.
    pub done: bool,
    /// The tool calls that were not allowed.
    pub denied: Vec<DeniedCallOutput>,
}

impl From<&Exit> for UsageOutput {
    fn from(exit: &Exit) -> Self {
        let (report, cost) = (&exit.report, exit.cost());
        Self {
            session: report.session.clone(),
            input_tokens: report.input_tokens,
            output_tokens: report.output_tokens,
            all_input_tokens: report.all_input_tokens,
            thought_tokens: report.thought_tokens,
            model: report.model.clone(),
            cost_microusd: cost.map(|cost| cost.microusd),
            cost_estimated: cost.is_some_and(|cost| cost.is_estimate),
            estimate: exit.estimate.clone(),
            turn_count: report.turns,
            done: report.ended,
            cached_tokens: report.cached_tokens,
            denied: report.denied.iter().map(DeniedCallOutput::from).collect(),
        }
    }
}

/// A place that could not be observed.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct UnseenOutput {
    /// The path, relative to the worktree; `.` is all of it.
    pub path: String,
    /// The reason.
    pub reason: ReasonOutput,
    /// Whether it could not be observed before the run either.
    pub before: bool,
}

impl From<&UnseenPath> for UnseenOutput {
    fn from(unseen: &UnseenPath) -> Self {
        let UnseenPath { path, why, before } = unseen.clone();
        Self { path, reason: ReasonOutput::new("unseen", why), before }
    }
}

/// A reference that a run moved.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct MovedRefOutput {
    /// The full name, such as `refs/heads/main`.
    #[serde(rename = "ref")]
    pub name: String,
    /// The commit before; `null` if the reference is new.
    pub from: Option<String>,
    /// The commit after; `null` if the reference is gone.
    pub to: Option<String>,
    /// The number of new commits.
    pub new: u64,
    /// The paths that the new commits touch.
    pub paths: Vec<String>,
    /// Whether another worktree has this branch checked out.
    pub elsewhere: bool,
}

impl From<&MovedRef> for MovedRefOutput {
    fn from(moved: &MovedRef) -> Self {
        let MovedRef { name, from, to, new, paths, elsewhere } = moved.clone();
        Self { name, from, to, new, paths, elsewhere }
    }
}

impl From<&RunSummary> for RunResultOutput {
    fn from(summary: &RunSummary) -> Self {
        let (exit, launch) = (summary.exit.as_ref(), summary.launch.as_ref());
        let observed = summary.observed.clone().unwrap_or_default();
        let seen = observed.worktree.unwrap_or_default();
        Self {
            run: summary.run.id.clone(),
            name: summary.short_name.clone(),
            parent: summary.run.parent.clone(),
            task: summary.run.task.clone(),
            outcome: summary.outcome(),
            status: summary.status(),
            end: exit.map(|exit| exit.ended),
            parked_until_at: exit.and_then(|exit| exit.parked_until.clone()),
            reason: exit.and_then(|exit| Some(ReasonOutput::new(exit.ended.name(), exit.why.clone()?))),
            exit_code: exit.and_then(|exit| exit.code),
            signal: exit.and_then(|exit| exit.signal),
            duration_ms: exit.and_then(|exit| exit.duration_ms),
            usage: exit.map(|exit| UsageOutput::from(exit)),
            checks_outcome: summary.checks_outcome(),
            checks: observed.checks.iter().map(CheckOutput::from).collect(),
            changed: seen.changed.iter().map(ChangedFileData::from).collect(),
            violations: summary.violations(),
            attribution: attribution(summary),
            shared_with: observed.shared_with,
            uncertain: observed.uncertain,
            unseen: seen.unseen.iter().map(UnseenOutput::from).collect(),
            commits: seen.commits.iter().map(MovedRefOutput::from).collect(),
            elsewhere: seen.elsewhere.iter().map(ChangedFileData::from).collect(),
            head_before: seen.head_before,
            head_after: seen.head_after,
            reply: summary.reply().map(RecordedReplyOutput::from),
            receipts: summary.receipts.clone(),
            worktree: launch.map(|launch| launch.worktree.clone()),
            tracking: launch.and_then(|launch| launch.tracking.clone()),
            scope: launch.map(|launch| launch.scope.clone()),
            no_scope: launch.is_some_and(|launch| launch.options.no_scope),
            prompt_sha256: summary.prompt_sha256,
            next: next_steps(summary),
        }
    }
}

/// The runs whose records were completed.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RecoveryOutput {
    /// The runs whose records are complete now.
    pub items: Vec<RunResultOutput>,
    /// The runs that are active.
    pub running: Vec<Id>,
}

impl From<&RecoverReport> for RecoveryOutput {
    fn from(report: &RecoverReport) -> Self {
        Self {
            items: report.recovered.iter().map(RunResultOutput::from).collect(),
            running: report.running.clone(),
        }
    }
}
