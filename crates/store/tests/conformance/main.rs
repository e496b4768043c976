//! One suite for both engines: a ledger behaves the same on SQLite and on PostgreSQL.

#![expect(clippy::unwrap_used, reason = "tests")]

mod concurrent_writers;
mod damage;
mod ledger_operations;
mod lists;
mod prompts;
mod raw_database;
mod retention_and_transfer;

use callsheet_store::{Ledger, LedgerUrl};
use callsheet_testing::{Postgres, report_missing};

/// Engine that provides empty ledgers.
enum LedgerEngine {
    Sqlite(tempfile::TempDir),
    Postgres(Postgres),
}

impl LedgerEngine {
    fn place(&self, name: &str) -> LedgerUrl {
        match self {
            Self::Sqlite(dir) => LedgerUrl::Sqlite(dir.path().join(name).join("ledger.db")),
            Self::Postgres(server) => LedgerUrl::Postgres(server.create_database(name).unwrap()),
        }
    }

    fn ledger(&self, name: &str) -> Ledger {
        Ledger::create(&self.place(name)).unwrap()
    }
}

const SUITE: &[fn(&LedgerEngine)] = &[
    ledger_operations::records_share_sequence_and_chain,
    ledger_operations::prompt_round_trips_byte_for_byte,
    ledger_operations::each_text_is_stored_once,
    ledger_operations::runs_are_listed_and_found,
    ledger_operations::log_reads_by_stream_and_line,
    ledger_operations::newer_schema_is_refused,
    lists::filters_select_like_naive_search,
    lists::numbers_are_given_once,
    lists::runs_are_found_by_names,
    lists::newest_runs_stand_for_tasks,
    damage::every_changed_column_is_reported,
    damage::removed_and_reordered_records_are_found,
    damage::combined_changes_are_found,
    damage::altered_source_differs_despite_rebuilt_chain,
    retention_and_transfer::retention_removes_unneeded_content,
    retention_and_transfer::all_pages_are_read,
    retention_and_transfer::export_verifies_without_ledger,
    retention_and_transfer::import_restores_same_chain,
    retention_and_transfer::import_never_extends_existing_runs,
    retention_and_transfer::rolled_back_chain_refuses_records,
    concurrent_writers::eight_processes_append_without_gap,
    concurrent_writers::concurrent_writes_are_not_damage,
];

#[test]
fn suite_passes_on_sqlite() {
    let engine = LedgerEngine::Sqlite(tempfile::tempdir().unwrap());
    SUITE.iter().for_each(|test| test(&engine));
}

#[test]
fn suite_passes_on_postgres() {
    match Postgres::start() {
        Ok(server) => {
            let engine = LedgerEngine::Postgres(server);
            SUITE.iter().for_each(|test| test(&engine));
        }
        Err(why) => report_missing(&format!("the ledger on PostgreSQL: {why}")),
    }
}
