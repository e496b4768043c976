//! Errors of a ledger.

use std::fmt;
use std::time::Duration;

use callsheet_core::record::Id;

/// Failure of an operation on a ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LedgerError {
    /// There is no ledger at this location.
    NotThere(String),
    /// Another process holds the write lock for longer than we wait.
    Locked,
    /// The server did not answer within this time.
    NoAnswer(Duration),
    /// Stored data is not as it was written.
    Damaged(String),
    /// A newer version of callsheet wrote schema `found`; this one knows schemas up to `known`.
    Newer { found: i64, known: i64 },
    /// The ledger could not be opened, read or written: no space, no connection, no permission.
    Failed(String),
    /// No run has this id.
    NoRun(String),
    /// Several runs have an id that begins with this text.
    ManyRuns(String, Vec<Id>),
}

impl LedgerError {
    pub(crate) fn damaged(what: impl Into<String>) -> Self {
        Self::Damaged(what.into())
    }
}

impl fmt::Display for LedgerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotThere(place) => write!(f, "there is no ledger at {place}"),
            Self::Locked => f.write_str("the ledger is locked: somebody else is writing to it"),
            Self::NoAnswer(limit) => write!(f, "the server of the ledger did not answer within {limit:?}"),
            Self::Damaged(what) => write!(f, "the ledger is damaged: {what}"),
            Self::Newer { found, known } => write!(
                f,
                "the ledger has schema {found}, and this callsheet knows schemas up to {known}: a newer one wrote to it"
            ),
            Self::Failed(why) => f.write_str(why),
            Self::NoRun(name) => write!(f, "no run is called `{name}`"),
            Self::ManyRuns(name, _) => write!(f, "several runs have an id that begins with `{name}`"),
        }
    }
}

impl std::error::Error for LedgerError {}
