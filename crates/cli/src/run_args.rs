//! The flags of commands that start an agent, and the output of these commands.

use callsheet::error::{CommandResult, usage_error};
use callsheet::events::{EventOutput, follow_run};
use callsheet::output::{RunPlanOutput, RunResultOutput};
use callsheet::project::duration::HumanDuration;
use callsheet::run::options::RunOverrides;
use callsheet::run::{InterruptFlag, PreparedRun, RunStopper};
use callsheet_core::library::agent::DeliveryMethod;

use crate::args::PermitArg;
use crate::context::CommandContext;
use crate::pages::plan::plan_page;
use crate::pages::result::print_result;

/// How an agent is started. Shared by all commands that start one.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct RunArgs {
    /// Run CMD in the worktree after the agent, without a shell; the check passes if CMD exits with 0
    #[arg(long, value_name = "NAME=CMD")]
    pub(crate) check: Vec<String>,
    /// Let the agent run this command without asking, with the permission edit: `pytest -q`, or `pytest *` with any further
    /// arguments
    #[arg(long, value_name = "COMMAND")]
    pub(crate) allow: Vec<String>,
    /// The time limit of the agent and its checks together, such as 90s, 30m or 2h
    #[arg(long, value_name = "TIME")]
    pub(crate) timeout: Option<HumanDuration>,
    /// Stop the agent when it has cost more than this many dollars; an error if its cost cannot be known: it reports no cost,
    /// and its model has no price
    #[arg(long, value_name = "USD")]
    pub(crate) max_cost: Option<f64>,
    /// The actions that the agent may perform without asking [default: the configured ones; else edit]
    #[arg(long, value_name = "WHAT")]
    pub(crate) permit: Option<PermitArg>,
    /// The model of the agent [default: the agent's own]
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// Work in a separate worktree and branch: those of the task, or of the run if it has no task id. callsheet never
    /// deletes files in it
    #[arg(long)]
    pub(crate) worktree: bool,
    /// Share the checkout with another run that works there; changes in it are then attributed to neither
    #[arg(long)]
    pub(crate) share: bool,
    /// Run in a folder without git that has more than 20,000 files or 1 GiB, and do not check the scope
    #[arg(long)]
    pub(crate) no_scope: bool,
    /// Start the agent in a tmux terminal, and type a line that names the prompt; the command returns, and the agent keeps working
    #[arg(long)]
    pub(crate) terminal: bool,
    /// Use an agent that already runs in this tmux pane
    #[arg(long, value_name = "PANE", conflicts_with = "terminal")]
    pub(crate) pane: Option<String>,
    /// Let one agent implement the whole plan
    #[arg(long)]
    pub(crate) single_coder: bool,
    #[command(flatten)]
    pub(crate) split: SplitArgs,
    /// With --json, print the events of the run as they happen, one object per line, before its result
    #[arg(long)]
    pub(crate) events: bool,
    /// Show the whole reply and the whole output of failed checks, instead of their last lines
    #[arg(long)]
    pub(crate) full: bool,
    /// Run this command, without a shell, when the run has ended
    #[arg(long, value_name = "COMMAND")]
    pub(crate) notify: Option<String>,
    /// Attach the agent to the MCP server that accepts its submissions
    #[arg(long)]
    pub(crate) mcp: bool,
}

/// Whether prompts are delivered in two parts.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub(crate) struct SplitArgs {
    /// Deliver the prompt in two parts: everything before the task in the agent's system prompt, which prompt caches of other runs
    /// share, and the rest as usual; an error if the agent cannot add to its system prompt
    #[arg(long)]
    split: bool,
    /// Deliver the prompt as one, even if the configuration or the agent's file splits it
    #[arg(long, conflicts_with = "split")]
    no_split: bool,
}

impl SplitArgs {
    /// Returns the choice; `None` if neither flag is given.
    pub(crate) fn to_choice(self) -> Option<bool> {
        (self.split || self.no_split).then_some(self.split)
    }
}

impl RunArgs {
    /// Converts the flags.
    pub(crate) fn to_overrides(&self) -> RunOverrides {
        RunOverrides {
            by: (self.terminal || self.pane.is_some()).then_some(DeliveryMethod::Terminal),
            model: self.model.clone(),
            permit: self.permit.map(|permit| permit.0),
            allow: self.allow.clone(),
            checks: self.check.clone(),
            timeout: self.timeout,
            max_cost_usd: self.max_cost,
            worktree: self.worktree,
            share: self.share,
            no_scope: self.no_scope,
            pane: self.pane.clone(),
            single_coder: self.single_coder,
            split: self.split.to_choice(),
        }
    }
}

/// Executes a prepared run and prints its result.
pub(crate) fn drive(app: &CommandContext, args: &RunArgs, ready: PreparedRun) -> CommandResult {
    let app = &app.with_notify(args.notify.as_deref())?;
    let stopper = RunStopper::new(&InterruptFlag::listen()?);
    if !args.events {
        let report = ready.execute(app, &stopper)?;
        print_result(app, &report.summary, args.full)?;
        return Ok(report.exit_code());
    }
    if !app.print.json {
        return Err(usage_error("`--events` needs `--json`").into());
    }
    let run = ready.id().clone();
    let print = |event: &EventOutput| app.print.print_stream_line(event).map(drop);
    let report = follow_run(app, &run, print, || ready.execute(app, &stopper))??;
    app.print.print_stream_line(&RunResultOutput::from(&report.summary))?;
    Ok(report.exit_code())
}

/// Shows a run before its start.
pub(crate) fn print_dry_run(app: &CommandContext, mut ready: PreparedRun) -> CommandResult {
    let plan = RunPlanOutput::new(&mut ready);
    app.print.print_diagnostics(ready.diagnostics());
    app.print.print_output(|| plan.clone(), || plan_page(&plan))
}
