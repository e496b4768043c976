//! callsheet-store: the ledger, an append-only record of runs, on SQLite or PostgreSQL.
//!
//! Each text is stored once, by its SHA-256. Records have one sequence and one chain of digests over the
//! whole ledger, which grow in the transaction of each append: a reader that sees record 8 has seen record 7.
//! The types of the records are in [`callsheet_core::record`]; nothing here composes a prompt, except to
//! verify one.
//!
//! The features `sqlite` (by default) and `postgres` build the engines in. A location of another engine is refused
//! when it is opened. An export is read into a temporary SQLite database.

#[cfg(not(any(feature = "sqlite", feature = "postgres")))]
compile_error!("a ledger needs an engine: the feature `sqlite` or `postgres`");

mod clock;
#[cfg(feature = "sqlite")]
mod database_file;
mod db;
mod diagnostics;
mod error;
mod export;
mod facts;
mod facts_table;
mod find;
mod ledger;
mod list;
mod list_older;
mod local_days;
mod migrate;
#[cfg(not(all(feature = "sqlite", feature = "postgres")))]
mod missing_engine;
#[cfg(feature = "postgres")]
mod pg;
mod private_file;
mod pseudo_fs;
mod query;
mod read;
mod retention;
mod row;
#[cfg(feature = "sqlite")]
mod sqlite;
mod stats;
mod timeouts;
mod verify;
mod verify_facts;

pub use clock::{new_id, now, time_from_unix, unix_now};
pub use db::DatabaseEngine;
pub use error::LedgerError;
pub use export::{ExportScope, ImportReport, export, import, in_toto_statement, read_export};
pub use facts::StoredFacts;
pub use ledger::{Head, Ledger, LedgerUrl, OpenMode};
pub use list::{ProjectFilter, RunColumn, RunFilter, RunRow};
pub use local_days::day_start;
pub use migrate::{SchemaMigration, migrations};
#[cfg(not(feature = "postgres"))]
use missing_engine::pg;
#[cfg(not(feature = "sqlite"))]
use missing_engine::sqlite;
pub use pg::postgres_location;
pub use read::{LogExcerpt, LogLine, StoredRecord, left_out_bytes, omission_line};
pub use retention::{RetentionPolicy, SweepReport};
#[cfg(feature = "sqlite")]
pub use sqlite::sqlite_version;
pub use stats::{SpentCost, StatsKey, StatsRow};
pub use timeouts::LedgerTimeouts;
pub use verify::{LedgerProblem, LedgerProblemKind, VerifyReport};
