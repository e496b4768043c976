//! Renders the changes from one prompt to another.

use callsheet::prompt_diff::SectionChanges;
use callsheet_core::diag::escape_invisible;

use crate::print::{OutputPrinter, TextStyle};

/// Renders the changed lines, below their sections and causes.
pub(crate) fn diff_page(print: &OutputPrinter, sections: &[SectionChanges<'_>]) -> String {
    let mut page = String::new();
    for (name, changes) in sections {
        page += &format!("{}\n", print.paint(TextStyle::Bold, &escape_invisible(name)));
        let mut last = String::new();
        for change in changes {
            let because = change.explain();
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
