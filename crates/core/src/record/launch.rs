//! Options of a run, recorded before the agent is started.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::delivery::DeliveredPart;
use crate::library::agent::{DeliveryMethod, PermissionLevel};
use crate::request::fact::CheckSpec;
use crate::request::scope::Scope;

/// How to run an agent: requested by a person, repeated by a retry, given to every run of a flow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunOptions {
    /// Delivery method; `None` for the agent's preferred one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<DeliveryMethod>,
    /// Program with its arguments that replaces the agent's own program.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub program: Vec<String>,
    /// Model; `None` for the agent's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Permissions of the agent.
    pub permit: PermissionLevel,
    /// Commands that the caller allows the agent to run without asking.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<String>,
    /// Checks after the agent.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<CheckSpec>,
    /// Time limit of the agent and its checks in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Cost limit in dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_cost_usd: Option<f64>,
    /// Whether one agent carries out the whole plan.
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    pub single_coder: bool,
    /// Whether other runs may work in the same checkout.
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    pub share: bool,
    /// Whether it may run if not all files can be observed, so that the scope is not checked.
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    pub no_scope: bool,
    /// Whether the prompt is to be delivered in two parts; `None` if the agent's file decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub split: Option<bool>,
}

/// Everything besides the prompt that a run is started with. A retry repeats it, and it shows later how the
/// run was requested.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LaunchRecord {
    /// The options, with the delivery method that was used.
    #[serde(flatten)]
    pub options: RunOptions,
    /// The parts of the prompt and their delivery; empty if it was delivered as one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<DeliveredPart>,
    /// Name of the machine.
    pub host: String,
    /// Working directory of the agent, an absolute path.
    pub worktree: String,
    /// Whether the worktree belongs to the task alone.
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    pub own_worktree: bool,
    /// Id of the agent's session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Globs that may be written, merged once. This scope counts, not the current settings.
    pub scope: Scope,
    /// Commands that the agent could run without asking: those of the options, of the configuration, of the profile, and the
    /// checks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allowed: Vec<String>,
    /// Names of the variables that the configuration adds to the environment.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// Tasks whose status the reply must report.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<String>,
    /// Commit that is checked out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head: Option<String>,
    /// Whether there are uncommitted changes.
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    pub dirty: bool,
    /// How the processes of the run are found if its callsheet dies: `cgroup` or `session`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tracking: Option<String>,
    /// Data that a flow stores with the run.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub flow: BTreeMap<String, String>,
}
