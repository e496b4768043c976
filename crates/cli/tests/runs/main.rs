//! Runs from the outside: the real binary with agents that fail in every way, and with the real CLIs.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod agent_versions;
mod agents;
mod changes;
mod claims;
mod costs;
mod crashes;
mod failure_table;
mod faults;
mod follow_up_runs;
mod injections;
mod model_faults;
mod notify;
mod orphans;
mod pages;
mod permissions;
mod person_at_terminal;
mod preflight;
mod project;
mod scopes;
mod screens;
mod split;
mod stats;
mod submissions;
mod tasks;
mod terminals;
mod trust;
mod watch;

/// Returns whether the long forms were requested.
fn is_long() -> bool {
    std::env::var_os("CALLSHEET_LONG").is_some()
}
