//! Renders results: pages for people, JSON objects for programs. Commands print them.

pub(crate) mod context;
pub(crate) mod diff;
pub(crate) mod doctor;
pub(crate) mod explain;
mod flow_runs;
pub(crate) mod flow_status;
pub(crate) mod ledger;
pub(crate) mod log;
pub(crate) mod patch;
pub(crate) mod plan;
pub(crate) mod reply;
pub(crate) mod result;
pub(crate) mod show;
pub(crate) mod stats;
pub(crate) mod status;
mod table;
pub(crate) mod templates;
pub(crate) mod verify;

use callsheet::run::next_steps::NextStep;
use callsheet_core::delivery::{DeliveredPart, PromptPart};
pub(crate) use callsheet_core::diag::counted;
use callsheet_core::diag::{Diagnostic, escape_invisible};
use callsheet_core::library::agent::PermissionLevel;
use callsheet_core::request::Profile;

use crate::print::{OutputPrinter, TextStyle};

/// Renders the heading of a part of a page.
fn heading(print: &OutputPrinter, text: &str) -> String {
    format!("\n{}\n", print.paint(TextStyle::Bold, text))
}

/// Renders the line between two parts of a prompt.
fn part_heading(print: &OutputPrinter, text: &str) -> String {
    format!("══ {}\n", print.paint(TextStyle::Bold, text))
}

/// Describes the delivery of a part of a prompt.
fn part_words(part: &DeliveredPart) -> String {
    let bytes = counted(part.end.saturating_sub(part.start), "byte");
    match part.part {
        PromptPart::Shared => format!("{bytes} in the system prompt by {}", part.by.name()),
        PromptPart::Own => format!("{bytes} by {}", part.by.name()),
    }
}

/// Describes the delivery of the parts of a prompt.
fn parts_line(parts: &[DeliveredPart]) -> String {
    parts.iter().map(part_words).collect::<Vec<_>>().join(", then ")
}

/// Renders a table with a heading. Its cells may come from anywhere.
fn table<const N: usize>(
    print: &OutputPrinter,
    head: [&str; N],
    rows: impl Iterator<Item = [String; N]>,
) -> String {
    let visible = |cell: String| escape_invisible(&cell).into_owned();
    let rows = std::iter::once(head.map(str::to_owned)).chain(rows.map(|row| row.map(visible)));
    let rows: Vec<[String; N]> = rows.collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..N).map(width).collect();
    let mut page = String::new();
    for (at, row) in rows.iter().enumerate() {
        let padded = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        let line = padded.collect::<Vec<_>>().join("  ");
        let line = line.trim_end();
        page += &format!("{}\n", if at == 0 { print.paint(TextStyle::Bold, line) } else { line.into() });
    }
    page
}

/// Renders the commands that a person can type next.
fn next_page(print: &OutputPrinter, steps: &[NextStep]) -> String {
    let width = steps.iter().map(|step| step.command.chars().count()).max().unwrap_or(0);
    let mut page = if steps.is_empty() { String::new() } else { "next:\n".to_owned() };
    for step in steps {
        let purpose = print.paint(TextStyle::Dim, &step.purpose);
        page += &format!("  {:<width$}  {purpose}\n", escape_invisible(&step.command));
    }
    page
}

/// Renders a profile as one line: its name, version and bindings.
fn profile_line(profile: &Profile) -> String {
    let bound = [
        ("version", profile.version.as_deref()),
        ("agent", profile.agent.as_deref()),
        ("model", profile.model.as_deref()),
        ("permit", profile.permit.map(PermissionLevel::name)),
    ];
    let bound = bound.into_iter().filter_map(|(name, value)| Some(format!(", {name} {}", value?)));
    bound.fold(profile.name.clone(), |line, part| line + &part)
}

/// Renders the end of a command that searched for problems: how much it examined, and the numbers of its findings.
pub(crate) fn count_line(examined: usize, what: &str, errors: usize, warnings: usize) -> String {
    let (examined, errors) = (counted(examined, what), counted(errors, "error"));
    format!("{examined} checked: {errors}, {}", counted(warnings, "warning"))
}

/// Renders diagnostics that are the result of a command.
pub(crate) fn findings_page<'d>(
    print: &OutputPrinter,
    diags: impl IntoIterator<Item = &'d Diagnostic>,
) -> String {
    diags.into_iter().map(|diag| print.render_for_stdout(diag) + "\n").collect()
}

/// Returns where each line of a text begins and ends, without its line end.
fn line_ranges(text: &str) -> impl Iterator<Item = (usize, usize)> {
    let mut start = 0;
    text.split_inclusive('\n').map(move |line| {
        let from = start;
        start += line.len();
        (from, from + line.trim_end_matches('\n').len())
    })
}
