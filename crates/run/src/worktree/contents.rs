//! The contents of changed files before and after a run.
//!
//! The commit has the contents of most files before a run. Those that it does not have are copied before the run begins.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;

use callsheet_core::record::{Digest, FileMode, OmittedContents, sha256};
use callsheet_core::request::fact::{ChangeKind, ChangedFile};
use rustix::fs::FileType;

use super::fingerprint::Fingerprint;
use super::snapshot::WorktreeSnapshot;
use super::survey::{FileClass, SurveyEntry};
use crate::disk::folder::{FoundFile, WritableFolder};
use crate::disk::lock::open_private;
use crate::disk::read::read_own_bytes;
use crate::git::{Git, lossy_text};

/// The most bytes of a file whose contents are kept.
const MOST_FILE: u64 = 1 << 20;
/// The most bytes of all files that are copied before a run, and of all contents that are read from commits.
const MOST_COPIED: u64 = 20 << 20;
/// The most files that are copied.
const MOST_FILES: usize = 10_000;

/// A changed file, before and after a run. `None` is a file that did not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileContents {
    /// The path as the observation names it.
    pub path: String,
    /// The file before the run.
    pub before: Option<VersionContents>,
    /// The file after the run.
    pub after: Option<VersionContents>,
}

/// A version of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionContents {
    /// The kind of the file.
    pub mode: FileMode,
    /// The SHA-256 of the contents, if it is known.
    pub sha256: Option<Digest>,
    /// The contents, or why they are not known.
    pub bytes: Result<Vec<u8>, OmittedContents>,
}

impl VersionContents {
    fn new(mode: FileMode, bytes: Vec<u8>) -> Self {
        Self { mode, sha256: Some(sha256(&[&bytes])), bytes: Ok(bytes) }
    }

    fn unknown(mode: FileMode) -> Self {
        Self { mode, sha256: None, bytes: Err(OmittedContents::Unknown) }
    }
}

impl From<FoundFile> for VersionContents {
    fn from(found: FoundFile) -> Self {
        let FoundFile { mode, sha256, bytes } = found;
        Self { mode, sha256, bytes: bytes.ok_or(OmittedContents::Large) }
    }
}

impl WorktreeSnapshot {
    /// Copies the files whose contents no commit has into a folder, as far as they are small.
    pub fn copy_uncommitted(&self, to: &Path) -> io::Result<()> {
        let folder = WritableFolder::open(&self.top)?;
        let (mut bytes_left, mut files_left) = (MOST_COPIED, MOST_FILES);
        for entry in self.survey.entries.iter().filter(|entry| self.is_uncommitted(entry)) {
            let Ok(path) = std::str::from_utf8(entry.place().bytes()) else { continue };
            // What cannot be read is not known afterwards, either.
            let Ok(Some(FoundFile { bytes: Some(bytes), .. })) = folder.look(path, MOST_FILE) else {
                continue;
            };
            if bytes.len() as u64 > bytes_left || files_left == 0 {
                break;
            }
            bytes_left -= bytes.len() as u64;
            files_left -= 1;
            fs::create_dir_all(to)?;
            io::Write::write_all(&mut open_private(&to.join(copy_name(path)))?, &bytes)?;
        }
        Ok(())
    }

    /// Checks whether a regular file has contents that the commit does not have.
    fn is_uncommitted(&self, entry: &SurveyEntry) -> bool {
        let is_file = entry.kind() == FileType::RegularFile;
        let uncommitted = self.checkout.as_ref().and_then(|checkout| checkout.uncommitted.as_ref());
        is_file
            && match entry.class() {
                FileClass::Ignored => false,
                FileClass::Untracked => true,
                FileClass::Tracked => {
                    self.checkout.is_none()
                        || uncommitted.is_some_and(|paths| paths.binary_search(entry.place()).is_ok())
                }
            }
    }

    /// Returns the contents of the changed files, from the copies before the run, the commit before the run, and the
    /// present files. Ignored files, submodules and files of the repository itself are left out.
    pub fn read_contents(&self, changed: &[ChangedFile], copies: &Path) -> Vec<FileContents> {
        let Ok(folder) = WritableFolder::open(&self.top) else { return Vec::new() };
        let is_file = |file: &&ChangedFile| {
            !matches!(file.change, ChangeKind::Ignored | ChangeKind::Repository | ChangeKind::Submodule)
        };
        let mut paths = BTreeMap::new();
        for file in changed.iter().filter(is_file) {
            paths.insert(file.path.as_str(), file.change != ChangeKind::Deleted);
            if let Some(from) = &file.from {
                paths.entry(from.as_str()).or_insert(false);
            }
        }
        let entries: BTreeMap<&str, &SurveyEntry> =
            paths.keys().filter_map(|path| Some((*path, self.find_entry(path)?))).collect();
        let mut committed = self.read_committed(entries.values().copied());
        let file = |(path, exists): (&str, bool)| {
            let below = self.path_from_top(path)?;
            let before = entries.get(path).map(|entry| self.version_before(entry, copies, &mut committed));
            let after = match (exists, folder.look(&below, MOST_FILE)) {
                (false, _) => None,
                (true, Ok(Some(found))) => Some(found.into()),
                // It is there, or was a moment ago.
                (true, _) => Some(VersionContents::unknown(FileMode::Plain)),
            };
            Some(FileContents { path: path.to_owned(), before, after })
        };
        paths.into_iter().filter_map(file).collect()
    }

    fn version_before(
        &self,
        entry: &SurveyEntry,
        copies: &Path,
        committed: &mut BTreeMap<String, Vec<u8>>,
    ) -> VersionContents {
        let mode = match entry.kind() {
            FileType::Symlink => FileMode::Link,
            _ if entry.1 & 0o100 != 0 => FileMode::Executable,
            _ => FileMode::Plain,
        };
        let path = lossy_text(entry.place().bytes());
        let mut found = || {
            if self.is_uncommitted(entry) {
                read_own_bytes(&copies.join(copy_name(&path)))
            } else {
                committed.remove(&path)
            }
        };
        match entry.fingerprint() {
            Fingerprint::Link(target) => VersionContents::new(mode, target.clone()),
            Fingerprint::Contents(digest) => match found().filter(|bytes| sha256(&[bytes]) == *digest) {
                Some(bytes) => VersionContents::new(mode, bytes),
                None => VersionContents { sha256: Some(*digest), ..VersionContents::unknown(mode) },
            },
            // A filter of git, such as one for line ends, gives a file another size.
            Fingerprint::Touched(stamp) => match found().filter(|bytes| bytes.len() as u64 == stamp.size()) {
                Some(bytes) => VersionContents::new(mode, bytes),
                None if stamp.size() > MOST_FILE => {
                    VersionContents { bytes: Err(OmittedContents::Large), ..VersionContents::unknown(mode) }
                }
                None => VersionContents::unknown(mode),
            },
            Fingerprint::Special(_) => VersionContents::unknown(mode),
        }
    }

    /// Returns the entry of a path as the observation names it.
    fn find_entry(&self, path: &str) -> Option<&SurveyEntry> {
        let path = self.path_from_top(path)?;
        let entries = &self.survey.entries;
        let at = entries.binary_search_by(|entry| entry.place().bytes().cmp(path.as_bytes())).ok()?;
        Some(&entries[at])
    }

    /// Returns the path from the top of the worktree; `None` if it leads out of it.
    fn path_from_top(&self, path: &str) -> Option<String> {
        let mut parts: Vec<&str> = self.folder.split('/').filter(|part| !part.is_empty()).collect();
        for part in path.split('/') {
            match part {
                ".." => drop(parts.pop()?),
                part => parts.push(part),
            }
        }
        Some(parts.join("/"))
    }

    /// Returns the contents of files in the commit before the run, by path from the top.
    fn read_committed<'e>(
        &self,
        entries: impl Iterator<Item = &'e SurveyEntry>,
    ) -> BTreeMap<String, Vec<u8>> {
        let Some((checkout, head)) = self.checkout.as_ref().zip(self.head()) else { return BTreeMap::new() };
        if checkout.uncommitted.is_none() {
            return BTreeMap::new();
        }
        let paths: BTreeSet<&str> = entries
            .filter(|entry| entry.class() == FileClass::Tracked && !self.is_uncommitted(entry))
            .filter_map(|entry| std::str::from_utf8(entry.place().bytes()).ok())
            // Git reads one name a line.
            .filter(|path| !path.contains('\n'))
            .collect();
        read_blobs(&checkout.git, head, &paths).unwrap_or_default()
    }
}

/// Returns the contents of files in a commit, as far as they are small.
fn read_blobs(git: &Git, commit: &str, paths: &BTreeSet<&str>) -> Option<BTreeMap<String, Vec<u8>>> {
    let names = |paths: &[&str]| {
        paths.iter().fold(String::new(), |mut lines, path| {
            let _ = writeln!(lines, "{commit}:{path}");
            lines
        })
    };
    let all: Vec<&str> = paths.iter().copied().collect();
    if all.is_empty() {
        return None;
    }
    let checked =
        git.run_checked(&["cat-file", "--batch-check=%(objecttype) %(objectsize)"], names(&all)).ok()?;
    let sizes = lossy_text(&checked);
    let mut left = MOST_COPIED;
    let mut small = Vec::new();
    for (path, line) in all.iter().zip(sizes.lines()) {
        let size = line.strip_prefix("blob ").and_then(|size| size.parse::<u64>().ok());
        if let Some(size) = size.filter(|size| *size <= MOST_FILE && *size <= left) {
            left -= size;
            small.push((*path, size));
        }
    }
    let wanted: Vec<&str> = small.iter().map(|(path, _)| *path).collect();
    if wanted.is_empty() {
        return None;
    }
    let texts = git.run_checked(&["cat-file", "--batch=%(objectsize)"], names(&wanted)).ok()?;
    let mut rest = &texts[..];
    let mut found = BTreeMap::new();
    for (path, size) in small {
        let head = format!("{size}\n");
        rest = rest.strip_prefix(head.as_bytes())?;
        let (bytes, after) = rest.split_at_checked(usize::try_from(size).ok()?)?;
        rest = after.strip_prefix(b"\n")?;
        found.insert(path.to_owned(), bytes.to_vec());
    }
    Some(found)
}

/// Returns the name of the copy of a file.
fn copy_name(path: &str) -> String {
    sha256(&[path.as_bytes()]).to_string()
}
