//! Attacks on the engine, each class in a file of its own. `CALLSHEET_LONG=1` runs the full figures.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::io::Write as _;

#[path = "../support/plan.rs"]
mod plan;
mod questions;
mod secrets;
mod streams;
mod structure;
mod verdicts;

/// Not by `eprintln`: the test runner would keep it to itself.
fn figure(what: &str) {
    std::io::stderr().write_all(format!("\nMEASURED: {what}\n").as_bytes()).unwrap();
}

fn long() -> bool {
    std::env::var_os("CALLSHEET_LONG").is_some_and(|long| long == "1")
}
