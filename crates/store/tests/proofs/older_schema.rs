//! Tests that a ledger of an older schema is read without a migration.

use callsheet_core::record::sha256;
use callsheet_store::{
    DatabaseEngine, ExportScope, Ledger, LedgerError, LedgerUrl, RunFilter, export, migrations,
};
use postgres::NoTls;

use crate::run_on_both;

fn run_sql(place: &LedgerUrl, sql: &str) {
    match place {
        LedgerUrl::Sqlite(path) => rusqlite::Connection::open(path).unwrap().execute_batch(sql).unwrap(),
        LedgerUrl::Postgres(url) => {
            let mut client = postgres::Client::connect(url, NoTls).unwrap();
            let setup = "CREATE SCHEMA IF NOT EXISTS callsheet; SET search_path = callsheet";
            client.batch_execute(setup).unwrap();
            client.batch_execute(sql).unwrap();
        }
        LedgerUrl::Memory => unreachable!("it is gone when it is closed"),
    }
}

#[test]
fn older_schemas_are_read() {
    run_on_both("older_schemas", |place| {
        assert!(matches!(Ledger::read(place), Err(LedgerError::NotThere(_))));
        let engine = if matches!(place, LedgerUrl::Sqlite(_)) {
            DatabaseEngine::Sqlite
        } else {
            DatabaseEngine::Postgres
        };
        let zeros =
            if engine == DatabaseEngine::Sqlite { "zeroblob(32)" } else { "decode(repeat('00', 32), 'hex')" };
        let first = &migrations(engine)[0];
        run_sql(place, first.sql);
        let digest = sha256(&[first.sql.as_bytes()]);
        run_sql(place, &format!("INSERT INTO migrations VALUES (1, '{}', '{digest}')", first.name));
        run_sql(place, &format!("INSERT INTO head VALUES (1, 0, {zeros})"));
        let mut ledger = Ledger::read(place).unwrap();
        assert_eq!(ledger.runs(&RunFilter { limit: 9, ..RunFilter::default() }), Ok(vec![]));
        assert!(matches!(ledger.find("last"), Err(LedgerError::NoRun(_))));
        assert_eq!(ledger.verify_all(true).unwrap().problems, []);
        export(&mut ledger, &ExportScope::All, &mut Vec::new()).unwrap();
        // Nothing was migrated, and nothing can be written.
        let kept = crate::prompts::record_bundle("T-1", &[]);
        assert!(matches!(ledger.record_prompt(&kept), Err(LedgerError::Failed(_))));
        drop(ledger);
        run_sql(place, "DELETE FROM migrations WHERE number > 1");
        Ledger::read(place).unwrap();
    });
}
