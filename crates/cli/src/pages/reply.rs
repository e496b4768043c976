//! Renders an agent's reply, and the effects of its submissions.

use callsheet::session::SubmissionResult;
use callsheet_core::diag::escape_invisible;
use callsheet_core::reply::{Reply, ReplyProblem};

use crate::print::{OutputPrinter, TextStyle};

/// Renders a reply: its outcome, its tasks and its problems.
pub(crate) fn reply_page(print: &OutputPrinter, reply: &Reply<'_>) -> String {
    let paint = if reply.outcome.is_good() { TextStyle::Green } else { TextStyle::Red };
    let mut page = format!("{}\n", print.paint(paint, reply.outcome.name()));
    for (id, status) in &reply.tasks {
        page += &format!("  {}: {}\n", escape_invisible(id), status.name());
    }
    for ReplyProblem { code, message, place, more } in &reply.problems {
        let place = place.map(|place| format!(" at {}:{}", place.line, place.column)).unwrap_or_default();
        let code = format!("problem[{}]", code.name());
        page += &format!("{}{place}: {}\n", print.paint(TextStyle::Yellow, &code), escape_invisible(message));
        if *more > 0 {
            page += &format!("  = and {more} more of this kind\n");
        }
    }
    page
}

/// Renders a line for each file that was written or removed, and for each preference that was remembered.
pub(crate) fn submission_page(done: &SubmissionResult) -> String {
    let written = done.written.iter().map(|path| format!("written {path}\n"));
    let removed = done.removed.iter().map(|path| format!("removed {path}\n"));
    let preferences = done.preferences.iter().flat_map(|(role, bullets)| {
        bullets.iter().map(move |bullet| format!("remembered for {role}: {bullet}\n"))
    });
    written.chain(removed).chain(preferences).collect()
}
