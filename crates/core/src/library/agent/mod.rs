//! Agents: data files that describe how a CLI is started, how it takes a prompt, and its output.
//!
//! An agent is never a branch in the code: a peculiarity of one agent is a key that every file may have.

mod check;
mod commands;
mod events;
mod faults;
mod probe;
mod read;
mod sign_in;
mod start;
mod stream;
mod terminal;

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

pub(crate) use check::find_problems;
use commands::unsupported_warning;
pub use commands::{CommandControl, CommandRules, RuleForm};
pub use events::{EventPattern, EventPatterns, ToolCall, ToolPattern, TranscriptSpec, UsagePattern};
pub use faults::{AgentFault, FaultKind, FaultPattern};
pub use probe::{ContextKind, ContextMarker, ProbeSpec, ProbeValues};
pub(crate) use read::has_system_template;
pub use read::{find_agent, read_agent, resolve_agent_name};
pub use sign_in::SignIn;
pub use start::{
    AgentArgument, ArgHole, ArgSpec, DeliveryMethod, PermissionLevel, PromptIntake, StartCommand,
};
pub(crate) use stream::fits_any;
pub use stream::{
    BeginRule, EventRule, FailureRule, OtherTest, OutputSpec, PartsSpec, StepRule, StreamSpec, ValueTest,
};
pub use terminal::{FirstLine, LineCondition, TerminalDialog, TerminalSpec};

use crate::diag::{Code, Diagnostic};
use crate::library::allowed_command::AllowedCommand;
use crate::library::format::ModelApi;
use crate::text::word_enum::word_enum;

/// The contents of `agents/NAME.toml`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", schemars(title = "Agent"))]
pub struct Agent {
    /// The display name of the agent.
    pub name: String,
    /// Instruction files that the agent loads by itself; of several in one entry, the first that exists.
    #[serde(default)]
    pub loads: Vec<LoadEntry>,
    /// Whether parts of files that a person picks are included in its prompts; otherwise only their paths are.
    #[serde(default)]
    pub supports_prompt_file_inclusion: bool,
    /// The agent's names for the tools that prompts refer to.
    #[serde(default)]
    pub tools: AgentTools,
    /// The API of its models; empty if they belong to several providers.
    #[serde(default)]
    pub api: Option<ModelApi>,
    /// The model in request bodies, unless a value `model` overrides it.
    #[serde(default)]
    pub model: Option<String>,
    /// The maximum number of tokens in an answer, if an API requires it.
    #[serde(default)]
    pub max_tokens: Option<u32>,
    /// The maximum size of a prompt in bytes.
    #[serde(default)]
    pub max_bytes: Option<usize>,
    /// The maximum size of a prompt in characters.
    #[serde(default)]
    pub max_chars: Option<usize>,
    /// The token counting of its models: the first entry that matches the model.
    #[serde(default)]
    pub tokens: Vec<TokenizerSpec>,
    /// The output of the agent.
    #[serde(default)]
    pub output: OutputSpec,
    /// The command that starts the agent; without it, prompts are only composed for the agent.
    #[serde(default)]
    pub start: Option<StartCommand>,
    /// The delivery of a prompt to the agent.
    #[serde(default)]
    pub prompt: PromptIntake,
    /// Files that are written before the agent starts, by name: JSON, or TOML if the name ends in `.toml`. In them, a table
    /// with the key `hole` is replaced by the value of the hole, and a table of a list with the key `each` is repeated for
    /// each value of that hole. A file whose holes are empty is not written.
    #[serde(default)]
    pub files: BTreeMap<String, serde_json::Value>,
    /// Environment variables, in addition to the inherited ones.
    #[serde(default)]
    pub env: BTreeMap<String, AgentArgument>,
    /// How single commands are allowed; without it, the agent has no such permissions.
    #[serde(default)]
    pub commands: Option<CommandRules>,
    /// The events that the agent prints, as proofs.
    #[serde(default)]
    pub events: EventPatterns,
    /// How the agent gets access to its model.
    #[serde(default)]
    pub sign_in: SignIn,
    /// The transcript of the agent.
    #[serde(default)]
    pub transcript: Option<TranscriptSpec>,
    /// The agent's screen in a terminal; without it, the agent is not used in a terminal.
    #[serde(default)]
    pub terminal: Option<TerminalSpec>,
    /// The probe of the agent; without it, `callsheet context` cannot show its requests.
    #[serde(default)]
    pub probe: Option<ProbeSpec>,
}

impl Agent {
    /// Returns how tokens are counted for `model`; `None` if no entry fits it.
    pub fn tokenizer_for(&self, model: Option<&str>) -> Option<&TokenizerSpec> {
        let fits = |prefix: &String| model.is_some_and(|model| model.starts_with(prefix.as_str()));
        self.tokens.iter().find(|tokens| tokens.models.is_empty() || tokens.models.iter().any(fits))
    }

    /// Returns the rule that allows a command; `None` if the agent runs every command. The error says why it cannot be
    /// allowed.
    pub fn check_command(&self, command: &AllowedCommand) -> Result<Option<String>, Diagnostic> {
        match &self.commands {
            None => Err(unsupported_warning(&self.name, command, "callsheet cannot set its permissions")),
            Some(CommandRules { control: CommandControl::Sandbox | CommandControl::Open, .. }) => Ok(None),
            Some(rules) => rules.compile(&self.name, command).map(Some),
        }
    }

    /// Checks whether the agent can take the shared part of a prompt in its system prompt.
    pub fn can_split(&self) -> bool {
        self.shared_argument().is_some()
    }

    /// Returns the argument with the shared part of a prompt, and whether it is the path of a file.
    pub(crate) fn shared_argument(&self) -> Option<(&ArgSpec, bool)> {
        self.start.iter().flat_map(|start| &start.args).find_map(|arg| match arg {
            AgentArgument::Spec(spec) if spec.hole == Some(ArgHole::SharedFile) => Some((spec, true)),
            AgentArgument::Spec(spec) if spec.hole == Some(ArgHole::Shared) => Some((spec, false)),
            _ => None,
        })
    }

    /// Returns a warning for each limit of the agent that a prompt of this many bytes and characters exceeds.
    pub fn check_limits(&self, bytes: usize, chars: impl FnOnce() -> usize) -> Vec<Diagnostic> {
        let mut warnings = Vec::new();
        let mut compare = |has: usize, limit: Option<usize>, unit: &str| {
            if let Some(limit) = limit.filter(|limit| has > *limit) {
                let message = format!("the prompt has {has} {unit}; {} accepts at most {limit}", self.name);
                let hint = "name fewer files, show less of them with `--detail`, or add a `--budget`";
                warnings.push(Diagnostic::warning(Code::PromptOverLimit, message).hint(hint));
            }
        };
        compare(bytes, self.max_bytes, "bytes");
        // A text has at most as many characters as bytes, so characters are counted only if the bytes exceed
        // the limit.
        if self.max_chars.is_some_and(|limit| bytes > limit) {
            compare(chars(), self.max_chars, "characters");
        }
        warnings
    }
}

/// The token counting of some models.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TokenizerSpec {
    /// The prefixes of the models' names; if empty, the entry applies to every model.
    #[serde(default)]
    pub models: Vec<String>,
    /// The vocabulary by which tokens are counted.
    pub encoding: TokenEncoding,
    /// Tokens of the model for every hundred of the encoding. With it, the count is an estimate; without it, the count
    /// is exact.
    #[serde(default)]
    pub percent: Option<u32>,
    /// The basis of the estimate, in words.
    #[serde(default)]
    pub method: String,
    /// The maximum number of input tokens of the model.
    #[serde(default)]
    pub context_window: Option<usize>,
}

impl TokenizerSpec {
    /// Returns whether the token count is an estimate.
    pub fn is_estimate(&self) -> bool {
        self.percent.is_some()
    }

    /// Converts tokens of the encoding into tokens of the model, rounded up.
    pub fn scale_tokens(&self, tokens: usize) -> usize {
        let percent = self.percent.map_or(100, |percent| percent as usize);
        tokens.saturating_mul(percent).div_ceil(100)
    }

    /// Returns a warning if `tokens` exceeds the context window of the model.
    pub fn check_window(&self, tokens: usize) -> Option<Diagnostic> {
        let window = self.context_window.filter(|window| tokens > *window)?;
        let about = if self.is_estimate() { "about " } else { "" };
        let message = format!("the prompt has {about}{tokens} tokens; the model accepts at most {window}");
        let hint = format!("add `--budget {window}` to shorten it");
        Some(Diagnostic::warning(Code::PromptOverWindow, message).hint(hint))
    }
}

word_enum! {
    /// A published vocabulary for counting tokens.
    #[derive(Default)]
    TokenEncoding {
        /// The vocabulary of GPT-4.
        Cl100kBase "cl100k_base",
        /// The vocabulary of GPT-4o and later models.
        #[default]
        O200kBase "o200k_base",
    }
}

/// A file that an agent loads by itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum LoadEntry {
    /// A file that is always loaded.
    File(String),
    /// Files of which only the first existing one is loaded.
    FirstOf(Vec<String>),
    /// A file that is loaded under conditions.
    Rule(LoadRule),
}

/// A file that only some versions load, or that is loaded only if other files do not exist.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct LoadRule {
    /// The file, relative to the project.
    pub file: String,
    /// Files of which none may exist if the file is to be loaded.
    #[serde(default)]
    pub unless: Vec<String>,
    /// The first version that loads the file.
    #[serde(default)]
    pub since: Option<String>,
    /// The first version that does not load the file any more.
    #[serde(default)]
    pub until: Option<String>,
}

impl LoadEntry {
    /// Checks whether the agent loads `path`; `is_there` checks whether a file exists. No version means the
    /// newest one.
    pub fn loads(&self, path: &str, is_there: &dyn Fn(&str) -> bool, version: Option<&str>) -> bool {
        match self {
            Self::File(file) => file == path,
            Self::FirstOf(files) => files.iter().find(|file| is_there(file)).is_some_and(|file| file == path),
            Self::Rule(LoadRule { file, unless, since, until }) => {
                let is_from = |first: &String| {
                    version.is_none_or(|version| version_numbers(version) >= version_numbers(first))
                };
                file == path
                    && since.as_ref().is_none_or(is_from)
                    && !until.as_ref().is_some_and(is_from)
                    && !unless.iter().any(|file| is_there(file))
            }
        }
    }
}

/// Returns the numbers of a version, for a comparison one by one.
fn version_numbers(version: &str) -> Vec<u64> {
    version.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse().ok()).collect()
}

/// The names of tools, for prompts that refer to them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct AgentTools {
    /// The tool that asks the person a question.
    pub ask_user: Option<String>,
    /// The tool that starts a sub-agent.
    pub sub_agent: Option<String>,
    /// The tool that runs a command in a shell.
    pub shell: Option<String>,
    /// The name of a tool of an MCP server; `{server}` and `{tool}` are replaced by their names.
    pub mcp: Option<String>,
}
