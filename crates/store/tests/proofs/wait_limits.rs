//! Tests that no operation waits for ever: neither for a silent server, nor for a lock, nor for a special
//! file.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use callsheet_core::EndReason;
use callsheet_core::record::{Event, Exit};
use callsheet_store::{Ledger, LedgerError, LedgerTimeouts, LedgerUrl, OpenMode};
use callsheet_testing::{Postgres, not_tested};

use crate::prompts::record_bundle;

const SHORT: Duration = Duration::from_secs(1);

fn connect(url: &str) -> Result<Ledger, LedgerError> {
    Ledger::connect(&LedgerUrl::Postgres(url.into()), OpenMode::Create, LedgerTimeouts::at_most(SHORT))
}

/// Starts a proxy that forwards `most` bytes of the server's answers per connection and holds the rest back.
/// Returns its address and the number of connections so far.
fn start_proxy(server: Option<&str>, most: usize) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = server.map(str::to_owned);
    let connections = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&connections);
    thread::spawn(move || {
        let mut open = Vec::new();
        for client in listener.incoming().map_while(Result::ok) {
            count.fetch_add(1, Ordering::SeqCst);
            if let Some(server) = &server {
                let server = TcpStream::connect(server).unwrap();
                let (to, from) = (server.try_clone().unwrap(), client.try_clone().unwrap());
                thread::spawn(move || forward(from, to, usize::MAX));
                let (from, to) = (server.try_clone().unwrap(), client.try_clone().unwrap());
                thread::spawn(move || forward(from, to, most));
                open.push(server);
            }
            open.push(client);
        }
    });
    (address.to_string(), connections)
}

fn forward(mut from: TcpStream, mut to: TcpStream, most: usize) -> io::Result<()> {
    let mut left = most;
    let mut buffer = [0; 4096];
    loop {
        let read = from.read(&mut buffer)?;
        if read == 0 {
            return to.shutdown(Shutdown::Write);
        }
        let passed = read.min(left);
        to.write_all(&buffer[..passed])?;
        left -= passed;
    }
}

#[test]
fn silent_server_times_out() {
    let (address, _) = start_proxy(None, 0);
    let refused = connect(&format!("postgres://me@{address}/shop")).unwrap_err();
    assert_eq!(refused, LedgerError::NoAnswer(SHORT));
    assert_eq!(refused.to_string(), "the ledger's server did not answer within 1s");
}

/// Whichever byte the answers end at, the caller gets an error and the ledger stays intact. A lost transaction
/// does not continue, not even with its end, on another connection.
#[test]
fn server_stopping_mid_answer_times_out() {
    let server = match Postgres::start() {
        Ok(server) => server,
        Err(why) => return not_tested(&format!("a server that stops answering: {why}")),
    };
    let url = server.create_database("narrow").unwrap();
    let mut direct = Ledger::create(&LedgerUrl::Postgres(url.clone())).unwrap();
    let address = url.split('@').nth(1).unwrap().split('/').next().unwrap().to_owned();
    let step = if std::env::var_os("CALLSHEET_LONG").is_some() { 7 } else { 331 };
    let mut given_up = 0;
    let mut most = 1;
    loop {
        let (proxy, connections) = start_proxy(Some(&address), most);
        let narrow = url.replace(&address, &proxy);
        let run = record_bundle("T-1", &[("a.md", "x")]);
        let exit = Event::Exit(Exit::new(EndReason::Exited, Some(0)));
        let done = connect(&narrow).and_then(|mut ledger| {
            ledger.record_prompt(&run)?;
            ledger.append(Some(&run.composed.run.id), None, &exit)
        });
        assert_eq!(connections.load(Ordering::SeqCst), 1, "after {most} bytes");
        let checked = direct.verify_all(true).unwrap();
        assert_eq!(checked.problems, [], "after {most} bytes");
        match done {
            Err(LedgerError::NoAnswer(limit)) => assert_eq!(limit, SHORT),
            Ok(seq) => {
                assert_eq!(checked.head.seq, seq);
                break;
            }
            other => panic!("after {most} bytes: {other:?}"),
        }
        given_up += 1;
        most += step;
    }
    assert!(given_up > 5, "only {given_up} places");
}

/// A stopped process keeps its sockets open: only a limit on the client helps.
#[test]
fn stopped_server_times_out_then_recovers() {
    let server = match Postgres::start() {
        Ok(server) => server,
        Err(why) => return not_tested(&format!("a server that is stopped: {why}")),
    };
    let url = server.create_database("stopped").unwrap();
    let mut ledger = connect(&url).unwrap();
    let run = record_bundle("T-1", &[("a.md", "x")]);
    ledger.record_prompt(&run).unwrap();
    let id = run.composed.run.id;
    let exit = Event::Exit(Exit::new(EndReason::Exited, Some(0)));
    let paused = server.pause().unwrap();
    assert_eq!(ledger.append(Some(&id), None, &exit), Err(LedgerError::NoAnswer(SHORT)));
    // A further request or a close does not wait for it either.
    assert_eq!(ledger.head(), Err(LedgerError::NoAnswer(SHORT)));
    assert_eq!(connect(&url).unwrap_err(), LedgerError::NoAnswer(SHORT));
    drop(paused);
    // The earlier request may have been carried out meanwhile; the same ledger continues.
    let next = ledger.append(Some(&id), None, &exit).unwrap();
    let checked = ledger.verify_all(true).unwrap();
    assert_eq!((checked.head.seq, checked.problems), (next, vec![]));
}

/// A stopped writer holds the lock; other writers report it instead of waiting for ever.
#[test]
fn held_writer_lock_times_out() {
    let server = match Postgres::start() {
        Ok(server) => server,
        Err(why) => return not_tested(&format!("a lock that is held: {why}")),
    };
    let url = server.create_database("held").unwrap();
    let mut ledger = connect(&url).unwrap();
    let mut holder = postgres::Client::connect(&url, postgres::NoTls).unwrap();
    holder.batch_execute("BEGIN; SELECT pg_advisory_xact_lock(7161947)").unwrap();
    let run = record_bundle("T-1", &[("a.md", "x")]);
    let refused = ledger.record_prompt(&run).unwrap_err();
    assert!(matches!(refused, LedgerError::Locked | LedgerError::NoAnswer(_)), "{refused:?}");
    holder.batch_execute("ROLLBACK").unwrap();
    assert_eq!(ledger.record_prompt(&run), Ok(1));
}

#[test]
fn held_sqlite_ledger_times_out() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ledger.db");
    let mut ledger =
        Ledger::connect(&LedgerUrl::Sqlite(path.clone()), OpenMode::Create, LedgerTimeouts::at_most(SHORT))
            .unwrap();
    let holder = rusqlite::Connection::open(&path).unwrap();
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    let run = record_bundle("T-1", &[("a.md", "x")]);
    assert_eq!(ledger.record_prompt(&run), Err(LedgerError::Locked));
    holder.execute_batch("ROLLBACK").unwrap();
    assert_eq!(ledger.record_prompt(&run), Ok(1));
}

/// SQLite itself would wait for a FIFO beside a database.
#[test]
fn special_files_are_refused() {
    for ending in ["", "-wal", "-shm", "-journal"] {
        for mode in [OpenMode::Read, OpenMode::Write, OpenMode::Create] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("ledger.db");
            drop(Ledger::create(&LedgerUrl::Sqlite(path.clone())).unwrap());
            let odd = dir.path().join(format!("ledger.db{ending}"));
            drop(std::fs::remove_file(&odd));
            assert!(std::process::Command::new("mkfifo").arg(&odd).status().unwrap().success());
            let opened = Ledger::connect(&LedgerUrl::Sqlite(path), mode, LedgerTimeouts::default());
            let message = format!("`{}` is not a regular file", odd.display());
            assert_eq!(opened.map(drop), Err(LedgerError::Failed(message)), "{ending} {mode:?}");
        }
    }
}

/// Reading some of these waits for ever, and none of them is a file.
#[test]
#[cfg(target_os = "linux")]
fn kernel_files_are_refused() {
    for path in ["/proc/kmsg", "/proc/self/status", "/proc/self/new.db", "/sys/kernel/notes", "/sys/new.db"] {
        for mode in [OpenMode::Read, OpenMode::Write, OpenMode::Create] {
            let opened = Ledger::connect(&LedgerUrl::Sqlite(path.into()), mode, LedgerTimeouts::default());
            assert!(
                matches!(opened, Err(LedgerError::Failed(_) | LedgerError::NotThere(_))),
                "{path} {mode:?}: {:?}",
                opened.map(drop)
            );
        }
    }
    let opened = Ledger::connect(
        &LedgerUrl::Sqlite("/proc/self/status".into()),
        OpenMode::Read,
        LedgerTimeouts::default(),
    );
    let message = "`/proc/self/status` is on a file system that holds no files (procfs)".to_owned();
    assert_eq!(opened.map(drop), Err(LedgerError::Failed(message)));
}
