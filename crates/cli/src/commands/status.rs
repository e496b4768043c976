//! `callsheet status`: prints the status of tasks, derived from the facts of their runs.

use callsheet::error::CommandResult;
use callsheet::local_time::LocalClock;
use callsheet::output::{ListOutput, TaskOutput};
use callsheet::run::tasks::TaskList;

use crate::context::CommandContext;
use crate::pages::status::{task_page, tasks_page};

/// List the open tasks, each with the reason why it is open and the next command
///
/// The status of a task is the first that applies of cancelled, running, needs_review, done, failed, ready and open. It depends
/// on the facts of the task's runs, not on the claims of an agent. The runs of a flow are not tasks: `callsheet flow status`
/// lists them.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The task: its id, or one of its runs [default: the open tasks, the newest first]
    #[arg(value_name = "TASK")]
    task: Option<String>,
    /// List all tasks, also those that are done or closed
    #[arg(long, conflicts_with = "task")]
    all: bool,
    /// List at most N tasks [default: 20, or all with --all]
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
}

pub(crate) fn run(app: &CommandContext, args: &Args) -> CommandResult {
    let clock = LocalClock::read();
    if let Some(name) = &args.task {
        let standing = app.task_standing(name)?;
        return app.print.print_output(
            || ListOutput { items: vec![TaskOutput::new(&standing, &clock)] },
            || task_page(&app.print, &standing, &clock),
        );
    }
    let limit = args.limit.or((!args.all).then_some(20));
    let TaskList { tasks, has_more } = app.list_tasks(args.all, limit)?;
    app.print.print_output(
        || tasks.iter().map(|standing| TaskOutput::new(standing, &clock)).collect::<ListOutput<_>>(),
        || tasks_page(&app.print, &tasks, &clock),
    )?;
    if has_more {
        app.print.print_status("older tasks are not listed; add `--all`, or `--limit N`");
    }
    Ok(0)
}
