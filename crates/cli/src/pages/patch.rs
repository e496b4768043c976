//! Renders the changes of files as patches.

use std::io::{self, IsTerminal as _};

use callsheet::error::CommandResult;
use callsheet::output::ChangesOutput;
use callsheet::run::changes::{FileDiff, PatchBody};
use callsheet_core::diag::escape_invisible;
use callsheet_core::record::Id;

use crate::context::CommandContext;
use crate::pager::print_paged;
use crate::print::{OutputPrinter, TextStyle};

/// Prints the changes of a run, or the differences between two.
pub(crate) fn print_patch(
    app: &CommandContext,
    run: &Id,
    from: Option<&Id>,
    files: &[FileDiff],
) -> CommandResult {
    if app.print.json {
        return app.print.print_json(&ChangesOutput::new(run, from, files));
    }
    if files.is_empty() {
        app.print.print_status("no differences");
    }
    print_paged(&app.print, &patch_page(&app.print, files, io::stdout().is_terminal()))
}

/// Renders patches: exactly as `git apply` takes them, or for a terminal with colours and without invisible characters.
fn patch_page(print: &OutputPrinter, files: &[FileDiff], is_terminal: bool) -> String {
    let mut page = String::new();
    for file in files {
        if !is_terminal {
            page += &file.patch();
            continue;
        }
        for line in file.header().lines() {
            page += &format!("{}\n", print.paint(TextStyle::Bold, &escape_invisible(line)));
        }
        match &file.body {
            PatchBody::Omitted(why) => page += &format!("not shown: {}\n", why.reason()),
            PatchBody::Lines { hunks, .. } => {
                for line in hunks.split_inclusive('\n') {
                    let line = line.strip_suffix('\n').unwrap_or(line);
                    let shown = escape_invisible(line);
                    page += &match line.bytes().next() {
                        Some(b'+') => print.paint(TextStyle::Green, &shown),
                        Some(b'-') => print.paint(TextStyle::Red, &shown),
                        Some(b'@') => print.paint(TextStyle::Cyan, &shown),
                        _ => shown,
                    };
                    page.push('\n');
                }
            }
        }
    }
    page
}
