//! Reads the recorded output of CLIs whose model does not answer, and of long work.
//!
//! ```text
//! streams/faults/<cli>/<case>.out   standard output of a CLI whose model fails
//! streams/faults/<cli>/<case>.err   its standard error, as far as it is about attempts
//! streams/faults/expect.txt         the faults that are read from them
//! streams/work/<cli>.jsonl          at least 200 events of each CLI
//! ```
//!
//! `BLESS=1 cargo test -p callsheet-core --test faults` rewrites the expectation.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

use callsheet_core::delivery::receipt::ReceiptWatcher;
use callsheet_core::library::agent::{Agent, FaultKind};
use callsheet_core::library::layout::Layout;
use callsheet_core::{Builtin, Library, find_agent};

fn streams() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/streams")
}

fn shipped_agent(name: &str) -> Agent {
    find_agent(&Library::new(&Builtin), name, &Layout::default()).unwrap().1
}

fn list_files(dir: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// Returns every fault that is read from a recording, one per line, and the last one with its values.
fn read_faults(agent: &Agent, file: &Path) -> String {
    let mut watch = ReceiptWatcher::new(agent, "");
    let mut found = String::new();
    let errors = fs::read_to_string(file.with_extension("err")).unwrap_or_default();
    let lines = fs::read_to_string(file).unwrap();
    let mut last = None;
    let mut note = |watch: &ReceiptWatcher<'_>| {
        if watch.fault != last {
            last.clone_from(&watch.fault);
            let words = watch.fault.as_ref().map_or("answered".to_owned(), |fault| {
                let until = fault.until_s.map(|until| format!(", until {until}")).unwrap_or_default();
                let clock =
                    fault.until_clock.as_ref().map(|clock| format!(", until {clock}")).unwrap_or_default();
                format!(
                    "{} ({}){until}{clock}, {} in a row",
                    fault.words(),
                    fault.kind.name(),
                    watch.fault_count
                )
            });
            writeln!(found, "  {words}").unwrap();
        }
    };
    for line in errors.lines() {
        watch.read_error_line(line);
        note(&watch);
    }
    for line in lines.lines() {
        watch.read_output(line, false);
        note(&watch);
    }
    if found.is_empty() { "  nothing\n".to_owned() } else { found }
}

#[test]
fn recorded_faults_are_read() {
    let mut all = String::new();
    for dir in list_files(&streams().join("faults")).iter().filter(|path| path.is_dir()) {
        let name = dir.file_name().unwrap().to_str().unwrap();
        let agent = shipped_agent(name);
        for file in list_files(dir).iter().filter(|file| file.extension().is_some_and(|kind| kind == "out")) {
            let case = file.file_stem().unwrap().to_str().unwrap();
            write!(all, "{name} {case}\n{}", read_faults(&agent, file)).unwrap();
        }
    }
    let expect = streams().join("faults/expect.txt");
    if env::var_os("BLESS").is_some() {
        fs::write(&expect, &all).unwrap();
    }
    assert_eq!(all, fs::read_to_string(expect).unwrap());
    let kinds = FaultKind::ALL.iter().filter(|kind| !all.contains(&format!("({})", kind.name())));
    assert_eq!(kinds.count(), 0, "{all}");
}

#[test]
fn work_without_faults_has_none() {
    for file in list_files(&streams().join("work")) {
        let agent = shipped_agent(file.file_stem().unwrap().to_str().unwrap());
        let mut watch = ReceiptWatcher::new(&agent, "");
        let text = fs::read_to_string(&file).unwrap();
        assert!(text.lines().count() >= 200, "{}", file.display());
        for line in text.lines() {
            watch.read_output(line, false);
            assert_eq!(watch.fault, None, "{line}");
        }
        let turns = watch.report.turns.unwrap();
        assert!(turns > 15, "{}: {turns}", file.display());
    }
}
