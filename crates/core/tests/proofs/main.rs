//! Tests the engine against attacks, one class in each file. `CALLSHEET_LONG=1` runs the full number of
//! cases.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::io::Write as _;

#[path = "../support/plan.rs"]
mod plan;
mod questions;
mod secrets;
mod streams;
mod structure;
mod verdicts;

/// Prints a measurement. `eprintln` would be captured by the test runner.
fn print_measurement(what: &str) {
    std::io::stderr().write_all(format!("\nMEASURED: {what}\n").as_bytes()).unwrap();
}

fn is_long_run() -> bool {
    std::env::var_os("CALLSHEET_LONG").is_some_and(|long| long == "1")
}
