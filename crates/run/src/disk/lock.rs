//! Opens files for writing, and uses files as locks between processes. Every wait has an end: a process that
//! reads or holds a file may be stopped.

use std::fs::{File, OpenOptions, Permissions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;

/// How long another process may hold a lock that is needed only briefly.
pub const LOCK_PATIENCE: Duration = Duration::from_secs(20);

/// Opens a regular file for writing that only its owner can read; creates it if it does not exist. Refuses
/// anything else by that name, without waiting for it.
pub fn open_private(path: &Path) -> io::Result<File> {
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    let mut options = OpenOptions::new();
    let file = options.write(true).create(true).truncate(false).mode(0o600).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    file.set_permissions(Permissions::from_mode(0o600))?;
    Ok(file)
}

/// Holds a file as a lock until the returned file is dropped. Waits at most `patience` for another process
/// that holds it.
pub fn lock_file(path: &Path, patience: Duration) -> io::Result<File> {
    let file = open_private(path)?;
    lock_within(&file, patience)?;
    Ok(file)
}

/// Locks an open file or directory.
pub(crate) fn lock(file: impl AsFd) -> io::Result<()> {
    lock_within(file, LOCK_PATIENCE)
}

fn lock_within(file: impl AsFd, patience: Duration) -> io::Result<()> {
    let start = Instant::now();
    let mut pause = Duration::from_millis(1);
    loop {
        match flock(file.as_fd(), FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) if start.elapsed() < patience => thread::sleep(pause),
            Err(Errno::WOULDBLOCK) => {
                let message = format!("another process has held it for {patience:?}");
                return Err(io::Error::new(io::ErrorKind::TimedOut, message));
            }
            Err(Errno::INTR) => {}
            done => return Ok(done?),
        }
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}
