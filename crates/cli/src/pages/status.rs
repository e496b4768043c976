//! Renders tasks: where they stand, why, and what to type next.

use callsheet::local_time::LocalClock;
use callsheet::run::task_reason::TaskSummary;
use callsheet::run::tasks::{TaskStanding, is_lost};
use callsheet_core::diag::escape_invisible;
use callsheet_core::record::RunSummary;
use callsheet_core::record::task_status::TaskStatus;

use super::log::outcome_style;
use super::table::{TableCell, table_page};
use crate::print::{OutputPrinter, TextStyle};

/// Renders tasks as a table.
pub(crate) fn tasks_page(print: &OutputPrinter, tasks: &[TaskStanding], clock: &LocalClock) -> String {
    if tasks.is_empty() {
        return "no open tasks\n".into();
    }
    let row = |standing: &TaskStanding| {
        let TaskSummary { message, next } = standing.summarize(clock);
        let task = &standing.task;
        let title = if task.title.is_empty() { "-" } else { &task.title };
        let next = next.map(|step| step.command).unwrap_or_default();
        let text = |text: &str| TableCell::new(escape_invisible(text).into_owned());
        vec![
            text(&task.name),
            text(title),
            TableCell::styled(status_word(standing), status_style(standing)),
            text(&message),
            text(&next),
        ]
    };
    let rows: Vec<Vec<TableCell>> = tasks.iter().map(row).collect();
    table_page(print, &["TASK", "TEXT", "STATUS", "WHY", "NEXT"], &rows, 1)
}

/// Renders one task with its runs.
pub(crate) fn task_page(print: &OutputPrinter, standing: &TaskStanding, clock: &LocalClock) -> String {
    let task = &standing.task;
    let TaskSummary { message, next } = standing.summarize(clock);
    let word = print.paint(status_style(standing), status_word(standing)).into_owned();
    let mut page = format!("{}  {word}: {}\n", escape_invisible(&task.name), escape_invisible(&message));
    let mut field = |name: &str, text: &str| page += &format!("  {name:<8} {}\n", escape_invisible(text));
    if !task.title.is_empty() {
        field("task", &task.title);
    }
    for reason in &standing.reasons {
        field("why", reason.words());
    }
    if let Some(next) = next {
        field("next", &next.command);
    }
    task.runs.iter().for_each(|run| page += &run_line(print, run, clock));
    page
}

fn status_word(standing: &TaskStanding) -> &'static str {
    match (standing.task.closed(), standing.status) {
        (Some(_), _) => "closed",
        (None, TaskStatus::NeedsReview) => "needs review",
        (None, status) => status.name(),
    }
}

fn status_style(standing: &TaskStanding) -> TextStyle {
    match standing.status {
        _ if standing.task.closed().is_some() => TextStyle::Dim,
        TaskStatus::Done => TextStyle::Green,
        TaskStatus::Failed | TaskStatus::NeedsReview => TextStyle::Red,
        _ => TextStyle::Yellow,
    }
}

fn run_line(print: &OutputPrinter, run: &RunSummary, clock: &LocalClock) -> String {
    let outcome = run.outcome();
    let words = print.paint(outcome_style(outcome), outcome.words());
    let lost = if is_lost(run) { "; callsheet was killed: run `callsheet recover`" } else { "" };
    let age = clock.age(&run.run.started);
    format!("  {:<8} {words}{lost}, started {age}\n", run.name())
}
