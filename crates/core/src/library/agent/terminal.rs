//! The screen of an agent in a terminal: when it takes a line, and when it waits for something else.

use alloc::string::String;
use alloc::vec::Vec;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::library::agent::AgentArgument;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TerminalSpec {
    /// The agent's arguments in a terminal.
    #[serde(default)]
    pub args: Vec<AgentArgument>,
    /// Texts on the screen of an agent that accepts a line: one of them is shown.
    pub ready: Vec<String>,
    /// Texts on the screen of an agent that does not accept a line yet.
    #[serde(default)]
    pub busy: Vec<String>,
    /// The beginning of the line that a person writes in.
    pub composer: String,
    /// The time for which the screen must stay unchanged before it counts as ready, in milliseconds.
    #[serde(default = "usual_settle_ms")]
    pub settle_ms: u64,
    /// Screens that wait for an answer. callsheet types nothing into them.
    #[serde(default)]
    pub dialogs: Vec<TerminalDialog>,
    /// The line that is typed before the prompt if one agent does the whole plan.
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
    /// The texts that its screen shows; all of them are required.
    pub shows: Vec<String>,
    /// Advice for the person.
    pub todo: String,
}
