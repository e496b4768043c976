//! `callsheet task`: records that a person expects no more of a task, or counts it again.

use callsheet::error::CommandResult;
use callsheet::output::TaskDecisionOutput;
use callsheet_core::diag::escape_invisible;
use callsheet_core::record::TaskDecision;

use crate::context::CommandContext;

/// Close a task, or reopen it
///
/// A person decides: the decision is recorded with the newest run of the task. `callsheet status` leaves out closed tasks. A new run of the task opens
/// it again. An agent cannot decide, nor can any other process below a guard.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: TaskCommand,
}

#[derive(Debug, clap::Subcommand)]
enum TaskCommand {
    /// Expect no more of a task: `status` leaves it out
    Close {
        /// A task by its id, or by a run of it
        #[arg(value_name = "TASK")]
        task: String,
        /// The reason, for later readers
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
        /// Decide without a terminal
        #[arg(long)]
        yes: bool,
    },
    /// Count a closed task again
    Reopen {
        /// A task by its id, or by a run of it
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
