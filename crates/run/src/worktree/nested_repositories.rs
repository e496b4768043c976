//! Repositories inside a worktree whose folder lies elsewhere: submodules, and all others with a file or a
//! link as their `.git`. A survey of the files does not see their references, stashes and indexes.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use callsheet_core::request::fact::{ChangedFile, MovedRef};
use serde::{Deserialize, Serialize};

use super::checkout::read_index;
use super::commits::{ClaimedWorktrees, NewCommits, RefSnapshot};
use super::compare::ScopedChange;
use super::fingerprint::{FileStamp, FingerprintCache};
use super::repository::{IndexSnapshot, RepositoryFiles};
use super::staged::{find_staged_only, staged_changes};
use super::survey::FileSurvey;
use super::worktree_path::WorktreePath;
use crate::git::{Git, GitError, read_linked_git_dir};

/// The repositories inside a worktree, as they were before a run.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct NestedRepositories {
    all: Vec<NestedRepository>,
    /// Repositories that could not be examined, and why.
    pub(super) unseen: Vec<(String, String)>,
}

#[derive(Debug, Serialize, Deserialize)]
struct NestedRepository {
    /// Its folder, as a person would write it.
    shown: String,
    /// Whether the folder lies in the outer repository, where it is examined with everything else.
    is_inside: bool,
    git: Git,
    /// The path of its files, below the top, if it has any.
    files: Option<WorktreePath>,
    /// Whether it belongs to the main checkout while the run has a worktree of its own.
    is_elsewhere: bool,
    /// `None` if git could not report them.
    refs: Option<RefSnapshot>,
    index: Option<IndexSnapshot>,
    /// The stamp of the index, if a later change shows in it.
    stamp: Option<FileStamp>,
}

/// The most repositories that are examined.
const MOST_MODULES: usize = 1_000;

/// The changes in the repositories.
#[derive(Debug, Default)]
pub(super) struct NestedChanges {
    /// Flags and contents of the index, and replaced objects.
    pub(super) scoped: Vec<ScopedChange>,
    pub(super) moved: Vec<MovedRef>,
    pub(super) unseen: Vec<(String, String)>,
}

impl NestedRepositories {
    /// Examines every repository whose folder is in `repository`, or whose `.git` is in `survey`.
    pub(super) fn take(git: &Git, repository: &RepositoryFiles, survey: &FileSurvey) -> Self {
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let (top, common) = (real(git.top()), real(git.common_dir()));
        let main = common.join("modules");
        // By the real folder, so that each repository appears once.
        let mut found: BTreeMap<PathBuf, (String, bool, Option<WorktreePath>)> = BTreeMap::new();
        for (shown, folder) in &repository.modules {
            found.insert(real(folder), (shown.clone(), true, None));
        }
        for entry in &survey.entries {
            let Some(files) = entry.place().bytes().strip_suffix(b"/.git") else { continue };
            let link = top.join(OsStr::from_bytes(entry.place().bytes()));
            let folder = if link.is_dir() { Some(link) } else { read_linked_git_dir(&link) };
            let Some(folder) = folder.filter(|folder| folder.is_dir()).map(|folder| real(&folder)) else {
                continue;
            };
            // A folder among the files is part of the survey.
            if folder.starts_with(&top) && !folder.starts_with(&common) {
                continue;
            }
            let known = found.entry(folder).or_insert_with(|| (entry.place().to_text(), false, None));
            known.2.get_or_insert_with(|| WorktreePath::new(files));
        }
        let mut all = Self::default();
        for (folder, (shown, is_inside, files)) in found {
            let git_inside = git.open_nested(&folder);
            // A worktree of the repository itself has the same references.
            if real(git_inside.common_dir()) == common {
                continue;
            }
            if all.all.len() >= MOST_MODULES {
                let why = format!("there are more than {MOST_MODULES} repositories in the worktree");
                all.unseen.push((".git/modules".to_owned(), why));
                break;
            }
            let is_elsewhere = git.is_linked() && files.is_none() && folder.starts_with(&main);
            all.add_repository(shown, is_inside, git_inside, files, is_elsewhere);
        }
        all
    }

    fn add_repository(
        &mut self,
        shown: String,
        is_inside: bool,
        git: Git,
        files: Option<WorktreePath>,
        is_elsewhere: bool,
    ) {
        let stamp = FileStamp::from_settled_file(&git.index_path());
        let refs = RefSnapshot::from_git(&git);
        let index = read_index(&git);
        for error in [refs.as_ref().err(), index.as_ref().err()].into_iter().flatten() {
            self.unseen.push((shown.clone(), error.to_string()));
        }
        let (refs, index) = (refs.ok(), index.ok());
        self.all.push(NestedRepository { shown, is_inside, git, files, is_elsewhere, refs, index, stamp });
    }

    /// Adds the settings and hooks of those repositories whose folders are outside the outer one.
    pub(super) fn add_to(&self, repository: &mut RepositoryFiles, prints: &FingerprintCache) {
        for module in self.all.iter().filter(|module| !module.is_inside) {
            repository.add_repository(module.git.common_dir(), &module.shown, prints, 0);
            if module.git.is_linked() {
                repository.add_repository(
                    module.git.git_dir(),
                    &format!("{}/worktree", module.shown),
                    prints,
                    0,
                );
            }
        }
    }

    /// Returns the changes since the examination.
    pub(super) fn find_changes(&self, made: &ClaimedWorktrees<'_>) -> NestedChanges {
        let mut changes = NestedChanges::default();
        for module in &self.all {
            if let Err(error) = module.add_changes(made, &mut changes) {
                changes.unseen.push((module.shown.clone(), error.to_string()));
            }
        }
        changes
    }
}

impl NestedRepository {
    fn add_changes(&self, made: &ClaimedWorktrees<'_>, changes: &mut NestedChanges) -> Result<(), GitError> {
        let stamp = FileStamp::from_settled_file(&self.git.index_path());
        let is_same = stamp.is_some() && stamp == self.stamp;
        let below = self.files.as_ref().map_or_else(|| self.shown.clone(), WorktreePath::to_text);
        let shown = |path: &str| path.strip_prefix(".git").map(|rest| format!("{}{rest}", self.shown));
        let named = |changed: ChangedFile| {
            ScopedChange::new(shown(&changed.path).unwrap_or(changed.path), changed.change, changed.from)
        };
        let unknown = || GitError::new("for-each-ref", "it failed before the run");
        let refs = self.refs.as_ref().ok_or_else(unknown)?;
        let now = RefSnapshot::from_git(&self.git)?;
        if let Some(index) = self.index.as_ref().filter(|_| !is_same) {
            changes.scoped.extend(index.changes(&read_index(&self.git)?).into_iter().map(named));
            let top = self.files.as_ref().map(|files| self.git.top().join(OsStr::from_bytes(files.bytes())));
            let paths = find_staged_only(&self.git, top.as_deref(), index, now.head.as_deref())?;
            changes.scoped.extend(staged_changes(&paths).map(|change| ScopedChange {
                paths: change.paths.iter().map(|path| format!("{below}/{path}")).collect(),
                ..named(change.changed)
            }));
        }
        changes.scoped.extend(refs.changed_replacements(&now).into_iter().map(named));
        let NewCommits { moved, unseen } = refs.find_new_commits(&now, &self.git, made)?;
        changes.unseen.extend(unseen.into_iter().map(|(path, why)| (shown(&path).unwrap_or(path), why)));
        changes.moved.extend(moved.into_iter().map(|moved| MovedRef {
            name: format!("{}/{}", self.shown, moved.name),
            paths: moved.paths.iter().map(|path| format!("{below}/{path}")).collect(),
            elsewhere: moved.elsewhere || self.is_elsewhere,
            ..moved
        }));
        Ok(())
    }
}
