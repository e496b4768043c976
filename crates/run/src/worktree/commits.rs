//! References before and after a run, and the commits that are new there.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use callsheet_core::request::fact::{ChangeKind, ChangedFile, MovedRef};
use serde::{Deserialize, Serialize};

use super::worktree_path::{WorktreePath, display_bytes};
use crate::disk::read::PathBase as ReadFrom;
use crate::git::{Git, GitError, lossy_text};

/// The commits that the references of a repository point to.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct RefSnapshot {
    /// The checked-out commit.
    pub(super) head: Option<String>,
    /// The checked-out branch.
    branch: Option<String>,
    all: BTreeMap<String, String>,
    /// Branches that other worktrees have checked out, with the tops of these worktrees.
    elsewhere: BTreeMap<String, PathBuf>,
}

/// Worktrees that other runs claimed meanwhile, and the folders in which callsheet creates worktrees: their
/// branches do not belong to this run. The branch of a worktree that an agent creates elsewhere does,
/// whatever its name.
#[derive(Debug, Default)]
pub(super) struct ClaimedWorktrees<'a>(pub(super) &'a [PathBuf]);

impl ClaimedWorktrees<'_> {
    fn is_claimed(&self, top: &Path) -> bool {
        self.0.iter().any(|known| top.starts_with(known))
    }
}

/// The commits that a run made, reference by reference, and all paths that they touch.
#[derive(Debug, Default)]
pub(super) struct NewCommits {
    pub(super) moved: Vec<MovedRef>,
    /// References for which a limit ended the examination, and why.
    pub(super) unseen: Vec<(String, String)>,
}

/// The most new commits that are examined.
const MOST_COMMITS: usize = 10_000;

/// The most paths that are recorded for one reference.
const MOST_PATHS: usize = 10_000;

const REPLACE: &str = "refs/replace/";
const REMOTES: &str = "refs/remotes/";
const HEADS: &str = "refs/heads/";

const OUR_BRANCHES: &str = "callsheet/";
/// How many times, and how long each time, a worktree that is being created is awaited.
const MOST_WAITS: usize = 20;
const WAIT: Duration = Duration::from_millis(50);

/// The longest `HEAD` that is read.
const MOST_HEAD: u64 = 8192;

impl RefSnapshot {
    pub(super) fn from_git(git: &Git) -> Result<Self, GitError> {
        let listed = git.run_checked(&["for-each-ref", "--format=%(objectname) %(refname)"], "")?;
        let all = lossy_text(&listed);
        let all = all.lines().filter_map(|line| line.split_once(' '));
        Ok(Self {
            head: git.head()?,
            branch: read_branch(git.git_dir()),
            all: all.map(|(id, name)| (name.to_owned(), id.to_owned())).collect(),
            elsewhere: find_branches_elsewhere(git),
        })
    }

    /// Returns the changed replacements: objects that git sees as others.
    pub(super) fn changed_replacements(&self, now: &Self) -> Vec<ChangedFile> {
        let names = self.all.keys().chain(now.all.keys()).filter(|name| name.starts_with(REPLACE));
        let names: BTreeSet<&String> =
            names.filter(|name| self.all.get(*name) != now.all.get(*name)).collect();
        let changed = |name: &&String| ChangedFile {
            path: format!(".git/{name}"),
            change: ChangeKind::Repository,
            from: None,
        };
        names.iter().map(changed).collect()
    }

    /// Returns the commits that are new in `now`.
    pub(super) fn find_new_commits(
        &self,
        now: &Self,
        git: &Git,
        made: &ClaimedWorktrees<'_>,
    ) -> Result<NewCommits, GitError> {
        let local = |name: &&String| !name.starts_with(REMOTES) && !name.starts_with(REPLACE);
        let names: BTreeSet<&String> = self.all.keys().chain(now.all.keys()).filter(local).collect();
        let names: Vec<&String> =
            names.into_iter().filter(|name| self.all.get(*name) != now.all.get(*name)).collect();
        let new = names.iter().filter(|name| !self.all.contains_key(**name));
        let new: Vec<&str> = new.filter_map(|name| name.strip_prefix(HEADS)).collect();
        let places = now.wait_for_new_worktrees(git, &new);
        let note = |name: &str, from: Option<&String>, to: Option<&String>| {
            self.moved_ref(name, from.cloned(), to.cloned(), now, (&places, made))
        };
        let mut moved: Vec<MovedRef> =
            names.iter().map(|name| note(name, self.all.get(*name), now.all.get(*name))).collect();
        if now.branch.is_none() && self.head != now.head {
            moved.push(note("HEAD", self.head.as_ref(), now.head.as_ref()));
        }
        // The commits that existed before, and those that a remote has.
        let known = self.all.values().chain(&self.head);
        let remote = now.all.iter().filter(|(name, _)| name.starts_with(REMOTES)).map(|(_, id)| id);
        let fetched = git.read_fetched_commits();
        let known: String = known.chain(remote).chain(&fetched).map(|id| format!("^{id}\n")).collect();
        let mut commits = NewCommits::default();
        for mut moved in moved {
            if let Some(to) = &moved.to {
                let most = format!("--max-count={}", MOST_COMMITS + 1);
                let new = git.run_checked(
                    &["rev-list", &most, "--ignore-missing", "--stdin"],
                    format!("{to}\n{known}"),
                )?;
                let new = lossy_text(&new);
                moved.new = new.lines().count() as u64;
                if moved.new > MOST_COMMITS as u64 {
                    let why = format!("there are more than {MOST_COMMITS} new commits");
                    commits.unseen.push((format!(".git/{}", moved.name), why));
                } else if moved.new > 0 {
                    let mut paths = list_paths(git, &new)?;
                    if paths.len() > MOST_PATHS {
                        let why = format!("the new commits touch more than {MOST_PATHS} paths");
                        commits.unseen.push((format!(".git/{}", moved.name), why));
                        paths.truncate(MOST_PATHS);
                    }
                    moved.paths = paths;
                }
            }
            commits.moved.push(moved);
        }
        Ok(commits)
    }

    /// Returns where branches are checked out, once those that look like ours are. Git creates the branch of
    /// a new worktree before the worktree, and another run may be between the two.
    fn wait_for_new_worktrees(&self, git: &Git, new: &[&str]) -> BTreeMap<String, PathBuf> {
        let mut places = self.elsewhere.clone();
        for _ in 0..MOST_WAITS {
            if !new.iter().any(|branch| branch.starts_with(OUR_BRANCHES) && !places.contains_key(*branch)) {
                break;
            }
            thread::sleep(WAIT);
            places = find_branches_elsewhere(git);
        }
        places
    }

    fn moved_ref(
        &self,
        name: &str,
        from: Option<String>,
        to: Option<String>,
        now: &Self,
        (places, made): (&BTreeMap<String, PathBuf>, &ClaimedWorktrees<'_>),
    ) -> MovedRef {
        let branch = name.strip_prefix(HEADS);
        let is_there = |branch: &str| {
            self.elsewhere.contains_key(branch) || places.get(branch).is_some_and(|top| made.is_claimed(top))
        };
        let is_own =
            branch.is_some() && [&self.branch, &now.branch].iter().any(|own| own.as_deref() == branch);
        let elsewhere = !is_own && branch.is_some_and(is_there);
        MovedRef { name: name.to_owned(), from, to, new: 0, paths: Vec::new(), elsewhere }
    }
}

/// Returns every path that one of the commits touches. A merge touches the paths that differ from all of its
/// parents.
fn list_paths(git: &Git, commits: &str) -> Result<Vec<String>, GitError> {
    let args =
        ["diff-tree", "--stdin", "--root", "-r", "-c", "-z", "--no-renames", "--name-only", "--no-commit-id"];
    let listed = git.run_checked(&args, commits)?;
    let paths: BTreeSet<WorktreePath> =
        listed.split(|byte| *byte == 0).filter(|path| !path.is_empty()).map(WorktreePath::new).collect();
    Ok(paths.iter().map(|path| display_bytes(path.bytes())).collect())
}

/// Returns the branch that the worktree of a repository's folder has checked out.
fn read_branch(folder: &Path) -> Option<String> {
    let head = ReadFrom::Anywhere.read_bytes(&folder.join("HEAD"), MOST_HEAD).ok()??;
    lossy_text(&head).trim_end().strip_prefix("ref: ")?.trim().strip_prefix(HEADS).map(str::to_owned)
}

/// Returns the branches that other worktrees have checked out, each with the real path of the worktree's top.
fn find_branches_elsewhere(git: &Git) -> BTreeMap<String, PathBuf> {
    let linked = std::fs::read_dir(git.common_dir().join("worktrees")).into_iter().flatten().flatten();
    let linked = linked.map(|entry| entry.path()).chain([git.common_dir().to_owned()]);
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let own = real(git.git_dir());
    let top_of = |folder: &Path| {
        let named = ReadFrom::Anywhere.read_bytes(&folder.join("gitdir"), MOST_HEAD).ok().flatten();
        let link = named.map_or_else(
            || folder.to_owned(),
            |named| folder.join(lossy_text(&named).trim_end_matches('\n')),
        );
        link.parent().map(real).unwrap_or_default()
    };
    let others = linked.filter(|folder| real(folder) != own);
    others.filter_map(|folder| Some((read_branch(&folder)?, top_of(&folder)))).collect()
}

/// Returns the differences between the trees of two commits: git's letter, and the path.
pub(super) fn diff_trees(
    git: &Git,
    from: Option<&str>,
    to: Option<&str>,
) -> Result<Vec<(u8, WorktreePath)>, GitError> {
    if from == to {
        return Ok(Vec::new());
    }
    let args = ["diff-tree", "-r", "-z", "--no-renames", "--name-status", "--end-of-options"];
    let (from, to) = (git.tree_of(from)?, git.tree_of(to)?);
    let listed = git.run_checked(&[&args[..], &[&from, &to]].concat(), "")?;
    let mut fields = listed.split(|byte| *byte == 0).filter(|field| !field.is_empty());
    let mut all = Vec::new();
    while let (Some(letter), Some(path)) = (fields.next(), fields.next()) {
        all.push((letter[0], WorktreePath::new(path)));
    }
    Ok(all)
}
