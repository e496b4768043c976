//! Errors of a ledger.

use std::time::Duration;

/// Failure of an operation on a ledger.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LedgerError {
    /// There is no ledger at this location.
    #[error("no ledger at {0}")]
    NotThere(String),
    /// Another process holds the write lock for longer than we wait.
    #[error("the ledger is locked: another process is writing to it")]
    Locked,
    /// The server did not answer within this time.
    #[error("the ledger's server did not answer within {0:?}")]
    NoAnswer(Duration),
    /// Stored data is not as it was written.
    #[error("the ledger is damaged: {0}")]
    Damaged(String),
    /// A newer version of callsheet wrote schema `found`; this one knows schemas up to `known`.
    #[error("the ledger has schema {found}; this callsheet supports schemas up to {known}")]
    Newer {
        /// The schema of the ledger.
        found: i64,
        /// The newest schema that is supported.
        known: i64,
    },
    /// The ledger could not be opened, read or written: no space, no connection, no permission.
    #[error("{0}")]
    Failed(String),
    /// No run has this id.
    #[error("no run `{0}`")]
    NoRun(String),
    /// Several runs have this name, or an id that begins with it. The labels of these runs follow.
    #[error("`{0}` is the name of several runs, or the beginning of their ids")]
    ManyRuns(String, Vec<String>),
}

impl LedgerError {
    pub(crate) fn damaged(what: impl Into<String>) -> Self {
        Self::Damaged(what.into())
    }
}
