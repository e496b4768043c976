//! Defines the command line as types. Parsing reads no file and no environment variable.

use std::path::PathBuf;

use callsheet::compose::inputs::{ComposeInput, InputItem, InputKind};
use callsheet_core::library::agent::PermissionLevel;
use callsheet_core::library::format::ModelApi;
use callsheet_core::library::format::PromptFormat;
use callsheet_core::library::recipe::MissingPolicy;
use callsheet_core::record::LogStream;
use callsheet_core::secrets::SecretMode;
use clap::builder::PossibleValue;
use clap::{ArgMatches, Args, Parser, Subcommand, ValueEnum};

use crate::commands;

/// Composes, delivers and records the prompts of AI coding agents
///
/// `run` gives an agent one task; `flow` drives a change through all of its phases. Both record the prompt,
/// the changes that the agent made, and the results of your checks. callsheet composes every prompt from a
/// request, a recipe and sources, and can name the source of every byte. It makes no network connections of
/// its own, except to a PostgreSQL ledger.
#[derive(Debug, Parser)]
#[command(
    name = "callsheet",
    version,
    after_help = "Start with:\n  callsheet demo\n  callsheet init\n  callsheet run -a claude \"Fix the login timeout\"\n  callsheet flow start sdd -a claude \"Add login\"\n  callsheet explain -p plan \"Add login\""
)]
pub(crate) struct CliArgs {
    #[command(flatten)]
    pub(crate) global: GlobalArgs,
    #[command(subcommand)]
    pub(crate) command: CliCommand,
}

#[derive(Debug, Args)]
pub(crate) struct GlobalArgs {
    /// Use the project in DIR [default: the nearest directory upwards with .callsheet, else with .git, else
    /// the current one]
    #[arg(short = 'C', long, global = true, value_name = "DIR", help_heading = "Global options")]
    pub(crate) project: Option<PathBuf>,
    /// Use this ledger: a file, or postgres://USER@HOST/DATABASE [default: the project's own ledger in the
    /// state directory]
    #[arg(long, global = true, value_name = "URL", help_heading = "Global options")]
    pub(crate) ledger: Option<String>,
    /// Include the runs and flows of all projects in the ledger
    #[arg(long, global = true, help_heading = "Global options")]
    pub(crate) all_projects: bool,
    /// Print results and errors as JSON
    #[arg(long, global = true, help_heading = "Global options")]
    pub(crate) json: bool,
    /// Print only errors and results
    #[arg(short, long, global = true, conflicts_with = "verbose", help_heading = "Global options")]
    pub(crate) quiet: bool,
    /// Also print notes, such as which fallback template was used
    #[arg(short, long, global = true, help_heading = "Global options")]
    pub(crate) verbose: bool,
    /// Choose when to use colours
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", help_heading = "Global options")]
    pub(crate) color: ColorMode,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorMode {
    Auto,
    Always,
    Never,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CliCommand {
    Demo(commands::demo::Args),
    /// Create .callsheet/ with a commented configuration; existing files stay as they are
    ///
    /// Reads Cargo.toml, package.json, pyproject.toml, pytest.ini, setup.cfg, go.mod and Makefile, and
    /// proposes checks as comments in the configuration. Checks run the project's own code, so they need your
    /// trust.
    Init,
    Compose(commands::compose::Args),
    Explain(commands::explain::Args),
    Context(commands::context::Args),
    Run(commands::run::Args),
    Retry(commands::retry::RetryArgs),
    Continue(commands::retry::ContinueArgs),
    Stop(commands::stop::Args),
    Status(commands::status::Args),
    Stats(commands::stats::Args),
    Task(commands::task::Args),
    Recover(commands::recover::Args),
    Decide(commands::decide::Args),
    Revert(commands::restore::RevertArgs),
    Apply(commands::restore::ApplyArgs),
    Flow(commands::flow::Args),
    Ledger(commands::ledger::Args),
    Log(commands::log::Args),
    Show(commands::show::Args),
    Diff(commands::diff::Args),
    Verify(commands::verify::Args),
    Export(commands::export::Args),
    Import(commands::import::Args),
    Watch(commands::watch::Args),
    Serve(commands::serve::Args),
    Gc(commands::gc::Args),
    Read(commands::read::Args),
    Render(commands::render::Args),
    /// Check all templates, recipes, contracts and flows, and report every problem
    ///
    /// Exits with 1 if there are errors.
    Check,
    Fuzz(commands::fuzz::Args),
    Templates(commands::templates::Args),
    Prefs(commands::prefs::Args),
    Mcp(commands::mcp::Args),
    /// List the supported agents, and which of them are installed
    Agents,
    /// Check that everything `run` needs is installed, and suggest fixes
    ///
    /// Exits with 1 if a required program is missing.
    Doctor,
    Trust(commands::trust::Args),
    Config(commands::config::Args),
    Schema(commands::schema::Args),
    Completions(commands::completions::Args),
    Man(commands::man::Args),
}

/// The inputs of a prompt. Shared by all commands that compose.
#[derive(Clone, Debug, Args)]
pub(crate) struct ComposeArgs {
    /// The task; - reads it from standard input
    #[arg(value_name = "TASK")]
    pub(crate) task: Option<String>,
    /// The task, as an option
    #[arg(short, long, value_name = "TEXT", conflicts_with = "task")]
    pub(crate) instructions: Option<String>,
    /// The recipe: layers, unified, staged, run, or one of the project [default: the configured one; else
    /// unified with --phase, staged with --command or --session, else run]
    #[arg(short, long, value_name = "NAME")]
    pub(crate) recipe: Option<String>,
    /// The agent: claude, codex, gemini, copilot, opencode, …; add @VERSION for an older version [default:
    /// the profile's agent; else the configured one; else base]
    #[arg(short, long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    /// The phase: plan, challenge, implement, review, archive, …
    #[arg(short, long, value_name = "NAME")]
    pub(crate) phase: Option<String>,
    /// The role: an identity (recipe layers), an agent role (staged) or a profile (run)
    #[arg(long, value_name = "NAME")]
    pub(crate) role: Option<String>,
    /// The command of the recipe staged: review, review-followup, fix, summary, change
    #[arg(long, value_name = "NAME")]
    pub(crate) command: Option<String>,
    /// Fill the slot KEY with VALUE, literally
    #[arg(short, long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Fill the slot KEY with the contents of a file
    #[arg(long, value_name = "KEY=PATH")]
    pub(crate) set_file: Vec<String>,
    /// Fill the slot KEY with a secret from a file; the agent gets it, the ledger and all output get a
    /// placeholder; - reads standard input
    #[arg(long, value_name = "KEY=PATH")]
    pub(crate) set_secret: Vec<String>,
    /// Fill the slot KEY with a secret from the environment variable NAME
    #[arg(long, value_name = "KEY=NAME")]
    pub(crate) set_secret_env: Vec<String>,
    /// Add TEXT as the context block NAME, literally
    #[arg(long, value_name = "NAME=TEXT")]
    pub(crate) context: Vec<String>,
    /// Add the contents of a file as the context block NAME
    #[arg(long, value_name = "NAME=PATH")]
    pub(crate) context_file: Vec<String>,
    /// Add a file to the prompt, or its path (recipe run); a directory or a glob adds its files, - adds
    /// standard input
    #[arg(short, long, value_name = "PATH")]
    pub(crate) file: Vec<String>,
    /// Choose how much of the files at PATH the prompt contains: full, outline or path; PATH may be a
    /// directory or a glob
    #[arg(long, value_name = "PATH=LEVEL")]
    pub(crate) detail: Vec<String>,
    /// Add the text of a file, or its lines L1 to L2, even if the recipe lists only paths (run); if the agent
    /// does not accept embedded files, add the path
    #[arg(long, value_name = "PATH[:L1-L2]")]
    pub(crate) embed: Vec<String>,
    /// Add a file that an earlier run wrote
    #[arg(long, value_name = "PATH")]
    pub(crate) artifact: Vec<String>,
    /// Add an earlier thought
    #[arg(long, value_name = "TEXT")]
    pub(crate) thought: Vec<String>,
    /// Tell the agent to read PATH before it starts
    #[arg(long, value_name = "PATH")]
    pub(crate) read_first: Vec<String>,
    /// Let the agent write the files that match GLOB
    #[arg(long, value_name = "GLOB")]
    pub(crate) write: Vec<String>,
    /// Forbid changes of the files that match GLOB
    #[arg(long, value_name = "GLOB")]
    pub(crate) exclude: Vec<String>,
    /// The task's id in your tracker, such as T-12
    #[arg(long, value_name = "ID")]
    pub(crate) task_id: Option<String>,
    /// The task in one line
    #[arg(long, value_name = "TEXT")]
    pub(crate) title: Option<String>,
    /// Add the tool definitions of a JSON array; only --format json shows them
    #[arg(long, value_name = "FILE")]
    pub(crate) tools: Option<String>,
    /// Resolve includes in this directory [default: the project]
    #[arg(long, value_name = "DIR")]
    pub(crate) session: Option<PathBuf>,
    /// Read the request from a TOML or JSON file; - reads standard input; flags override or extend it
    #[arg(long, value_name = "FILE")]
    pub(crate) request: Option<String>,
    /// The format of the prompt [default: the recipe's]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) format: Option<FormatArg>,
    /// With --format json, print the body of a request to this API
    #[arg(long, value_name = "API")]
    pub(crate) api: Option<ApiArg>,
    /// Limit the prompt to this many tokens: sections of lower priority are shortened or omitted
    #[arg(long, value_name = "TOKENS")]
    pub(crate) budget: Option<usize>,
    /// Choose the treatment of a slot without a value [default: the recipe's policy]
    #[arg(long, value_name = "POLICY")]
    pub(crate) missing: Option<MissingArg>,
    /// Choose the treatment of a secret in the request or in a source [default: the configured one; else
    /// `warn` if the prompt is only printed, `refuse` if it is recorded, as by `run` and `--record`]
    #[arg(long, value_name = "MODE")]
    pub(crate) secrets: Option<ModeArg>,
}

impl ComposeArgs {
    /// Converts the flags. `given` knows the order of those that may be mixed.
    pub(crate) fn to_input(&self, given: Option<&ArgMatches>) -> ComposeInput {
        ComposeInput {
            request_file: self.request.clone(),
            task: self.task.clone().or_else(|| self.instructions.clone()),
            recipe: self.recipe.clone(),
            agent: self.agent.clone(),
            phase: self.phase.clone(),
            role: self.role.clone(),
            command: self.command.clone(),
            items: self.order_items(given),
            detail: self.detail.clone(),
            read_first: self.read_first.clone(),
            write: self.write.clone(),
            exclude: self.exclude.clone(),
            task_id: self.task_id.clone(),
            title: self.title.clone(),
            tools: self.tools.clone(),
            session: self.session.clone(),
            format: self.format.map(|format| format.0),
            api: self.api.map(|api| api.0),
            budget: self.budget,
            missing: self.missing.map(|missing| missing.0),
            secrets: self.secrets.map(|mode| mode.0),
            ..ComposeInput::default()
        }
    }

    /// Returns the flags that may be mixed, in the order of the command line.
    fn order_items(&self, given: Option<&ArgMatches>) -> Vec<InputItem> {
        let flags = [
            ("set", InputKind::Value, &self.set),
            ("set_file", InputKind::ValueFile, &self.set_file),
            ("set_secret", InputKind::Secret, &self.set_secret),
            ("set_secret_env", InputKind::SecretVariable, &self.set_secret_env),
            ("context", InputKind::Context, &self.context),
            ("context_file", InputKind::ContextFile, &self.context_file),
            ("file", InputKind::File, &self.file),
            ("artifact", InputKind::Artifact, &self.artifact),
            ("embed", InputKind::Embed, &self.embed),
            ("thought", InputKind::Thought, &self.thought),
        ];
        let mut items: Vec<(usize, InputItem)> = Vec::new();
        for (flag, kind, values) in flags {
            let places = given.and_then(|given| given.indices_of(flag)).into_iter().flatten();
            items.extend(places.zip(values).map(|(at, text)| (at, InputItem { kind, text: text.clone() })));
        }
        items.sort_by_key(|(at, _)| *at);
        items.into_iter().map(|(_, item)| item).collect()
    }
}

/// Defines an option type whose values are those of an enum of core.
macro_rules! values {
    ($name:ident of $inner:ty { $($variant:ident $text:literal $help:literal,)* }) => {
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub(crate) struct $name(pub(crate) $inner);

        impl ValueEnum for $name {
            fn value_variants<'a>() -> &'a [Self] {
                &[$(Self(<$inner>::$variant),)*]
            }
            fn to_possible_value(&self) -> Option<PossibleValue> {
                Some(match self.0 { $(<$inner>::$variant => PossibleValue::new($text).help($help),)* })
            }
        }
    };
}

values! { FormatArg of PromptFormat {
    Markdown "markdown" "Sections with headings",
    Xml "xml" "One element per part, byte-exact",
    Json "json" "The unified prompt as JSON",
}}

values! { ApiArg of ModelApi {
    Anthropic "anthropic" "Messages",
    Openai "openai" "Responses",
    Gemini "gemini" "generateContent",
}}

values! { MissingArg of MissingPolicy {
    Error "error" "Refuse to compose",
    Empty "empty" "Leave it empty, with a warning",
    Notice "notice" "Insert the recipe's notice, with a warning",
}}

values! { PermitArg of PermissionLevel {
    Ask "ask" "Keep the agent's own permissions",
    Edit "edit" "Allow changes of files in its worktree",
    All "all" "Allow everything",
}}

values! { ModeArg of SecretMode {
    Warn "warn" "Keep it in a prompt that is only printed, with a warning",
    Refuse "refuse" "Compose nothing",
    Redact "redact" "Replace it by a placeholder",
    Allow "allow" "Keep it, and record that it was kept",
}}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StreamArg {
    Meta,
    Stdout,
    Stderr,
}

impl StreamArg {
    pub(crate) const fn to_stream(self) -> LogStream {
        match self {
            Self::Meta => LogStream::Meta,
            Self::Stdout => LogStream::Stdout,
            Self::Stderr => LogStream::Stderr,
        }
    }
}
