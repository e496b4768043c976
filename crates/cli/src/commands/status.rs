//! `callsheet status`: prints the status of tasks, derived from the facts of their runs.

use callsheet_core::diag::{Code, Diagnostic, Diagnostics, escape_invisible};
use callsheet_core::record::RunSummary;
use callsheet_core::record::task_status::{TaskReason, TaskStatus};
use callsheet_store::{Ledger, RunFilter};
use serde_json::{Value, json};

use crate::context::CommandContext;
use crate::print::TextStyle;
use callsheet::error::CommandResult;
use callsheet::project::state::RunDir;
use callsheet::run::tasks::{TaskRuns, find_task, newest_tasks};
use callsheet::run::{is_driven, is_pane_alive};
use callsheet_run::host_name;

/// Show where a task stands by the facts of its runs, and why
///
/// cancelled, running, needs_review, done, failed, ready or open, the first that applies. What an agent says of itself does
/// not count.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A task, or a run of one [default: the tasks of the newest runs]
    #[arg(value_name = "TASK")]
    task: Option<String>,
    /// How many tasks
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: usize,
}

pub(crate) fn run(app: &CommandContext, args: &Args) -> CommandResult {
    let mut ledger = app.read_ledger()?;
    let tasks = match &args.task {
        Some(name) => vec![find_named(app, &mut ledger, name)?],
        None => newest_tasks(app, &mut ledger, args.limit)?,
    };
    let standings: Vec<_> = tasks.iter().map(|task| task.task_status(app)).collect();
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
        || json!({ "tasks": rows().map(task_json).collect::<Vec<_>>() }),
        || rows().map(task_page).collect(),
    )
}

fn find_named(app: &CommandContext, ledger: &mut Ledger, name: &str) -> Result<TaskRuns, Diagnostics> {
    let project = app.project_filter(ledger)?;
    let filter = RunFilter { project, own: true, task: Some(name.into()), limit: 1, ..RunFilter::default() };
    let of_task = ledger.runs(&filter)?.into_iter().next();
    let row = match of_task {
        Some(row) => row,
        None => app.find_run(ledger, name).map_err(|_| {
            let message = format!("there is no task and no run `{name}`");
            Diagnostic::error(Code::TaskNotFound, message)
                .hint("`callsheet status` lists tasks, `callsheet log` runs")
        })?,
    };
    find_task(app, ledger, &row)
}

/// Formats a run as one line.
fn run_line(run: &RunSummary) -> String {
    let started = run.run.started.get(..19).unwrap_or_default();
    let how = match &run.exit {
        _ if is_lost(run) => "its callsheet died: `callsheet recover`".into(),
        Some(exit) => exit.ended.name().to_owned(),
        None => String::new(),
    };
    let line = format!("  {}  {started}  {}  {how}", run.run.id, run.status().name());
    format!("{}\n", line.trim_end())
}

/// Checks whether an unfinished run of this machine has neither a driving process nor a live terminal.
fn is_lost(run: &RunSummary) -> bool {
    let here = run.launch.as_ref().is_some_and(|launch| launch.host == host_name());
    let in_terminal = || RunDir::from_run(&run.run.id).ok().and_then(|run_dir| run_dir.pane());
    !run.is_complete()
        && here
        && !is_driven(&run.run.id)
        && !in_terminal().as_ref().is_some_and(is_pane_alive)
}

fn task_json((task, (status, reasons)): (&TaskRuns, &(TaskStatus, Vec<TaskReason>))) -> Value {
    let runs = task.runs.iter().map(|run| {
        json!({
            "run": run.run.id, "parent": run.run.parent, "status": run.status(), "started": run.run.started,
            "ended": run.exit.as_ref().map(|exit| exit.ended), "checked": run.checks_outcome(),
            "violations": run.violations(), "lost": is_lost(run),
        })
    });
    json!({ "task": task.name, "status": status, "reasons": reasons, "runs": runs.collect::<Vec<_>>() })
}
