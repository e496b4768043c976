//! How a run is started.

use std::collections::BTreeMap;

use callsheet_core::delivery::{DeliveredPart, DeliveryAction};
use callsheet_core::library::agent::{DeliveryMethod, PermissionLevel};
use callsheet_core::record::LaunchRecord;
use callsheet_core::request::fact::CheckSpec;
use callsheet_core::request::scope::Scope;
use schemars::JsonSchema;
use serde::Serialize;

use crate::compose::tokens::TokenSummary;
use crate::diagnostics::{DiagnosticOutput, diagnostic_outputs};
use crate::run::PreparedRun;
use crate::run::result::micro_dollars;

/// How an agent is started.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct LaunchOutput {
    /// The delivery method.
    pub by: Option<DeliveryMethod>,
    /// The parts of the prompt and their delivery; empty if it is delivered as one.
    pub parts: Vec<DeliveredPart>,
    /// Whether the prompt was to be delivered in two parts; `null` if the agent's file decided.
    pub split: Option<bool>,
    /// The program with its arguments that replaces the agent's own program.
    pub program: Vec<String>,
    /// The model.
    pub model: Option<String>,
    /// The permissions of the agent.
    pub permit: PermissionLevel,
    /// The commands that the caller allowed the agent to run without asking.
    pub allow: Vec<String>,
    /// All commands that the agent may run without asking: also those of the configuration and the profile, and the checks.
    pub allowed: Vec<String>,
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
#[non_exhaustive]
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
            parts: launch.parts,
            split: options.split,
            program: options.program,
            model: options.model,
            permit: options.permit,
            allow: options.allow,
            allowed: launch.allowed,
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

/// A run before its start.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct RunPlanOutput {
    /// The steps that deliver the prompt.
    pub actions: Vec<DeliveryAction>,
    /// The prompt.
    pub text: String,
    /// The size of the prompt.
    pub tokens: TokenSummary,
    /// How the agent would be started.
    pub launch: LaunchOutput,
    /// Warnings and notes.
    pub diagnostics: Vec<DiagnosticOutput>,
}

impl RunPlanOutput {
    /// Describes a run before its start. Counts its tokens, which takes the sections out of its prompt.
    pub fn new(ready: &mut PreparedRun) -> Self {
        let tokens = ready.count_tokens();
        Self {
            tokens,
            actions: ready.actions().to_vec(),
            text: ready.prompt().to_owned(),
            launch: (&ready.launch).into(),
            diagnostics: diagnostic_outputs(ready.diagnostics()),
        }
    }
}
