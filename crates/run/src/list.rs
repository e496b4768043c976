//! What stands below a directory, in an order that depends on the names alone.
//!
//! Refuses to follow symbolic links: they are listed as entries. Every directory is opened through
//! its root's handle, so one that is swapped for a link in the middle of a walk leads nowhere else.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use callsheet_core::{Entry, Limits, Listing, SourceError};
use cap_std::fs::{Dir, DirEntry, FileType};
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::read::Place;

/// Where [`Listing::left_out`] stops counting: from here on it means "or more".
///
/// A full listing goes on only to count, and a tree with a million files is not worth the wait.
pub const MAX_LEFT_OUT: usize = 10_000;

/// Levels that are gone down at most, whatever is asked for: each of them takes room on the stack.
const MAX_DEPTH: usize = 256;

const RULES_FILE: &str = ".gitignore";
const MAX_RULES_BYTES: u64 = 1024 * 1024;

/// Lists `dir`, a path inside of `root`; `None` if there is no such directory.
///
/// Names that are not UTF-8 have no address and count as left out. Directories below `dir` that
/// cannot be read count as not entered.
pub(crate) fn list(root: &Dir, dir: &Path, limits: Limits) -> Result<Option<Listing>, SourceError> {
    // The added dot asks for a directory, so that a FIFO by that name is not waited for.
    let real = root.canonicalize(dir.join("."));
    let Some(real) = Place::Within(root).found(dir, real)? else {
        return Ok(None);
    };
    let real = real.strip_prefix(".").unwrap_or(&real);
    let Some(found) = Place::Within(root).found(dir, read_dir(root, real))? else {
        return Ok(None);
    };

    let mut walk = Walk { root, limits, rules: Vec::new(), listing: Listing::default() };
    walk.add_rules_above(real)?;
    walk.level(found, real, "", limits.depth.min(MAX_DEPTH))?;
    Ok(Some(walk.listing))
}

struct Walk<'a> {
    root: &'a Dir,
    limits: Limits,
    /// From the root down to the directory at hand: later ones overrule earlier ones.
    rules: Vec<Rules>,
    listing: Listing,
}

/// One `.gitignore`.
struct Rules {
    /// The directory that holds it, relative to the root.
    dir: PathBuf,
    globs: Gitignore,
}

/// Something in a directory.
struct Found {
    name: OsString,
    dir: bool,
}

impl Walk<'_> {
    /// The directory `at` (relative to the root), which the listing calls `shown_as`.
    fn level(
        &mut self,
        mut found: Vec<Found>,
        at: &Path,
        shown_as: &str,
        depth: usize,
    ) -> Result<(), SourceError> {
        let outer = self.rules.len();
        if found.iter().any(|found| found.name == RULES_FILE) {
            self.add_rules(at)?;
        }
        found.retain(|found| self.shows(at, found));
        let done = if depth > 0 {
            self.entries(found, at, shown_as, depth)
        } else {
            self.listing.not_entered += usize::from(!found.is_empty());
            Ok(())
        };
        self.rules.truncate(outer);
        done
    }

    fn entries(
        &mut self,
        mut found: Vec<Found>,
        at: &Path,
        shown_as: &str,
        depth: usize,
    ) -> Result<(), SourceError> {
        found.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        for Found { name, dir } in found {
            if self.is_over() {
                break;
            }
            let Some(name) = name.to_str() else {
                self.listing.left_out += 1;
                continue;
            };
            let path = if shown_as.is_empty() { name.to_owned() } else { format!("{shown_as}/{name}") };
            self.add(&path, dir);
            if dir {
                self.descend(&at.join(name), &path, depth - 1)?;
            }
        }
        Ok(())
    }

    fn descend(&mut self, at: &Path, shown_as: &str, depth: usize) -> Result<(), SourceError> {
        if !at.ends_with(".git")
            && let Ok(found) = read_dir(self.root, at)
        {
            return self.level(found, at, shown_as, depth);
        }
        self.listing.not_entered += 1;
        Ok(())
    }

    fn add(&mut self, path: &str, dir: bool) {
        if self.listing.entries.len() < self.limits.entries {
            self.listing.entries.push(Entry { path: path.to_owned(), dir });
        } else {
            self.listing.left_out += 1;
        }
    }

    fn is_over(&self) -> bool {
        self.listing.entries.len() == self.limits.entries && self.listing.left_out >= MAX_LEFT_OUT
    }

    fn shows(&self, at: &Path, found: &Found) -> bool {
        if self.limits.ignored {
            return true;
        }
        if found.name.as_encoded_bytes().starts_with(b".") {
            return false;
        }
        let path = at.join(&found.name);
        for rules in self.rules.iter().rev() {
            let below = path.strip_prefix(&rules.dir).unwrap_or(&path);
            match rules.globs.matched(below, found.dir) {
                Match::Ignore(_) => return false,
                Match::Whitelist(_) => return true,
                Match::None => {}
            }
        }
        true
    }

    /// The directories above the listed one are the project's own too, up to its root.
    fn add_rules_above(&mut self, dir: &Path) -> Result<(), SourceError> {
        let above: Vec<_> = dir.ancestors().skip(1).collect();
        above.into_iter().rev().try_for_each(|dir| self.add_rules(dir))
    }

    /// Rules that are there and cannot be read are an error, not an absence: they may be all that
    /// keeps a name out of a prompt.
    fn add_rules(&mut self, dir: &Path) -> Result<(), SourceError> {
        if self.limits.ignored {
            return Ok(());
        }
        let path = dir.join(RULES_FILE);
        let unusable = |why: &dyn ToString| {
            let (path, why) = (path.display(), why.to_string());
            SourceError::Unreadable(format!("its rules in `{path}` cannot be used: {why}"))
        };
        let bytes = Place::Within(self.root).bytes(&path, MAX_RULES_BYTES);
        if let Some(bytes) = bytes.map_err(|error| unusable(&error))? {
            let globs = globs(&bytes).map_err(|error| unusable(&error))?;
            self.rules.push(Rules { dir: dir.to_owned(), globs });
        }
        Ok(())
    }
}

fn globs(rules: &[u8]) -> Result<Gitignore, ignore::Error> {
    // With `.` the matcher takes paths as they are. Any other directory it would cut off by its
    // bytes, and `a` off `ab/c`.
    let mut builder = GitignoreBuilder::new(".");
    let rules = rules.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(rules);
    for line in rules.split(|byte| *byte == b'\n') {
        // A line that is not UTF-8 is about names that are never listed, and a line that is no
        // pattern matches nothing, in git as well.
        if let Ok(line) = str::from_utf8(line) {
            let _ = builder.add_line(None, line);
        }
    }
    builder.build()
}

fn read_dir(root: &Dir, at: &Path) -> io::Result<Vec<Found>> {
    let at = if at.as_os_str().is_empty() { Path::new(".") } else { at };
    root.read_dir(at)?
        .map(|entry| {
            let entry = entry?;
            Ok(Found { name: entry.file_name(), dir: is_dir(&entry) })
        })
        .collect()
}

fn is_dir(entry: &DirEntry) -> bool {
    match entry.file_type() {
        // Some file systems give no types with the names.
        Ok(kind) if kind == FileType::unknown() => entry.metadata().is_ok_and(|data| data.is_dir()),
        kind => kind.is_ok_and(|kind| kind.is_dir()),
    }
}
