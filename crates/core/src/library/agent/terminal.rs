//! The screen of an agent in a terminal: when it takes a line, and when it waits for something else.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::library::agent::AgentArgument;

/// The screens of an agent in a terminal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    /// The lines that are typed before the line that names the prompt, in order.
    #[serde(default)]
    pub first_lines: Vec<FirstLine>,
    /// The older form of a first line for a single coder: recorded agents have it.
    #[serde(default, skip_serializing)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub single_coder: Option<String>,
}

impl TerminalSpec {
    /// Returns the lines to type before the line that names the prompt.
    pub fn lines_before(&self, single_coder: bool) -> impl Iterator<Item = &String> {
        let holds = move |line: &&FirstLine| match line.when {
            None => true,
            Some(LineCondition::SingleCoder) => single_coder,
        };
        let older = self.single_coder.iter().filter(move |_| single_coder);
        self.first_lines.iter().filter(holds).map(|first| &first.line).chain(older)
    }
}

/// A line that is typed before the line that names the prompt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct FirstLine {
    /// The line, such as a command of the agent.
    pub line: String,
    /// The runs in which it is typed; otherwise every run.
    #[serde(default)]
    pub when: Option<LineCondition>,
}

/// The runs in which a line is typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum LineCondition {
    /// One agent does the whole plan.
    SingleCoder,
}

fn usual_settle_ms() -> u64 {
    1000
}

/// A question that an agent asks in its terminal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TerminalDialog {
    /// The name of the question, for messages.
    pub name: String,
    /// The texts that its screen shows; all of them are required.
    pub shows: Vec<String>,
    /// Advice for the person.
    pub todo: String,
}
