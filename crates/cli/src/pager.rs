//! Shows a long page at a terminal through the user's pager.

use std::io::{self, IsTerminal as _, Write as _};
use std::process::{Command, Stdio};

use callsheet::error::CommandResult;

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
    // A pager is a command line of the user, as for git.
    let mut command = Command::new("sh");
    command.args(["-c", &pager]).stdin(Stdio::piped());
    if std::env::var_os("LESS").is_none() {
        // Quit if one screen is enough, show colours, leave the page on the screen.
        command.env("LESS", "FRX");
    }
    let Ok(mut child) = command.spawn() else { return false };
    if let Some(mut stdin) = child.stdin.take() {
        // A reader that quits early has seen enough.
        let _ = stdin.write_all(page.as_bytes());
    }
    // A shell reports a program that does not exist by 127.
    child.wait().is_ok_and(|status| status.code() != Some(127))
}
