//! `callsheet task`: records that a person expects no more of a task, or counts it again.

use callsheet::error::CommandResult;
use callsheet::output::TaskDecisionOutput;
use callsheet_core::diag::escape_invisible;
use callsheet_core::record::TaskDecision;

use crate::context::CommandContext;

/// Close a task, or reopen it
///
/// Only a person can decide: agents and their child processes are refused. The decision is recorded with the newest run of
/// the task. A new run of a closed task reopens it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: TaskCommand,
}

#[derive(Debug, clap::Subcommand)]
enum TaskCommand {
    /// Close a task: `status` no longer lists it
    Close {
        /// The task: its id, or one of its runs
        #[arg(value_name = "TASK")]
        task: String,
        /// The reason, for later readers
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
        /// Decide without a terminal
        #[arg(long)]
        yes: bool,
    },
    /// Reopen a closed task: `status` lists it again
    Reopen {
        /// The task: its id, or one of its runs
        #[arg(value_name = "TASK")]
        task: String,
        /// The reason, for later readers
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
        /// Decide without a terminal
        #[arg(long)]
        yes: bool,
    },
}

pub(crate) fn run(app: &CommandContext, args: &Args) -> CommandResult {
    let (task, decision, reason, yes) = match &args.command {
        TaskCommand::Close { task, reason, yes } => (task, TaskDecision::Close, reason, *yes),
        TaskCommand::Reopen { task, reason, yes } => (task, TaskDecision::Reopen, reason, *yes),
    };
    let done = app.decide_task(task, decision, reason.as_deref(), yes)?;
    if app.print.json {
        return app.print.print_json(&TaskDecisionOutput::from(&done));
    }
    let word = if decision == TaskDecision::Close { "closed" } else { "reopened" };
    app.print.print_status(&format!("{word}: {}", escape_invisible(&done.task)));
    Ok(0)
}
