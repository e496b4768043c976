//! Takes the place of a database engine that is not built in: it cannot be opened, and the error names the
//! feature that is missing.

use std::collections::BTreeSet;

use callsheet_core::record::Digest;

use crate::error::LedgerError;
use crate::row::{SqlParam, SqlRow};
use crate::timeouts::LedgerTimeouts;

/// An engine of which there is no database.
pub(crate) enum MissingEngine {}

impl MissingEngine {
    pub(crate) fn execute(&mut self, _: &'static str, _: &[SqlParam<'_>]) -> Result<u64, LedgerError> {
        match *self {}
    }

    pub(crate) fn query(&mut self, _: &'static str, _: &[SqlParam<'_>]) -> Result<Vec<SqlRow>, LedgerError> {
        match *self {}
    }

    pub(crate) fn execute_batch(&mut self, _: &str) -> Result<(), LedgerError> {
        match *self {}
    }

    pub(crate) fn find_known_blobs(&mut self, _: &[Digest]) -> Result<BTreeSet<Digest>, LedgerError> {
        match *self {}
    }
}

fn not_built(engine: &str, feature: &str) -> LedgerError {
    LedgerError::Failed(format!(
        "{engine} is not built in: build `callsheet-store` with its feature `{feature}`"
    ))
}

/// SQLite, in a build without it.
#[cfg(not(feature = "sqlite"))]
pub(crate) use MissingEngine as SqliteDatabase;

#[cfg(not(feature = "sqlite"))]
impl MissingEngine {
    pub(crate) fn open_memory() -> Result<Self, LedgerError> {
        Err(not_built("SQLite", "sqlite"))
    }

    pub(crate) fn open_temporary() -> Result<Self, LedgerError> {
        Err(not_built("SQLite", "sqlite"))
    }

    pub(crate) fn open(_: &std::path::Path, _: bool, _: LedgerTimeouts) -> Result<Self, LedgerError> {
        Err(not_built("SQLite", "sqlite"))
    }

    pub(crate) fn open_to_read(_: &std::path::Path, _: LedgerTimeouts) -> Result<Self, LedgerError> {
        Err(not_built("SQLite", "sqlite"))
    }

    pub(crate) fn reopen(_: &std::path::Path, _: std::time::Duration) -> Result<Self, LedgerError> {
        Err(not_built("SQLite", "sqlite"))
    }

    pub(crate) fn name(&self) -> String {
        match *self {}
    }
}

/// PostgreSQL, in a build without it.
#[cfg(not(feature = "postgres"))]
pub(crate) use MissingEngine as PostgresDatabase;

#[cfg(not(feature = "postgres"))]
impl MissingEngine {
    pub(crate) fn connect(_: &str, _: bool, _: LedgerTimeouts) -> Result<Self, LedgerError> {
        Err(not_built("PostgreSQL", "postgres"))
    }

    pub(crate) fn set_in_transaction(&mut self, _: bool) {
        match *self {}
    }
}

/// Fails: only a build with PostgreSQL reads its URLs.
#[cfg(not(feature = "postgres"))]
pub fn postgres_location(_: &str) -> Result<String, LedgerError> {
    Err(not_built("PostgreSQL", "postgres"))
}
