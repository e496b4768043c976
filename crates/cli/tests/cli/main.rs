//! Tests the program through its command line: each test runs the real binary in its own directory.

#![expect(clippy::unwrap_used, reason = "tests")]

mod agents;
mod budget;
mod completions;
mod compose;
mod demo;
mod errors;
mod explain;
mod fuzz;
mod init_checks;
mod json;
mod ledger;
mod ledger_views;
mod mcp_install;
mod mcp_wire;
mod old_ledgers;
mod output_files;
mod pack;
mod prefs;
mod profiles;
mod prompt_sizes;
mod read;
mod request;
mod secrets;
mod setup_commands;
mod shipped;
mod tokens;
