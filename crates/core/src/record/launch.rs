//! Launches: how an agent is about to be started, told before it is.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::agent::{DeliveryMethod, PermissionLevel};
use crate::fact::CheckSpec;
use crate::scope::Scope;

/// Everything besides the prompt that a run is started with: what a retry repeats, and what shows later what was asked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LaunchRecord {
    /// The machine.
    pub host: String,
    /// Where the agent works, an absolute path.
    pub worktree: String,
    /// It is the task's own worktree.
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    pub own_worktree: bool,
    /// A way that was asked for; else the agent's best.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<DeliveryMethod>,
    /// A program that was given in the place of the agent's own, with its arguments.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub program: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The id of the agent's session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    pub permit: PermissionLevel,
    /// What may be written, merged once: what counts is this, not today's settings.
    pub scope: Scope,
    /// It may run where nobody can look at all files, so that the scope is not checked.
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    pub no_scope: bool,
    /// What is run afterwards.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<CheckSpec>,
    /// The names of variables that are added to the environment by the configuration.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_cost_usd: Option<f64>,
    /// One agent does the whole plan.
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    pub single_coder: bool,
    /// The tasks whose status the reply has to tell.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<String>,
    /// The commit that is checked out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head: Option<String>,
    /// There is work that no commit has.
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    pub dirty: bool,
    /// Other runs may work in the same checkout.
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    pub share: bool,
    /// How the processes of the run are found if its callsheet dies: `cgroup` or `session`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tracking: Option<String>,
    /// Whatever a flow wants to find again.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub flow: BTreeMap<String, String>,
}
