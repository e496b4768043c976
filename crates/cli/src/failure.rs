//! Maps failures to exit codes.

use callsheet_core::diag::{Code, Diagnostic, Diagnostics};

/// Result of a command: an exit code or diagnostics.
pub(crate) type CommandResult = Result<u8, Diagnostics>;

/// Invalid command-line arguments.
pub(crate) const USAGE: u8 = 2;

/// Negative finding: nothing failed, but the answer is no.
pub(crate) const FINDING: u8 = 1;

/// The agent's changes are outside its scope.
pub(crate) const SCOPE: u8 = 5;

/// The agent failed.
pub(crate) const AGENT: u8 = 6;

/// A time or cost limit was reached.
pub(crate) const LIMIT: u8 = 7;

/// A person interrupted the command.
pub(crate) const INTERRUPTED: u8 = 130;

/// Refused, because it must not happen by accident.
const REFUSED: u8 = 9;

/// Returns the exit code of a failure: that of its first diagnostic.
pub(crate) fn exit_code(failure: &Diagnostics) -> u8 {
    failure.0.first().map_or(70, |diag| diagnostic_exit_code(diag.code))
}

/// Returns the exit code of a diagnostic.
pub(crate) fn diagnostic_exit_code(code: Code) -> u8 {
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

pub(crate) fn usage_error(message: impl Into<String>) -> Diagnostic {
    Diagnostic::error(Code::UsageBad, message)
}
