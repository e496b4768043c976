//! Renders the result of a run.

use callsheet::run::result::{
    exit_code, {ChangeAttribution, attribution},
};
use callsheet_core::diag::escape_invisible;
use callsheet_core::record::{ChecksOutcome, RunSummary};
use callsheet_core::request::fact::EndReason;

use crate::print::{OutputPrinter, TextStyle};

/// Renders the result of a run.
pub(crate) fn result_page(print: &OutputPrinter, account: &RunSummary) -> String {
    let mut page = String::new();
    let status = account.status();
    let paint = if exit_code(account) == 0 { TextStyle::Green } else { TextStyle::Red };
    let mut head = status.name().to_owned();
    if let Some(exit) = &account.exit {
        head += &match (exit.ended, exit.code, exit.signal) {
            (EndReason::Exited, Some(code), _) => format!(": exit code {code}"),
            (_, _, Some(signal)) => format!(": {}, signal {signal}", exit.ended.name()),
            _ => format!(": {}", exit.ended.name()),
        };
        head += &exit.why.as_ref().map(|why| format!(" ({})", escape_invisible(why))).unwrap_or_default();
    }
    page += &format!("run {}  {}\n", account.run.id, print.paint(paint, &head));
    let mut row = |name: &str, text: String| page += &format!("  {name:<10} {text}\n");
    let receipts: Vec<&str> = account.receipts.iter().map(|receipt| receipt.name()).collect();
    row("delivered", if receipts.is_empty() { "not delivered".into() } else { receipts.join(", ") });
    if let Some(reply) = account.reply() {
        row("reply", reply.outcome.name().to_owned());
    }
    let Some(observed) = &account.observed else { return page };
    match &observed.worktree {
        None => row("changed", "not known".into()),
        Some(seen) if seen.changed.is_empty() => row("changed", "nothing".into()),
        Some(seen) => {
            for file in &seen.changed {
                row("changed", format!("{} ({})", escape_invisible(&file.path), file.change.name()));
            }
        }
    }
    for unseen in observed.worktree.iter().flat_map(|seen| &seen.unseen) {
        let before = if unseen.before { ", as before" } else { "" };
        row(
            "unseen",
            format!("{} ({}{before})", escape_invisible(&unseen.path), escape_invisible(&unseen.why)),
        );
    }
    for moved in observed.worktree.iter().flat_map(|seen| &seen.commits) {
        let to = moved.to.as_deref().map_or("gone", |to| to.get(..12).unwrap_or(to));
        let elsewhere = if moved.elsewhere { ", of another worktree" } else { "" };
        row("commits", format!("{} {to} ({} new{elsewhere})", escape_invisible(&moved.name), moved.new));
    }
    for file in observed.worktree.iter().flat_map(|seen| &seen.elsewhere) {
        row(
            "elsewhere",
            format!("{} ({}, in the main checkout)", escape_invisible(&file.path), file.change.name()),
        );
    }
    for violation in account.violations() {
        row("violation", format!("{} ({})", escape_invisible(&violation.path), violation.decision.name()));
    }
    for path in &observed.uncertain {
        row(
            "uncertain",
            format!("{}: run {} may write it", escape_invisible(path), observed.shared_with.join(" or ")),
        );
    }
    let is_pending = account.violations().iter().any(|violation| !violation.decision.is_accepted());
    if is_pending && attribution(account) == ChangeAttribution::Checkout {
        row("note", "if you made this change: `callsheet decide RUN PATH --mine`".into());
    }
    match account.checks_outcome() {
        ChecksOutcome::None => row("checks", "none".into()),
        _ => {
            for check in &observed.checks {
                row("check", format!("{} {}", escape_invisible(&check.name), check.result.name()));
            }
        }
    }
    page
}
