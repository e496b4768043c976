//! A ledger on PostgreSQL is used inside an async runtime.

#![expect(clippy::unwrap_used, reason = "tests")]

use callsheet_core::record::{Decided, DecidedBy, Event};
use callsheet_store::{Ledger, LedgerUrl, new_id};
use callsheet_testing::{Postgres, report_missing};
use tokio::runtime::Builder;

/// Opens the ledger, writes to it, reads it, and drops it.
fn use_ledger(place: &LedgerUrl) -> u64 {
    let mut ledger = Ledger::create(place).unwrap();
    let flow = new_id().unwrap();
    let (what, decision) = ("phase".to_owned(), "approve".to_owned());
    let event =
        Event::Decided(Decided { by: DecidedBy::Api, what, decision, detail: serde_json::Value::Null });
    let seq = ledger.append(None, Some(&flow), &event).unwrap();
    assert_eq!(ledger.verify_all(true).unwrap().problems, []);
    seq
}

#[test]
fn postgres_works_inside_async_runtime() {
    let server = match Postgres::start() {
        Ok(server) => server,
        Err(why) => return report_missing(&format!("a ledger in an async runtime: {why}")),
    };
    let place = LedgerUrl::Postgres(server.create_database("runtime").unwrap());
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        assert_eq!(use_ledger(&place), 1);
        // A task, a blocking task, and a ledger that is moved between them.
        let (second, third) = (place.clone(), place.clone());
        assert_eq!(tokio::spawn(async move { use_ledger(&second) }).await.unwrap(), 2);
        assert_eq!(tokio::task::spawn_blocking(move || use_ledger(&third)).await.unwrap(), 3);
    });
    let mut ledger = Ledger::open(&place).unwrap();
    assert_eq!(runtime.block_on(async { ledger.head().unwrap().seq }), 3);
    drop(runtime);
    assert_eq!(ledger.head().unwrap().seq, 3);
}
