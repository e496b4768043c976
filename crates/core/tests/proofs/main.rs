//! Attacks on the engine, each class in a file of its own. `CALLSHEET_LONG=1` runs the full figures.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod streams;
mod verdicts;

fn long() -> bool {
    std::env::var_os("CALLSHEET_LONG").is_some_and(|long| long == "1")
}
