//! Runs from the outside: the real binary with agents that fail in every way, and with the real CLIs.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod again;
mod agents;
mod claims;
mod crashes;
mod faults;
mod handing_in;
mod injections;
mod orphans;
mod people;
mod preflight;
mod scopes;
mod tasks;
mod terminals;
mod trouble;
mod trust;
mod watching;
mod world;

/// Returns whether the long forms were requested.
fn is_long() -> bool {
    std::env::var_os("CALLSHEET_LONG").is_some()
}
