//! Completes the options of a run by the configuration.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use callsheet_core::library::agent::{DeliveryMethod, PermissionLevel};
use callsheet_core::record::{Id, RunOptions};
use callsheet_core::request::Profile;
use callsheet_core::request::scope::Scope;
use callsheet_run::FingerprintCache;

use super::allowed::parse_commands;
use super::checks::merge_checks;
use crate::error::{Result, usage_error};
use crate::project::Project;
use crate::project::config_file::HardLimits;
use crate::project::config_merge::lower_limit;
use crate::project::duration::HumanDuration;

/// The run of a prompt: its options, and where and for whom the agent works.
#[derive(Clone, Debug, Default)]
pub struct RunSetup {
    /// The options, which are recorded.
    pub options: RunOptions,
    /// Variables for the agent. Only their names are recorded.
    pub env: BTreeMap<String, String>,
    /// The directory in which the agent works.
    pub place: RunLocation,
    /// The caller drives the agent; see [`PreparedRun::execute_external`](super::PreparedRun::execute_external).
    pub external: bool,
    /// Only reports the actions of the run.
    pub dry: bool,
    /// Existing tmux pane to use.
    pub pane: Option<String>,
    /// Session that the agent submits to, if it is attached to the server.
    pub session: Option<PathBuf>,
    /// Folder of documents that the guard reads one last time.
    pub watched: Option<PathBuf>,
    /// Scope that replaces the request's.
    pub scope: Option<Scope>,
    /// Tasks whose status the reply must report, instead of those that a value names.
    pub tasks: Option<Vec<String>>,
    /// Paths that other callsheet processes write meanwhile.
    pub own: Vec<PathBuf>,
    /// Fingerprints of files that earlier runs read.
    pub fingerprints: Arc<FingerprintCache>,
    /// The run that this one retries or continues.
    pub parent: Option<Id>,
    /// The flow, phase, lane, role and task of the run.
    pub flow: BTreeMap<String, String>,
    /// Preferences that the agent submits are only proposed.
    pub proposes: bool,
    /// The length of the part that the prompts of a phase share, if the caller knows it; else the prompt alone decides.
    pub shared_bytes: Option<usize>,
    /// A person asked for a delivery in two parts: the run is refused if its agent cannot take them.
    pub requires_split: bool,
    /// A person asked for the cost limit: the run is refused if its cost cannot be known.
    pub requires_cost: bool,
}

impl From<RunOptions> for RunSetup {
    fn from(options: RunOptions) -> Self {
        Self { options, ..Self::default() }
    }
}

/// Applies the user's hard limits, which no option exceeds.
pub(super) fn apply_limits(options: &mut RunOptions, hard: &HardLimits) {
    options.permit = hard.permit.map_or(options.permit, |permit| options.permit.min(permit));
    options.timeout_ms = lower_limit(options.timeout_ms, hard.timeout.map(HumanDuration::millis));
    options.max_cost_usd = lower_limit(options.max_cost_usd, hard.max_cost);
}

/// Where an agent works.
#[derive(Clone, Debug, Default)]
pub enum RunLocation {
    /// The project itself.
    #[default]
    Project,
    /// Worktree of this task.
    Own(String),
    /// Worktree of this run, named by its id.
    Fresh,
    /// Worktree of an earlier run.
    At(PathBuf),
}

/// The options that a caller gives. The configuration, and in a retry the earlier run, supply the others.
#[derive(Clone, Debug, Default)]
pub struct RunOverrides {
    /// The delivery method; else the agent's preferred one.
    pub by: Option<DeliveryMethod>,
    /// The model; else the agent's own.
    pub model: Option<String>,
    /// The permission level; else the configured one.
    pub permit: Option<PermissionLevel>,
    /// Commands that the agent may run without asking, besides the configured ones: `pytest -q`, or `pytest *` with any
    /// further arguments.
    pub allow: Vec<String>,
    /// Checks as `NAME=CMD`, besides the configured ones.
    pub checks: Vec<String>,
    /// The time limit of the agent and its checks.
    pub timeout: Option<HumanDuration>,
    /// The cost limit in dollars.
    pub max_cost_usd: Option<f64>,
    /// Whether the agent gets a worktree of its own.
    pub worktree: bool,
    /// Whether other runs may work in the same checkout.
    pub share: bool,
    /// Whether the run may start even if its scope cannot be checked.
    pub no_scope: bool,
    /// An existing tmux pane to use.
    pub pane: Option<String>,
    /// Whether one agent does the whole plan.
    pub single_coder: bool,
    /// Whether the prompt is delivered in two parts; else the configuration or the agent's file decides.
    pub split: Option<bool>,
}

impl RunOverrides {
    /// Completes the options by the configuration.
    pub fn complete(&self, project: &Project) -> Result<RunSetup> {
        let config = &project.config;
        project.warn_unapplied();
        if self.max_cost_usd.or(config.max_cost.value).is_some_and(|cost| !cost.is_finite() || cost <= 0.0) {
            return Err(usage_error("`--max-cost` must be greater than 0").into());
        }
        let options = RunOptions {
            by: self.by,
            program: Vec::new(),
            model: self.model.clone(),
            permit: self.permit.unwrap_or(config.permit.value),
            allow: parse_commands(&self.allow)?.iter().map(ToString::to_string).collect(),
            checks: merge_checks(project, &self.checks)?,
            timeout_ms: self.timeout.or(config.timeout.value).map(HumanDuration::millis),
            max_cost_usd: self.max_cost_usd.or(config.max_cost.value),
            single_coder: self.single_coder,
            share: self.share,
            no_scope: self.no_scope,
            split: self.split.or(config.split.value),
        };
        let env = config.env.value.clone();
        let requires_cost = self.max_cost_usd.is_some();
        let requires_split = self.split == Some(true);
        let pane = self.pane.clone();
        Ok(RunSetup { options, env, pane, requires_cost, requires_split, ..RunSetup::default() })
    }
}

impl RunSetup {
    /// Applies the model and the permission of a profile to options that the caller left open.
    pub fn apply_profile(&mut self, profile: &Profile, given: &RunOverrides) {
        let options = &mut self.options;
        options.model = options.model.take().or_else(|| profile.model.clone());
        // A profile may ask for less than the configured permission, not for more.
        let bound = profile.permit.filter(|_| given.permit.is_none());
        options.permit = bound.map_or(options.permit, |bound| bound.min(options.permit));
    }
}
