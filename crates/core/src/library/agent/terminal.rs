//! The screen of an agent in a terminal: when it takes a line, and when it waits for something else.

use alloc::string::String;
use alloc::vec::Vec;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::library::agent::AgentArgument;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TerminalSpec {
    /// Its arguments in a terminal.
    #[serde(default)]
    pub args: Vec<AgentArgument>,
    /// What its screen shows when it takes a line: one of these.
    pub ready: Vec<String>,
    /// What its screen shows while it does not take one yet.
    #[serde(default)]
    pub busy: Vec<String>,
    /// How the line begins in which a person writes.
    pub composer: String,
    /// How long the screen has to stay the same before it counts as ready, in milliseconds.
    #[serde(default = "usual_settle_ms")]
    pub settle_ms: u64,
    /// Screens that wait for an answer. Nothing is typed into them.
    #[serde(default)]
    pub dialogs: Vec<TerminalDialog>,
    /// The line that is typed before the prompt where one agent does the whole plan.
    #[serde(default)]
    pub single_coder: Option<String>,
}

fn usual_settle_ms() -> u64 {
    1000
}

/// A question that an agent asks in its terminal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TerminalDialog {
    pub name: String,
    /// What its screen shows, all of it.
    pub shows: Vec<String>,
    /// What a person can do about it.
    pub todo: String,
}
