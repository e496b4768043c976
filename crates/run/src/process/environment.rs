//! The environment of the programs that callsheet starts.

use std::ffi::OsStr;
use std::process::Command;
use std::time::Duration;

/// Variables that no program started by callsheet gets: they can hold the ledger's password.
pub const PRIVATE_VARIABLES: [&str; 1] = ["CALLSHEET_LEDGER"];

/// Returns a command in our environment, without the [private variables](PRIVATE_VARIABLES).
pub fn new_command(name: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(name);
    for variable in PRIVATE_VARIABLES {
        command.env_remove(variable);
    }
    command
}

/// How long a process gets to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(5);

/// The variable by which tests shorten [`GRACE`], in milliseconds. Release builds do not read it.
const TEST_GRACE: &str = "CALLSHEET_TEST_GRACE_MS";

/// How long a guard may take until it says that it is one.
const HANDSHAKE: Duration = Duration::from_secs(20);

/// The variable by which tests shorten [`HANDSHAKE`], in milliseconds. Release builds do not read it.
const TEST_HANDSHAKE: &str = "CALLSHEET_TEST_HANDSHAKE_MS";

/// Returns how long a process gets to end after SIGTERM.
pub fn grace_period() -> Duration {
    shorten_for_test(GRACE, TEST_GRACE)
}

/// Returns how long a guard may take until it says that it is one.
pub(crate) fn handshake_limit() -> Duration {
    shorten_for_test(HANDSHAKE, TEST_HANDSHAKE)
}

fn shorten_for_test(usual: Duration, variable: &str) -> Duration {
    let shorter = || std::env::var(variable).ok()?.parse().ok().map(Duration::from_millis);
    if cfg!(debug_assertions) { shorter().unwrap_or(usual) } else { usual }
}
