//! Proofs that hostile input, a changing disk and another machine cannot alter or break a prompt.
//!
//! Each proof always runs in a short form, and at full size with `./test --long`. Each one is shown to be
//! able to fail: its judge gets a sample that is known to be bad, and must object.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::io::Write as _;

mod agent_output;
mod bombs;
mod change_detection;
mod clock;
mod corpus;
mod decisions;
mod determinism;
mod directory_swaps;
mod git_calls;
mod ledgers;
mod links;
mod measure;
mod passwords;
mod paths;
mod project;
mod read_only;
mod requests;
mod retention;
mod secret_rules;
mod special_files;
mod submissions;
#[path = "../../../../fuzz/targets.rs"]
mod targets;
mod terminal;
mod verify_all;
mod weaker_limits;

/// Returns whether the long forms were requested.
fn is_long() -> bool {
    std::env::var_os("CALLSHEET_LONG").is_some()
}

/// Prints a line that `./test` repeats at its end.
fn not_tested(what: &str) {
    print_line(&format!("NOT TESTED: {what}"));
}

/// Prints a measurement. Times are reported and not judged: the speed and load of a machine are not
/// properties of callsheet.
fn print_measurement(what: &str) {
    print_line(&format!("MEASURED: {what}"));
}

/// Writes to standard error directly: the test runner would capture the output of `eprintln`.
fn print_line(line: &str) {
    std::io::stderr().write_all(format!("\n{line}\n").as_bytes()).unwrap();
}
