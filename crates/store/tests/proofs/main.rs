//! Tests that a wrong clock, a sweep beside a run, a forged export, an older schema and a silent server do
//! not harm a ledger.

#![expect(clippy::unwrap_used, reason = "tests")]

mod exports;
mod older_schema;
#[path = "../conformance/prompts.rs"]
#[expect(dead_code, reason = "not all of it is needed here")]
mod prompts;
mod retention;
mod wait_limits;

use callsheet_store::LedgerUrl;
use callsheet_testing::{Postgres, not_tested};

/// Runs `work` with an empty SQLite ledger, and with one on PostgreSQL if there is a server.
fn run_on_both(name: &str, work: impl Fn(&LedgerUrl)) {
    let dir = tempfile::tempdir().unwrap();
    work(&LedgerUrl::Sqlite(dir.path().join("ledger.db")));
    match Postgres::start() {
        Ok(server) => work(&LedgerUrl::Postgres(server.create_database(name).unwrap())),
        Err(why) => not_tested(&format!("{name} on PostgreSQL: {why}")),
    }
}
