//! Agents: data files that describe how a CLI is started, how it takes a prompt, and its output.
//!
//! An agent is never a branch in the code: a peculiarity of one agent is a key that every file may have.

mod check;
mod events;
mod read;
mod start;
mod terminal;

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(crate) use check::problems;
pub use events::{EventPattern, EventPatterns, TranscriptSpec};
pub(crate) use read::is_agent_by_template;
pub use read::{agent_name, find_agent, read_agent};
pub use start::{
    AgentArgument, ArgHole, ArgSpec, DeliveryMethod, PermissionLevel, PromptIntake, StartCommand,
};
pub use terminal::{TerminalDialog, TerminalSpec};

use crate::diag::{Code, Diagnostic};
use crate::library::format::ModelApi;

/// The contents of `agents/NAME.toml`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Agent")]
pub struct Agent {
    /// What people call it.
    pub name: String,
    /// Instruction files that it loads by itself; of several in one entry, the first that is there.
    #[serde(default)]
    pub loads: Vec<LoadEntry>,
    /// Parts of files that a person picks go into its prompts; without it, only their paths do.
    #[serde(default)]
    pub supports_prompt_file_inclusion: bool,
    /// What it calls the tools that prompts speak of.
    #[serde(default)]
    pub tools: AgentTools,
    /// The API that its models answer; nothing where they are of several providers.
    #[serde(default)]
    pub api: Option<ModelApi>,
    /// The model that request bodies name unless a value `model` says otherwise.
    #[serde(default)]
    pub model: Option<String>,
    /// The most tokens that an answer may have, where an API demands it.
    #[serde(default)]
    pub max_tokens: Option<u32>,
    /// The most bytes that it takes as a prompt.
    #[serde(default)]
    pub max_bytes: Option<usize>,
    /// The most characters that it takes as a prompt.
    #[serde(default)]
    pub max_chars: Option<usize>,
    /// How the tokens of its models are counted: the first entry that fits the model.
    #[serde(default)]
    pub tokens: Vec<TokenizerSpec>,
    /// What it prints.
    #[serde(default)]
    pub output: OutputSpec,
    /// How it is started; without it, prompts are only composed for it.
    #[serde(default)]
    pub start: Option<StartCommand>,
    /// How it takes a prompt.
    #[serde(default)]
    pub prompt: PromptIntake,
    /// JSON files that are written for it before it starts, by name. In them a table that has the key `hole`
    /// stands for what fills it. One in whose holes there is nothing is not written.
    #[serde(default)]
    pub files: BTreeMap<String, serde_json::Value>,
    /// Its environment besides the one that it inherits.
    #[serde(default)]
    pub env: BTreeMap<String, AgentArgument>,
    /// What the events that it prints prove.
    #[serde(default)]
    pub events: EventPatterns,
    /// Where it keeps what was said.
    #[serde(default)]
    pub transcript: Option<TranscriptSpec>,
    /// How it looks in a terminal; without it, it is not for one.
    #[serde(default)]
    pub terminal: Option<TerminalSpec>,
}

impl Agent {
    /// Returns how tokens are counted for `model`; `None` if no entry fits it.
    pub fn tokenizer_for(&self, model: Option<&str>) -> Option<&TokenizerSpec> {
        let fits = |prefix: &String| model.is_some_and(|model| model.starts_with(prefix.as_str()));
        self.tokens.iter().find(|tokens| tokens.models.is_empty() || tokens.models.iter().any(fits))
    }

    /// Returns a warning for each limit of the agent that a prompt of this many bytes and characters exceeds.
    pub fn limit_warnings(&self, bytes: usize, chars: impl FnOnce() -> usize) -> Vec<Diagnostic> {
        let mut warnings = Vec::new();
        let mut compare = |has: usize, limit: Option<usize>, unit: &str| {
            if let Some(limit) = limit.filter(|limit| has > *limit) {
                let message = format!("the prompt has {has} {unit}; {} takes at most {limit}", self.name);
                let hint = "give fewer files, show less of them with `--detail`, or set a `--budget`";
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

/// How the tokens of some models are counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenizerSpec {
    /// How the names of the models begin; without any it holds for every model.
    #[serde(default)]
    pub models: Vec<String>,
    pub encoding: TokenEncoding,
    /// Tokens of the model for every hundred of the encoding. What has it is an estimate; what has not is
    /// exact.
    #[serde(default)]
    pub percent: Option<u32>,
    /// What the estimate rests on, in words.
    #[serde(default)]
    pub method: String,
    /// The most tokens that the model takes as input.
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
    pub fn window_warning(&self, tokens: usize) -> Option<Diagnostic> {
        let window = self.context_window.filter(|window| tokens > *window)?;
        let about = if self.is_estimate() { "about " } else { "" };
        let message = format!("the prompt has {about}{tokens} tokens; the model takes at most {window}");
        let hint = format!("`--budget {window}` makes it fit");
        Some(Diagnostic::warning(Code::PromptOverWindow, message).hint(hint))
    }
}

/// A published vocabulary that tokens can be counted with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TokenEncoding {
    #[serde(rename = "cl100k_base")]
    Cl100kBase,
    #[default]
    #[serde(rename = "o200k_base")]
    O200kBase,
}

impl TokenEncoding {
    /// Returns the published name of the encoding.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cl100kBase => "cl100k_base",
            Self::O200kBase => "o200k_base",
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct OutputSpec {
    pub format: OutputFormat,
}

/// In which form an agent prints what it says. A plain text is understood whatever the form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OutputFormat {
    #[default]
    Text,
    /// `claude -p --output-format stream-json --verbose`, or `json`.
    ClaudeStreamJson,
    /// `codex exec --json`.
    CodexJsonl,
    /// `gemini --output-format stream-json`.
    GeminiStreamJson,
    /// `copilot --output-format json`.
    CopilotJsonl,
    /// `take_opencode run --format json`.
    OpencodeJson,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum LoadEntry {
    File(String),
    FirstOf(Vec<String>),
    Rule(LoadRule),
}

/// A file that is loaded only by some versions, or only where others are not there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LoadRule {
    pub file: String,
    /// Where one of these is there, it is not loaded.
    #[serde(default)]
    pub unless: Vec<String>,
    /// The first version that loads it.
    #[serde(default)]
    pub since: Option<String>,
}

impl LoadEntry {
    /// Checks whether the agent loads `path`; `is_there` checks whether a file exists. No version means the
    /// newest one.
    pub fn loads(&self, path: &str, is_there: &dyn Fn(&str) -> bool, version: Option<&str>) -> bool {
        match self {
            Self::File(file) => file == path,
            Self::FirstOf(files) => files.iter().find(|file| is_there(file)).is_some_and(|file| file == path),
            Self::Rule(LoadRule { file, unless, since }) => {
                let is_since =
                    |since: &String| version.is_none_or(|version| numbers(version) >= numbers(since));
                file == path
                    && since.as_ref().is_none_or(is_since)
                    && !unless.iter().any(|file| is_there(file))
            }
        }
    }
}

/// Returns the numbers of a version, for a comparison one by one.
fn numbers(version: &str) -> Vec<u64> {
    version.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse().ok()).collect()
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
