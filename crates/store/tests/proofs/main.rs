//! Proofs: what a wrong clock, a sweep beside a run, and a forged export cannot do to a ledger.

#![expect(clippy::unwrap_used, reason = "tests")]

mod exports;
mod older_schema;
#[path = "../conformance/prompts.rs"]
#[expect(dead_code, reason = "not all of it is needed here")]
mod prompts;
mod retention;
mod waits;

use callsheet_mock::{Postgres, not_tested};
use callsheet_store::LedgerUrl;

/// Does `work` with an empty SQLite ledger, and with one on PostgreSQL if there is a server.
fn on_both(name: &str, work: impl Fn(&LedgerUrl)) {
    let dir = tempfile::tempdir().unwrap();
    work(&LedgerUrl::Sqlite(dir.path().join("ledger.db")));
    match Postgres::start() {
        Ok(server) => work(&LedgerUrl::Postgres(server.database(name).unwrap())),
        Err(why) => not_tested(&format!("{name} on PostgreSQL: {why}")),
    }
}
