//! Files that only their owner can read, whatever the umask is.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::os::unix::fs::{
    DirBuilderExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::error::LedgerError;
use crate::pseudo_fs::refuse_pseudo;

/// Database file, its write-ahead log and the log's index, as they were when the database was opened.
#[derive(Debug)]
pub(crate) struct WatchedFile {
    path: PathBuf,
    /// Path without links.
    real: PathBuf,
    inode: (u64, u64),
    /// Inode and size of the log.
    log: Option<((u64, u64), u64)>,
    /// Inode and size of the index. It never shrinks: the system would kill a process that uses a truncated
    /// index.
    index: Option<((u64, u64), u64)>,
}

/// Returns the device, the inode and the size of a file.
fn read_stamp(path: &Path) -> Option<((u64, u64), u64)> {
    path.symlink_metadata().ok().map(|found| ((found.dev(), found.ino()), found.len()))
}

/// Reports whether frames of a write-ahead log are missing before its end. SQLite writes the log without
/// gaps; one remains if the log was truncated between two transactions. The index still lists the lost
/// frames, and a look at the newest records alone does not read them. Looks at the frames since `kept`, the
/// size of the log at the last look, which is `size` now: a gap before it reaches up to it.
fn has_hole(log: &Path, kept: u64, size: u64) -> bool {
    const HEADER: u64 = 32;
    const FRAME_HEADER: u64 = 24;
    let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(log);
    let Ok(file) = file else { return false };
    let number_at = |offset: u64| {
        let mut bytes = [0; 4];
        file.read_exact_at(&mut bytes, offset).ok().map(|()| u32::from_be_bytes(bytes))
    };
    // The size of a page is in the header; a frame begins with the number of its page, which is never 0.
    let Some(page_size) = number_at(8) else { return false };
    let frame_size = FRAME_HEADER + u64::from(page_size);
    let first = if size < kept { 0 } else { (kept.saturating_sub(HEADER) / frame_size).saturating_sub(1) };
    let frames = (first..).map(|frame| HEADER + frame * frame_size);
    page_size == 0 || frames.map_while(number_at).any(|page| page == 0)
}

impl WatchedFile {
    pub(crate) fn new(path: &Path) -> Result<Self, LedgerError> {
        let gone = || LedgerError::damaged(format!("`{}` is gone", path.display()));
        let real = path.canonicalize().map_err(|_| gone())?;
        let (inode, _) = read_stamp(path).ok_or_else(gone)?;
        let mut watched = Self { path: path.to_owned(), real, inode, log: None, index: None };
        watched.check()?;
        Ok(watched)
    }

    /// Returns the path without links.
    pub(crate) fn real_path(&self) -> &Path {
        &self.real
    }

    /// Fails if another file or none is there now. Data written then would be lost when the database is
    /// closed.
    pub(crate) fn check(&mut self) -> Result<(), LedgerError> {
        let (log, index) = (path_beside(&self.path, "-wal"), path_beside(&self.path, "-shm"));
        let (found, found_log, found_index) = (read_stamp(&self.path), read_stamp(&log), read_stamp(&index));
        for (path, lost) in [
            (&self.path, found.is_none_or(|(found, size)| found != self.inode || size == 0)),
            // SQLite creates the log with the first transaction and removes it when the last connection is
            // closed.
            (
                &log,
                self.log.is_some_and(|(kept, _)| found_log.is_none_or(|(found, _)| found != kept))
                    || found_log
                        .is_some_and(|(_, size)| has_hole(&log, self.log.map_or(0, |(_, kept)| kept), size)),
            ),
            (
                &index,
                self.index.is_some_and(|(kept, size)| {
                    found_index.is_none_or(|(found, now)| found != kept || now < size)
                }),
            ),
        ] {
            if lost {
                let path = path.display();
                return Err(LedgerError::damaged(format!(
                    "`{path}` was removed, replaced or emptied while it was in use"
                )));
            }
        }
        (self.log, self.index) = (found_log, found_index);
        Ok(())
    }
}

/// Endings of the files that SQLite opens beside a database.
pub(crate) const BESIDE: [&str; 3] = ["-wal", "-shm", "-journal"];

/// Returns the path of a file beside a database.
pub(crate) fn path_beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(ending);
    name.into()
}

/// Refuses anything but a regular file at the path of a database or beside it. SQLite would wait for a FIFO.
pub(crate) fn check_regular(path: &Path) -> Result<(), LedgerError> {
    refuse_pseudo(path)?;
    for path in BESIDE.iter().map(|ending| path_beside(path, ending)).chain([path.to_owned()]) {
        if path.symlink_metadata().is_ok_and(|found| !found.is_file()) {
            return Err(LedgerError::Failed(format!("`{}` is not a regular file", path.display())));
        }
    }
    Ok(())
}

/// Returns the real path of a file that only its owner can read.
pub(crate) fn make_private(path: &Path, create: bool) -> Result<PathBuf, LedgerError> {
    let failed = |error: std::io::Error| LedgerError::Failed(format!("`{}`: {error}", path.display()));
    if !create && path.symlink_metadata().is_err() {
        return Err(LedgerError::NotThere(path.display().to_string()));
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if create && !folder.exists() {
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
        fs::set_permissions(folder, Permissions::from_mode(0o700)).map_err(failed)?;
    }
    if create {
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(failed(error)),
        }
    }
    check_regular(path)?;
    let found = path.symlink_metadata().map_err(failed)?;
    if found.permissions().mode() & 0o777 != 0o600 {
        fs::set_permissions(path, Permissions::from_mode(0o600)).map_err(failed)?;
    }
    path.canonicalize().map_err(failed)
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;

    /// The log is truncated between a check and an append, which then writes behind the gap.
    #[test]
    fn truncated_log_is_noticed_later() {
        for kept in [0, 16, 100, 32 + 24 + 8192, 32 + 5 * (24 + 8192)] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("l.db");
            let db = Connection::open(&path).unwrap();
            db.execute_batch("PRAGMA page_size = 8192; PRAGMA journal_mode = WAL; CREATE TABLE t (x)")
                .unwrap();
            let add = || db.execute("INSERT INTO t VALUES (randomblob(9000))", []).unwrap();
            let mut watched = WatchedFile::new(&path).unwrap();
            for _ in 0..500 {
                add();
                watched.check().unwrap();
            }
            db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
            watched.check().unwrap();
            for _ in 0..5 {
                add();
            }
            watched.check().unwrap();
            let log = OpenOptions::new().write(true).open(path_beside(&path, "-wal")).unwrap();
            log.set_len(kept).unwrap();
            let _ = db.execute("INSERT INTO t VALUES (1)", []);
            assert!(watched.check().is_err(), "{kept} bytes kept");
            assert!(WatchedFile::new(&path).is_err(), "{kept} bytes kept, and opened later");
        }
    }
}
