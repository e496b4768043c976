//! Runs: planned, in a list, with their results, records and output.

use std::collections::BTreeMap;

use callsheet_core::delivery::DeliveryAction;
use callsheet_core::delivery::receipt::{AgentReport, DeliveryReceipt};
use callsheet_core::library::agent::{DeliveryMethod, PermissionLevel};
use callsheet_core::library::format::{ModelApi, PromptFormat};
use callsheet_core::record::{
    ChangedFileData, ChecksOutcome, Decided, DecidedBy, Digest, Id, LaunchRecord, LogStream, RunStatus,
    RunSummary,
};
use callsheet_core::request::fact::{
    CheckResult, CheckRun, CheckSpec, EndReason, MovedRef, UnseenPath, Violation,
};
use callsheet_core::request::scope::Scope;
use callsheet_core::{Request, SourceId};
use callsheet_store::{Ledger, LedgerError, LogExcerpt, RunRow, StoredRecord};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::prompt::ProfileOutput;
use super::reply::{RecordedReplyOutput, refusals};
use crate::diagnostics::{DiagnosticOutput, ReasonOutput, diagnostic_outputs};
use crate::error::Result;
use crate::flow::run_view::RunView;
use crate::run::PreparedRun;
use crate::run::decide::{ChangeDecision, DecidedChange};
use crate::run::end::RecoverReport;
use crate::run::result::{ChangeAttribution, attribution, micro_dollars};

/// A run in a list.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RunItemOutput {
    /// The run.
    pub run: Id,
    /// The number of its first record.
    pub seq: u64,
    /// The run that it retries or continues.
    pub parent: Option<Id>,
    /// The task.
    pub task: Option<String>,
    /// The agent.
    pub agent: Option<String>,
    /// The phase.
    pub phase: Option<String>,
    /// The role.
    pub role: Option<String>,
    /// The recipe.
    pub recipe: String,
    /// The project.
    pub project: Option<String>,
    /// The profile of the role.
    pub profile: Option<ProfileOutput>,
    /// The status of its process.
    pub status: Option<RunStatus>,
    /// When it started.
    pub started_at: String,
    /// When its end was recorded.
    pub ended_at: Option<String>,
    /// Why it ended.
    pub end: Option<EndReason>,
    /// The verdict of the reply.
    pub verdict: Option<String>,
    /// Whether it came from an export of another ledger.
    pub imported: bool,
}

impl RunItemOutput {
    /// Describes a run of the ledger. A fact that an older version did not record, or that retention removed, is `null`.
    pub fn read(ledger: &mut Ledger, row: &RunRow) -> Result<Self> {
        let profile = ledger.prompt_record(&row.run.id).ok().and_then(|composed| composed.profile);
        let status = ledger.run_summary(&row.run.id).ok().map(|summary| summary.status());
        let ended_at = ledger.ended_at(&row.run.id)?;
        Ok(Self::new(row, profile.as_ref().map(ProfileOutput::from), status, ended_at))
    }

    fn new(
        row: &RunRow,
        profile: Option<ProfileOutput>,
        status: Option<RunStatus>,
        ended_at: Option<String>,
    ) -> Self {
        let run = row.run.clone();
        let end = row.ended.as_deref().and_then(|word| EndReason::ALL.iter().find(|end| end.name() == word));
        Self {
            run: run.id,
            seq: row.seq,
            parent: run.parent,
            task: run.task,
            agent: run.agent,
            phase: run.phase,
            role: run.role,
            recipe: run.recipe,
            project: run.project,
            profile,
            status,
            started_at: run.started,
            ended_at,
            end: end.copied(),
            verdict: row.verdict.clone(),
            imported: row.imported,
        }
    }
}

/// A recorded run with everything that is known about it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RunOutput {
    /// The run as in a list.
    #[serde(flatten)]
    pub item: RunItemOutput,
    /// The machine that composed its prompt.
    pub host: Option<String>,
    /// The user who composed its prompt.
    pub user: Option<String>,
    /// The version of the engine that composed its prompt.
    pub engine: u32,
    /// The request.
    pub request: Request,
    /// The SHA-256 of every source that was read; `null` if the source did not exist.
    pub sources: BTreeMap<SourceId, Option<Digest>>,
    /// The prompt.
    pub prompt: RunPromptFacts,
    /// Warnings about the prompt.
    pub diagnostics: Vec<DiagnosticOutput>,
    /// The number of its records.
    pub records: usize,
    /// How the agent was started; `null` if it was only composed.
    pub launch: Option<LaunchOutput>,
    /// The result; `null` if it was only composed.
    pub result: Option<RunResultOutput>,
    /// Why its last submission was refused.
    pub refused: Vec<ReasonOutput>,
    /// The decisions of persons about it.
    pub decisions: Vec<RunDecisionOutput>,
}

/// The facts about a prompt besides its text.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RunPromptFacts {
    /// The SHA-256 of the text.
    pub sha256: Digest,
    /// The length of the text in bytes.
    pub bytes: usize,
    /// The format of the text.
    pub format: PromptFormat,
    /// The model API whose request body it is.
    pub api: Option<ModelApi>,
}

/// A decision about a run.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RunDecisionOutput {
    /// The subject, such as a path.
    pub what: String,
    /// The decision, such as `approve`.
    pub decision: String,
    /// Who decided.
    pub by: DecidedBy,
    /// More about it.
    pub detail: Value,
}

impl From<&Decided> for RunDecisionOutput {
    fn from(decided: &Decided) -> Self {
        let Decided { by, what, decision, detail } = decided.clone();
        Self { what, decision, by, detail }
    }
}

impl RunOutput {
    /// Describes a run with its request.
    pub fn new(view: &RunView, request: Request, ended_at: Option<String>) -> Self {
        let RunView { row, composed, summary, records, refused } = view;
        let profile = composed.profile.as_ref().map(ProfileOutput::from);
        let made_by = composed.made_by.clone();
        let result = summary.launch.is_some().then(|| RunResultOutput::from(summary));
        Self {
            item: RunItemOutput::new(row, profile, Some(summary.status()), ended_at),
            host: made_by.as_ref().map(|made_by| made_by.host.clone()),
            user: made_by.map(|made_by| made_by.user),
            engine: composed.engine,
            request,
            sources: composed.snapshot.texts.clone(),
            prompt: RunPromptFacts {
                sha256: composed.output.sha256,
                bytes: composed.output.bytes,
                format: composed.output.format,
                api: composed.api,
            },
            diagnostics: composed.warnings.iter().map(DiagnosticOutput::from).collect(),
            records: *records,
            launch: summary.launch.as_ref().map(LaunchOutput::from),
            result,
            refused: refusals(refused),
            decisions: summary.decisions().iter().map(RunDecisionOutput::from).collect(),
        }
    }
}

/// How an agent is started.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LaunchOutput {
    /// The delivery method.
    pub by: Option<DeliveryMethod>,
    /// The program with its arguments that replaces the agent's own program.
    pub program: Vec<String>,
    /// The model.
    pub model: Option<String>,
    /// The permissions of the agent.
    pub permit: PermissionLevel,
    /// The checks after the agent.
    pub checks: Vec<CheckSpecOutput>,
    /// The time limit of the agent and its checks.
    pub timeout_ms: Option<u64>,
    /// The cost limit in millionths of a dollar.
    pub max_cost_microusd: Option<u64>,
    /// Whether one agent carries out the whole plan.
    pub single_coder: bool,
    /// Whether other runs may work in the same checkout.
    pub share: bool,
    /// Whether it may run if not all files can be observed.
    pub no_scope: bool,
    /// The machine.
    pub host: String,
    /// The working directory of the agent.
    pub worktree: String,
    /// Whether the worktree belongs to the task alone.
    pub own_worktree: bool,
    /// The id of the agent's session.
    pub session: Option<String>,
    /// The globs that may be written.
    pub scope: Scope,
    /// The names of the variables that the configuration adds to the environment.
    pub env: Vec<String>,
    /// The tasks whose status the reply must report.
    pub tasks: Vec<String>,
    /// The commit that is checked out.
    pub head: Option<String>,
    /// Whether there are uncommitted changes.
    pub dirty: bool,
    /// How the processes of the run are found: `cgroup` or `session`.
    pub tracking: Option<String>,
    /// The data that a flow stores with the run: `flow`, `phase`, `lane`.
    pub flow: BTreeMap<String, String>,
}

/// A check that is to be run.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CheckSpecOutput {
    /// The name.
    pub name: String,
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// The time limit.
    pub timeout_ms: Option<u64>,
}

impl From<&CheckSpec> for CheckSpecOutput {
    fn from(check: &CheckSpec) -> Self {
        let CheckSpec { name, argv, timeout_ms } = check.clone();
        Self { name, argv, timeout_ms }
    }
}

impl From<&LaunchRecord> for LaunchOutput {
    fn from(launch: &LaunchRecord) -> Self {
        let launch = launch.clone();
        let options = launch.options;
        Self {
            by: options.by,
            program: options.program,
            model: options.model,
            permit: options.permit,
            checks: options.checks.iter().map(CheckSpecOutput::from).collect(),
            timeout_ms: options.timeout_ms,
            max_cost_microusd: options.max_cost_usd.map(micro_dollars),
            single_coder: options.single_coder,
            share: options.share,
            no_scope: options.no_scope,
            host: launch.host,
            worktree: launch.worktree,
            own_worktree: launch.own_worktree,
            session: launch.session,
            scope: launch.scope,
            env: launch.env,
            tasks: launch.tasks,
            head: launch.head,
            dirty: launch.dirty,
            tracking: launch.tracking,
            flow: launch.flow,
        }
    }
}

/// The result of a run.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RunResultOutput {
    /// The run.
    pub run: Id,
    /// The run that it retries or continues.
    pub parent: Option<Id>,
    /// The task.
    pub task: Option<String>,
    /// The status of its process.
    pub status: RunStatus,
    /// Why it ended.
    pub end: Option<EndReason>,
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
    /// The cost in millionths of a dollar.
    pub cost_microusd: Option<u64>,
    /// Whether it reported that it is done.
    pub done: bool,
}

impl From<&AgentReport> for UsageOutput {
    fn from(report: &AgentReport) -> Self {
        Self {
            session: report.session.clone(),
            input_tokens: report.input_tokens,
            output_tokens: report.output_tokens,
            cost_microusd: report.cost_usd.map(micro_dollars),
            done: report.ended,
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
            parent: summary.run.parent.clone(),
            task: summary.run.task.clone(),
            status: summary.status(),
            end: exit.map(|exit| exit.ended),
            reason: exit.and_then(|exit| Some(ReasonOutput::new(exit.ended.name(), exit.why.clone()?))),
            exit_code: exit.and_then(|exit| exit.code),
            signal: exit.and_then(|exit| exit.signal),
            duration_ms: exit.and_then(|exit| exit.duration_ms),
            usage: exit.map(|exit| UsageOutput::from(&exit.report)),
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
        }
    }
}

/// A run before its start.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RunPlanOutput {
    /// The steps that deliver the prompt.
    pub actions: Vec<DeliveryAction>,
    /// The prompt.
    pub text: String,
    /// How the agent would be started.
    pub launch: LaunchOutput,
    /// Warnings and notes.
    pub diagnostics: Vec<DiagnosticOutput>,
}

impl From<&PreparedRun> for RunPlanOutput {
    fn from(ready: &PreparedRun) -> Self {
        Self {
            actions: ready.actions().to_vec(),
            text: ready.prompt().to_owned(),
            launch: (&ready.launch).into(),
            diagnostics: diagnostic_outputs(ready.diagnostics()),
        }
    }
}

/// A record of the ledger.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RecordOutput {
    /// The number of the record.
    pub seq: u64,
    /// When it was appended.
    pub at: String,
    /// The kind of the record.
    pub kind: String,
    /// The run.
    pub run: Option<String>,
    /// The flow.
    pub flow: Option<String>,
    /// The payload; `null` if retention removed it.
    pub data: Value,
    /// The SHA-256 of the payload.
    pub payload_sha256: Digest,
    /// The link of the record in the chain.
    pub chain: Digest,
}

impl RecordOutput {
    /// Describes a record. A payload that is no JSON is damage.
    pub fn new(record: &StoredRecord) -> Result<Self> {
        let wrong = |error| LedgerError::Damaged(format!("record {}: {error}", record.seq));
        let data = record.payload.as_deref().map(serde_json::from_str).transpose().map_err(wrong)?;
        Ok(Self {
            seq: record.seq,
            at: record.at.clone(),
            kind: record.kind.clone(),
            run: record.run.clone(),
            flow: record.flow.clone(),
            data: data.unwrap_or_default(),
            payload_sha256: record.payload_sha256,
            chain: record.chain,
        })
    }
}

/// Lines that an agent printed.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RunLogOutput {
    /// The run.
    pub run: Id,
    /// The stream.
    pub stream: LogStream,
    /// The lines.
    pub items: Vec<LogLineOutput>,
    /// The number of lines of the whole stream.
    pub total_lines: u64,
    /// Whether lines before the first one were asked for and left out.
    pub has_more: bool,
    /// Whether the agent printed more than is kept.
    pub cut: bool,
    /// The number of bytes that were left out as a whole.
    pub left_out_bytes: u64,
    /// The number of lines whose end is missing.
    pub cut_lines: u64,
}

/// A line that an agent printed.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LogLineOutput {
    /// The number of the line, from 1.
    pub line: u64,
    /// When it was recorded.
    pub at: String,
    /// The line.
    pub text: String,
}

impl RunLogOutput {
    /// Describes the lines of a stream from the line `since` on.
    pub fn new(run: &Id, stream: LogStream, log: &LogExcerpt, since: u64) -> Self {
        let line = |line: &callsheet_store::LogLine| LogLineOutput {
            line: line.number,
            at: line.at.clone(),
            text: line.data.clone(),
        };
        Self {
            run: run.clone(),
            stream,
            items: log.lines.iter().map(line).collect(),
            total_lines: log.total,
            has_more: log.lines.first().map_or(since, |line| line.number) > since,
            cut: log.cut,
            left_out_bytes: log.left_out,
            cut_lines: log.cut_lines,
        }
    }
}

/// A decision about a change.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct DecisionOutput {
    /// The run.
    pub run: Id,
    /// The path of the change.
    pub path: String,
    /// The decision.
    pub decision: ChangeDecision,
    /// Who decided.
    pub by: DecidedBy,
    /// The number of the record.
    pub seq: u64,
    /// The flow of the run.
    pub flow: Option<String>,
}

impl DecisionOutput {
    /// Describes a decision about the change of `path`.
    pub fn new(done: &DecidedChange, path: &str, decision: ChangeDecision) -> Self {
        let DecidedChange { run, by, seq, flow } = done.clone();
        Self { run, path: path.to_owned(), decision, by, seq, flow }
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
