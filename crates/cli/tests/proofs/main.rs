//! Proofs: what hostile input, a changing disk and another machine cannot do to a prompt.
//!
//! Each runs in a short form always, and at its full figure with `./test --long`. Each is shown able to fail: its
//! judge is given a sample that is known to be bad, and must object.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::io::Write as _;

mod bombs;
mod clock;
mod corpus;
mod deciding;
mod determinism;
mod facts;
mod files;
mod git_calls;
mod ledgers;
mod links;
mod loosening;
mod measure;
mod output;
mod passwords;
mod paths;
mod read_only;
mod requests;
mod retention;
mod rules;
mod submitting;
mod swap;
#[path = "../../../../fuzz/targets.rs"]
mod targets;
mod terminal;
mod verifying;
mod world;

/// Whether the long forms are asked for.
fn long() -> bool {
    std::env::var_os("CALLSHEET_LONG").is_some()
}

/// A line that `./test` repeats at its end.
fn not_tested(what: &str) {
    tell(&format!("NOT TESTED: {what}"));
}

/// What was measured. Times are told and not judged: how fast a machine is, and how busy, is no property of ours.
fn figure(what: &str) {
    tell(&format!("MEASURED: {what}"));
}

/// Not by `eprintln`: the test runner would keep it to itself.
fn tell(line: &str) {
    std::io::stderr().write_all(format!("\n{line}\n").as_bytes()).unwrap();
}
