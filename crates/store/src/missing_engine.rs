//! Takes the place of a database engine that is not built in: it cannot be opened, and the error names the
//! feature that is missing.

use crate::db::DatabaseConnection;
use crate::error::LedgerError;
use crate::timeouts::LedgerTimeouts;

/// SQLite, in a build without it.
#[cfg(not(feature = "sqlite"))]
pub(crate) mod sqlite {
    use std::path::Path;

    use super::*;

    fn not_built() -> Result<DatabaseConnection, LedgerError> {
        let why = "SQLite is not built in: build `callsheet-store` with its feature `sqlite`";
        Err(LedgerError::Failed(why.into()))
    }

    pub(crate) fn open_memory() -> Result<DatabaseConnection, LedgerError> {
        not_built()
    }

    pub(crate) fn open_temporary() -> Result<DatabaseConnection, LedgerError> {
        not_built()
    }

    pub(crate) fn open(_: &Path, _: bool, _: LedgerTimeouts) -> Result<DatabaseConnection, LedgerError> {
        not_built()
    }

    pub(crate) fn open_to_read(_: &Path, _: LedgerTimeouts) -> Result<DatabaseConnection, LedgerError> {
        not_built()
    }

    pub(crate) fn reopen(_: &Path, _: LedgerTimeouts) -> Result<DatabaseConnection, LedgerError> {
        not_built()
    }
}

/// PostgreSQL, in a build without it.
#[cfg(not(feature = "postgres"))]
pub(crate) mod pg {
    use super::*;

    fn not_built<T>() -> Result<T, LedgerError> {
        let why = "PostgreSQL is not built in: build `callsheet-store` with its feature `postgres`";
        Err(LedgerError::Failed(why.into()))
    }

    pub(crate) fn open(_: &str, _: bool, _: LedgerTimeouts) -> Result<DatabaseConnection, LedgerError> {
        not_built()
    }

    /// Fails: only a build with PostgreSQL reads its URLs.
    pub fn postgres_location(_: &str) -> Result<String, LedgerError> {
        not_built()
    }
}
