//! callsheet-store: the ledger, an append-only record of runs, on SQLite or PostgreSQL.
//!
//! Each text is stored once, by its SHA-256. Records have one sequence and one chain of digests over the
//! whole ledger, which grow in the transaction of each append: a reader that sees record 8 has seen record 7.
//! The types of the records are in [`callsheet_core::record`]; nothing here composes a prompt, except to
//! verify one.

mod clock;
mod db;
mod error;
mod export;
mod gc;
mod ledger;
mod migrate;
mod patience;
mod pg;
mod private;
mod pseudo;
mod read;
mod reading;
mod row;
mod verify;

pub use clock::{new_id, now};
pub use db::{DatabaseEngine, sqlite_version};
pub use error::LedgerError;
pub use export::{ExportScope, ImportReport, export, import, read_export, statement};
pub use gc::{RetentionPolicy, SweepReport};
pub use ledger::{Head, Ledger, LedgerUrl, OpenMode};
pub use migrate::{SchemaMigration, migrations};
pub use patience::LedgerTimeouts;
pub use pg::postgres_place;
pub use read::{LogExcerpt, LogLine, ProjectFilter, RunFilter, RunRow, StoredRecord};
pub use verify::{LedgerProblem, LedgerProblemKind, VerifyReport};
