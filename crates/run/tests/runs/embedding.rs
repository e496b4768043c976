//! Tests programs that run agents by this library and do not become guards, or are no Rust programs.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::support::{AGENT, assert_nothing_left, new_mark};
use crate::terminals::has_tmux;

const EMBEDDER: &str = env!("CARGO_BIN_EXE_embedder");

const HINT: &str =
    "call `guard_if_asked()` first in `main`, or name the `callsheet` binary as the program of the guard";

/// The output of an embedder, the number of processes that it became, and the input of its false guard.
struct Embedded {
    output: String,
    starts: usize,
    input: String,
}

fn run_embedder(env: &[(&str, &str)]) -> Embedded {
    let dir = tempfile::tempdir().unwrap();
    let begun = Instant::now();
    // The embedders of these tests get a path without programs.
    let output = Command::new("/usr/bin/timeout")
        .args(["--signal=KILL", "15", EMBEDDER])
        .env("EMBEDDER_DIR", dir.path())
        .env("CALLSHEET_TEST_HANDSHAKE_MS", "1500")
        .envs(env.iter().copied())
        .output()
        .unwrap();
    assert!(begun.elapsed() < Duration::from_secs(15), "every wait has an end");
    let read = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap_or_default();
    Embedded {
        output: String::from_utf8(output.stdout).unwrap(),
        starts: read("starts").lines().count(),
        input: read("input"),
    }
}

#[test]
fn embedder_without_dispatch_starts_twice() {
    let own = run_embedder(&[("EMBEDDER_GUARD", EMBEDDER)]);
    assert_eq!(own.output, format!("`{EMBEDDER}` did not become a guard: {HINT}\n"));
    assert_eq!(own.starts, 2);
    // Its arguments are gone, the mark is not.
    let changed = run_embedder(&[("EMBEDDER_GUARD", EMBEDDER), ("EMBEDDER_TRAP", "exec")]);
    assert_eq!(changed.output, own.output);
    assert_eq!(changed.starts, 3);
}

#[test]
fn unnamed_guard_is_not_embedder() {
    let none = run_embedder(&[("PATH", "/nowhere")]);
    assert_eq!((none.output, none.starts), (format!("no program for the guard: {HINT}\n"), 1));
}

#[test]
fn started_as_guard_starts_none() {
    let marked = run_embedder(&[("EMBEDDER_GUARD", AGENT), ("CALLSHEET_GUARD_START", "1")]);
    let refused = format!("this process is a guard and cannot start another one: {HINT}\n");
    assert_eq!((marked.output, marked.starts), (refused, 1));
}

#[test]
fn silent_guard_gets_no_prompt() {
    // No other process sleeps for exactly so long.
    let seconds = format!("{}.25", 100_000 + std::process::id());
    let trap = [("EMBEDDER_GUARD", EMBEDDER), ("EMBEDDER_TRAP", "linger"), ("EMBEDDER_SECONDS", &*seconds)];
    let silent = run_embedder(&trap);
    assert_eq!(silent.output, format!("`{EMBEDDER}` did not become a guard: {HINT}\n"));
    assert_eq!((silent.starts, &*silent.input), (2, ""));
    assert_nothing_left(&seconds);
}

#[test]
fn other_program_becomes_guard() {
    let named = run_embedder(&[("EMBEDDER_GUARD", AGENT)]);
    assert_eq!((&*named.output, named.starts), ("the agent ran\ndone\n", 1));
    let dir = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(AGENT, dir.path().join("callsheet")).unwrap();
    let path = format!("{}:/usr/bin:/bin", dir.path().display());
    let found = run_embedder(&[("PATH", &path)]);
    assert_eq!((&*found.output, found.starts), ("the agent ran\ndone\n", 1));
}

#[test]
fn terminal_needs_guard_that_answers() {
    if !has_tmux() {
        return;
    }
    for (name, trap, starts) in [("ends", "", 2), ("lingers", "linger", 2)] {
        let server = new_mark(&format!("embedder-{name}"));
        let seconds = format!("{}.5", 200_000 + std::process::id());
        let bad = run_embedder(&[
            ("EMBEDDER_TMUX", &server),
            ("EMBEDDER_GUARD", EMBEDDER),
            ("EMBEDDER_TRAP", trap),
            ("EMBEDDER_SECONDS", &seconds),
        ]);
        assert_eq!(bad.output, format!("`{EMBEDDER}` did not become a guard: {HINT}\n"), "{name}");
        assert_eq!(bad.starts, starts, "{name}");
        assert_nothing_left(&server);
    }
    let server = new_mark("embedder-good");
    let good = run_embedder(&[("EMBEDDER_TMUX", &server), ("EMBEDDER_GUARD", AGENT)]);
    assert_eq!((&*good.output, good.starts), ("the delivery starts no program\n", 1));
    assert_nothing_left(&server);
}
