//! Renders a recorded run, its records, its output and its prompt with origins.

use callsheet::flow::run_view::RunView;
use callsheet::run::agent_version::agent_version_words;
use callsheet::run::next_steps::ResultDetails;
use callsheet_core::diag::escape_invisible;
use callsheet_core::record::{Composed, OriginRange};
use callsheet_store::{LogExcerpt, StoredRecord};

use super::result::result_page;
use super::{heading, line_ranges, part_heading, part_words, parts_line, profile_line};
use crate::print::{OutputPrinter, TextStyle};

/// Renders a run.
pub(crate) fn run_page(
    print: &OutputPrinter,
    view: &RunView,
    details: &ResultDetails,
    is_full: bool,
) -> String {
    let RunView { row, composed, summary, records, refused } = view;
    let mut page = String::new();
    let mut field = |name: &str, value: &str| {
        page += &format!("{:10}{}\n", format!("{name}:"), escape_invisible(value));
    };
    let run = &row.run;
    field("run", &format!("{} ({})", row.name(), run.id));
    field("started", &run.started);
    let version = agent_version_words(summary).filter(|_| run.agent.is_some());
    let agent = run.agent.as_ref().map(|agent| match version {
        Some(version) => format!("{agent} ({version})"),
        None => agent.clone(),
    });
    let maybe = [
        ("parent", run.parent.as_ref().map(|id| id.as_str())),
        ("task", run.task.as_deref()),
        ("agent", agent.as_deref()),
        ("phase", run.phase.as_deref()),
        ("role", run.role.as_deref()),
        ("recipe", Some(run.recipe.as_str())),
        ("ended", row.ended.as_deref()),
        ("verdict", row.verdict.as_deref()),
        ("project", run.project.as_deref()),
        ("host", composed.made_by.as_ref().map(|made_by| made_by.host.as_str())),
        ("user", composed.made_by.as_ref().map(|made_by| made_by.user.as_str())),
        ("imported", row.imported.then_some("imported from another ledger")),
    ];
    for (name, value) in maybe {
        if let Some(value) = value {
            field(name, value);
        }
    }
    if let Some(profile) = &composed.profile {
        field("profile", &profile_line(profile));
    }
    field("prompt", &format!("{} bytes, SHA-256 {}", composed.output.bytes, composed.output.sha256));
    if let Some(launch) = summary.launch.as_ref().filter(|launch| !launch.parts.is_empty()) {
        field("delivered", &parts_line(&launch.parts));
    }
    field("engine", &composed.engine.to_string());
    field("records", &records.to_string());
    for decided in summary.decisions() {
        field("decided", &format!("{} {} ({})", decided.decision, decided.what, decided.by.name()));
    }
    refused.iter().for_each(|reason| field("refused", reason));
    if summary.launch.is_some() {
        page += &format!("\n{}", result_page(print, summary, details, is_full));
    }
    page += &heading(print, "Made of");
    for origin in &composed.output.origins {
        let label = origin.label();
        page += &format!("  {}  {} ({})\n", origin.version, escape_invisible(&label), origin.trust.name());
    }
    if !composed.warnings.is_empty() {
        page += &heading(print, "Warnings");
    }
    for warning in &composed.warnings {
        let (code, message) = (escape_invisible(&warning.code), escape_invisible(&warning.message));
        page += &format!("  [{code}] {message}\n");
    }
    page
}

/// Renders records, one line each.
pub(crate) fn records_page(records: &[StoredRecord]) -> String {
    let line = |record: &StoredRecord| {
        let (at, kind) = (escape_invisible(&record.at), escape_invisible(&record.kind));
        format!("{:>6}  {at}  {kind}\n", record.seq)
    };
    records.iter().map(line).collect()
}

/// Renders lines of a run's output, which may contain control characters.
pub(crate) fn log_page(log: &LogExcerpt) -> String {
    log.lines.iter().map(|line| format!("{}\n", escape_invisible(&line.data))).collect()
}

/// Renders a recorded prompt, below headings that name the origins of its lines.
pub(crate) fn origins_page(
    print: &OutputPrinter,
    composed: &Composed,
    text: &str,
    placed: &[OriginRange],
) -> String {
    let mut page = String::new();
    let mut last = None;
    let mut parts = composed.launch.iter().flat_map(|launch| &launch.parts).peekable();
    for (start, end) in line_ranges(text) {
        while let Some(part) = parts.next_if(|part| part.start < end.max(start + 1)) {
            page += &part_heading(print, &part_words(part));
        }
        let first = placed.partition_point(|span| span.end <= start);
        let touching = placed[first..].iter().take_while(|span| span.start < end.max(start + 1));
        let mut from: Vec<u32> = touching.filter_map(|span| span.origin).collect();
        from.dedup();
        if last.as_ref() != Some(&from) {
            page += &format_heading(print, &from, composed);
            last = Some(from);
        }
        page += &format!("      │ {}\n", escape_invisible(&text[start..end]));
    }
    page
}

fn format_heading(print: &OutputPrinter, from: &[u32], composed: &Composed) -> String {
    let label = |number: &u32| {
        let origin = composed.output.origins.get(*number as usize)?;
        Some(format!("{} ({}, {})", escape_invisible(&origin.label()), origin.trust.name(), origin.version))
    };
    let labels: Vec<String> = from.iter().filter_map(label).collect();
    let labels = if labels.is_empty() { "engine (ours)".into() } else { labels.join(" + ") };
    format!("── {}\n", print.paint(TextStyle::Cyan, &labels))
}
