//! Shows a long page at a terminal through the user's pager.

use std::io::{self, IsTerminal as _, Write as _};
use std::process::Stdio;

use callsheet::error::CommandResult;
use callsheet_core::split_words;
use callsheet_run::new_command;

use crate::print::OutputPrinter;

/// Prints a page: through `CALLSHEET_PAGER`, `PAGER` or `less` at a terminal, else as it is. An empty name or `cat` turns the
/// pager off.
pub(crate) fn print_paged(print: &OutputPrinter, page: &str) -> CommandResult {
    if io::stdout().is_terminal() && is_shown_by_pager(page) {
        return Ok(0);
    }
    print.print_page(page)
}

/// Returns whether a pager showed the page.
fn is_shown_by_pager(page: &str) -> bool {
    let named = ["CALLSHEET_PAGER", "PAGER"].iter().find_map(|name| std::env::var(name).ok());
    let pager = named.unwrap_or_else(|| "less".into());
    if matches!(pager.trim(), "" | "cat") {
        return false;
    }
    let Ok(words) = split_words(&pager) else { return false };
    let Some((program, args)) = words.split_first() else { return false };
    let mut command = new_command(program);
    command.args(args).stdin(Stdio::piped());
    if std::env::var_os("LESS").is_none() {
        // Quit if one screen is enough, show colours, leave the page on the screen.
        command.env("LESS", "FRX");
    }
    let Ok(mut child) = command.spawn() else { return false };
    if let Some(mut stdin) = child.stdin.take() {
        // A reader that quits early has seen enough.
        let _ = stdin.write_all(page.as_bytes());
    }
    child.wait().is_ok()
}
