//! Renders a list of runs.

use callsheet_core::diag::escape_invisible;
use callsheet_store::RunRow;

use crate::print::{OutputPrinter, TextStyle};

/// Renders runs as a table.
pub(crate) fn runs_page(print: &OutputPrinter, rows: &[RunRow]) -> String {
    let head = ["RUN", "STARTED", "AGENT", "PHASE", "TASK", "RECIPE", "ENDED", "VERDICT"].map(str::to_owned);
    let mut table: Vec<[String; 8]> = vec![head];
    table.extend(rows.iter().map(row_cells));
    let width = |column: usize| table.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..8).map(width).collect();
    let mut page = String::new();
    for (at, row) in table.iter().enumerate() {
        let padded = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        let line = padded.collect::<Vec<_>>().join("  ");
        let line = line.trim_end();
        page += &format!("{}\n", if at == 0 { print.paint(TextStyle::Bold, line) } else { line.into() });
    }
    page
}

fn row_cells(row: &RunRow) -> [String; 8] {
    // Microseconds are noise in a list.
    let started = row.run.started.get(..19).unwrap_or(&row.run.started);
    let text = |text: Option<&str>| escape_invisible(text.unwrap_or("-")).into_owned();
    [
        row.run.id.to_string(),
        escape_invisible(started).into_owned(),
        text(row.run.agent.as_deref()),
        text(row.run.phase.as_deref()),
        text(row.run.task.as_deref()),
        text(Some(&row.run.recipe)),
        text(row.ended.as_deref()),
        text(row.verdict.as_deref()),
    ]
}
