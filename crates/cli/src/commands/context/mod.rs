//! `callsheet context`: shows the request that an agent's CLI makes of a prompt, by part.

mod diff;
mod probe;

use std::path::PathBuf;

use callsheet::error::{CommandResult, INTERRUPTED};
use callsheet::project::duration::HumanDuration;
use callsheet::run::InterruptFlag;
use clap::{ArgMatches, Subcommand};

use crate::args::{ComposeArgs, PermitArg};
use crate::context::CommandContext;
use crate::run_args::SplitArgs;

const EXAMPLES: &str = "Examples:
  callsheet context -a claude \"Fix the login timeout\"
  callsheet context -a codex --lanes 2 --min-shared 90 \"Fix the login timeout\"
  callsheet context -a claude --record \"Fix the login timeout\"
  callsheet context diff last";

/// Show every byte that the model gets with a prompt, its origin and its price
///
/// Starts the installed CLI of the agent as `run` does, in a copy of the project, with a server on this machine in the place of
/// its model. The server keeps the request and ends the turn: no model and no key are used. The CLI finds your own set-up, and
/// starts your MCP servers and hooks as in any run; --isolated gives it an empty home.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Option<ContextAction>,
    #[command(flatten)]
    ask: ComposeArgs,
    /// Probe the recorded prompt of a run: `r42`, `last`, a task's id, or the beginning of the run's id
    #[arg(long, value_name = "RUN", conflicts_with_all = ["ComposeArgs", "lanes", "mcp"])]
    run: Option<String>,
    /// Start the CLI in the project itself, not in a copy
    #[arg(long)]
    here: bool,
    /// Start the CLI with an empty home, without your settings, MCP servers, hooks and login; those of the project are used
    #[arg(long)]
    isolated: bool,
    /// The model of the agent [default: the agent's own]
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// The actions that the agent may perform without asking [default: the configured ones; else edit]
    #[arg(long, value_name = "WHAT")]
    permit: Option<PermitArg>,
    #[command(flatten)]
    split: SplitArgs,
    /// Attach the agent to the MCP server that accepts its submissions
    #[arg(long)]
    mcp: bool,
    /// The time limit of the CLI, such as 90s or 5m
    #[arg(long, value_name = "TIME")]
    timeout: Option<HumanDuration>,
    /// Print the text of every part
    #[arg(long)]
    full: bool,
    /// Record the probe with the run of its prompt, for `context diff` and the page of the run
    #[arg(long, conflicts_with = "lanes")]
    record: bool,
    /// Write the request as one page for a browser to a file that only its owner can read; - writes it to standard output
    #[arg(long, value_name = "FILE", conflicts_with = "lanes")]
    html: Option<PathBuf>,
    /// Probe the prompt with a different task in each of N worktrees, and show the beginning that the requests share
    #[arg(long, value_name = "N")]
    lanes: Option<usize>,
    /// Exit with 1 if the requests share less than this many percent
    #[arg(long, value_name = "PERCENT", requires = "lanes")]
    min_shared: Option<f64>,
}

#[derive(Debug, Subcommand)]
enum ContextAction {
    /// Compare two probes by part: two agents, versions, prompts or worktrees, or a recorded probe with a new one
    Diff(diff::DiffArgs),
}

pub(crate) fn run(app: &CommandContext, args: &Args, given: Option<&ArgMatches>) -> CommandResult {
    let interrupted = InterruptFlag::listen()?;
    let done = match &args.action {
        Some(ContextAction::Diff(diff)) => diff::compare(app, diff, &interrupted),
        None => probe::probe(app, args, given, &interrupted),
    };
    if interrupted.is_set() { Ok(INTERRUPTED) } else { done }
}
