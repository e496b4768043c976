//! Maps failures to exit codes.

use callsheet_core::diag::{Code, Diagnostic, Diagnostics};

/// Result of a command: an exit code or diagnostics.
pub type CommandResult = Result<u8, Diagnostics>;

/// Invalid command-line arguments.
pub const USAGE: u8 = 2;

/// Negative finding: nothing failed, but the answer is no.
pub const FINDING: u8 = 1;

/// The agent's changes are outside its scope.
pub const SCOPE: u8 = 5;

/// The agent failed.
pub const AGENT: u8 = 6;

/// A time or cost limit was reached.
pub const LIMIT: u8 = 7;

/// A person interrupted the command.
pub const INTERRUPTED: u8 = 130;

/// Refused, because it must not happen by accident.
const REFUSED: u8 = 9;

/// Returns the exit code of a failure: that of its first diagnostic.
pub fn exit_code(failure: &Diagnostics) -> u8 {
    failure.0.first().map_or(70, |diag| diagnostic_exit_code(diag.code))
}

/// Returns the exit code of a diagnostic.
pub fn diagnostic_exit_code(code: Code) -> u8 {
    match code {
        Code::UsageBad
        | Code::RequestBad
        | Code::RequestUnknownKey
        | Code::RequestBadName
        | Code::RequestIncomplete
        | Code::DepthBad
        | Code::ApiIncomplete
        | Code::PreferenceBad
        | Code::PromptBad
        | Code::DeliverRefused => USAGE,
        Code::SubmissionBad | Code::VerifyMismatch => FINDING,
        Code::DocumentNotFound
        | Code::InputNotFound
        | Code::LedgerNotThere
        | Code::RunNotFound
        | Code::RunAmbiguous
        | Code::TaskNotFound
        | Code::ProgramNotFound
        | Code::ViolationNotFound => 4,
        Code::LedgerLocked
        | Code::LedgerNoAnswer
        | Code::LedgerDamaged
        | Code::LedgerNewer
        | Code::LedgerFailed => 8,
        Code::SecretFound
        | Code::RunRefused
        | Code::FlowRefused
        | Code::PersonRequired
        | Code::PersonBelowGuard => REFUSED,
        Code::RunNotStarted => AGENT,
        Code::TrustRequired | Code::LedgerForeign | Code::LedgerTracked => 10,
        Code::VerifyEngine => 11,
        Code::VerifySecret => 12,
        Code::OutputFailed => 70,
        _ => 3,
    }
}

pub fn usage_error(message: impl Into<String>) -> Diagnostic {
    Diagnostic::error(Code::UsageBad, message)
}
