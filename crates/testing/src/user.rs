//! Runs tests as a user who may not read every file.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use crate::not_tested;
use crate::project::{PROGRAMS, programs_dir};
use crate::rerun::{rerun_test, test_name};

/// Runs `body` as a user without privileges: as root, `setpriv` starts the test program again.
///
/// The `#[test]` function itself must call this, with a closure that is the test.
///
/// # Panics
///
/// If the test program cannot be copied to a place that every user may read.
pub fn as_user<F: FnOnce()>(body: F) {
    if !rustix::process::geteuid().is_root() {
        return body();
    }
    let user = ["--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"];
    if !Command::new("setpriv").args(user).arg("true").status().is_ok_and(|status| status.success()) {
        return not_tested("a user without privileges: there is no `setpriv` that can become one");
    }
    // A user without privileges may not be able to enter the folder of the test program.
    let copied = tempfile::tempdir().and_then(|dir| {
        let program = dir.path().join("test");
        fs::copy(std::env::current_exe()?, &program)?;
        for (path, mode) in [(dir.path(), 0o777), (&program, 0o755)] {
            fs::set_permissions(path, Permissions::from_mode(mode))?;
        }
        io::Result::Ok((dir, program))
    });
    assert!(copied.is_ok(), "the test program cannot be copied: {copied:?}");
    let Ok((dir, program)) = copied else { return };
    let mut command = Command::new("setpriv");
    command.args(user).arg(program).current_dir(dir.path()).env("HOME", dir.path()).env("TMPDIR", dir.path());
    command.env(PROGRAMS, programs_dir());
    rerun_test(&mut command, test_name::<F>());
}
