//! The environment of the programs that callsheet starts.

use std::ffi::OsStr;
use std::process::Command;

/// Variables that no program started by callsheet gets: they can hold the ledger's password.
pub const PRIVATE_VARIABLES: [&str; 1] = ["CALLSHEET_LEDGER"];

/// Returns a command in our environment, without the [private variables](PRIVATE_VARIABLES).
pub(crate) fn new_command(name: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(name);
    for variable in PRIVATE_VARIABLES {
        command.env_remove(variable);
    }
    command
}

/// How long a process gets to end after SIGTERM.
const GRACE: std::time::Duration = std::time::Duration::from_secs(5);

/// The variable by which tests shorten [`GRACE`], in milliseconds. Release builds do not read it.
const TEST_GRACE: &str = "CALLSHEET_TEST_GRACE_MS";

/// Returns how long a process gets to end after SIGTERM.
pub fn grace_period() -> std::time::Duration {
    let shorter = || std::env::var(TEST_GRACE).ok()?.parse().ok().map(std::time::Duration::from_millis);
    if cfg!(debug_assertions) { shorter().unwrap_or(GRACE) } else { GRACE }
}
