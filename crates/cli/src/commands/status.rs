//! `callsheet status`: prints the status of tasks, derived from the facts of their runs.

use callsheet::error::CommandResult;
use callsheet::local_time::LocalClock;
use callsheet::output::{ListOutput, TaskOutput};
use callsheet::run::tasks::TaskList;

use crate::context::CommandContext;
use crate::pages::status::{task_page, tasks_page};

/// List the open tasks, each with why it is open and what to type next
///
/// A task is cancelled, running, needs_review, done, failed, ready or open, the first that applies by the facts of its runs; what an agent says of
/// itself does not count. Tasks that are done or closed are left out. The runs of a flow are no tasks: `callsheet flow status` shows them.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A task by its id, or by a run of it [default: the open tasks, the newest first]
    #[arg(value_name = "TASK")]
    task: Option<String>,
    /// Also the tasks that are done or closed, without a limit
    #[arg(long, conflicts_with = "task")]
    all: bool,
    /// How many tasks [default: 20, or all with --all]
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
