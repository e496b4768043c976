//! A directory that may be written: files below it are replaced whole, several of them together.
//!
//! Refuses to leave the directory: no symbolic link is followed on the way to a file, and none is replaced.

use std::fmt;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::path::Path;

use callsheet_core::SourceError;
use callsheet_core::submission::Changes;
use cap_std::ambient_authority;
use cap_std::fs::Dir;
use rustix::fs::{
    AtFlags, FileType, FlockOperation, Mode, OFlags, flock, fsync, mkdirat, openat, renameat, statat,
    unlinkat,
};
use rustix::io::Errno;

use crate::read::{self, Place};

/// What could not be done, and to which file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteError {
    /// Relative to the directory.
    pub path: String,
    pub why: String,
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` cannot be written: {}", self.path, self.why)
    }
}

impl std::error::Error for WriteError {}

/// A directory, held open.
#[derive(Debug)]
pub struct Folder {
    dir: Dir,
}

/// A file with its new contents, next to the one whose place it takes.
struct Fresh {
    path: String,
    holder: OwnedFd,
    name: String,
    temporary: String,
}

impl Folder {
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { dir: Dir::open_ambient_dir(path, ambient_authority())? })
    }

    /// Carries out all changes, or none as far as a file system can promise that: everything is written and looked
    /// at before the first file takes its place. Others who write here by this function wait meanwhile.
    pub fn apply(&self, changes: &Changes) -> Result<(), WriteError> {
        let lock = self.lock(".", true)?;
        let mut fresh = Fresh::all(self, changes)?;
        let mut stale = Vec::new();
        for path in &changes.remove {
            let (folder, name) = split(path);
            if let Some(holder) = self.holder(folder, false)? {
                check(&holder, name, path)?;
                stale.push((path, holder, name));
            }
        }
        while let Some(file) = fresh.0.first() {
            renameat(&file.holder, &file.temporary, &file.holder, &file.name)
                .map_err(|error| failed(&file.path, error))?;
            // Of no consequence for what is read, only for what a power failure leaves.
            let _ = fsync(&file.holder);
            fresh.0.remove(0);
        }
        for (path, holder, name) in stale {
            match unlinkat(&holder, name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(error) => return Err(failed(path, error)),
            }
        }
        drop(lock);
        Ok(())
    }

    /// Reads a file and writes what `change` makes of it, while nobody else does the same in its folder. Absent
    /// files are empty; what stays the same is not written.
    pub fn update<T>(
        &self,
        path: &str,
        limit: u64,
        change: impl FnOnce(&str) -> (String, T),
    ) -> Result<T, WriteError> {
        let lock = self.lock(split(path).0, true)?;
        let unreadable = |error: SourceError| WriteError { path: path.to_owned(), why: error.to_string() };
        let old = read::text(Place::Within(&self.dir), Path::new(path), limit).map_err(unreadable)?;
        let (new, result) = change(old.as_deref().unwrap_or_default());
        if old.as_deref().unwrap_or_default() != new {
            let changes = Changes { write: [(path.to_owned(), new)].into(), remove: Vec::new() };
            let mut fresh = Fresh::all(self, &changes)?;
            if let Some(file) = fresh.0.first() {
                renameat(&file.holder, &file.temporary, &file.holder, &file.name)
                    .map_err(|error| failed(&file.path, error))?;
                fresh.0.clear();
            }
        }
        drop(lock);
        Ok(result)
    }

    /// Held until it is dropped. A directory can be locked as a file can, and is never replaced.
    fn lock(&self, folder: &str, make: bool) -> Result<Option<OwnedFd>, WriteError> {
        let holder = self.holder(folder, make)?;
        if let Some(holder) = &holder {
            flock(holder, FlockOperation::LockExclusive).map_err(|error| failed(folder, error))?;
        }
        Ok(holder)
    }

    /// The folder of a file, opened step by step; made where it is not there and `make` says so.
    fn holder(&self, folder: &str, make: bool) -> Result<Option<OwnedFd>, WriteError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fail = |error| failed(folder, error);
        let mut holder = openat(&self.dir, ".", flags, Mode::empty()).map_err(fail)?;
        for part in folder.split('/').filter(|part| *part != ".") {
            if part == ".." || part.is_empty() {
                return Err(WriteError {
                    path: folder.to_owned(),
                    why: "it leads out of its root".to_owned(),
                });
            }
            holder = match openat(&holder, part, flags, Mode::empty()) {
                Ok(next) => next,
                Err(Errno::NOENT) if !make => return Ok(None),
                Err(Errno::NOENT) => {
                    match mkdirat(&holder, part, Mode::from_raw_mode(0o777)) {
                        Ok(()) | Err(Errno::EXIST) => {}
                        Err(error) => return Err(fail(error)),
                    }
                    openat(&holder, part, flags, Mode::empty()).map_err(fail)?
                }
                Err(error) => return Err(fail(error)),
            };
        }
        Ok(Some(holder))
    }
}

/// Files that wait for their place. Those that never get it are removed.
struct AllFresh(Vec<Fresh>);

impl Fresh {
    fn all(folder: &Folder, changes: &Changes) -> Result<AllFresh, WriteError> {
        let mut all = AllFresh(Vec::with_capacity(changes.write.len()));
        for (path, text) in &changes.write {
            let (dir, name) = split(path);
            let Some(holder) = folder.holder(dir, true)? else { continue };
            check(&holder, name, path)?;
            let temporary = format!(".{name}.{}.new", std::process::id());
            // One that a process left behind which had the same number.
            let _ = unlinkat(&holder, &temporary, AtFlags::empty());
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let file = openat(&holder, &temporary, flags, Mode::from_raw_mode(0o666))
                .map_err(|error| failed(path, error))?;
            all.0.push(Self { path: path.clone(), holder, name: name.to_owned(), temporary });
            let mut file = File::from(file);
            let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
            written.map_err(|error| WriteError { path: path.clone(), why: error.to_string() })?;
        }
        Ok(all)
    }
}

impl Drop for AllFresh {
    fn drop(&mut self) {
        for file in &self.0 {
            let _ = unlinkat(&file.holder, &file.temporary, AtFlags::empty());
        }
    }
}

fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or((".", path))
}

/// Only a regular file, or nothing, can be replaced or removed.
fn check(holder: &OwnedFd, name: &str, path: &str) -> Result<(), WriteError> {
    let refuse = |why: &str| Err(WriteError { path: path.to_owned(), why: why.to_owned() });
    if matches!(name, "" | "." | "..") {
        return refuse("it is no name of a file");
    }
    match statat(holder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(failed(path, error)),
        Ok(stat) => match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Ok(()),
            FileType::Symlink => refuse("it is a symbolic link"),
            FileType::Directory => refuse("it is a directory"),
            _ => refuse("it is no regular file"),
        },
    }
}

fn failed(path: &str, error: Errno) -> WriteError {
    let why = match error {
        // What opening a link as a folder, without following it, gives on different systems.
        Errno::LOOP | Errno::NOTDIR | Errno::MLINK => {
            "a part of it is a symbolic link or no folder".to_owned()
        }
        error => io::Error::from(error).to_string(),
    };
    WriteError { path: path.to_owned(), why }
}
