//! Folders and files of a project that its configuration can put elsewhere.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

/// Folders and files of the project that a configuration can move; all relative to the project.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Layout {
    /// The template folders; the first one wins.
    pub templates: Vec<String>,
    /// The folder of extensions, with `agents/` and `commands/` below it.
    pub prompts: String,
    /// The file for `PROJECT_CONTEXT`.
    pub project_context: String,
}

impl Default for Layout {
    fn default() -> Self {
        Self {
            templates: alloc::vec![".callsheet/templates".into()],
            prompts: ".callsheet/prompts".into(),
            project_context: "agentd/project.md".into(),
        }
    }
}

impl Layout {
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
