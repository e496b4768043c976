//! Runs: in a list, one by one, with the decisions about them.

use std::collections::BTreeMap;

use callsheet_core::library::format::{ModelApi, PromptFormat};
use callsheet_core::record::{ChecksOutcome, Decided, DecidedBy, Digest, Id, RunOutcome, RunStatus};
use callsheet_core::request::fact::EndReason;
use callsheet_core::{Request, SourceId};
use callsheet_store::{Ledger, RunRow};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::prompt::ProfileOutput;
use super::reply::refusals;
use super::run_launch::LaunchOutput;
use super::run_result::RunResultOutput;
use crate::diagnostics::{DiagnosticOutput, ReasonOutput};
use crate::error::Result;
use crate::flow::run_view::RunView;
use crate::run::decide::{ChangeDecision, DecidedChange};

/// A run in a list.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct RunItemOutput {
    /// The run.
    pub run: Id,
    /// The name by which a person calls it in its project, such as `r42`; `null` if the ledger has lost it.
    pub name: Option<String>,
    /// The number of its first record.
    pub seq: u64,
    /// The run that it retries or continues.
    pub parent: Option<Id>,
    /// 1 for a first run, 2 for its retry or continuation, and so on.
    pub attempt: Option<u64>,
    /// The task.
    pub task: Option<String>,
    /// The first line of the task's text, or of the addition to a continued run.
    pub title: Option<String>,
    /// The flow that started it.
    pub flow: Option<Id>,
    /// The agent.
    pub agent: Option<String>,
    /// The version of the agent's program; `null` if it is not known, or if the run has not ended.
    pub agent_version: Option<String>,
    /// The file name of the program that was started in place of the agent's own.
    pub program: Option<String>,
    /// The model that was asked for.
    pub model: Option<String>,
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
    /// What a person has to know first.
    pub outcome: Option<RunOutcome>,
    /// The result of its checks.
    pub checks_outcome: Option<ChecksOutcome>,
    /// The number of checks that passed.
    pub checks_passed_count: Option<u64>,
    /// The number of checks.
    pub checks_count: Option<u64>,
    /// The number of changed files; `null` if it is not known.
    pub changed_count: Option<u64>,
    /// How long it took.
    pub duration_ms: Option<u64>,
    /// The tokens of the input, by the agent's report.
    pub input_tokens: Option<u64>,
    /// The tokens of the output, by the agent's report.
    pub output_tokens: Option<u64>,
    /// The tokens of the input that were read from a cache, by the agent's report.
    pub cached_tokens: Option<u64>,
    /// The cost in millionths of a dollar: by the agent's report, else estimated.
    pub cost_microusd: Option<u64>,
    /// Whether the cost was estimated from tokens and a price.
    pub cost_estimated: bool,
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
        let profile = match row.facts.as_ref().map(|facts| facts.profile.is_some()) {
            Some(false) => None,
            _ => ledger.prompt_record(&row.run.id).ok().and_then(|composed| composed.profile),
        };
        let agent_version = match row.ended {
            Some(_) => ledger.exit_record(&row.run.id)?.and_then(|exit| exit.agent_version),
            None => None,
        };
        Ok(Self::new(row, profile.as_ref().map(ProfileOutput::from), agent_version))
    }

    fn new(row: &RunRow, profile: Option<ProfileOutput>, agent_version: Option<String>) -> Self {
        let run = row.run.clone();
        let facts = row.facts.as_ref();
        let end = row.ended.as_deref().and_then(|word| EndReason::ALL.iter().find(|end| end.name() == word));
        Self {
            run: run.id,
            name: facts.map(|_| row.name()),
            seq: row.seq,
            parent: run.parent,
            attempt: facts.map(|facts| facts.attempt),
            task: run.task,
            title: facts.map(|facts| facts.title().to_owned()).filter(|title| !title.is_empty()),
            flow: facts.and_then(|facts| facts.flow.clone()),
            agent: run.agent,
            agent_version,
            program: facts.and_then(|facts| facts.program.clone()),
            model: facts.and_then(|facts| facts.model.clone()),
            phase: run.phase,
            role: run.role,
            recipe: run.recipe,
            project: run.project,
            profile,
            status: facts.map(|facts| facts.status),
            outcome: facts.map(|facts| facts.outcome),
            checks_outcome: facts.map(|facts| facts.checks),
            checks_passed_count: facts.map(|facts| facts.checks_passed),
            checks_count: facts.map(|facts| facts.checks_total),
            changed_count: facts.and_then(|facts| facts.changed_files),
            duration_ms: facts.and_then(|facts| facts.duration_ms),
            input_tokens: facts.and_then(|facts| facts.input_tokens),
            output_tokens: facts.and_then(|facts| facts.output_tokens),
            cached_tokens: facts.and_then(|facts| facts.cached_tokens),
            cost_microusd: facts.and_then(|facts| facts.cost_microusd),
            cost_estimated: facts.is_some_and(|facts| facts.cost_estimated),
            started_at: run.started,
            ended_at: facts.and_then(|facts| facts.ended_at.clone()),
            end: end.copied(),
            verdict: row.verdict.clone(),
            imported: row.imported,
        }
    }
}

/// A recorded run with everything that is known about it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[non_exhaustive]
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
#[non_exhaustive]
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
    pub fn new(view: &RunView, request: Request) -> Self {
        let RunView { row, composed, summary, records, refused } = view;
        let profile = composed.profile.as_ref().map(ProfileOutput::from);
        let made_by = composed.made_by.clone();
        let agent_version = summary.exit.as_ref().and_then(|exit| exit.agent_version.clone());
        let result = summary.launch.is_some().then(|| RunResultOutput::from(summary));
        Self {
            item: RunItemOutput::new(row, profile, agent_version),
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

/// A decision about a change.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[non_exhaustive]
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
