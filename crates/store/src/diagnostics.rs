//! Errors of a ledger as diagnostics.

use callsheet_core::diag::{Code, Diagnostic, Diagnostics};

use crate::LedgerError;

impl From<LedgerError> for Diagnostics {
    fn from(error: LedgerError) -> Self {
        let message = error.to_string();
        let diag = |code| Diagnostic::error(code, message);
        match error {
            LedgerError::NotThere(_) => {
                diag(Code::LedgerNotThere).hint("`callsheet run` or `callsheet compose --record` creates one").into()
            }
            LedgerError::Locked => diag(Code::LedgerLocked)
                .hint("wait for the other process, or end it")
                .into(),
            LedgerError::NoAnswer(_) => diag(Code::LedgerNoAnswer)
                .hint("check that the server is running and reachable; if a command was recording, run `callsheet log` to see whether it did")
                .into(),
            LedgerError::Damaged(_) => {
                diag(Code::LedgerDamaged).hint("run `callsheet verify --all --read-data` to find all damage").into()
            }
            LedgerError::Newer { .. } => diag(Code::LedgerNewer).hint("update callsheet").into(),
            LedgerError::Failed(_) => diag(Code::LedgerFailed).into(),
            LedgerError::NoRun(_) => diag(Code::RunNotFound).hint("run `callsheet log` to list runs").into(),
            LedgerError::ManyRuns(_, runs) => diag(Code::RunAmbiguous).searched(runs).into(),
        }
    }
}
