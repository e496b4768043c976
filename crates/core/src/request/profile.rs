//! Profiles: the agent, the model and the permissions that a role binds besides its text.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::library::agent::PermissionLevel;

/// The path of a profile's text in a recipe that has profiles.
pub(crate) const PATH: &str = "profiles/{role}.md";

/// The profile that a prompt was composed for: its version, and the agent, model and permissions that it
/// binds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Profile {
    /// The name of the role.
    pub name: String,
    /// The version of the profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The model that the agent uses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The most that the agent may do without asking.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permit: Option<PermissionLevel>,
    /// The commands that the agent may run without asking.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<String>,
}

/// Returns the path of a profile's file.
pub(crate) fn profile_path(role: &str) -> String {
    format!("profiles/{role}.md")
}
