//! A worktree as git sees it: the tracked files, the commit, and whether there is work that no commit has.
//!
//! An agent can write anything into an index. So the work after a run is compared with a commit by a copy of
//! the index from before, and the flags that make git trust a file are removed from that copy.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use super::commits::RefSnapshot;
use super::fingerprint::{FileStamp, Fingerprint, FingerprintCache};
use super::repository::{IndexSnapshot, RepositoryFiles};
use super::survey::{FileClass, FileSurvey, SurveyEntry};
use super::worktree_path::WorktreePath;
use crate::disk::read::PathBase as ReadFrom;
use crate::git::{Git, GitError, irregular_kind, lossy_text, parse_raw_diff, read_linked_git_dir};

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct CheckoutSnapshot {
    pub(super) git: Git,
    pub(super) index: IndexSnapshot,
    pub(super) refs: RefSnapshot,
    pub(super) repository: RepositoryFiles,
    pub(super) is_dirty: bool,
    /// Whether git could not determine `is_dirty`.
    pub(super) is_unsure: bool,
    /// The checked-out commit of each submodule.
    pub(super) submodules: BTreeMap<WorktreePath, String>,
    /// Tracked files that did not exist.
    absent: Vec<WorktreePath>,
    /// Tracked files whose contents the commit does not have, in byte order; `None` if they are not known.
    #[serde(default)]
    pub(super) uncommitted: Option<Vec<WorktreePath>>,
    /// The stamp of the index, if a later change shows in it.
    stamp: Option<FileStamp>,
    /// A copy of the index without flags. Without it, every file is read to find the dirty ones.
    #[serde(skip)]
    copy: Option<Arc<TempDir>>,
}

/// The most nested submodules that are examined.
const MOST_NESTED: usize = 8;

/// Files of a worktree that git reads by itself.
const READ_BY_GIT: [&[u8]; 4] = [b".gitattributes", b".gitignore", b".gitmodules", b".mailmap"];

fn index_error(error: io::Error) -> GitError {
    GitError::new("index", error)
}

/// Copies an index into a folder of its own, and reads it.
fn copy_and_read_index(git: &Git) -> Result<(TempDir, IndexSnapshot), GitError> {
    let folder = tempfile::Builder::new().prefix("callsheet-index-").tempdir().map_err(index_error)?;
    let copy = folder.path().join("index");
    git.copy_index(&copy).map_err(index_error)?;
    let index = IndexSnapshot::from_index_copy(git, &copy)?;
    Ok((folder, index))
}

/// Reads the present index of the worktree.
pub(super) fn read_index(git: &Git) -> Result<IndexSnapshot, GitError> {
    copy_and_read_index(git).map(|(_, index)| index)
}

impl CheckoutSnapshot {
    /// Examines everything except the files, which [`Self::compare_before`] surveys.
    pub(super) fn take(git: Git, prints: &FingerprintCache) -> Result<Self, GitError> {
        let stamp = FileStamp::from_settled_file(&git.index_path());
        let (folder, index) = copy_and_read_index(&git)?;
        let refs = RefSnapshot::from_git(&git)?;
        let repository = RepositoryFiles::from_git(&git, prints);
        let submodules = read_heads(git.top(), &index.submodules);
        let copy = Some(Arc::new(folder));
        let absent = Vec::new();
        let (is_dirty, is_unsure, uncommitted) = (false, false, None);
        Ok(Self {
            git,
            index,
            refs,
            repository,
            is_dirty,
            is_unsure,
            submodules,
            absent,
            uncommitted,
            stamp,
            copy,
        })
    }

    /// Returns the paths that git tracks, in byte order, also if the index was not kept.
    pub(super) fn tracked_paths<'a>(&'a self, survey: &FileSurvey) -> Cow<'a, [WorktreePath]> {
        if !self.index.tracked.is_empty() {
            return Cow::Borrowed(&self.index.tracked);
        }
        let there =
            survey.entries.iter().filter(|entry| entry.class() == FileClass::Tracked).map(SurveyEntry::place);
        let mut all: Vec<WorktreePath> = there.chain(&self.absent).cloned().collect();
        all.sort_unstable();
        Cow::Owned(all)
    }

    /// Reads the present index; `None` if it was not written to.
    pub(super) fn read_changed_index(&self) -> Result<Option<IndexSnapshot>, GitError> {
        let stamp = FileStamp::from_settled_file(&self.git.index_path());
        if stamp.is_some() && stamp == self.stamp { Ok(None) } else { read_index(&self.git).map(Some) }
    }

    /// Surveys the files by `look`, and compares them with the commit meanwhile. If git cannot compare them,
    /// there may be work that no commit has.
    pub(super) fn compare_before(
        &mut self,
        look: impl FnOnce(&[WorktreePath]) -> io::Result<FileSurvey>,
    ) -> io::Result<FileSurvey> {
        let copy = self.copy.as_ref().map(|folder| folder.path().join("index")).unwrap_or_default();
        let (git, head, tracked) =
            (self.git.with_index(&copy), self.refs.head.as_deref(), &self.index.tracked);
        let (survey, raw) = thread::scope(|scope| {
            let raw = scope.spawn(|| {
                // Git would wait for an irregular file.
                let odd = READ_BY_GIT
                    .iter()
                    .any(|name| irregular_kind(&git.top().join(OsStr::from_bytes(name))).is_some());
                if odd {
                    Err(index_error(io::Error::other("a file that git reads is not a regular file")))
                } else {
                    git.diff_raw(&[], head)
                }
            });
            (look(tracked), raw.join())
        });
        let survey = survey?;
        let missing = |path: &&WorktreePath| {
            survey.entries.binary_search_by(|entry| entry.place().cmp(path)).is_err()
                && !survey.is_hidden(path)
        };
        self.absent = tracked.iter().filter(missing).cloned().collect();
        let tree = RepositoryTree { git: &self.git, prefix: b"", survey: &survey, left_out: &self.index };
        let raw = raw.unwrap_or_else(|_| Err(index_error(io::Error::other("a thread failed"))));
        self.uncommitted = raw.as_ref().ok().map(|raw| {
            let mut paths: Vec<WorktreePath> =
                parse_raw_diff(raw).iter().map(|change| WorktreePath::new(change.path)).collect();
            paths.sort_unstable();
            paths
        });
        let is_dirty = raw.and_then(|raw| {
            let listed = (&tracked[..], &self.index.submodules[..]);
            tree.has_differences(listed, &raw, ComparisonBase::Index, MOST_NESTED)
        });
        self.is_unsure = is_dirty.is_err();
        self.is_dirty = is_dirty.unwrap_or(true);
        Ok(survey)
    }

    /// Checks whether there is work that `head` does not have.
    pub(super) fn is_dirty_after(&self, head: Option<&str>, survey: &FileSurvey) -> Result<bool, GitError> {
        let fresh = tempfile::tempdir().map_err(index_error)?;
        let index = fresh.path().join("index");
        if let Some(copy) = &self.copy {
            let before = self.git.with_index(&copy.path().join("index"));
            before.copy_index(&index).map_err(index_error)?;
        }
        let git = self.git.with_index(&index);
        if let Some(head) = head.filter(|head| self.refs.head.as_deref() != Some(head) || self.copy.is_none())
        {
            // The merge keeps the index's data about files that are the same in the commit.
            let merged = self.copy.is_some()
                && git.run_checked(&["read-tree", "-m", "--end-of-options", head], "").is_ok();
            if !merged {
                git.run_checked(&["read-tree", "--end-of-options", head], "")?;
            }
        }
        let tree = RepositoryTree { git: &self.git, prefix: b"", survey, left_out: &self.index };
        tree.is_dirty(head, &index, ComparisonBase::Commit, MOST_NESTED)
    }
}

/// The base for comparing the files of a submodule.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ComparisonBase {
    /// Its index, which a person wrote last.
    Index,
    /// Its commit alone.
    Commit,
}

/// The files of a repository, in a survey that may have more.
struct RepositoryTree<'a> {
    git: &'a Git,
    /// The path of the repository in the survey.
    prefix: &'a [u8],
    survey: &'a FileSurvey,
    left_out: &'a IndexSnapshot,
}

impl RepositoryTree<'_> {
    fn is_dirty(
        &self,
        head: Option<&str>,
        index: &Path,
        trust: ComparisonBase,
        depth: usize,
    ) -> Result<bool, GitError> {
        let git = self.git.with_index(index);
        let listed = git.run_checked(&["ls-files", "-z", "--stage"], "")?;
        let (mut submodules, mut tracked) = (Vec::new(), Vec::new());
        for line in listed.split(|byte| *byte == 0) {
            let Some(tab) = line.iter().position(|byte| *byte == b'\t') else { continue };
            let place = self.survey_path(&line[tab + 1..]);
            if line.starts_with(b"160000 ") {
                submodules.push(place.clone());
            }
            tracked.push(place);
        }
        tracked.sort_unstable();
        if self.has_irregular_git_file() {
            return Ok(true);
        }
        self.has_differences((&tracked, &submodules), &git.diff_raw(&[], head)?, trust, depth)
    }

    /// Checks whether git would wait for a file that it reads by itself.
    fn has_irregular_git_file(&self) -> bool {
        self.survey.entries.iter().any(|entry| {
            let name = entry.place().bytes().rsplit(|byte| *byte == b'/').next().unwrap_or_default();
            matches!(entry.fingerprint(), Fingerprint::Special(_)) && READ_BY_GIT.contains(&name)
        })
    }

    /// Checks whether a file is not tracked, differs according to git (`raw`), or does so in a submodule.
    fn has_differences(
        &self,
        (tracked, submodules): (&[WorktreePath], &[WorktreePath]),
        raw: &[u8],
        trust: ComparisonBase,
        depth: usize,
    ) -> Result<bool, GitError> {
        let inside = self
            .survey
            .entries
            .iter()
            .filter(|entry| self.prefix.is_empty() || entry.place().is_in(self.prefix));
        for entry in inside {
            let path = entry.place();
            let is_tracked = || tracked.binary_search(path).is_ok();
            let is_submodule = || submodules.iter().any(|submodule| path.is_in(submodule.bytes()));
            let is_link =
                || !self.prefix.is_empty() && path.bytes().strip_prefix(self.prefix) == Some(b"/.git");
            // The contents of an agent's index are not those of a commit.
            let is_new = entry.class() != FileClass::Ignored;
            if is_new && !is_tracked() && !is_submodule() && !is_link() && !path.is_in(OUR_FOLDER) {
                return Ok(true);
            }
        }
        let mut fields = raw.split(|byte| *byte == 0).filter(|field| !field.is_empty());
        while let (Some(_), Some(path)) = (fields.next(), fields.next()) {
            let is_there =
                || self.survey.entries.binary_search_by(|entry| entry.place().bytes().cmp(path)).is_ok();
            if !self.left_out.is_left_out(path) || is_there() {
                return Ok(true);
            }
        }
        for submodule in submodules {
            if self.is_dirty_inside(submodule, trust, depth)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn survey_path(&self, path: &[u8]) -> WorktreePath {
        if self.prefix.is_empty() {
            WorktreePath::new(path)
        } else {
            WorktreePath::new(&[self.prefix, b"/", path].concat())
        }
    }

    fn is_dirty_inside(
        &self,
        submodule: &WorktreePath,
        trust: ComparisonBase,
        depth: usize,
    ) -> Result<bool, GitError> {
        let below = submodule.bytes().get(self.prefix.len()..).unwrap_or_default();
        let below = below.strip_prefix(b"/").unwrap_or(below);
        let dir = self.git.top().join(OsStr::from_bytes(below));
        if dir.join(".git").symlink_metadata().is_err() {
            return Ok(false);
        }
        let odd = |why: &str| GitError::new("submodule", format!("`{}`: {why}", submodule.to_text()));
        if depth == 0 {
            return Err(odd("submodules are nested too deep"));
        }
        let real = |path: &Path| path.canonicalize().ok();
        let inside = Git::open(&dir)?.filter(|inside| real(inside.top()) == real(&dir));
        let inside = inside.ok_or_else(|| odd("not a repository"))?;
        let head = inside.head()?;
        let fresh = tempfile::tempdir().map_err(index_error)?;
        let index = fresh.path().join("index");
        let none = IndexSnapshot::default();
        if trust == ComparisonBase::Index {
            inside.copy_index(&index).map_err(index_error)?;
            IndexSnapshot::from_index_copy(&inside, &index)?;
        } else if let Some(head) = &head {
            inside.with_index(&index).run_checked(&["read-tree", "--end-of-options", head], "")?;
        }
        let tree =
            RepositoryTree { git: &inside, prefix: submodule.bytes(), survey: self.survey, left_out: &none };
        tree.is_dirty(head.as_deref(), &index, trust, depth - 1)
    }
}

/// The folder of files for agents, which are not work.
const OUR_FOLDER: &[u8] = b".callsheet/runs";

/// Returns the checked-out commit of each submodule, without git.
pub(super) fn read_heads(top: &Path, submodules: &[WorktreePath]) -> BTreeMap<WorktreePath, String> {
    let head = |place: &WorktreePath| {
        let link = top.join(OsStr::from_bytes(place.bytes())).join(".git");
        let folder = if link.is_dir() { link } else { read_linked_git_dir(&link)? };
        Some((place.clone(), read_head(&folder)?))
    };
    submodules.iter().filter_map(head).collect()
}

/// The longest file of references that is read.
const MOST_REFS: u64 = 64 << 20;

fn read_head(folder: &Path) -> Option<String> {
    let read = |path: PathBuf| {
        let bytes = ReadFrom::Anywhere.read_bytes(&path, MOST_REFS).ok().flatten()?;
        Some(lossy_text(&bytes).trim_end().to_owned())
    };
    let head = read(folder.join("HEAD"))?;
    let Some(name) = head.strip_prefix("ref: ") else { return Some(head) };
    let packed = || {
        let packed = read(folder.join("packed-refs"))?;
        let line = packed.lines().find(|line| line.split_once(' ').is_some_and(|(_, of)| of == name))?;
        Some(line.to_owned())
    };
    let id = if name.contains("..") { None } else { read(folder.join(name)).or_else(packed) };
    Some(format!("{name} {}", id.unwrap_or_default()))
}
