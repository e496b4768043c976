//! `callsheet status`: prints the status of tasks, derived from the facts of their runs.

use callsheet::error::CommandResult;
use callsheet::output::{ListOutput, TaskOutput};
use callsheet::run::tasks::{TaskRuns, is_lost};
use callsheet_core::diag::escape_invisible;
use callsheet_core::record::RunSummary;
use callsheet_core::record::task_status::{TaskReason, TaskStatus};

use crate::context::CommandContext;
use crate::print::TextStyle;

/// Show the status of a task by the facts of its runs, and the reasons
///
/// The status is the first of cancelled, running, needs_review, done, failed, ready and open that applies. Claims of an agent
/// do not count.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A task, or a run of one [default: the tasks of the newest runs]
    #[arg(value_name = "TASK")]
    task: Option<String>,
    /// The maximum number of tasks
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: usize,
}

pub(crate) fn run(app: &CommandContext, args: &Args) -> CommandResult {
    let tasks = match &args.task {
        Some(name) => vec![app.find_task(name)?],
        None => app.newest_tasks(args.limit)?,
    };
    let standings: Vec<_> = tasks.iter().map(|task| task.status(app)).collect();
    let rows = || tasks.iter().zip(&standings);
    let task_page = |(task, (status, reasons)): (&TaskRuns, &(TaskStatus, Vec<TaskReason>))| {
        let paint = match status {
            TaskStatus::Done => TextStyle::Green,
            TaskStatus::Failed | TaskStatus::NeedsReview => TextStyle::Red,
            _ => TextStyle::Yellow,
        };
        let why: Vec<&str> = reasons.iter().map(|reason| reason.name()).collect();
        let why = if why.is_empty() { String::new() } else { format!("  ({})", why.join(", ")) };
        let (name, status) = (escape_invisible(&task.name), app.print.paint(paint, status.name()));
        let runs: String = task.runs.iter().filter(|_| args.task.is_some()).map(run_line).collect();
        format!("{name}  {status}{why}\n{runs}")
    };
    app.print.print_output(
        || {
            rows()
                .map(|(task, (status, reasons))| TaskOutput::new(task, *status, reasons))
                .collect::<ListOutput<_>>()
        },
        || rows().map(task_page).collect(),
    )
}

/// Formats a run as one line.
fn run_line(run: &RunSummary) -> String {
    let started = run.run.started.get(..19).unwrap_or_default();
    let how = match &run.exit {
        _ if is_lost(run) => "callsheet was killed; run `callsheet recover`".into(),
        Some(exit) => exit.ended.name().to_owned(),
        None => String::new(),
    };
    let line = format!("  {}  {started}  {}  {how}", run.run.id, run.status().name());
    format!("{}\n", line.trim_end())
}
