//! Maps failures to exit codes.

use callsheet_core::diag::{Code, Diagnostic, Diagnostics};

/// Result of a command: an exit code or diagnostics.
pub type CommandResult = Result<u8, Diagnostics>;

/// Invalid command-line arguments.
pub const USAGE: u8 = 2;

/// Negative finding: nothing failed, but the answer is no.
pub const FINDING: u8 = 1;

/// The agent's changes are outside its scope.
pub(crate) const SCOPE: u8 = 5;

/// The agent failed.
pub const AGENT: u8 = 6;

/// A time or cost limit was reached.
pub const LIMIT: u8 = 7;

/// A person interrupted the command.
pub const INTERRUPTED: u8 = 130;

/// Returns the exit code of a failure: that of its first diagnostic.
pub fn exit_code(failure: &Diagnostics) -> u8 {
    failure.0.first().map_or(70, |diag| diag.code.exit_code())
}

/// Returns the error for arguments that make no sense.
pub fn usage_error(message: impl Into<String>) -> Diagnostic {
    Diagnostic::error(Code::UsageBad, message)
}
