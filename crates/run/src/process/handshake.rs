//! The handshake with a guard: a program gets an order, and the prompt in it, only after it said that it is a
//! guard.
//!
//! A program that is started as a guard and does not call [`guard_if_asked`](crate::guard_if_asked) runs its
//! own `main` instead, which would start a guard again, and so on. So the guard speaks first, and a process
//! that was started as a guard starts none. The work of a guard is in [`guard`](super::guard).

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::ancestry::GUARD;
use super::environment::handshake_limit;
use super::programs::find_program;
use super::{StartError, find_own_program, tree};

/// The first words of every guard: they change if the order of a guard changes.
const GREETING: &[u8] = b"callsheet guard 1\n";

/// The variable that marks a process that was started as a guard, whatever its arguments became since. Its
/// agent does not get it.
pub(crate) const STARTED_AS_GUARD: &str = "CALLSHEET_GUARD_START";

/// The program that is the guard if this one cannot be.
const GUARD_PROGRAM: &str = "callsheet";

/// The way out, for the author of the program.
const HINT: &str =
    "call `guard_if_asked()` first in `main`, or name the `callsheet` binary as the program of the guard";

/// Whether this program becomes a guard if it is started as one.
static BECOMES_GUARD: AtomicBool = AtomicBool::new(false);

/// Checks whether this process was started as a guard. From then on, this program is known to become one.
pub(crate) fn is_guard_asked() -> bool {
    BECOMES_GUARD.store(true, Ordering::SeqCst);
    is_guard_argument()
}

fn is_guard_argument() -> bool {
    std::env::args_os().nth(1).is_some_and(|first| first == GUARD)
}

/// Returns the program to start as a guard: the named one, else this program if it becomes a guard, else the
/// `callsheet` binary. A process that was started as a guard gets none.
pub(crate) fn find_guard_program(named: Option<&Path>) -> Result<PathBuf, StartError> {
    if is_guard_argument() || std::env::var_os(STARTED_AS_GUARD).is_some() {
        return Err(StartError::NoGuard(format!(
            "this process is a guard and cannot start another one: {HINT}"
        )));
    }
    match named {
        Some(program) => Ok(program.to_owned()),
        None if BECOMES_GUARD.load(Ordering::SeqCst) => Ok(find_own_program()?),
        None => find_program(GUARD_PROGRAM, std::env::var_os("PATH").as_deref(), Path::new("/"))
            .map_err(|_| StartError::NoGuard(format!("no program for the guard: {HINT}"))),
    }
}

/// Says that this process is a guard.
pub(crate) fn greet(mut control: &UnixStream) -> io::Result<()> {
    control.write_all(GREETING)
}

/// Waits until the process at the other end says that it is a guard.
pub(crate) fn await_greeting(mut control: &UnixStream, program: &Path) -> Result<(), StartError> {
    let end = Instant::now() + handshake_limit();
    let mut said = [0; GREETING.len()];
    let mut length = 0;
    while length < said.len() {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        control.set_read_timeout(Some(left))?;
        match control.read(&mut said[length..]) {
            Ok(read @ 1..) => length += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(_) | Err(_) => break,
        }
    }
    control.set_read_timeout(None)?;
    if said == GREETING { Ok(()) } else { Err(no_guard(program)) }
}

/// Returns the error for a program that did not become a guard.
pub(crate) fn no_guard(program: &Path) -> StartError {
    StartError::NoGuard(format!("`{}` did not become a guard: {HINT}", program.display()))
}

/// Ends a process that did not become a guard, and everything that it started.
pub(crate) fn end_impostor(process: &mut Child) {
    if let Ok(root) = tree::to_pid(process.id()) {
        tree::terminate_tree(root, Duration::ZERO);
    }
    let _ = process.wait();
}
