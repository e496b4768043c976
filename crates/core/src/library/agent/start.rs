//! The start command of an agent: a program and a list of words, in which holes have a type.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::text::word_enum::word_enum;

/// The command that starts an agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct StartCommand {
    /// The program, found in the search path; without it, the caller provides a command line.
    #[serde(default)]
    pub program: Option<String>,
    /// The arguments for a run without a terminal.
    #[serde(default)]
    pub args: Vec<AgentArgument>,
    /// The arguments that print the version.
    #[serde(default)]
    pub version: Vec<String>,
}

/// An argument: a literal word, or words with conditions and a hole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum AgentArgument {
    /// A word that is always passed.
    Word(String),
    /// Words that are passed under conditions, or that have a hole.
    Spec(ArgSpec),
}

/// Words that are passed only if the permission and the values that they refer to exist. The value of a hole is one
/// argument of its own or the end of a prefix, whatever its contents: no value is ever split.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct ArgSpec {
    /// The words before the value, such as a flag.
    pub words: Vec<String>,
    /// The required permission.
    pub permit: Option<PermissionLevel>,
    /// The hole that must have a value.
    pub with: Option<ArgHole>,
    /// The hole whose value is put here. A hole with several values repeats the words for each.
    pub hole: Option<ArgHole>,
    /// The path of one of the agent's `files`.
    pub file: Option<String>,
    /// The text before the value, in the same argument.
    pub prefix: String,
    /// The text after the value, in the same argument.
    pub suffix: String,
    /// Whether the value is written as JSON; several values as one list.
    pub json: bool,
}

/// A value that can be put into an argument or a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ArgHole {
    /// The name of the model.
    Model,
    /// The id for a new session.
    Session,
    /// The id of the session to resume.
    Resume,
    /// The name of callsheet's MCP server, if there is one.
    McpServer,
    /// The program of callsheet's MCP server.
    McpCommand,
    /// The arguments of callsheet's MCP server.
    McpArgs,
    /// The globs of files that may be written.
    Write,
    /// The globs of files that must not be touched.
    Exclude,
    /// The rules that allow single commands.
    Commands,
    /// The prompt itself.
    Prompt,
    /// The shared part of a prompt that is delivered in two parts.
    Shared,
    /// The path of a file with the shared part.
    SharedFile,
}

word_enum! {
    /// The actions that an agent may perform without asking.
    #[derive(Default)]
    PermissionLevel {
        /// The actions that the agent allows by itself.
        #[default]
        Ask "ask",
        /// Changes of files below the worktree.
        Edit "edit",
        /// Everything.
        All "all",
    }
}

word_enum! {
    /// The way in which a prompt reaches an agent.
    #[non_exhaustive]
    DeliveryMethod {
        /// On its standard input.
        Stdin "stdin",
        /// In a file that a line on its standard input names.
        File "file",
        /// As an argument.
        Argument "argument",
        /// In a file that a line typed in a terminal names.
        Terminal "terminal",
    }
}

/// The delivery methods of an agent, and its changes to a prompt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct PromptIntake {
    /// The delivery methods, best first.
    pub by: Vec<DeliveryMethod>,
    /// Whether the agent replaces `@path` in a prompt by the contents of that file, if the file exists.
    pub expands_at_paths: bool,
    /// The beginnings of prompts that the agent takes as commands.
    pub commands: Vec<String>,
    /// The text that, put before such a prompt, prevents it from being taken as a command.
    pub defused_by: Option<String>,
    /// Whether the agent adds a text of its own before the prompt.
    pub adds_before: bool,
    /// Whether the agent trims the whitespace at the end.
    pub trims_end: bool,
    /// The maximum size in bytes of a prompt that is an argument.
    pub max_argument_bytes: Option<usize>,
    /// Whether a prompt is delivered in two parts if neither the caller nor the configuration decides. It needs a hole
    /// `shared` or `shared_file` in the arguments.
    pub split: bool,
}
