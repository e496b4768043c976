//! What git does not tell about: files of the repository itself, and links that lead out of the worktree.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use callsheet_core::fact::{Change, Changed};
use serde::{Deserialize, Serialize};

use super::print::{Print, Prints};
use super::state::State;
use crate::git::{Git, GitError, text};

#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Outside {
    /// Prints of what git would obey: settings, hooks, attributes. By path, as a person would write it.
    repository: BTreeMap<String, Print>,
    /// Links that lead out of the worktree: where to, and what tells whether that was changed.
    links: BTreeMap<String, String>,
    #[serde(skip)]
    prints: Arc<Prints>,
}

impl Outside {
    pub(super) fn of(git: &Git, state: &State) -> Result<Self, GitError> {
        let mut outside = Self { prints: state.prints(), ..Self::default() };
        let pointer = git.top().join(".git");
        if pointer.is_file() {
            outside.note(".git", &pointer);
        }
        for folder in git.folders() {
            outside.repository(&folder, ".git");
        }
        outside.links(git, state)?;
        Ok(outside)
    }

    fn repository(&mut self, folder: &Path, shown: &str) {
        for file in ["config", "config.worktree"] {
            self.note(&format!("{shown}/{file}"), &folder.join(file));
        }
        for part in ["hooks", "info"] {
            self.tree(&folder.join(part), &format!("{shown}/{part}"));
        }
        // Submodules have repositories of their own, below this one.
        for entry in fs::read_dir(folder.join("modules")).into_iter().flatten().flatten() {
            let shown = format!("{shown}/modules/{}", entry.file_name().to_string_lossy());
            self.repository(&entry.path(), &shown);
        }
    }

    fn tree(&mut self, folder: &Path, shown: &str) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let shown = format!("{shown}/{}", entry.file_name().to_string_lossy());
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                self.tree(&entry.path(), &shown);
            } else {
                self.note(&shown, &entry.path());
            }
        }
    }

    fn note(&mut self, shown: &str, path: &Path) {
        self.repository.extend(self.prints.of(path).map(|print| (shown.to_owned(), print)));
    }

    fn links(&mut self, git: &Git, state: &State) -> Result<(), GitError> {
        let tracked = text(&git.done(&["ls-files", "-z", "--stage"], "")?);
        let tracked = tracked.split('\0').filter(|line| line.starts_with("120000 "));
        let tracked = tracked.filter_map(|line| line.split_once('\t')).map(|(_, path)| path.to_owned());
        let top = git.top().canonicalize().unwrap_or_else(|_| git.top().to_owned());
        for path in tracked.chain(state.links().cloned()) {
            let link = git.top().join(&path);
            let Ok(target) = fs::read_link(&link) else { continue };
            let end = end_of(&link, &target);
            if !end.starts_with(&top) {
                self.links.insert(path, format!("{} {}", end.display(), touched(&end)));
            }
        }
        Ok(())
    }

    pub(super) fn repository_changes(&self, now: &Self) -> Vec<Changed> {
        let paths = self.repository.keys().chain(now.repository.keys());
        let different = paths.filter(|path| self.repository.get(*path) != now.repository.get(*path));
        let changed = |path: &String| Changed { path: path.clone(), change: Change::Repository, from: None };
        different.map(changed).collect()
    }

    /// Links that lead out and did not before, or whose other end was touched.
    pub(super) fn leading_outside(&self, now: &Self) -> Vec<String> {
        let new = now.links.iter().filter(|(path, end)| self.links.get(*path) != Some(*end));
        new.map(|(path, _)| path.clone()).collect()
    }
}

/// Where a link leads, whether or not there is something.
fn end_of(link: &Path, target: &Path) -> PathBuf {
    if let Ok(end) = link.canonicalize() {
        return end;
    }
    let folder = link.parent().and_then(|folder| folder.canonicalize().ok()).unwrap_or_default();
    let mut end = PathBuf::new();
    for part in folder.join(target).components() {
        match part {
            Component::ParentDir => drop(end.pop()),
            Component::CurDir => {}
            part => end.push(part),
        }
    }
    end
}

/// Changes when somebody writes there; of a folder, when something in it comes or goes.
fn touched(path: &Path) -> String {
    let stat = |path: &Path| {
        let meta = path.symlink_metadata().ok()?;
        Some(format!("{} {} {} {}", meta.ino(), meta.len(), meta.mtime(), meta.mtime_nsec()))
    };
    let mut all = stat(path).unwrap_or_default();
    let mut inside: Vec<PathBuf> =
        fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path()).take(1000).collect();
    inside.sort();
    all.extend(inside.iter().filter_map(|path| stat(path)).map(|stat| format!(", {stat}")));
    all
}
