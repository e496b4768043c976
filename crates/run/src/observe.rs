//! Observe: what a run changed, from git and from the file system, never from what an agent says.
//!
//! A worktree is looked at [before](Before::look) and [after](Before::observe). What was there already, unchanged, is no
//! change of the run, however dirty the worktree was.

mod outside;
mod print;
mod state;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use callsheet_core::fact::{Change, Changed, Decision, Observed, Reason, Violation};
use callsheet_core::scope::Scope;
use serde::{Deserialize, Serialize};

use crate::git::{Git, GitError};
use outside::Outside;
pub use print::Prints;
use state::{Kind, State};

/// A worktree as it was before a run.
#[derive(Debug, Serialize, Deserialize)]
pub struct Before {
    git: Git,
    /// The folder that scopes speak of, below the top; with a slash at its end, or empty.
    folder: String,
    /// Beginnings of paths that callsheet itself writes to.
    own: Vec<String>,
    head: Option<String>,
    state: State,
    outside: Outside,
}

impl Before {
    /// Looks at the worktree that `dir` lies in; `None` where there is none. Below the paths `own` is what callsheet
    /// writes while an agent works. Who looks often keeps the `prints`.
    pub fn look(dir: &Path, own: &[PathBuf], prints: &Arc<Prints>) -> Result<Option<Self>, GitError> {
        let Some(git) = Git::at(dir)? else { return Ok(None) };
        let top = git.top().canonicalize().unwrap_or_else(|_| git.top().to_owned());
        let below = |path: &Path| path.strip_prefix(&top).ok()?.to_str().map(str::to_owned);
        let own: Vec<String> = own.iter().filter_map(|path| below(path)).collect();
        let folder = dir.canonicalize().ok().and_then(|dir| below(&dir)).filter(|dir| !dir.is_empty());
        let folder = folder.map(|dir| format!("{dir}/")).unwrap_or_default();
        let head = git.head()?;
        let state = State::of(&git, head.as_deref(), &own, prints)?;
        let outside = Outside::of(&git, &state)?;
        Ok(Some(Self { git, folder, own, head, state, outside }))
    }

    /// The commit that was checked out.
    pub fn head(&self) -> Option<&str> {
        self.head.as_deref()
    }

    /// Whether there was work that no commit had.
    pub fn is_dirty(&self) -> bool {
        self.state.is_dirty()
    }

    /// A path as the folder sees it that scopes speak of.
    fn shown(&self, path: &str) -> String {
        match path.strip_prefix(&self.folder) {
            Some(path) => path.to_owned(),
            None => format!("{}{path}", "../".repeat(self.folder.matches('/').count())),
        }
    }

    /// What is different now, and what of it `scope` did not allow.
    pub fn observe(&self, scope: &Scope) -> Observed {
        let mut seen = Observed {
            head_before: self.head.clone(),
            dirty_before: self.state.is_dirty(),
            ..Observed::default()
        };
        let git = &self.git;
        let found = git.head().and_then(|head_after| {
            seen.head_after = head_after;
            // Compared with where the run began: what it committed is changed as well.
            let prints = self.state.prints();
            let now = State::of(git, self.head.as_deref(), &self.own, &prints)?;
            seen.dirty_after = match &seen.head_after {
                head if *head == self.head => now.is_dirty(),
                head => State::of(git, head.as_deref(), &self.own, &prints)?.is_dirty(),
            };
            let outside = Outside::of(git, &now)?;
            Ok((now, outside))
        });
        match found {
            Ok((now, outside)) => {
                seen.changed = self.state.changes(&now);
                seen.unseen.extend(self.state.unseen.iter().chain(&now.unseen).cloned());
                seen.changed.extend(self.outside.repository_changes(&outside));
                let leading = self.outside.leading_outside(&outside);
                for file in &mut seen.changed {
                    file.path = self.shown(&file.path);
                    file.from = file.from.as_ref().map(|from| self.shown(from));
                }
                let leading: Vec<String> = leading.iter().map(|path| self.shown(path)).collect();
                seen.violations = violations(&seen.changed, scope, &leading);
            }
            // A worktree that is gone, or that git no longer knows, is the greatest change of all.
            Err(error) => {
                seen.unseen.push(error.to_string());
                let gone = !self.git.top().exists();
                let change = if gone { Change::Deleted } else { Change::Modified };
                seen.changed.push(Changed { path: ".".into(), change, from: None });
                let reason = Reason::OutsideWrite;
                seen.violations.push(Violation { path: ".".into(), reason, decision: Decision::Pending });
            }
        }
        seen.changed.sort();
        seen.changed.dedup();
        seen.violations.sort_by(|a, b| a.path.cmp(&b.path));
        seen
    }
}

fn violations(changed: &[Changed], scope: &Scope, leading: &[String]) -> Vec<Violation> {
    let judge = scope.judge();
    let mut found: BTreeMap<String, Reason> = BTreeMap::new();
    for file in changed {
        for path in [Some(&file.path), file.from.as_ref()].into_iter().flatten() {
            let reason = judge.violated(path.trim_end_matches('/'));
            // Whatever is built lands in ignored folders.
            let counts = file.change != Change::Ignored || reason == Some(Reason::Excluded);
            found.extend(reason.filter(|_| counts).map(|reason| (path.clone(), reason)));
        }
    }
    for path in leading {
        found.entry(path.clone()).or_insert(Reason::LeadsOutside);
    }
    let violation = |(path, reason)| Violation { path, reason, decision: Decision::Pending };
    found.into_iter().map(violation).collect()
}

impl State {
    /// What is different in `now`.
    fn changes(&self, now: &Self) -> Vec<Changed> {
        let mut changes = Vec::new();
        for (path, file) in &now.files {
            if self.files.get(path) == Some(file) {
                continue;
            }
            let before = self.files.get(path);
            let change = match (&file.kind, before) {
                // It was there, dirty or untracked, and is something else now.
                (Kind::Untracked, Some(_)) => Change::Modified,
                (Kind::Untracked, None) => Change::Untracked,
                (Kind::Ignored, _) => Change::Ignored,
                (Kind::Submodule, _) => Change::Submodule,
                (Kind::Tracked(change), _) => *change,
            };
            let from = file.from.clone();
            changes.push(Changed { path: path.clone(), change, from });
        }
        for (path, file) in self.files.iter().filter(|(path, _)| !now.files.contains_key(*path)) {
            let change = match file.kind {
                Kind::Ignored => Change::Ignored,
                Kind::Untracked => Change::Deleted,
                // It is as the commit has it: what was different from it is gone.
                Kind::Tracked(_) | Kind::Submodule => Change::Modified,
            };
            // What was moved is told where it is now.
            if !now.files.values().any(|other| other.from.as_ref() == Some(path)) {
                changes.push(Changed { path: path.clone(), change, from: None });
            }
        }
        changes
    }
}
