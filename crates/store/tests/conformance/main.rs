//! One suite for both engines: a ledger behaves the same on SQLite and on PostgreSQL.

#![expect(clippy::unwrap_used, reason = "tests")]

mod crash;
mod damage;
mod moves;
mod prompts;
mod raw;
mod suite;

use callsheet_mock::{Postgres, missing};
use callsheet_store::{Ledger, LedgerUrl};

/// Engine that provides empty ledgers.
enum World {
    Sqlite(tempfile::TempDir),
    Postgres(Postgres),
}

impl World {
    fn place(&self, name: &str) -> LedgerUrl {
        match self {
            Self::Sqlite(dir) => LedgerUrl::Sqlite(dir.path().join(name).join("ledger.db")),
            Self::Postgres(server) => LedgerUrl::Postgres(server.database(name).unwrap()),
        }
    }

    fn ledger(&self, name: &str) -> Ledger {
        Ledger::create(&self.place(name)).unwrap()
    }
}

const SUITE: &[fn(&World)] = &[
    suite::records_have_one_sequence_and_one_chain,
    suite::a_prompt_comes_back_byte_for_byte,
    suite::a_text_is_kept_once,
    suite::runs_are_listed_and_found,
    suite::a_log_is_read_by_stream_and_line,
    suite::a_newer_schema_is_refused,
    damage::every_changed_column_is_found_and_named,
    damage::what_is_taken_out_or_reordered_is_found,
    damage::what_is_replaced_together_is_found,
    damage::an_altered_source_with_a_rebuilt_chain_still_differs,
    moves::retention_removes_what_nothing_needs,
    moves::nothing_ends_with_the_first_page,
    moves::an_export_is_proved_without_its_ledger,
    moves::an_import_gives_the_same_chain,
    moves::an_import_adds_nothing_to_what_is_there,
    moves::a_chain_that_was_rolled_back_takes_no_records,
    crash::eight_processes_append_without_a_gap,
    crash::what_is_written_meanwhile_is_no_damage,
];

#[test]
fn suite_passes_on_sqlite() {
    let world = World::Sqlite(tempfile::tempdir().unwrap());
    SUITE.iter().for_each(|test| test(&world));
}

#[test]
fn suite_passes_on_postgres() {
    match Postgres::start() {
        Ok(server) => {
            let world = World::Postgres(server);
            SUITE.iter().for_each(|test| test(&world));
        }
        Err(why) => missing(&format!("the ledger on PostgreSQL: {why}")),
    }
}
