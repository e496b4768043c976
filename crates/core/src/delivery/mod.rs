//! Plans the delivery of a prompt to an agent, as data.
//!
//! Pure: it starts nothing. The prompt is an argument only if the agent takes it in no other way, a shell is
//! never used, and no value can become a flag.

mod hole_filler;
mod parts;
pub mod receipt;
pub mod split;
mod toml_text;
mod usage;

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::diag::{Code, Diagnostic, Diagnostics};
use crate::library::agent::{Agent, DeliveryMethod, PermissionLevel, TerminalSpec};
use crate::library::allowed_command::AllowedCommand;
use crate::library::layout::Layout;
use crate::library::lookup::DynLibrary;
use crate::library::template::{TemplateNode, TextRange, parse_braces};
use crate::request::scope::Scope;
use hole_filler::HoleFiller;
use parts::choose_parts;
pub use parts::{DeliveredPart, PromptPart};

/// The template of the line that names the file with the prompt.
pub const BY_FILE: &str = "templates/by-file.md";

/// Everything except the prompt that a delivery depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct DeliveryContext {
    /// The requested method; otherwise the agent's best one.
    pub by: Option<DeliveryMethod>,
    /// The agent's working directory, an absolute path.
    pub worktree: String,
    /// The folder for files that are written for the agent, an absolute path.
    pub folder: String,
    /// The line that names the file with the prompt; see [`by_file_line`].
    pub by_file: String,
    /// The program and its arguments, for agents that have none of their own.
    pub command: Vec<String>,
    /// The model, by the name that the agent uses.
    pub model: Option<String>,
    /// The id for a new session.
    pub session: Option<String>,
    /// The id of the session to resume.
    pub resume: Option<String>,
    /// The command of callsheet's MCP server, if the agent is attached to it.
    pub mcp: Option<McpServerCommand>,
    /// The globs of files that the agent may and must not write.
    pub scope: Scope,
    /// The actions that the agent may perform without asking.
    pub permit: PermissionLevel,
    /// The commands that the agent may run without asking: `pytest -q`, or `pytest *` with any further arguments.
    pub allow: Vec<String>,
    /// Variables that are added to the agent's environment.
    pub env: BTreeMap<String, String>,
    /// The paths of [`find_at_paths`] that exist, of the whole prompt.
    pub at_paths: Vec<String>,
    /// An existing tmux pane.
    pub pane: Option<String>,
    /// Whether one agent does the whole plan.
    pub single_coder: bool,
    /// The length of the shared part, if the prompt is to be delivered in two parts; see [`split`].
    pub split: Option<usize>,
    /// Whether an agent that cannot take two parts is refused. Otherwise it gets the prompt as one.
    pub requires_split: bool,
}

/// The command that starts callsheet's MCP server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct McpServerCommand {
    /// The program.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
}

/// One step of a delivery.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "act", rename_all = "lowercase")]
pub enum DeliveryAction {
    /// Writes a file that only its owner can read.
    Write {
        /// The file, an absolute path.
        path: String,
        /// Its contents.
        text: DeliveryText,
    },
    /// Starts a program and waits for it to exit.
    Spawn {
        /// The program and its arguments.
        argv: Vec<String>,
        /// Variables that are added to its environment.
        env: BTreeMap<String, String>,
        /// Its working directory.
        cwd: String,
        /// Its standard input.
        stdin: DeliveryText,
    },
    /// Starts a program in a terminal of its own.
    Open {
        /// The program and its arguments.
        argv: Vec<String>,
        /// Variables that are added to its environment.
        env: BTreeMap<String, String>,
        /// Its working directory.
        cwd: String,
    },
    /// Waits until the terminal accepts a line.
    Await {
        /// The tmux pane; `None` is the one that was opened before.
        pane: Option<String>,
        /// The screens of the agent.
        screen: TerminalSpec,
    },
    /// Types a line and sends it.
    Type {
        /// The tmux pane; `None` is the one that was opened before.
        pane: Option<String>,
        /// The line, without its line end.
        line: String,
        /// The screens of the agent.
        screen: TerminalSpec,
    },
}

/// A text to write: the prompt, which is not repeated here, or something short.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum DeliveryText {
    /// The prompt, after a prefix.
    Prompt {
        /// The prefix, such as a line end; usually empty.
        before: String,
    },
    /// A part of the prompt, after a prefix.
    Part {
        /// The prefix, such as a line end; usually empty.
        before: String,
        /// The offset of its first byte in the prompt.
        start: usize,
        /// The offset after its last byte.
        end: usize,
    },
    /// A short text.
    Text(String),
}

impl DeliveryText {
    /// Returns the text as it is written.
    pub fn to_text(&self, prompt: &str) -> String {
        match self {
            Self::Prompt { before } => [before, prompt].concat(),
            Self::Part { before, start, end } => {
                [before, prompt.get(*start..*end).unwrap_or_default()].concat()
            }
            Self::Text(text) => text.clone(),
        }
    }
}

/// A planned delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The method of the delivery.
    pub by: DeliveryMethod,
    /// The steps, in order.
    pub acts: Vec<DeliveryAction>,
    /// The parts of the prompt, in order; empty if it is delivered as one.
    pub parts: Vec<DeliveredPart>,
    /// Warnings about deviations from the expected delivery.
    pub diagnostics: Vec<Diagnostic>,
}

/// Plans how `agent` gets `prompt`. Reports all obstacles at once.
pub fn plan_delivery(agent: &Agent, prompt: &str, how: &DeliveryContext) -> Result<Delivery, Diagnostics> {
    let mut diagnostics = Vec::new();
    let mut wrong = find_refusals(agent, prompt, how);
    let shared = choose_parts(agent, prompt, how, &mut diagnostics).unwrap_or_else(|diag| {
        wrong.push(diag);
        None
    });
    let (shared, own) = prompt.split_at(shared.unwrap_or(0));
    let way = choose_method(agent, own, how, &mut diagnostics);
    let rules = compile_rules(agent, how, &mut diagnostics, &mut wrong);
    let (files, current) = (Vec::new(), None);
    let mut filling =
        HoleFiller { agent, shared, prompt: own, context: how, rules, current, files, diagnostics };
    let (by, before) = way.unwrap_or_else(|diag| {
        wrong.push(diag);
        (DeliveryMethod::Stdin, String::new())
    });
    if !wrong.is_empty() {
        return Err(Diagnostics(wrong));
    }
    let own_text = |before: String| match shared.len() {
        0 => DeliveryText::Prompt { before },
        start => DeliveryText::Part { before, start, end: prompt.len() },
    };
    let prompt_file = format!("{}/prompt.md", how.folder);
    let argv = filling.build_argv(by)?;
    let env = filling.build_env();
    let cwd = how.worktree.clone();
    let mut acts = Vec::new();
    if matches!(by, DeliveryMethod::File | DeliveryMethod::Terminal) {
        acts.push(DeliveryAction::Write { path: prompt_file, text: own_text(String::new()) });
    }
    acts.append(&mut filling.files);
    match (by, &agent.terminal) {
        (DeliveryMethod::Terminal, Some(screen)) => {
            let pane = &how.pane;
            acts.extend(pane.is_none().then_some(DeliveryAction::Open { argv, env, cwd }));
            acts.push(DeliveryAction::Await { pane: pane.clone(), screen: screen.clone() });
            for line in screen.lines_before(how.single_coder).chain([&how.by_file]) {
                acts.push(DeliveryAction::Type {
                    pane: pane.clone(),
                    line: line.clone(),
                    screen: screen.clone(),
                });
            }
        }
        (DeliveryMethod::File, _) => {
            let stdin = DeliveryText::Text(format!("{}\n", how.by_file));
            acts.push(DeliveryAction::Spawn { argv, env, cwd, stdin });
        }
        (DeliveryMethod::Argument, _) => {
            acts.push(DeliveryAction::Spawn { argv, env, cwd, stdin: DeliveryText::Text(String::new()) })
        }
        (DeliveryMethod::Stdin | DeliveryMethod::Terminal, _) => {
            acts.push(DeliveryAction::Spawn { argv, env, cwd, stdin: own_text(before) });
        }
    }
    let parts = parts::describe_parts(agent, prompt, shared.len(), by);
    Ok(Delivery { by, acts, parts, diagnostics: filling.diagnostics })
}

/// Returns the rules that allow the commands of `how`. Reports each command that the agent cannot be allowed.
fn compile_rules(
    agent: &Agent,
    how: &DeliveryContext,
    diagnostics: &mut Vec<Diagnostic>,
    wrong: &mut Vec<Diagnostic>,
) -> Vec<String> {
    let mut rules = Vec::new();
    for text in &how.allow {
        match AllowedCommand::parse(text) {
            Err(diag) => wrong.push(diag),
            Ok(command) => match agent.check_command(&command) {
                Ok(rule) => rules.extend(rule),
                Err(diag) => diagnostics.push(diag),
            },
        }
    }
    rules
}

fn refused_error(message: impl Into<String>) -> Diagnostic {
    Diagnostic::error(Code::DeliverRefused, message)
}

/// Returns the problems that no delivery method can solve.
fn find_refusals(agent: &Agent, prompt: &str, how: &DeliveryContext) -> Vec<Diagnostic> {
    let mut wrong = Vec::new();
    if prompt.trim().is_empty() {
        wrong.push(refused_error("the prompt is empty"));
    }
    for (what, value) in [("model", &how.model), ("session", &how.session), ("session", &how.resume)] {
        // A value is an argument of its own after its flag: with a dash it could pass for the next flag.
        let odd = |value: &&String| {
            !value.starts_with(|c: char| c.is_ascii_alphanumeric())
                || value.contains(|c: char| c.is_control() || c.is_whitespace())
        };
        if let Some(value) = value.as_ref().filter(odd) {
            let message = format!("invalid {what} name `{value}`");
            wrong.push(
                refused_error(message)
                    .hint("a name begins with a letter or digit and contains no whitespace"),
            );
        }
    }
    for path in [&how.worktree, &how.folder].into_iter().filter(|path| !path.starts_with('/')) {
        wrong.push(refused_error(format!("`{path}` is not an absolute path")));
    }
    let globs = how.scope.write.iter().chain(&how.scope.exclude);
    let words = how.command.iter().chain(how.env.keys()).chain(how.env.values()).chain(globs);
    let mcp = how.mcp.iter().flat_map(|mcp| [&mcp.command].into_iter().chain(&mcp.args));
    for word in words.chain(mcp).filter(|word| word.contains('\0')) {
        wrong.push(refused_error(format!(
            "`{word}` contains a NUL character, which an argument cannot contain"
        )));
    }
    for name in how.env.keys().filter(|name| name.is_empty() || name.contains('=')) {
        wrong.push(refused_error(format!("invalid variable name `{name}`")));
    }
    match &agent.start {
        None => wrong.push(refused_error(format!("{} has no start command", agent.name))),
        Some(start) if start.program.is_none() && how.command.is_empty() => {
            wrong.push(
                refused_error(format!("{} needs a command line", agent.name)).hint("give it after `--`"),
            );
        }
        Some(_) => {}
    }
    wrong
}

/// Returns the delivery method, and the text that must precede the prompt.
fn choose_method(
    agent: &Agent,
    prompt: &str,
    how: &DeliveryContext,
    diagnostics: &mut Vec<Diagnostic>,
) -> Result<(DeliveryMethod, String), Diagnostic> {
    let takes = &agent.prompt;
    let wanted = match how.by {
        Some(by) if takes.by.contains(&by) => by,
        Some(by) => {
            let ways: Vec<&str> = takes.by.iter().map(|by| by.name()).collect();
            let message = format!("{} does not accept a prompt by {}", agent.name, by.name());
            return Err(refused_error(message).hint(format!("accepted: {}", ways.join(", "))));
        }
        None => {
            *takes.by.first().ok_or_else(|| refused_error(format!("{} accepts no prompts", agent.name)))?
        }
    };
    let mut before = String::new();
    let mut reasons = Vec::new();
    if matches!(wanted, DeliveryMethod::Stdin | DeliveryMethod::Argument) {
        let named = if how.at_paths.is_empty() { Vec::new() } else { find_at_paths(prompt) };
        let paths = how.at_paths.iter().filter(|path| named.contains(path));
        let paths: Vec<String> = paths.map(|path| format!("`@{path}`")).collect();
        if takes.expands_at_paths && !paths.is_empty() {
            reasons.push(format!(
                "{} would replace {} in the prompt with files",
                agent.name,
                paths.join(", ")
            ));
        }
        if takes.commands.iter().any(|command| prompt.starts_with(command.as_str())) {
            match &takes.defused_by {
                Some(defused) => before.clone_from(defused),
                None => reasons.push(format!("{} would read the prompt as a command", agent.name)),
            }
        }
        reasons.extend(
            agent
                .check_limits(prompt.len(), || prompt.chars().count())
                .into_iter()
                .map(|limit| limit.message),
        );
    }
    if wanted == DeliveryMethod::Argument {
        let most = takes.max_argument_bytes.unwrap_or(MAX_ARGUMENT_BYTES);
        if prompt.len() + before.len() > most {
            reasons.push(format!("an argument is limited to {most} bytes; the prompt has {}", prompt.len()));
        }
        if prompt.contains('\0') || (prompt.starts_with('-') && before.is_empty()) {
            reasons.push(
                "the prompt begins with `-` or contains a NUL character, so it cannot be an argument"
                    .to_string(),
            );
        }
    }
    if matches!(wanted, DeliveryMethod::File | DeliveryMethod::Terminal) || !reasons.is_empty() {
        check_one_line(&how.by_file)?;
    }
    if reasons.is_empty() {
        if !before.is_empty() {
            let message = format!(
                "a newline was added before the prompt; otherwise {} would read it as a command",
                agent.name
            );
            diagnostics.push(Diagnostic::warning(Code::DeliverOtherwise, message));
        }
        return Ok((wanted, before));
    }
    let reason = reasons.join("; ");
    if !takes.by.contains(&DeliveryMethod::File) {
        return Err(refused_error(reason).hint(format!("{} does not accept a prompt by file", agent.name)));
    }
    diagnostics.push(Diagnostic::warning(
        Code::DeliverOtherwise,
        format!("the prompt is delivered by file: {reason}"),
    ));
    Ok((DeliveryMethod::File, String::new()))
}

/// The longest argument that Linux accepts.
const MAX_ARGUMENT_BYTES: usize = 131_071;

/// Checks that a line to type or send is one line, and does not begin like a command.
fn check_one_line(line: &str) -> Result<(), Diagnostic> {
    let odd = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
    if line.trim().is_empty() || line.contains(odd) {
        let message = format!("`{line}` cannot be typed as one line");
        return Err(refused_error(message).hint("keep runs in a folder whose path has no control characters"));
    }
    if line.starts_with(['/', '!', '#', '-', '@', ' ']) {
        return Err(refused_error(format!("the agent could read `{line}` as a command")));
    }
    Ok(())
}

/// Returns the line that asks an agent to read the file at `path`. Its wording is a template.
pub fn by_file_line(library: &DynLibrary<'_>, layout: &Layout, path: &str) -> Result<String, Diagnostics> {
    let body = library.read_body(BY_FILE, layout)?.map(|(_, body)| body).unwrap_or_default();
    let body = body.trim();
    let mut line = String::with_capacity(body.len() + path.len());
    for node in parse_braces(body, TextRange { start: 0, end: body.len() }) {
        match node {
            TemplateNode::Text(span) => line.push_str(span.slice(body)),
            TemplateNode::Slot(name) if name.slice(body) == "prompt_file" => line.push_str(path),
            TemplateNode::Slot(_) | TemplateNode::Fragment(_) | TemplateNode::Include(_) => {}
        }
    }
    Ok(line)
}

/// Returns the texts that an agent could take for an `@path` and expand, as written after the `@`. Returns
/// too many rather than too few: the caller checks which of them exist.
pub fn find_at_paths(prompt: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut add = |path: &str| {
        if !path.is_empty() && !found.iter().any(|known| known == path) {
            found.push(path.to_string());
        }
    };
    for (at, _) in prompt.match_indices('@') {
        let rest = &prompt[at + 1..];
        if let Some((quoted, _)) = rest.strip_prefix('"').and_then(|rest| rest.split_once('"')) {
            add(quoted);
            continue;
        }
        let mut escaped = false;
        let word = rest.chars().take(4096).take_while(|c| {
            let is_end = c.is_whitespace() && !escaped;
            escaped = *c == '\\' && !escaped;
            !is_end
        });
        let plain: String = word.filter(|c| *c != '\\').collect();
        add(&plain);
        add(plain.split('#').next().unwrap_or_default());
        add(plain.trim_end_matches(['.', ',', ';', ':', '!', '?', ')', ']', '}', '>', '"', '\'', '`', '*']));
    }
    found
}
