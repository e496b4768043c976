//! Agents: data files that say how a CLI reads prompts. Here only what composing needs.

use alloc::string::String;
use alloc::vec::Vec;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The contents of `agents/NAME.toml`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Agent")]
pub struct Agent {
    /// What people call it.
    pub name: String,
    /// Instruction files that it loads by itself; of several in one entry, the first that is there.
    #[serde(default)]
    pub loads: Vec<OneOf>,
    /// What it calls the tools that prompts speak of.
    #[serde(default)]
    pub tools: AgentTools,
    /// The model that request bodies name unless a value `model` says otherwise.
    #[serde(default)]
    pub model: Option<String>,
    /// The most tokens that an answer may have, where an API demands it.
    #[serde(default)]
    pub max_tokens: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum OneOf {
    File(String),
    FirstOf(Vec<String>),
}

impl OneOf {
    pub fn files(&self) -> &[String] {
        match self {
            Self::File(file) => core::slice::from_ref(file),
            Self::FirstOf(files) => files,
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AgentTools {
    /// The tool that puts a question to the person.
    pub ask_user: Option<String>,
    /// The tool that starts a sub-agent.
    pub sub_agent: Option<String>,
    /// How a tool of an MCP server is called; `{server}` and `{tool}` stand for their names.
    pub mcp: Option<String>,
}
