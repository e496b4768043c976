//! Walks through a directory, in an order that depends on the names alone.
//!
//! Refuses to follow symbolic links. Every directory is opened through the handle of its parent, so one that
//! is swapped for a link during a walk leads nowhere else. The only ignore rules that count are the
//! `.gitignore` files between the root and the current directory.

use std::ffi::{OsStr, OsString};
use std::io;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use callsheet_core::SourceError;
use cap_std::fs::Dir;
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, openat, statat};

use super::read::PathBase;

/// The most levels that are entered, whatever the caller asks for: each of them takes stack memory and an
/// open directory.
pub(crate) const MAX_DEPTH: usize = 256;

const RULES_FILE: &str = ".gitignore";
const MAX_RULES_BYTES: u64 = 1024 * 1024;

/// An item that a walk meets.
pub(crate) enum WalkItem<'w> {
    Dir {
        /// The path, relative to the start of the walk.
        path: &'w str,
    },
    /// Anything but a directory.
    File {
        path: &'w str,
        name: &'w str,
        kind: FileType,
        /// The directory that contains it.
        holder: &'w Arc<OwnedFd>,
    },
    /// A name that is not UTF-8, and so has no address.
    Unnamed,
    /// A directory that is not empty and is too deep, or cannot be opened.
    NotEntered,
}

/// The limits of a walk.
pub(crate) struct WalkLimits {
    /// Levels below its start; 1 means the entries there.
    pub(crate) depth: usize,
    /// Whether hidden and ignored names are included.
    pub(crate) ignored: bool,
}

/// Walks through `dir`, a path inside `root`, each directory before its contents; returns false if there is
/// no such directory. `meet` can end the walk.
pub(crate) fn walk_dir(
    root: &Dir,
    dir: &Path,
    reach: &WalkLimits,
    meet: &mut dyn FnMut(WalkItem<'_>) -> ControlFlow<()>,
) -> Result<bool, SourceError> {
    // The root is open already, and resolving its name is costly.
    let is_root = dir == Path::new(".");
    // The added dot asks for a directory, so that the walk does not wait for a FIFO by that name.
    let real = if is_root { Ok(PathBuf::new()) } else { root.canonicalize(dir.join(".")) };
    let Some(real) = PathBase::Within(root).absent_as_none(dir, real)? else {
        return Ok(false);
    };
    let real = real.strip_prefix(".").unwrap_or(&real);
    let opened = root
        .open_dir(if real.as_os_str().is_empty() { Path::new(".") } else { real })
        .and_then(|dir| open_dir(&dir, "."));
    let Some((handle, found)) = PathBase::Within(root).absent_as_none(dir, opened)? else {
        return Ok(false);
    };
    let mut walk = DirectoryWalk {
        root,
        ignored: reach.ignored,
        rules: Vec::new(),
        at: real.to_path_buf(),
        path: String::new(),
        meet,
    };
    walk.add_rules_above()?;
    walk.walk_level(&Arc::new(handle), found, reach.depth.min(MAX_DEPTH)).map(|_| true)
}

struct DirectoryWalk<'a> {
    root: &'a Dir,
    ignored: bool,
    /// The rules from the root down to the current directory: later ones overrule earlier ones.
    rules: Vec<GitignoreFile>,
    /// The current directory, relative to the root.
    at: PathBuf,
    /// The current directory, relative to the start of the walk.
    path: String,
    meet: &'a mut dyn FnMut(WalkItem<'_>) -> ControlFlow<()>,
}

/// One `.gitignore`.
struct GitignoreFile {
    /// The directory that contains it, relative to the root.
    dir: PathBuf,
    globs: Gitignore,
}

/// An entry of a directory.
pub(crate) struct DirectoryEntry {
    pub(crate) name: OsString,
    pub(crate) kind: FileType,
}

impl DirectoryWalk<'_> {
    fn walk_level(
        &mut self,
        handle: &Arc<OwnedFd>,
        mut found: Vec<DirectoryEntry>,
        depth: usize,
    ) -> Result<ControlFlow<()>, SourceError> {
        let outer = self.rules.len();
        if found.iter().any(|found| found.name == RULES_FILE) {
            self.add_rules(&self.at.clone())?;
        }
        found.retain(|found| self.is_shown(found));
        let done = match depth {
            0 if found.is_empty() => ControlFlow::Continue(()),
            0 => (self.meet)(WalkItem::NotEntered),
            _ => self.walk_entries(handle, found, depth)?,
        };
        self.rules.truncate(outer);
        Ok(done)
    }

    fn walk_entries(
        &mut self,
        holder: &Arc<OwnedFd>,
        mut found: Vec<DirectoryEntry>,
        depth: usize,
    ) -> Result<ControlFlow<()>, SourceError> {
        found.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        let above = self.path.len();
        for DirectoryEntry { name, kind } in found {
            let Some(name) = name.to_str() else {
                if (self.meet)(WalkItem::Unnamed).is_break() {
                    return Ok(ControlFlow::Break(()));
                }
                continue;
            };
            if above > 0 {
                self.path.push('/');
            }
            self.path.push_str(name);
            let done = if kind == FileType::Directory {
                match (self.meet)(WalkItem::Dir { path: &self.path }) {
                    ControlFlow::Continue(()) => self.descend(holder, name, depth - 1)?,
                    over => over,
                }
            } else {
                (self.meet)(WalkItem::File { path: &self.path, name, kind, holder })
            };
            if done.is_break() {
                return Ok(done);
            }
            self.path.truncate(above);
        }
        Ok(ControlFlow::Continue(()))
    }

    fn descend(
        &mut self,
        holder: &OwnedFd,
        name: &str,
        depth: usize,
    ) -> Result<ControlFlow<()>, SourceError> {
        if name != ".git"
            && let Ok((handle, found)) = open_dir(holder, name)
        {
            self.at.push(name);
            let done = self.walk_level(&Arc::new(handle), found, depth);
            self.at.pop();
            return done;
        }
        Ok((self.meet)(WalkItem::NotEntered))
    }

    fn is_shown(&self, found: &DirectoryEntry) -> bool {
        if self.ignored {
            return true;
        }
        if found.name.as_encoded_bytes().starts_with(b".") {
            return false;
        }
        if self.rules.is_empty() {
            return true;
        }
        let path = self.at.join(&found.name);
        for rules in self.rules.iter().rev() {
            let below = path.strip_prefix(&rules.dir).unwrap_or(&path);
            match rules.globs.matched(below, found.kind == FileType::Directory) {
                Match::Ignore(_) => return false,
                Match::Whitelist(_) => return true,
                Match::None => {}
            }
        }
        true
    }

    /// Adds the rules of the directories above the start of the walk: up to the root, they belong to the
    /// project too.
    fn add_rules_above(&mut self) -> Result<(), SourceError> {
        let mut above: Vec<PathBuf> = self.at.ancestors().skip(1).map(Path::to_path_buf).collect();
        above.reverse();
        above.iter().try_for_each(|dir| self.add_rules(dir))
    }

    /// Adds the rules of a directory. Existing rules that cannot be read are an error, not an absence: they
    /// may be all that keeps a name out of a prompt.
    fn add_rules(&mut self, dir: &Path) -> Result<(), SourceError> {
        if self.ignored {
            return Ok(());
        }
        let path = dir.join(RULES_FILE);
        let unusable = |why: &dyn ToString| {
            let (path, why) = (path.display(), why.to_string());
            SourceError::Unreadable(format!("cannot read the ignore rules in `{path}`: {why}"))
        };
        let bytes = PathBase::Within(self.root).read_bytes(&path, MAX_RULES_BYTES);
        if let Some(bytes) = bytes.map_err(|error| unusable(&error))? {
            let globs = parse_rules(&bytes, false).map_err(|error| unusable(&error))?;
            self.rules.push(GitignoreFile { dir: dir.to_owned(), globs });
        }
        Ok(())
    }
}

/// Parses the rules of one file, for paths that are relative to its folder.
pub(crate) fn parse_rules(rules: &[u8], any_case: bool) -> Result<Gitignore, ignore::Error> {
    // With `.` the matcher takes paths as they are. It would cut off any other directory by its bytes, such
    // as `a` off `ab/c`.
    let mut builder = GitignoreBuilder::new(".");
    builder.case_insensitive(any_case)?;
    let rules = rules.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(rules);
    for line in rules.split(|byte| *byte == b'\n') {
        // A line that is not UTF-8 is about names that are never listed, and an invalid pattern matches
        // nothing, in git as well.
        if let Ok(line) = str::from_utf8(line) {
            let _ = builder.add_line(None, line);
        }
    }
    builder.build()
}

/// Opens the directory `name` in another one, and reads its entries.
fn open_dir(holder: impl AsFd, name: &str) -> io::Result<(OwnedFd, Vec<DirectoryEntry>)> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let handle = openat(holder, name, flags, Mode::empty())?;
    let found = read_entries(&handle)?;
    Ok((handle, found))
}

/// Reads the entries of an open directory, in no order.
pub(crate) fn read_entries(handle: &OwnedFd) -> io::Result<Vec<DirectoryEntry>> {
    let mut found = Vec::new();
    // A second handle to the same directory: cheaper than opening it once more.
    for entry in rustix::fs::Dir::new(handle.try_clone()?)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name == b"." || name == b".." {
            continue;
        }
        let kind = match entry.file_type() {
            // Some file systems do not report types with the names.
            FileType::Unknown => statat(handle, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW)
                .map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode)),
            kind => kind,
        };
        found.push(DirectoryEntry { name: OsStr::from_bytes(name).to_owned(), kind });
    }
    Ok(found)
}
