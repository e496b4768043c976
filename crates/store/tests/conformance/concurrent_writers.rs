//! Tests writers that run at once, and writers that are killed.

use std::env;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use callsheet_core::record::{Digest, LogStream};
use callsheet_store::{ExportScope, Head, Ledger, LedgerError, LedgerUrl, export, new_id, read_export};
use callsheet_testing::{Postgres, not_tested, report_missing};

use crate::LedgerEngine;
use crate::ledger_operations::output;
use crate::prompts::record_bundle;

const PLACE: &str = "CALLSHEET_TEST_LEDGER";
const COUNT: &str = "CALLSHEET_TEST_COUNT";
/// After this many records, a writer waits for a line on its stdin.
const STEP: &str = "CALLSHEET_TEST_STEP";

/// Appends until it is killed, or up to the given count, and prints each number once it is written.
#[test]
#[ignore = "a process of other tests"]
fn writer() {
    let place = env::var(PLACE).unwrap();
    let place = if place.starts_with("postgres") {
        LedgerUrl::Postgres(place)
    } else {
        LedgerUrl::Sqlite(place.into())
    };
    let count = env::var(COUNT).map_or(u64::MAX, |count| count.parse().unwrap());
    let step = env::var(STEP).map_or(u64::MAX, |step| step.parse().unwrap());
    let mut ledger = Ledger::create(&place).unwrap();
    let mut run = new_id().unwrap();
    for number in 0..count {
        if number % step == 0 && step < u64::MAX {
            std::io::stdin().read_line(&mut String::new()).unwrap();
        }
        let seq = match number % 4 {
            0 => {
                let kept =
                    record_bundle(&format!("T-{run}"), &[("a.md", &format!("{run} {number}\n").repeat(40))]);
                run = kept.composed.run.id.clone();
                ledger.record_prompt(&kept)
            }
            _ => ledger.append(Some(&run), None, &output(LogStream::Stdout, number, "a line\n")),
        };
        let mut out = std::io::stdout().lock();
        writeln!(out, "wrote {}", seq.unwrap()).unwrap();
        out.flush().unwrap();
    }
}

fn start_writer(place: &LedgerUrl, count: Option<u64>) -> Child {
    writer_command(place, count).stdin(Stdio::null()).spawn().unwrap()
}

fn writer_command(place: &LedgerUrl, count: Option<u64>) -> Command {
    let place = match place {
        LedgerUrl::Sqlite(path) => path.to_str().unwrap().to_owned(),
        LedgerUrl::Postgres(url) => url.clone(),
        LedgerUrl::Memory => unreachable!("nobody else can see it"),
    };
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "concurrent_writers::writer", "--ignored", "--nocapture"]).env(PLACE, place);
    command.envs(count.map(|count| (COUNT, count.to_string())));
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    command
}

/// Returns the numbers that a writer printed.
fn read_acknowledged(child: &mut Child) -> Vec<u64> {
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    lines.filter_map(|line| line.strip_prefix("wrote ")?.parse().ok()).collect()
}

pub(crate) fn eight_processes_append_without_gap(engine: &LedgerEngine) {
    const EACH: u64 = 12;
    let place = engine.place("writers");
    let mut children: Vec<Child> = (0..8).map(|_| start_writer(&place, Some(EACH))).collect();
    // A permanent reader never sees a number before the one below it.
    let mut ledger = Ledger::create(&place).unwrap();
    let (mut seen, begun) = (0, Instant::now());
    while seen < 8 * EACH {
        for record in ledger.records_after(seen, 1000).unwrap() {
            seen += 1;
            assert_eq!(record.seq, seen);
        }
        for child in &mut children {
            let status = child.try_wait().unwrap();
            assert!(status.is_none_or(|status| status.success()), "a writer failed after {seen} records");
        }
        assert!(begun.elapsed() < Duration::from_secs(120), "{seen} records");
    }
    let mut all: Vec<u64> = children.iter_mut().flat_map(read_acknowledged).collect();
    all.sort_unstable();
    assert_eq!(all, (1..=8 * EACH).collect::<Vec<_>>());
    children.iter_mut().for_each(|child| assert!(child.wait().unwrap().success()));
    let checked = ledger.verify_all(true).unwrap();
    assert_eq!((checked.records, checked.problems), (8 * EACH, vec![]));
}

pub(crate) fn concurrent_writes_are_not_damage(engine: &LedgerEngine) {
    const ALL: u64 = 100;
    const EACH: u64 = 10;
    let place = engine.place("meanwhile");
    let mut ledger = Ledger::create(&place).unwrap();
    let mut writer =
        writer_command(&place, Some(ALL)).env(STEP, EACH.to_string()).stdin(Stdio::piped()).spawn().unwrap();
    let mut go_on = writer.stdin.take().unwrap();
    let (mut looks, mut last) = (0, 0);
    while last < ALL {
        // The writer pauses until it gets a line, so that no check can miss a step.
        if last == looks * EACH {
            looks += 1;
            go_on.write_all(b"\n").unwrap();
        }
        let checked = ledger.verify_all(true).unwrap();
        assert_eq!((checked.problems, checked.records), (vec![], checked.head.seq));
        let mut file = Vec::new();
        export(&mut ledger, &ExportScope::All, &mut file).unwrap();
        let exported = read_export(&mut file.as_slice()).unwrap().verify_all(true).unwrap();
        assert_eq!((exported.problems, exported.records), (vec![], exported.head.seq));
        last = checked.head.seq;
        assert!(last <= looks * EACH);
        assert!(last == ALL || writer.try_wait().unwrap().is_none_or(|status| status.success()));
    }
    assert!(writer.wait().unwrap().success());
    assert_eq!(looks, ALL / EACH);
}

/// Head up to which a growing ledger is verified.
struct Proved(Head);

impl Proved {
    /// Verifies every link from the last head on, and every acknowledged number. A server may still carry out
    /// the request of a client that is gone, so the ledger grows during the check.
    fn verify_growth(&mut self, ledger: &mut Ledger, acknowledged: &[u64]) {
        let head = ledger.head().unwrap();
        while self.0.seq < head.seq {
            let page = ledger.records_after(self.0.seq, (head.seq - self.0.seq).min(500) as usize).unwrap();
            assert!(!page.is_empty(), "{:?} of {head:?}", self.0);
            for record in page {
                assert_eq!(
                    (record.seq, record.link().link_after(&self.0.chain)),
                    (self.0.seq + 1, record.chain)
                );
                record.event().unwrap().unwrap();
                self.0 = Head { seq: record.seq, chain: record.chain };
            }
        }
        assert_eq!(head, self.0);
        assert!(acknowledged.iter().all(|seq| *seq <= self.0.seq), "lost: {acknowledged:?}, {:?}", self.0);
    }
}

fn kill_writers_repeatedly(place: &LedgerUrl, times: u32, within: u64) {
    let mut proved = Proved(Head { seq: 0, chain: Digest::ZERO });
    let mut ledger = Ledger::create(place).unwrap();
    for time in 0..times {
        let mut child = start_writer(place, None);
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let number = |line: String| line.strip_prefix("wrote ")?.parse::<u64>().ok();
        let mut said: Vec<u64> = Vec::new();
        match time % 2 {
            // After some time since the start, never twice the same.
            0 => thread::sleep(Duration::from_micros(u64::from(time) * 7919 % within)),
            // After some records, however busy the machine is.
            _ => said.extend(lines.by_ref().filter_map(number).take(1 + time as usize / 2 % 9)),
        }
        child.kill().unwrap();
        said.extend(lines.filter_map(number));
        child.wait().unwrap();
        proved.verify_growth(&mut ledger, &said);
    }
    let next = ledger.append(None, None, &output(LogStream::Stderr, 1, "after\n")).unwrap();
    let checked = ledger.verify_all(true).unwrap();
    assert_eq!(checked.problems, []);
    assert!(next > proved.0.seq && checked.head.seq >= next, "{next}, {:?}, {:?}", proved.0, checked.head);
    assert!(checked.records > u64::from(times) / 2, "only {} records: too early", checked.records);
}

fn choose_count(few: u32, many: u32) -> u32 {
    if env::var_os("CALLSHEET_LONG").is_some() { many } else { few }
}

#[test]
fn killed_writer_loses_no_acknowledged_record() {
    let dir = tempfile::tempdir().unwrap();
    kill_writers_repeatedly(&LedgerUrl::Sqlite(dir.path().join("ledger.db")), choose_count(100, 500), 40_000);
}

#[test]
fn postgres_survives_killed_writers_and_crashes() {
    let server = match Postgres::start() {
        Ok(server) => server,
        Err(why) => return report_missing(&format!("a crash of PostgreSQL: {why}")),
    };
    let place = LedgerUrl::Postgres(server.url());
    kill_writers_repeatedly(&place, choose_count(20, 500), 200_000);
    let mut ledger = Ledger::open(&place).unwrap();
    for _ in 0..choose_count(2, 20) {
        let begun = ledger.head().unwrap().seq;
        let mut child = start_writer(&place, None);
        while ledger.head().unwrap().seq < begun + 5 {
            thread::sleep(Duration::from_millis(5));
        }
        server.crash().unwrap();
        let said = read_acknowledged(&mut child);
        assert!(!child.wait().unwrap().success(), "it was told that nothing was written");
        let before = *said.last().unwrap();
        let refused = ledger.append(None, None, &output(LogStream::Stderr, 1, "lost\n"));
        assert!(
            matches!(&refused, Err(LedgerError::Failed(why)) if why.starts_with("PostgreSQL: ")),
            "{refused:?}"
        );
        server.resume().unwrap();
        // The same handle, and a new one.
        let next = ledger.append(None, None, &output(LogStream::Stderr, 1, "kept\n")).unwrap();
        assert!(next > before, "{next} {before}");
        let checked = Ledger::open(&place).unwrap().verify_all(true).unwrap();
        assert_eq!((checked.problems, checked.head.seq), (vec![], next));
    }
}

/// File system of two megabytes, mounted until it is dropped.
struct Small<'d>(&'d Path);

impl<'d> Small<'d> {
    fn mount(dir: &'d Path) -> Option<Self> {
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=2m,mode=0700", "tmpfs"]).arg(dir).stderr(Stdio::null());
        mount.status().is_ok_and(|status| status.success()).then_some(Self(dir))
    }
}

impl Drop for Small<'_> {
    fn drop(&mut self) {
        drop(Command::new("umount").arg(self.0).status());
    }
}

#[test]
fn full_disk_leaves_no_partial_write() {
    let dir = tempfile::tempdir().unwrap();
    let Some(small) = Small::mount(dir.path()) else {
        return not_tested("a full disk: a file system cannot be mounted here");
    };
    fs::write(dir.path().join("ballast"), vec![0; 200_000]).unwrap();
    let place = LedgerUrl::Sqlite(dir.path().join("ledger.db"));
    let mut ledger = Ledger::create(&place).unwrap();
    let mut last = 0;
    // Texts that do not compress.
    let noise = |number: u64| {
        let words = (0..400)
            .map(|at| callsheet_core::record::sha256(&[&number.to_be_bytes(), &[at as u8, (at >> 8) as u8]]));
        words.map(|digest: Digest| digest.to_string()).collect::<String>()
    };
    let refused = loop {
        match ledger.record_prompt(&record_bundle("T-1", &[("noise.md", &noise(last))])) {
            Ok(seq) => last = seq,
            Err(error) => break error,
        }
    };
    assert_eq!(refused, LedgerError::Failed("the disk is full; nothing was written".into()));
    assert!(last > 5, "{last}");
    drop(ledger);
    fs::remove_file(dir.path().join("ballast")).unwrap();
    let mut ledger = Ledger::open(&place).unwrap();
    let checked = ledger.verify_all(true).unwrap();
    assert_eq!((checked.head.seq, checked.problems), (last, vec![]));
    assert_eq!(ledger.record_prompt(&record_bundle("T-1", &[("noise.md", "small")])), Ok(last + 1));
    drop((ledger, small));
}
