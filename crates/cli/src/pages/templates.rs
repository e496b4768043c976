//! Renders templates, and the difference between two.

use callsheet::compose::tokens::count_tokens;
use callsheet_core::SourceRoot;
use callsheet_core::diag::escape_invisible;
use callsheet_lint::catalog::TemplateSummary;

use crate::print::{OutputPrinter, TextStyle};

/// Renders templates as a list.
pub(crate) fn templates_page(print: &OutputPrinter, all: &[TemplateSummary]) -> String {
    let width = all.iter().map(|template| template.path.chars().count()).max().unwrap_or(0);
    let mut page = String::new();
    for template in all {
        let root = template.source.root().name();
        let colour =
            if template.source.root() == SourceRoot::Builtin { TextStyle::Dim } else { TextStyle::Green };
        let root = print.paint(colour, root).into_owned() + &" ".repeat(8 - root.len());
        let about = match &template.problem {
            Some(problem) => format!("cannot be used: {}", problem.message),
            None => template.variables.join(" "),
        };
        let (path, about) = (escape_invisible(&template.path), escape_invisible(&about));
        let line = format!("{path:width$}  {root} {:>4}  {about}", count_tokens(&template.words));
        page += &format!("{}\n", line.trim_end());
    }
    page
}

/// Colours the lines of a unified diff.
pub(crate) fn diff_page(print: &OutputPrinter, diff: &str) -> String {
    let line = |line: &str| {
        let shown = escape_invisible(line);
        match line.as_bytes().first() {
            Some(b'+') => format!("{}\n", print.paint(TextStyle::Green, &shown)),
            Some(b'-') => format!("{}\n", print.paint(TextStyle::Red, &shown)),
            _ => format!("{shown}\n"),
        }
    };
    diff.lines().map(line).collect()
}
