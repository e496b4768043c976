//! `callsheet context`: shows the request that an agent's CLI makes of a prompt, by part.

use std::path::PathBuf;

use callsheet::context::{ContextOptions, ContextProbe, compare_contexts};
use callsheet::error::{CommandResult, FINDING, INTERRUPTED, Result, usage_error};
use callsheet::output::ContextOutput;
use callsheet::project::duration::HumanDuration;
use callsheet::run::InterruptFlag;
use callsheet::run::options::RunOverrides;
use callsheet::{ComposeInput, Purpose};
use callsheet_core::diag::{Code, Diagnostic};
use callsheet_core::record::Id;
use callsheet_run::read_file;
use clap::{ArgMatches, Subcommand};

use crate::args::{ComposeArgs, PermitArg};
use crate::context::CommandContext;
use crate::html_file::write_html;
use crate::pages::context::{context_page, diff_page, lanes_page};
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
    #[arg(long, value_name = "RUN", conflicts_with_all = ["task", "instructions", "request", "lanes"])]
    run: Option<String>,
    /// Start the CLI in the project itself, not in a copy
    #[arg(long)]
    here: bool,
    /// Start the CLI with an empty home, without your settings, MCP servers, hooks and login
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

/// Said before a CLI starts with the user's own home.
const OWN_HOME: &str = "the CLI starts with your own home: your MCP servers, hooks and skills are started as in any run; `--isolated` \
                        gives it an empty one";

#[derive(Debug, Subcommand)]
enum ContextAction {
    /// Compare two probes by part: two agents, versions, prompts or worktrees, or a recorded probe with a new one
    Diff(DiffArgs),
}

#[derive(Debug, clap::Args)]
struct DiffArgs {
    /// The first probe: a run with a recorded probe, `last` for the newest one, or a file that `context --json` printed
    #[arg(value_name = "PROBE")]
    before: String,
    /// The second probe [default: the prompt of the first one, probed now]
    #[arg(value_name = "PROBE")]
    after: Option<String>,
    /// Start the CLI with an empty home for the new probe [default: as in the first one]
    #[arg(long)]
    isolated: bool,
    /// Print the changed lines of every part
    #[arg(long)]
    full: bool,
}

pub(crate) fn run(app: &CommandContext, args: &Args, given: Option<&ArgMatches>) -> CommandResult {
    let interrupted = InterruptFlag::listen()?;
    let done = match &args.action {
        Some(ContextAction::Diff(diff)) => compare(app, diff, &interrupted),
        None => probe(app, args, given, &interrupted),
    };
    if interrupted.is_set() { Ok(INTERRUPTED) } else { done }
}

fn probe(
    app: &CommandContext,
    args: &Args,
    given: Option<&ArgMatches>,
    interrupted: &InterruptFlag,
) -> CommandResult {
    let mut input = args.ask.to_input(given);
    input.mcp = args.mcp;
    let (ref app, file) = app.read_request(&input)?;
    let options = probe_options(args, interrupted)?;
    if !options.isolated {
        app.print.print_status(OWN_HOME);
    }
    if let Some(lanes) = args.lanes {
        let report = app.probe_lanes(&input, file, lanes, args.min_shared, &options)?;
        app.print.print_output(|| report.clone(), || lanes_page(&app.print, &report))?;
        return Ok(if report.passes { 0 } else { FINDING });
    }
    let (run, mut probe) = match &args.run {
        Some(name) => {
            let (run, probe) = app.probe_run(name, &options)?;
            (args.record.then_some(run), probe)
        }
        None => probe_new(app, &input, file, args.record, &options)?,
    };
    if let Some(run) = &run {
        app.record_context(run, &mut probe)?;
        app.print.print_status(&format!("recorded with run {run}"));
    }
    if let Some(file) = &args.html {
        return write_html(app, &callsheet_web::context_file(app, &probe.output)?, file);
    }
    print_context(app, probe.output, args.full)
}

/// Composes and probes a prompt, and records it if it is to be recorded.
fn probe_new(
    app: &CommandContext,
    input: &ComposeInput,
    file: callsheet::compose::inputs::RequestFile,
    record: bool,
    options: &ContextOptions,
) -> Result<(Option<Id>, ContextProbe)> {
    let composition = app.compose_request(input, file, Purpose::Record)?;
    let run = if record { Some(app.record(&composition)?) } else { None };
    Ok((run, app.probe_context(composition, options)?))
}

fn probe_options(args: &Args, interrupted: &InterruptFlag) -> Result<ContextOptions> {
    if args.min_shared.is_some_and(|percent| !(0.0..=100.0).contains(&percent)) {
        return Err(usage_error("`--min-shared` must be a number from 0 to 100").into());
    }
    let overrides = RunOverrides {
        model: args.model.clone(),
        permit: args.permit.map(|permit| permit.0),
        split: args.split.to_choice(),
        ..RunOverrides::default()
    };
    Ok(ContextOptions {
        overrides,
        here: args.here,
        isolated: args.isolated,
        timeout: args.timeout,
        interrupted: interrupted.clone(),
        ..ContextOptions::default()
    })
}

fn print_context(app: &CommandContext, mut output: ContextOutput, full: bool) -> CommandResult {
    if !full {
        output.parts.iter_mut().for_each(|part| part.text = None);
    }
    app.print.print_output(|| output.clone(), || context_page(&app.print, &output))
}

fn compare(app: &CommandContext, args: &DiffArgs, interrupted: &InterruptFlag) -> CommandResult {
    let before = read_probe(app, &args.before)?;
    let after = match &args.after {
        Some(after) => read_probe(app, after)?,
        None => {
            let run = before.run.clone().ok_or_else(|| {
                usage_error("the first probe is not recorded, so it cannot be repeated; give a second one")
            })?;
            let isolated = args.isolated || before.isolated;
            let options =
                ContextOptions { isolated, interrupted: interrupted.clone(), ..ContextOptions::default() };
            app.probe_run(run.as_str(), &options)?.1.output
        }
    };
    let mut diff = compare_contexts(&before, &after);
    if !args.full && !app.print.json {
        diff.parts.iter_mut().for_each(|part| part.lines.truncate(MOST_LINES));
    }
    app.print.print_output(|| diff.clone(), || diff_page(&app.print, &diff))?;
    Ok(if diff.parts.is_empty() { 0 } else { FINDING })
}

/// The most changed lines of a part without `--full`.
const MOST_LINES: usize = 6;

/// The largest file of a probe.
const MOST_FILE: u64 = 256 << 20;

/// Reads a probe from a file, or from the record of a run.
fn read_probe(app: &CommandContext, name: &str) -> Result<ContextOutput> {
    let path = app.here.join(name);
    if !path.is_file() {
        return Ok(app.read_context(name)?.output);
    }
    let bad = |why: String| {
        Diagnostic::error(Code::InputUnreadable, format!("`{name}` is not a probe: {why}"))
            .hint("make one with `callsheet context --json --full … > FILE`")
    };
    let text = read_file(&path, MOST_FILE).map_err(|error| bad(error.to_string()))?.unwrap_or_default();
    Ok(serde_json::from_str(&text).map_err(|error| bad(error.to_string()))?)
}
