//! Errors of a ledger as diagnostics.

use callsheet_core::diag::{Code, Diagnostic, Diagnostics};

use crate::LedgerError;

impl From<LedgerError> for Diagnostics {
    fn from(error: LedgerError) -> Self {
        let message = error.to_string();
        let diag = |code| Diagnostic::error(code, message);
        match error {
            LedgerError::NotThere(_) => {
                diag(Code::LedgerNotThere).hint("`callsheet compose --record` makes one").into()
            }
            LedgerError::Locked => diag(Code::LedgerLocked)
                .hint("another process writes to it and does not end: wait for it, or end it")
                .into(),
            LedgerError::NoAnswer(_) => diag(Code::LedgerNoAnswer)
                .hint("look whether the server runs and can be reached; if something was being recorded, `callsheet log` tells whether it was")
                .into(),
            LedgerError::Damaged(_) => {
                diag(Code::LedgerDamaged).hint("`callsheet verify --all --read-data` finds all damage").into()
            }
            LedgerError::Newer { .. } => diag(Code::LedgerNewer).hint("use the newer callsheet").into(),
            LedgerError::Failed(_) => diag(Code::LedgerFailed).into(),
            LedgerError::NoRun(_) => diag(Code::RunNotFound).hint("`callsheet log` lists the runs").into(),
            LedgerError::ManyRuns(_, ids) => diag(Code::RunAmbiguous).searched(ids).into(),
        }
    }
}
