//! Renders the changes from one prompt to another.

use callsheet_core::diag::escape_invisible;
use serde_json::{Value, json};

use crate::print::{OutputPrinter, TextStyle};
use crate::prompt_diff::{DiffSide, LineChange, SectionChanges};

/// Describes the changes as JSON.
pub(crate) fn diff_json(from: &DiffSide, to: &DiffSide, sections: &[SectionChanges<'_>]) -> Value {
    json!({
        "from": from.composed.run.id,
        "to": to.composed.run.id,
        "same": from.text == to.text,
        "sections": sections.iter().map(section_json).collect::<Vec<_>>(),
    })
}

fn section_json((name, changes): &SectionChanges<'_>) -> Value {
    let changes: Vec<Value> = changes
        .iter()
        .map(|change| {
            let op = if change.insert { "insert" } else { "delete" };
            json!({ "op": op, "line": change.line, "origin": change.origin, "why": change.why })
        })
        .collect();
    json!({ "section": name, "changes": changes })
}

/// Renders the changed lines, below their sections and causes.
pub(crate) fn diff_page(print: &OutputPrinter, sections: &[SectionChanges<'_>]) -> String {
    let mut page = String::new();
    for (name, changes) in sections {
        page += &format!("{}\n", print.paint(TextStyle::Bold, &escape_invisible(name)));
        let mut last = String::new();
        for change in changes {
            let because = explain_change(change);
            if because != last {
                page += &format!("  {}\n", print.paint(TextStyle::Cyan, &escape_invisible(&because)));
                last = because;
            }
            let (sign, paint) = if change.insert { ('+', TextStyle::Green) } else { ('-', TextStyle::Red) };
            let line = format!("{sign} {}", escape_invisible(&change.line));
            page += &format!("{}\n", print.paint(paint, &line));
        }
    }
    page
}

fn explain_change(change: &LineChange) -> String {
    let label = change.origin.as_deref().unwrap_or_default();
    match change.why {
        "engine" => "callsheet's own text around it changed".into(),
        "changed" => format!("because {label} changed"),
        "new" => format!("because {label} is new"),
        "gone" => format!("because {label} is gone"),
        _ => format!("{label} is the same, but is shown elsewhere or in another part"),
    }
}
