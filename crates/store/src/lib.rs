//! callsheet-store: the ledger, an append-only record of runs, on SQLite or PostgreSQL.
//!
//! Each text is stored once, by its SHA-256. Records have one sequence and one chain of digests over the
//! whole ledger, which grow in the transaction of each append: a reader that sees record 8 has seen record 7.
//! The types of the records are in [`callsheet_core::record`]; nothing here composes a prompt, except to
//! verify one.

mod clock;
mod database_file;
mod db;
mod diagnostics;
mod error;
mod export;
mod ledger;
mod migrate;
mod pg;
mod private_file;
mod pseudo_fs;
mod read;
mod retention;
mod row;
mod timeouts;
mod verify;

pub use clock::{new_id, now};
pub use db::{DatabaseEngine, sqlite_version};
pub use error::LedgerError;
pub use export::{ExportScope, ImportReport, export, import, in_toto_statement, read_export};
pub use ledger::{Head, Ledger, LedgerUrl, OpenMode};
pub use migrate::{SchemaMigration, migrations};
pub use pg::postgres_location;
pub use read::{LogExcerpt, LogLine, ProjectFilter, RunFilter, RunRow, StoredRecord};
pub use retention::{RetentionPolicy, SweepReport};
pub use timeouts::LedgerTimeouts;
pub use verify::{LedgerProblem, LedgerProblemKind, VerifyReport};
