//! The start command of an agent: a program and a list of words, in which holes have a type.

use alloc::string::String;
use alloc::vec::Vec;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StartCommand {
    /// The program, as a search path finds it; without one, whoever starts the agent gives a command line.
    #[serde(default)]
    pub program: Option<String>,
    /// Its arguments where nobody watches.
    #[serde(default)]
    pub args: Vec<AgentArgument>,
    /// The arguments with which it prints its version.
    #[serde(default)]
    pub version: Vec<String>,
}

/// An argument: a word as it stands, or one with conditions and a hole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum AgentArgument {
    Word(String),
    Spec(ArgSpec),
}

/// Words that are there if what they speak of is. What fills a hole is one argument of its own or the end of a prefix,
/// whatever it contains: nothing is ever split.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ArgSpec {
    /// Words before it, such as a flag.
    pub words: Vec<String>,
    /// Only with this permission.
    pub permit: Option<PermissionLevel>,
    /// Only if something would fill this hole.
    pub with: Option<ArgHole>,
    /// What is put here. A hole with several values gives the words again for each.
    pub hole: Option<ArgHole>,
    /// The path of one of the agent's `files`.
    pub file: Option<String>,
    /// Before the value, in the same argument.
    pub prefix: String,
    /// Behind it.
    pub suffix: String,
    /// The value is written as JSON; several as one list.
    pub json: bool,
}

/// What can be put into an argument or a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ArgHole {
    Model,
    /// The id that a new session is to have.
    Session,
    /// The id of the session that goes on.
    Resume,
    /// What our MCP server is called, where there is one.
    McpServer,
    McpCommand,
    McpArgs,
    /// The globs of what may be written.
    Write,
    /// The globs of what must not be touched.
    Exclude,
    /// The prompt itself.
    Prompt,
}

/// What an agent may do without asking.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PermissionLevel {
    /// What it allows by itself.
    #[default]
    Ask,
    /// Change files below the worktree.
    Edit,
    /// Everything.
    All,
}

impl PermissionLevel {
    /// Returns the level as agent files write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ask => "ask",
            Self::Edit => "edit",
            Self::All => "all",
        }
    }
}

/// How a prompt gets to an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DeliveryMethod {
    /// On its standard input.
    Stdin,
    /// In a file, which a line on its standard input names.
    File,
    /// As an argument.
    Argument,
    /// In a file, which a line that is typed in a terminal names.
    Terminal,
}

impl DeliveryMethod {
    /// Returns the method as agent files write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stdin => "stdin",
            Self::File => "file",
            Self::Argument => "argument",
            Self::Terminal => "terminal",
        }
    }
}

/// How an agent takes a prompt, and what it does to it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PromptIntake {
    /// The ways, the best first.
    pub by: Vec<DeliveryMethod>,
    /// It puts the contents of a file where a prompt says `@path`, if there is such a file.
    pub expands_at_paths: bool,
    /// A prompt that begins with one of these is taken as a command.
    pub commands: Vec<String>,
    /// What, put before such a prompt, makes a text of it again.
    pub defused_by: Option<String>,
    /// It puts something of its own before the prompt.
    pub adds_before: bool,
    /// It cuts the white space at the end.
    pub trims_end: bool,
    /// The most bytes that the prompt may have as an argument.
    pub max_argument_bytes: Option<usize>,
}
