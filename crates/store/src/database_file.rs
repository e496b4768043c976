//! Reads a database file beside concurrent writers, or on read-only storage.
//!
//! SQLite needs two files beside a database with a write-ahead log. If it cannot create them, a database
//! without a log is read as immutable, and each answer is discarded if the file has changed; a database with
//! a log is copied first.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use tempfile::TempDir;

use crate::error::LedgerError;
use crate::private_file::{check_regular, path_beside};

/// Database file that is opened for reading.
#[derive(Debug)]
pub(crate) struct DatabaseFile {
    pub(crate) path: PathBuf,
    /// State at the open, if the file is read as immutable.
    state: Option<FileState>,
    /// Directory of its copy, kept while it is read.
    copy: Option<TempDir>,
}

pub(crate) enum ReadMethod {
    /// With the locks of SQLite.
    Beside,
    /// By this URI, as an immutable file.
    Frozen(String),
    /// By a copy.
    Copied(PathBuf),
}

/// Metadata that shows whether a file was changed.
#[derive(Debug, PartialEq, Eq)]
struct FileState {
    inode: (u64, u64),
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
    /// Size of the write-ahead log.
    log: u64,
}

impl FileState {
    fn from_path(path: &Path) -> io::Result<Self> {
        let found = path.symlink_metadata()?;
        Ok(Self {
            inode: (found.dev(), found.ino()),
            size: found.len(),
            modified: (found.mtime(), found.mtime_nsec()),
            changed: (found.ctime(), found.ctime_nsec()),
            log: path_beside(path, "-wal").symlink_metadata().map_or(0, |log| log.len()),
        })
    }
}

impl DatabaseFile {
    /// Returns whether a file that is read as immutable has changed.
    pub(crate) fn has_changed(&self) -> bool {
        self.state.as_ref().is_some_and(|state| FileState::from_path(&self.path).ok().as_ref() != Some(state))
    }
}

fn file_error(path: &Path, error: &io::Error) -> LedgerError {
    LedgerError::Failed(format!("`{}`: {error}", path.display()))
}

/// Finds the file at `path`. Does not follow a link.
pub(crate) fn find_file(path: &Path) -> Result<DatabaseFile, LedgerError> {
    match path.symlink_metadata() {
        Ok(_) => check_regular(path)?,
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            return Err(file_error(path, &error));
        }
        Err(_) => return Err(LedgerError::NotThere(path.display().to_string())),
    }
    let path = path.canonicalize().map_err(|error| file_error(path, &error))?;
    Ok(DatabaseFile { path, state: None, copy: None })
}

/// Chooses how to read a file.
pub(crate) fn choose_method(found: &mut DatabaseFile) -> Result<ReadMethod, LedgerError> {
    let path = found.path.clone();
    let failed = |error: io::Error| file_error(&path, &error);
    if can_write(&path) {
        return Ok(ReadMethod::Beside);
    }
    let state = FileState::from_path(&path).map_err(failed)?;
    if state.log == 0 {
        found.state = Some(state);
        return Ok(ReadMethod::Frozen(file_uri(&path)));
    }
    // A copy that was made during a write may be torn.
    for _ in 0..10 {
        let before = FileState::from_path(&path).map_err(failed)?;
        let dir = tempfile::Builder::new().prefix("callsheet-").tempdir().map_err(failed)?;
        let copy = dir.path().join("ledger.db");
        for ending in ["", "-wal"] {
            match copy_private(&path_beside(&path, ending), &path_beside(&copy, ending)) {
                Err(error) if error.kind() == io::ErrorKind::NotFound && ending == "-wal" => {}
                done => done.map_err(failed)?,
            }
        }
        if FileState::from_path(&path).map_err(failed)? == before {
            found.copy = Some(dir);
            return Ok(ReadMethod::Copied(copy));
        }
    }
    Err(LedgerError::Locked)
}

fn copy_private(from: &Path, to: &Path) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to)?;
    // Another kind of file may be there by now.
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let mut source = OpenOptions::new().read(true).custom_flags(flags).open(from)?;
    if !source.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    io::copy(&mut source, &mut file).map(drop)
}

/// Returns whether the file and those that SQLite needs beside it can be written.
fn can_write(path: &Path) -> bool {
    use rustix::fs::{Access, AtFlags, CWD, accessat};
    let can = |path: &Path, access| accessat(CWD, path, access, AtFlags::EACCESS).is_ok();
    let folder = path.parent().unwrap_or(Path::new("."));
    let others = ["-wal", "-shm"].map(|ending| path_beside(path, ending));
    let mut files = others.iter().filter(|file| fs::symlink_metadata(file).is_ok());
    can(path, Access::WRITE_OK)
        && can(folder, Access::WRITE_OK | Access::EXEC_OK)
        && files.all(|file| can(file, Access::WRITE_OK))
}

/// Converts a path to a URI, with every special byte escaped.
fn file_uri(path: &Path) -> String {
    let escaped = path.as_os_str().as_bytes().iter().map(|byte| match byte {
        b'/' | b'.' | b'-' | b'_' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => char::from(*byte).to_string(),
        byte => format!("%{byte:02X}"),
    });
    format!("file:{}?immutable=1", escaped.collect::<String>())
}
