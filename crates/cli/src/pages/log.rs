//! Renders a list of runs.

use callsheet::local_time::LocalClock;
use callsheet_core::diag::escape_invisible;
use callsheet_core::record::{ChecksOutcome, RunOutcome};
use callsheet_store::{RunRow, StoredFacts};

use super::table::{TableCell, table_page};
use crate::print::{OutputPrinter, TextStyle};

/// Renders runs and their titles as a table, with their projects if there are several.
pub(crate) fn runs_page(
    print: &OutputPrinter,
    rows: &[(RunRow, String)],
    clock: &LocalClock,
    has_projects: bool,
) -> String {
    let mut head = vec!["RUN", "AGE", "TASK", "AGENT", "OUTCOME", "CHECKS", "FILES", "TIME", "COST"];
    if has_projects {
        head.push("PROJECT");
    }
    let rows: Vec<Vec<TableCell>> =
        rows.iter().map(|(row, title)| row_cells(row, title, clock, has_projects)).collect();
    table_page(print, &head, &rows, 2)
}

fn row_cells(row: &RunRow, title: &str, clock: &LocalClock, has_projects: bool) -> Vec<TableCell> {
    let text = |text: &str| TableCell::new(escape_invisible(text).into_owned());
    let facts = row.facts.as_ref();
    let mut cells = vec![
        text(&row.name()),
        text(&clock.age(&row.run.started)),
        text(&task_text(row, title)),
        text(&agent_text(row)),
        outcome_cell(row),
        facts.map_or_else(|| text("-"), checks_cell),
        text(
            &facts
                .and_then(|facts| facts.changed_files)
                .map_or_else(|| "-".into(), |count| count.to_string()),
        ),
        text(&facts.and_then(|facts| facts.duration_ms).map_or_else(|| "-".into(), short_duration)),
        text(&facts.and_then(cost_text).unwrap_or_else(|| "-".into())),
    ];
    if has_projects {
        cells.push(text(row.run.project.as_deref().unwrap_or("-")));
    }
    cells
}

/// Returns the id of the task, and the title of the run.
fn task_text(row: &RunRow, title: &str) -> String {
    match (&row.run.task, Some(title).filter(|title| !title.is_empty())) {
        (Some(task), Some(title)) => format!("{task} {title}"),
        (Some(task), None) => task.clone(),
        (None, title) => title.unwrap_or("-").to_owned(),
    }
}

/// Returns the agent, and the program that was started in its place.
fn agent_text(row: &RunRow) -> String {
    let agent = row.run.agent.as_deref().filter(|agent| !matches!(*agent, "base" | "command"));
    let program = row.facts.as_ref().and_then(|facts| facts.program.as_deref());
    match (agent, program) {
        (Some(agent), Some(program)) => format!("{agent} ({program})"),
        (agent, program) => agent.or(program).unwrap_or("-").to_owned(),
    }
}

fn outcome_cell(row: &RunRow) -> TableCell {
    let Some(facts) = &row.facts else { return TableCell::new("-") };
    let words = facts.outcome.words();
    let verdict = row.verdict.as_deref().map(|verdict| format!(" ({})", escape_invisible(verdict)));
    let words = format!("{words}{}", verdict.unwrap_or_default());
    TableCell::styled(words, outcome_style(facts.outcome))
}

/// Returns the colour of an outcome.
pub(crate) fn outcome_style(outcome: RunOutcome) -> TextStyle {
    match outcome {
        RunOutcome::Succeeded => TextStyle::Green,
        RunOutcome::Composed => TextStyle::Dim,
        outcome if outcome.is_failure() => TextStyle::Red,
        _ => TextStyle::Yellow,
    }
}

fn checks_cell(facts: &StoredFacts) -> TableCell {
    let text = format!("{}/{}", facts.checks_passed, facts.checks_total);
    match facts.checks {
        ChecksOutcome::None => TableCell::new("-"),
        ChecksOutcome::Passed => TableCell::new(text),
        ChecksOutcome::Failed | ChecksOutcome::Pending => TableCell::styled(text, TextStyle::Red),
    }
}

/// Renders a duration for a column: `320ms`, `12s`, `3m04s`, `2h05m`.
pub(crate) fn short_duration(ms: u64) -> String {
    match ms / 1000 {
        0 => format!("{ms}ms"),
        seconds @ 1..60 => format!("{seconds}s"),
        seconds @ 60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        seconds => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
    }
}

/// Renders the cost of a run, with a mark if it is an estimate.
fn cost_text(facts: &StoredFacts) -> Option<String> {
    let about = if facts.cost_estimated { "~" } else { "" };
    Some(format!("{about}{}", dollars(facts.cost_microusd?)))
}

/// Renders millionths of a dollar.
pub(crate) fn dollars(micros: u64) -> String {
    format!("${:.2}", micros as f64 / 1e6)
}
