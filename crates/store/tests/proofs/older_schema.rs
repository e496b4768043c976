//! What is read is not migrated: a ledger of an older schema is read as it is.

use callsheet_core::record::sha256;
use callsheet_store::{Engine, Error, Filter, Ledger, Place, Scope, export, migrations};
use postgres::NoTls;

use crate::on_both;

fn run(place: &Place, sql: &str) {
    match place {
        Place::Sqlite(path) => rusqlite::Connection::open(path).unwrap().execute_batch(sql).unwrap(),
        Place::Postgres(url) => {
            let mut client = postgres::Client::connect(url, NoTls).unwrap();
            let setup = "CREATE SCHEMA IF NOT EXISTS callsheet; SET search_path = callsheet";
            client.batch_execute(setup).unwrap();
            client.batch_execute(sql).unwrap();
        }
        Place::Memory => unreachable!("it is gone when it is closed"),
    }
}

#[test]
fn a_ledger_of_every_older_schema_is_read() {
    on_both("older_schemas", |place| {
        assert!(matches!(Ledger::read(place), Err(Error::NotThere(_))));
        let engine = if matches!(place, Place::Sqlite(_)) { Engine::Sqlite } else { Engine::Postgres };
        let zeros = if engine == Engine::Sqlite { "zeroblob(32)" } else { "decode(repeat('00', 32), 'hex')" };
        let first = &migrations(engine)[0];
        run(place, first.sql);
        let digest = sha256(&[first.sql.as_bytes()]);
        run(place, &format!("INSERT INTO migrations VALUES (1, '{}', '{digest}')", first.name));
        run(place, &format!("INSERT INTO head VALUES (1, 0, {zeros})"));
        let mut ledger = Ledger::read(place).unwrap();
        assert_eq!(ledger.runs(&Filter { limit: 9, ..Filter::default() }), Ok(vec![]));
        assert!(matches!(ledger.find("last"), Err(Error::NoRun(_))));
        assert_eq!(ledger.verify_all(true).unwrap().problems, []);
        export(&mut ledger, &Scope::All, &mut Vec::new()).unwrap();
        // Nothing was migrated, and nothing can be written.
        let kept = crate::prompts::kept("T-1", &[]);
        assert!(matches!(ledger.compose(&kept), Err(Error::Failed(_))));
        drop(ledger);
        run(place, "DELETE FROM migrations WHERE number > 1");
        Ledger::read(place).unwrap();
    });
}
