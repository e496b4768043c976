//! The error of the library, and the exit codes of commands.

use std::fmt;

use callsheet_core::diag::exit::INTERNAL;
pub use callsheet_core::diag::exit::{AGENT, FINDING, INTERRUPTED, LIMIT, SCOPE, USAGE};
use callsheet_core::diag::{Code, Diagnostic, Diagnostics};
use callsheet_run::{GitError, PerformError, StartError, TerminalError, WriteError};
use callsheet_store::LedgerError;

/// Failure of a use case: its diagnostics, and the error of the ledger, the machine or git behind them.
#[derive(Debug)]
pub struct Error {
    diagnostics: Diagnostics,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// Result of a use case.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Creates an error for which `source` is the reason.
    pub(crate) fn new(
        diagnostics: impl Into<Diagnostics>,
        source: impl std::error::Error + Send + Sync + 'static,
    ) -> Self {
        Self { diagnostics: diagnostics.into(), source: Some(Box::new(source)) }
    }

    /// Returns the diagnostics, of which there is at least one.
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.diagnostics.0
    }

    /// Returns the diagnostics alone.
    pub fn into_diagnostics(self) -> Diagnostics {
        self.diagnostics
    }

    /// Returns the code of the first diagnostic.
    pub fn code(&self) -> Option<Code> {
        self.diagnostics().first().map(|diag| diag.code)
    }

    /// Returns whether every diagnostic has this code.
    pub fn is_only(&self, code: Code) -> bool {
        self.diagnostics().iter().all(|diag| diag.code == code)
    }

    /// Returns the exit code of a command that ends with this error.
    pub fn exit_code(&self) -> u8 {
        self.code().map_or(INTERNAL, Code::exit_code)
    }

    /// Changes every diagnostic, and keeps the source.
    #[must_use]
    pub(crate) fn map_diagnostics(self, change: impl FnMut(Diagnostic) -> Diagnostic) -> Self {
        Self { diagnostics: Diagnostics(self.diagnostics.0.into_iter().map(change).collect()), ..self }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.diagnostics.fmt(f)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

impl From<Diagnostics> for Error {
    fn from(diagnostics: Diagnostics) -> Self {
        Self { diagnostics, source: None }
    }
}

impl From<Diagnostic> for Error {
    fn from(diag: Diagnostic) -> Self {
        Diagnostics::from(diag).into()
    }
}

impl From<LedgerError> for Error {
    fn from(error: LedgerError) -> Self {
        Self::new(error.clone(), error)
    }
}

impl From<GitError> for Error {
    fn from(error: GitError) -> Self {
        Self::new(error.clone(), error)
    }
}

impl From<WriteError> for Error {
    fn from(error: WriteError) -> Self {
        Self::new(error.clone(), error)
    }
}

impl From<PerformError> for Error {
    fn from(error: PerformError) -> Self {
        Self::new(Diagnostic::error(Code::RunNotStarted, error.to_string()), error)
    }
}

impl From<StartError> for Error {
    fn from(error: StartError) -> Self {
        PerformError::from(error).into()
    }
}

impl From<TerminalError> for Error {
    fn from(error: TerminalError) -> Self {
        PerformError::from(error).into()
    }
}

/// Result of a command: an exit code or an error.
pub type CommandResult = Result<u8>;

/// Returns the diagnostic for invalid arguments.
pub fn usage_error(message: impl Into<String>) -> Diagnostic {
    Diagnostic::error(Code::UsageBad, message)
}

/// Returns the error for an input that cannot be read.
pub fn unreadable_error(input: impl fmt::Display, why: impl fmt::Display) -> Error {
    Diagnostic::error(Code::InputUnreadable, format!("cannot read `{input}`: {why}")).into()
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;

    #[test]
    fn ledger_error_stays_as_source() {
        let cause = LedgerError::NotThere("here".into());
        let error = Error::from(cause.clone());
        assert_eq!((error.code(), error.exit_code()), (Some(Code::LedgerNotThere), 4));
        assert_eq!(error.source().and_then(|source| source.downcast_ref()), Some(&cause));
        assert_eq!(error.to_string(), Diagnostics::from(cause).to_string());
    }

    #[test]
    fn changed_diagnostics_keep_source() {
        let cause = GitError { what: "status".into(), why: "no".into() };
        let error = Error::from(cause.clone()).map_diagnostics(|diag| diag.hint("wait"));
        assert_eq!(error.diagnostics(), [Diagnostic::error(Code::GitFailed, "git status: no").hint("wait")]);
        assert_eq!(error.source().and_then(|source| source.downcast_ref()), Some(&cause));
    }

    #[test]
    fn terminal_error_is_run_not_started() {
        let error = Error::from(TerminalError::Stopped);
        assert_eq!(error.into_diagnostics().0, [Diagnostic::error(Code::RunNotStarted, "it was stopped")]);
        assert_eq!(Error::from(StartError::Other("no".into())).exit_code(), 6);
    }
}
