//! A writable directory: files below it are replaced whole, several of them together.
//!
//! Refuses to leave the directory: it follows no symbolic link on the way to the directory or below it, not
//! even one that replaces a folder meanwhile, and it overwrites only regular files. Everything that is
//! written into a project is written here.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Component, Path};

use callsheet_core::SourceError;
use callsheet_core::record::{Digest, FileMode, sha256};
use callsheet_core::submission::SessionChanges;
use cap_std::fs::Dir;
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, fchmod, fstat, fsync, linkat, mkdirat, openat, readlinkat,
    renameat, statat, symlinkat, unlinkat,
};
use rustix::io::Errno;

use super::lock;
use super::read::{self, PathBase};

/// A failed write: the file and the reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot write `{path}`: {why}")]
#[non_exhaustive]
pub struct WriteError {
    /// The file, relative to the directory.
    pub path: String,
    /// The reason.
    pub why: String,
}

/// A directory that is held open.
#[derive(Debug)]
pub struct WritableFolder {
    dir: Dir,
}

/// A file or a link as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FoundFile {
    /// The kind of the file.
    pub mode: FileMode,
    /// The SHA-256 of its contents, or of the target of a link; `None` if the file is too large to be read.
    pub sha256: Option<Digest>,
    /// The contents, or the target of a link; `None` if they are larger than the limit.
    pub bytes: Option<Vec<u8>>,
}

/// Larger files are not read.
const MOST_HASHED: u64 = 1 << 30;

/// A file with its new contents, next to the file that it replaces.
struct StagedFile {
    path: String,
    holder: OwnedFd,
    name: String,
    temporary: String,
}

/// A path, and the mode and contents that its file gets; `None` removes it.
pub type FileWrite<'w> = (String, Option<(FileMode, &'w [u8])>);

impl WritableFolder {
    /// Opens a directory by its real path: a part of it that is a link now was not one when the path was
    /// resolved.
    pub fn open(path: &Path) -> io::Result<Self> {
        let fail = |error| match error {
            Errno::LOOP | Errno::NOTDIR | Errno::MLINK => io::Error::other(LED_AWAY),
            error => io::Error::from(error),
        };
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut dir = openat(CWD, "/", flags | STEP, Mode::empty()).map_err(fail)?;
        for part in path.components() {
            dir = match part {
                Component::RootDir => continue,
                Component::Normal(name) if path.is_absolute() => {
                    openat(&dir, name, flags | STEP, Mode::empty()).map_err(fail)?
                }
                _ => return Err(io::Error::other("it is not a canonical path")),
            };
        }
        let dir = openat(&dir, ".", flags | OFlags::RDONLY, Mode::empty()).map_err(fail)?;
        Ok(Self { dir: Dir::from_std_file(File::from(dir)) })
    }

    /// Creates a folder and the folders above it, if they do not exist.
    pub fn create_folder(&self, folder: &str, mode: u32) -> Result<(), WriteError> {
        self.open_dir(folder, Some(mode)).map(drop)
    }

    /// Writes a file with the permissions of `mode`, replacing an existing one. Creates the folders above it;
    /// with a private mode they are private, too.
    pub fn write(&self, path: &str, bytes: &[u8], mode: u32) -> Result<(), WriteError> {
        let mut fresh = StagedFile::stage(self, path, Some(mode), &mut |file| file.write_all(bytes))?;
        fresh.commit()
    }

    /// Writes a file, replacing an existing one and keeping its mode.
    pub fn replace(&self, path: &str, bytes: &[u8]) -> Result<(), WriteError> {
        StagedFile::stage(self, path, None, &mut |file| file.write_all(bytes))?.commit()
    }

    /// Writes a new file. Fails if it exists.
    pub fn create(&self, path: &str, bytes: &[u8]) -> Result<(), WriteError> {
        let fresh = StagedFile::stage(self, path, None, &mut |file| file.write_all(bytes))?;
        let Some(file) = fresh.0.first() else { return Ok(()) };
        linkat(&file.holder, &file.temporary, &file.holder, &file.name, AtFlags::empty())
            .map_err(|error| write_error(path, error))
    }

    /// Copies a file or a link from another folder, replacing an existing file or link.
    pub fn copy(&self, path: &str, from: &Self, other: &str) -> Result<(), WriteError> {
        let (folder, name) = split_path(other);
        let gone = || write_error(other, Errno::NOENT);
        let source = from.open_dir(folder, None)?.ok_or_else(gone)?;
        let stat =
            statat(&source, name, AtFlags::SYMLINK_NOFOLLOW).map_err(|error| write_error(other, error))?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Symlink => {
                let target =
                    readlinkat(&source, name, Vec::new()).map_err(|error| write_error(other, error))?;
                StagedFile::replace_with_link(self, path, &target)
            }
            FileType::RegularFile => {
                let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
                let opened =
                    openat(&source, name, flags, Mode::empty()).map_err(|error| write_error(other, error))?;
                let mut opened = File::from(opened);
                let mode = Mode::from_raw_mode(stat.st_mode & 0o777);
                let mut copy = |file: &mut File| {
                    fchmod(&*file, mode)?;
                    io::copy(&mut opened, file).map(drop)
                };
                self.remove_link(path)?;
                StagedFile::stage(self, path, None, &mut copy)?.commit()
            }
            _ => Err(WriteError { path: other.to_owned(), why: "it is not a regular file".into() }),
        }
    }

    /// Removes a link so that a file can take its place.
    fn remove_link(&self, path: &str) -> Result<(), WriteError> {
        let (folder, name) = split_path(path);
        let Some(holder) = self.open_dir(folder, None)? else { return Ok(()) };
        match statat(&holder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink => self.remove(path),
            _ => Ok(()),
        }
    }

    /// Moves a file or a folder to an unused path.
    pub fn rename(&self, from: &str, to: &str) -> Result<(), WriteError> {
        let ((from_folder, old), (to_folder, new)) = (split_path(from), split_path(to));
        let gone = || write_error(from, Errno::NOENT);
        let holder = self.open_dir(from_folder, None)?.ok_or_else(gone)?;
        let Some(target) = self.open_dir(to_folder, Some(USUAL))? else { return Ok(()) };
        renameat(&holder, old, &target, new).map_err(|error| write_error(from, error))
    }

    /// Removes a file or a link, if it exists.
    pub fn remove(&self, path: &str) -> Result<(), WriteError> {
        let (folder, name) = split_path(path);
        let Some(holder) = self.open_dir(folder, None)? else { return Ok(()) };
        match unlinkat(&holder, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(write_error(path, error)),
        }
    }

    /// Removes a folder, if it is empty.
    pub fn remove_empty(&self, folder: &str) -> Result<(), WriteError> {
        let (above, name) = split_path(folder);
        let Some(holder) = self.open_dir(above, None)? else { return Ok(()) };
        match unlinkat(&holder, name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT | Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => Ok(()),
            Err(error) => Err(write_error(folder, error)),
        }
    }

    /// Removes a folder with everything in it. Links in it are removed, not followed.
    pub fn remove_tree(&self, folder: &str) -> Result<(), WriteError> {
        let (above, name) = split_path(folder);
        let Some(holder) = self.open_dir(above, None)? else { return Ok(()) };
        let fail = |error: &io::Error| WriteError { path: folder.to_owned(), why: error.to_string() };
        match Dir::from_std_file(File::from(holder)).remove_dir_all(name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(fail(&error)),
            _ => Ok(()),
        }
    }

    /// Returns the text of a file, if it exists.
    pub fn read(&self, path: &str, limit: u64) -> Result<Option<String>, SourceError> {
        let text = read::read_text(PathBase::Within(&self.dir), Path::new(path), limit)?;
        Ok(text.map(|text| text.to_string()))
    }

    /// Examines a file or a link, without following links; `None` if there is none. Contents over `limit` are only hashed.
    pub fn look(&self, path: &str, limit: u64) -> Result<Option<FoundFile>, WriteError> {
        let (folder, name) = split_path(path);
        let fail = |error| write_error(path, error);
        let refuse = |why: &str| WriteError { path: path.to_owned(), why: why.to_owned() };
        let holder = match self.open_dir(folder, None) {
            Ok(Some(holder)) => holder,
            Ok(None) => return Ok(None),
            // Something else than a folder is there, so that the file is not.
            Err(error) if error.why == LED_AWAY => return Ok(None),
            Err(error) => return Err(error),
        };
        let stat = match statat(&holder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(fail(error)),
        };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Symlink => {
                let target = readlinkat(&holder, name, Vec::new()).map_err(fail)?.into_bytes();
                let sha256 = Some(sha256(&[&target]));
                Ok(Some(FoundFile { mode: FileMode::Link, sha256, bytes: Some(target) }))
            }
            FileType::RegularFile => {
                let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
                let file = File::from(openat(&holder, name, flags, Mode::empty()).map_err(fail)?);
                let failed = |error: io::Error| refuse(&error.to_string());
                let metadata = file.metadata().map_err(failed)?;
                if !metadata.is_file() {
                    return Err(refuse("it is not a regular file"));
                }
                let mode = if stat.st_mode & 0o100 == 0 { FileMode::Plain } else { FileMode::Executable };
                if metadata.len() > MOST_HASHED {
                    return Ok(Some(FoundFile { mode, sha256: None, bytes: None }));
                }
                if metadata.len() > limit {
                    let sha256 = Some(read::hash_contents(file.take(MOST_HASHED)).map_err(failed)?);
                    return Ok(Some(FoundFile { mode, sha256, bytes: None }));
                }
                let mut bytes = Vec::new();
                file.take(limit.saturating_add(1)).read_to_end(&mut bytes).map_err(failed)?;
                if bytes.len() as u64 > limit {
                    return Err(refuse("it grew while it was read"));
                }
                Ok(Some(FoundFile { mode, sha256: Some(sha256(&[&bytes])), bytes: Some(bytes) }))
            }
            FileType::Directory => Ok(None),
            _ => Err(refuse("it is not a regular file")),
        }
    }

    /// Returns a file below a folder that is not among `known`; `None` if there is none, or no folder.
    pub fn find_file_below(&self, folder: &str, known: &BTreeSet<&str>) -> Option<String> {
        let is_folder = self.dir.symlink_metadata(folder).is_ok_and(|metadata| metadata.is_dir());
        for entry in self.dir.read_dir(folder).ok().filter(|_| is_folder)? {
            let entry = entry.ok()?;
            let path = format!("{folder}/{}", entry.file_name().to_string_lossy());
            let found = match entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                true => self.find_file_below(&path, known),
                false => (!known.contains(path.as_str())).then_some(path),
            };
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// Writes files and links with the given modes and contents, and removes those without any. Removes folders that become
    /// empty.
    pub fn put_files(&self, files: &[FileWrite<'_>]) -> Result<(), WriteError> {
        for (path, _) in files.iter().filter(|(_, file)| file.is_none()) {
            self.remove(path)?;
            let mut folder = split_path(path).0;
            while folder != "." {
                self.remove_empty(folder)?;
                folder = split_path(folder).0;
            }
        }
        for (path, file) in files {
            match file {
                None => {}
                Some((FileMode::Link, target)) => {
                    let target = std::ffi::CString::new(*target).map_err(|_| WriteError {
                        path: path.clone(),
                        why: "its target has a zero byte".into(),
                    })?;
                    StagedFile::replace_with_link(self, path, &target)?;
                }
                Some((mode, bytes)) => {
                    self.remove_link(path)?;
                    let mut write = |file: &mut File| {
                        let now = fstat(&*file)?.st_mode & 0o777;
                        let readable = (now & 0o444) >> 2;
                        let new = if *mode == FileMode::Executable { now | readable } else { now & !0o111 };
                        fchmod(&*file, Mode::from_raw_mode(new))?;
                        file.write_all(bytes)
                    };
                    StagedFile::stage(self, path, None, &mut write)?.commit()?;
                }
            }
        }
        Ok(())
    }

    /// Carries out all changes, or none as far as a file system can promise that: everything is written and
    /// checked before the first file takes its place. Other processes that write here by this function wait
    /// meanwhile.
    pub fn apply(&self, changes: &SessionChanges) -> Result<(), WriteError> {
        let lock = self.lock(".")?;
        let mut fresh = StagedFile::stage_all(self, changes)?;
        let mut stale = Vec::new();
        for path in &changes.remove {
            let (folder, name) = split_path(path);
            if let Some(holder) = self.open_dir(folder, None)? {
                check_replaceable(&holder, name, path)?;
                stale.push((path, holder, name));
            }
        }
        fresh.commit()?;
        for (path, holder, name) in stale {
            match unlinkat(&holder, name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(error) => return Err(write_error(path, error)),
            }
        }
        drop(lock);
        Ok(())
    }

    /// Reads a file and writes the result of `change`, while no other process does the same in its folder. An
    /// absent file is empty; an unchanged text is not written.
    pub fn update<T>(
        &self,
        path: &str,
        limit: u64,
        change: impl FnOnce(&str) -> (String, T),
    ) -> Result<T, WriteError> {
        let lock = self.lock(split_path(path).0)?;
        let unreadable = |error: SourceError| WriteError { path: path.to_owned(), why: error.to_string() };
        let old = read::read_text(PathBase::Within(&self.dir), Path::new(path), limit).map_err(unreadable)?;
        let (new, result) = change(old.as_deref().unwrap_or_default());
        if old.as_deref().unwrap_or_default() != new {
            let changes = SessionChanges { write: [(path.to_owned(), new)].into(), remove: Vec::new() };
            StagedFile::stage_all(self, &changes)?.commit()?;
        }
        drop(lock);
        Ok(result)
    }

    /// Locks a folder until the returned descriptor is dropped. A directory can be locked like a file, and is
    /// never replaced.
    fn lock(&self, folder: &str) -> Result<Option<OwnedFd>, WriteError> {
        let holder = self.open_dir(folder, Some(USUAL))?;
        if let Some(holder) = &holder {
            lock::lock(holder)
                .map_err(|error| WriteError { path: folder.to_owned(), why: error.to_string() })?;
        }
        Ok(holder)
    }

    /// Opens a folder step by step. Creates it with the mode `make` if it does not exist; without a mode,
    /// returns `None`.
    fn open_dir(&self, folder: &str, make: Option<u32>) -> Result<Option<OwnedFd>, WriteError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fail = |error| write_error(folder, error);
        let mut holder = openat(&self.dir, ".", flags, Mode::empty()).map_err(fail)?;
        for part in folder.split('/').filter(|part| *part != ".") {
            if part == ".." || part.is_empty() {
                return Err(WriteError {
                    path: folder.to_owned(),
                    why: "it leads outside its root".to_owned(),
                });
            }
            holder = match openat(&holder, part, flags, Mode::empty()) {
                Ok(next) => next,
                Err(Errno::NOENT) => {
                    let Some(mode) = make else { return Ok(None) };
                    match mkdirat(&holder, part, Mode::from_raw_mode(mode)) {
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

/// Files that wait to take their place. Those that never do are removed.
struct StagedFiles(Vec<StagedFile>);

impl StagedFiles {
    fn commit(&mut self) -> Result<(), WriteError> {
        while let Some(file) = self.0.first() {
            renameat(&file.holder, &file.temporary, &file.holder, &file.name)
                .map_err(|error| write_error(&file.path, error))?;
            // This matters only after a power failure, not for readers.
            let _ = fsync(&file.holder);
            self.0.remove(0);
        }
        Ok(())
    }
}

impl StagedFile {
    fn stage_all(folder: &WritableFolder, changes: &SessionChanges) -> Result<StagedFiles, WriteError> {
        let mut all = StagedFiles(Vec::with_capacity(changes.write.len()));
        for (path, text) in &changes.write {
            let mut one = Self::stage(folder, path, None, &mut |file| file.write_all(text.as_bytes()))?;
            all.0.append(&mut one.0);
        }
        Ok(all)
    }

    /// Stages a file that replaces a regular file or is new. A private `mode` also applies to created
    /// folders.
    fn stage(
        folder: &WritableFolder,
        path: &str,
        mode: Option<u32>,
        write: &mut dyn FnMut(&mut File) -> io::Result<()>,
    ) -> Result<StagedFiles, WriteError> {
        let (dir, name) = split_path(path);
        let folders = if mode.is_some_and(|mode| mode & 0o077 == 0) { PRIVATE } else { USUAL };
        let Some(holder) = folder.open_dir(dir, Some(folders))? else { return Ok(StagedFiles(Vec::new())) };
        let known = check_replaceable(&holder, name, path)?;
        let temporary = reserve_temporary_name(&holder, name);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&holder, &temporary, flags, Mode::from_raw_mode(mode.unwrap_or(0o666)))
            .map_err(|error| write_error(path, error))?;
        let fresh = Self { path: path.to_owned(), holder, name: name.to_owned(), temporary };
        let fresh = StagedFiles(vec![fresh]);
        let mut file = File::from(file);
        if let (None, Some(known)) = (mode, known) {
            // A replaced file keeps its mode.
            fchmod(&file, known).map_err(|error| write_error(path, error))?;
        }
        let written = write(&mut file).and_then(|()| file.sync_all());
        written.map_err(|error| WriteError { path: path.to_owned(), why: error.to_string() })?;
        Ok(fresh)
    }

    /// Creates a link, replacing an existing file or link.
    fn replace_with_link(
        folder: &WritableFolder,
        path: &str,
        target: &std::ffi::CStr,
    ) -> Result<(), WriteError> {
        let (dir, name) = split_path(path);
        let Some(holder) = folder.open_dir(dir, Some(USUAL))? else { return Ok(()) };
        let temporary = reserve_temporary_name(&holder, name);
        let linked = symlinkat(target, &holder, &temporary)
            .and_then(|()| renameat(&holder, &temporary, &holder, name));
        linked.map_err(|error| {
            let _ = unlinkat(&holder, &temporary, AtFlags::empty());
            write_error(path, error)
        })
    }
}

/// Returns an unused name beside `name`.
fn reserve_temporary_name(holder: &OwnedFd, name: &str) -> String {
    let temporary = format!(".{name}.{}.new", std::process::id());
    // A process with the same id may have left one behind.
    let _ = unlinkat(holder, &temporary, AtFlags::empty());
    temporary
}

impl Drop for StagedFiles {
    fn drop(&mut self) {
        for file in &self.0 {
            let _ = unlinkat(&file.holder, &file.temporary, AtFlags::empty());
        }
    }
}

/// Flags for the folders on the way: they are only traversed.
#[cfg(target_os = "linux")]
const STEP: OFlags = OFlags::PATH;
#[cfg(not(target_os = "linux"))]
const STEP: OFlags = OFlags::RDONLY;

/// Modes of created folders, before the umask applies.
const USUAL: u32 = 0o777;
const PRIVATE: u32 = 0o700;

const LED_AWAY: &str = "a part of it is a symbolic link or not a folder";

fn split_path(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or((".", path))
}

/// Checks that a file can be replaced or removed: it is regular or absent. Returns its mode.
fn check_replaceable(holder: &OwnedFd, name: &str, path: &str) -> Result<Option<Mode>, WriteError> {
    let refuse = |why: &str| Err(WriteError { path: path.to_owned(), why: why.to_owned() });
    if matches!(name, "" | "." | "..") {
        return refuse("it is not a file name");
    }
    match statat(holder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(write_error(path, error)),
        Ok(stat) => match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Ok(Some(Mode::from_raw_mode(stat.st_mode & 0o777))),
            FileType::Symlink => refuse("it is a symbolic link"),
            FileType::Directory => refuse("it is a directory"),
            _ => refuse("it is not a regular file"),
        },
    }
}

fn write_error(path: &str, error: Errno) -> WriteError {
    let why = match error {
        // The errors of different systems for opening a link as a folder without following it.
        Errno::LOOP | Errno::NOTDIR | Errno::MLINK => LED_AWAY.to_owned(),
        error => io::Error::from(error).to_string(),
    };
    WriteError { path: path.to_owned(), why }
}
