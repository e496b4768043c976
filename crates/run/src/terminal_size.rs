//! The size of a terminal.

use std::os::fd::AsFd;

use rustix::termios::tcgetwinsize;

/// Returns the columns and rows of a terminal; `None` if it is none, or does not report them.
pub fn terminal_size(terminal: &impl AsFd) -> Option<(usize, usize)> {
    let size = tcgetwinsize(terminal).ok()?;
    let (columns, rows) = (usize::from(size.ws_col), usize::from(size.ws_row));
    (columns > 0 && rows > 0).then_some((columns, rows))
}
