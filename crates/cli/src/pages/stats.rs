//! Renders statistics of runs.

use callsheet::output::{cached_share, runs_until_success};
use callsheet::run::cost::dollars;
use callsheet::stats::StatsReport;
use callsheet_core::diag::escape_invisible;
use callsheet_core::record::RunOutcome;
use callsheet_store::{StatsKey, StatsRow};

use super::counted;
use super::result::duration_words;
use crate::print::{OutputPrinter, TextStyle};

/// Renders statistics as a table with a last row for all runs, and below it what the table does not say.
pub(crate) fn stats_page(print: &OutputPrinter, report: &StatsReport) -> String {
    let has_titles = report.by.contains(&StatsKey::Task);
    let keys = report.by.len();
    let mut head: Vec<String> = report.by.iter().map(|key| key.name().to_uppercase()).collect();
    head.extend(
        ["RUNS", "GOOD", "FAILED", "TRIES", "TIME", "IN", "CACHED", "OUT", "COST"].map(str::to_owned),
    );
    if has_titles {
        head.push("TITLE".into());
    }
    let mut table = vec![head];
    table.extend(report.rows.iter().map(|row| row_cells(&report.by, row, has_titles)));
    let mut total = row_cells(&[], &report.total, has_titles);
    for at in 0..keys {
        total.insert(at, if at == 0 { "all".into() } else { String::new() });
    }
    table.push(total);
    fit_columns(&mut table, keys, has_titles, print.width().unwrap_or(usize::MAX));
    let widths: Vec<usize> = (0..table[0].len()).map(|column| column_width(&table, column)).collect();
    let is_text = |column: usize| column < keys || column >= keys + 9;
    let mut page = String::new();
    for (at, row) in table.iter().enumerate() {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| {
            if is_text(column) { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        let line = cells.collect::<Vec<_>>().join("  ");
        let style = if at == 0 || at + 1 == table.len() && keys > 0 { Some(TextStyle::Bold) } else { None };
        let line = line.trim_end();
        page += &style.map_or_else(|| line.into(), |style| print.paint(style, line));
        page.push('\n');
    }
    page + &notes(report)
}

fn row_cells(by: &[StatsKey], row: &StatsRow, has_title: bool) -> Vec<String> {
    let shown = |(key, value): (&StatsKey, &Option<String>)| {
        let value = value.as_deref().unwrap_or("-");
        let short = if *key == StatsKey::Template { short_template(value) } else { value.to_owned() };
        escape_invisible(&short).into_owned()
    };
    let mut cells: Vec<String> = by.iter().zip(&row.keys).map(shown).collect();
    let count = |wanted: &[RunOutcome]| -> u64 {
        row.outcomes.iter().filter(|(outcome, _)| wanted.contains(outcome)).map(|(_, runs)| runs).sum()
    };
    let failed: u64 =
        row.outcomes.iter().filter(|(outcome, _)| outcome.is_failure()).map(|(_, runs)| runs).sum();
    let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".into());
    let about = if row.estimated_runs > 0 { "~" } else { "" };
    cells.extend([
        row.runs.to_string(),
        count(&[RunOutcome::Succeeded]).to_string(),
        failed.to_string(),
        or_none(runs_until_success(row).map(|tries| format!("{tries:.1}"))),
        or_none(row.duration_ms.map(duration_words)),
        or_none(row.input_tokens.map(short_count)),
        or_none(cached_share(row).map(|share| format!("{:.0}%", share * 100.0))),
        or_none(row.output_tokens.map(short_count)),
        or_none(row.cost_microusd.map(|cost| format!("{about}{}", dollars(cost)))),
    ]);
    if has_title {
        cells.push(escape_invisible(row.title.as_deref().unwrap_or_default()).into_owned());
    }
    cells
}

/// Renders a number of tokens: `950`, `12.3k`, `4.5M`.
fn short_count(number: u64) -> String {
    match number {
        0..10_000 => number.to_string(),
        10_000..1_000_000 => format!("{:.1}k", number as f64 / 1e3),
        _ => format!("{:.1}M", number as f64 / 1e6),
    }
}

/// Renders a template as `templates` names it, with the beginning of its version.
fn short_template(label: &str) -> String {
    let (path, version) = label.rsplit_once('@').unwrap_or((label, ""));
    let path = path.split_once(':').map_or(path, |(_, path)| path);
    let path = path.rsplit_once("templates/").map_or(path, |(_, path)| path);
    let path = path.strip_suffix(".md").unwrap_or(path);
    let version: String = version.chars().take(8).collect();
    if version.is_empty() { path.to_owned() } else { format!("{path}@{version}") }
}

fn column_width(table: &[Vec<String>], column: usize) -> usize {
    table.iter().map(|row| row[column].chars().count()).max().unwrap_or(0)
}

/// The narrowest column of texts.
const LEAST_WIDTH: usize = 8;

/// Shortens the texts of the widest columns until the table fits; numbers stay whole.
fn fit_columns(table: &mut [Vec<String>], keys: usize, has_title: bool, width: usize) {
    let columns = table[0].len();
    let texts: Vec<usize> = (0..keys).chain(has_title.then(|| columns - 1)).collect();
    loop {
        let widths: Vec<usize> = (0..columns).map(|column| column_width(table, column)).collect();
        let total: usize = widths.iter().sum::<usize>() + 2 * (columns - 1);
        let widest = texts.iter().copied().max_by_key(|column| widths[*column]);
        let Some(column) = widest.filter(|column| total > width && widths[*column] > LEAST_WIDTH) else {
            return;
        };
        let second =
            texts.iter().filter(|other| **other != column).map(|other| widths[*other]).max().unwrap_or(0);
        let least =
            (widths[column].saturating_sub(total - width)).max(second.saturating_sub(1)).max(LEAST_WIDTH);
        let most = least.min(widths[column] - 1);
        for row in table.iter_mut() {
            let cell = &mut row[column];
            if cell.chars().count() > most {
                *cell = cell.chars().take(most - 1).chain(['…']).collect();
            }
        }
    }
}

fn notes(report: &StatsReport) -> String {
    let mut notes = String::new();
    let total = &report.total;
    if report.left_out > 0 {
        notes += &format!("{} more: add `--all`\n", counted(report.left_out, "group"));
    }
    let outcomes: Vec<String> =
        total.outcomes.iter().map(|(outcome, runs)| format!("{runs} {}", outcome.words())).collect();
    if !outcomes.is_empty() {
        notes += &format!("outcomes: {}\n", outcomes.join(", "));
    }
    if total.estimated_runs > 0 {
        let runs = counted(usize::try_from(total.estimated_runs).unwrap_or(usize::MAX), "run");
        notes += &format!("cost of {runs} is estimated from tokens and prices\n");
    }
    if total.unpriced_runs > 0 {
        let runs = counted(usize::try_from(total.unpriced_runs).unwrap_or(usize::MAX), "run");
        notes += &format!("cost of {runs} is not known\n");
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_texts_are_shortened_first() {
        let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        let mut table =
            vec![row(["TASK", "RUNS", "TITLE"]), row(["T-123456789", "100000", &"word ".repeat(20)])];
        fit_columns(&mut table, 1, true, 40);
        let widths: Vec<usize> = (0..3).map(|column| column_width(&table, column)).collect();
        assert_eq!(widths, [11, 6, 19]);
        fit_columns(&mut table, 1, true, 10);
        assert_eq!(table[1], row(["T-12345…", "100000", "word wo…"]));
    }

    #[test]
    fn templates_are_named_shortly() {
        assert_eq!(
            short_template("builtin:templates/system/BASE-plan.md@0123456789ab"),
            "system/BASE-plan@01234567"
        );
        assert_eq!(short_template("user:profiles/coder.md@"), "profiles/coder");
        assert_eq!(short_template("-"), "-");
    }
}
