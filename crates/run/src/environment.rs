//! The environment of the programs that we start.

use std::ffi::OsStr;
use std::process::Command;

/// Variables that no program gets which we start: they can hold the ledger's password.
pub const PRIVATE_VARIABLES: [&str; 1] = ["CALLSHEET_LEDGER"];

/// A program in our environment, without the [private variables](PRIVATE_VARIABLES).
pub(crate) fn program(name: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(name);
    for variable in PRIVATE_VARIABLES {
        command.env_remove(variable);
    }
    command
}
