//! callsheet-store: the ledger, an append-only record of runs, on SQLite or PostgreSQL.
//!
//! Texts are kept once, by their SHA-256. Records have one sequence and one chain of digests over the whole ledger,
//! which grow in the transaction of each append: who sees number 8 has seen 7. What a record says is typed in
//! [`callsheet_core::record`]; nothing here composes a prompt, except to prove that one is what it was.

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
