//! References before and after a run, and the commits that are new there.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use callsheet_core::fact::{Change, Changed, MovedRef};
use serde::{Deserialize, Serialize};

use super::place::{Place, shown};
use crate::git::{Git, GitError, text};
use crate::read::Place as ReadFrom;

/// Where the references of a repository are.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Refs {
    /// The commit that is checked out.
    pub(super) head: Option<String>,
    /// The branch that is checked out.
    branch: Option<String>,
    all: BTreeMap<String, String>,
    /// Branches that other worktrees have checked out.
    elsewhere: BTreeSet<String>,
}

/// The commits that a run made, reference by reference, and all paths that they touch.
#[derive(Debug, Default)]
pub(super) struct Commits {
    pub(super) moved: Vec<MovedRef>,
    /// Limits that ended the look.
    pub(super) unseen: Vec<(String, String)>,
}

/// More new commits than this are not looked at.
const MOST_COMMITS: usize = 10_000;

/// More paths than this are not recorded for one reference.
const MOST_PATHS: usize = 10_000;

const REPLACE: &str = "refs/replace/";
const REMOTES: &str = "refs/remotes/";
const HEADS: &str = "refs/heads/";

/// The longest `HEAD`.
const MOST_HEAD: u64 = 8192;

impl Refs {
    pub(super) fn of(git: &Git) -> Result<Self, GitError> {
        let listed = git.done(&["for-each-ref", "--format=%(objectname) %(refname)"], "")?;
        let all = text(&listed);
        let all = all.lines().filter_map(|line| line.split_once(' '));
        Ok(Self {
            head: git.head()?,
            branch: branch_of(git.own()),
            all: all.map(|(id, name)| (name.to_owned(), id.to_owned())).collect(),
            elsewhere: elsewhere(git),
        })
    }

    /// Objects that git was told to see as others.
    pub(super) fn replacements(&self, now: &Self) -> Vec<Changed> {
        let names = self.all.keys().chain(now.all.keys()).filter(|name| name.starts_with(REPLACE));
        let names: BTreeSet<&String> =
            names.filter(|name| self.all.get(*name) != now.all.get(*name)).collect();
        let changed =
            |name: &&String| Changed { path: format!(".git/{name}"), change: Change::Repository, from: None };
        names.iter().map(changed).collect()
    }

    /// What is new in `now`.
    pub(super) fn commits(&self, now: &Self, git: &Git) -> Result<Commits, GitError> {
        let local = |name: &&String| !name.starts_with(REMOTES) && !name.starts_with(REPLACE);
        let names: BTreeSet<&String> = self.all.keys().chain(now.all.keys()).filter(local).collect();
        let mut moved: Vec<MovedRef> = Vec::new();
        for name in names.into_iter().filter(|name| self.all.get(*name) != now.all.get(*name)) {
            moved.push(self.moved(name, self.all.get(name).cloned(), now.all.get(name).cloned(), now));
        }
        if now.branch.is_none() && self.head != now.head {
            moved.push(self.moved("HEAD", self.head.clone(), now.head.clone(), now));
        }
        // What was there before, and what a remote has.
        let known = self.all.values().chain(&self.head);
        let remote = now.all.iter().filter(|(name, _)| name.starts_with(REMOTES)).map(|(_, id)| id);
        let known: String = known.chain(remote).map(|id| format!("^{id}\n")).collect();
        let mut commits = Commits::default();
        for mut moved in moved {
            if let Some(to) = &moved.to {
                let most = format!("--max-count={}", MOST_COMMITS + 1);
                let new =
                    git.done(&["rev-list", &most, "--ignore-missing", "--stdin"], format!("{to}\n{known}"))?;
                let new = text(&new);
                moved.new = new.lines().count() as u64;
                if moved.new > MOST_COMMITS as u64 {
                    let why = format!("there are more than {MOST_COMMITS} new commits");
                    commits.unseen.push((format!(".git/{}", moved.name), why));
                } else if moved.new > 0 {
                    let mut paths = paths(git, &new)?;
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

    fn moved(&self, name: &str, from: Option<String>, to: Option<String>, now: &Self) -> MovedRef {
        let branch = name.strip_prefix(HEADS);
        // A worktree that is new is another's only if callsheet made it.
        let is_there = |branch: &str| {
            self.elsewhere.contains(branch)
                || branch.starts_with("callsheet/") && now.elsewhere.contains(branch)
        };
        let is_own =
            branch.is_some() && [&self.branch, &now.branch].iter().any(|own| own.as_deref() == branch);
        let elsewhere = !is_own && branch.is_some_and(is_there);
        MovedRef { name: name.to_owned(), from, to, new: 0, paths: Vec::new(), elsewhere }
    }
}

/// Every path that one of the commits touches. A merge touches what is as in none of its parents.
fn paths(git: &Git, commits: &str) -> Result<Vec<String>, GitError> {
    let args =
        ["diff-tree", "--stdin", "--root", "-r", "-c", "-z", "--no-renames", "--name-only", "--no-commit-id"];
    let listed = git.done(&args, commits)?;
    let paths: BTreeSet<Place> =
        listed.split(|byte| *byte == 0).filter(|path| !path.is_empty()).map(Place::new).collect();
    Ok(paths.iter().map(|path| shown(path.bytes())).collect())
}

/// The branch that the worktree of a repository's folder has checked out.
fn branch_of(folder: &Path) -> Option<String> {
    let head = ReadFrom::Anywhere.bytes(&folder.join("HEAD"), MOST_HEAD).ok()??;
    text(&head).trim_end().strip_prefix("ref: ")?.trim().strip_prefix(HEADS).map(str::to_owned)
}

fn elsewhere(git: &Git) -> BTreeSet<String> {
    let linked = std::fs::read_dir(git.common().join("worktrees")).into_iter().flatten().flatten();
    let linked = linked.map(|entry| entry.path()).chain([git.common().to_owned()]);
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let own = real(git.own());
    linked.filter(|folder| real(folder) != own).filter_map(|folder| branch_of(&folder)).collect()
}

/// How the trees of two commits differ: the letter that git uses, and the path.
pub(super) fn between(git: &Git, from: Option<&str>, to: Option<&str>) -> Result<Vec<(u8, Place)>, GitError> {
    if from == to {
        return Ok(Vec::new());
    }
    let empty =
        || git.done(&["hash-object", "-t", "tree", "--stdin"], "").map(|id| text(&id).trim().to_owned());
    let id = |commit: Option<&str>| commit.map_or_else(empty, |commit| Ok(commit.to_owned()));
    let args = ["diff-tree", "-r", "-z", "--no-renames", "--name-status", "--end-of-options"];
    let (from, to) = (id(from)?, id(to)?);
    let listed = git.done(&[&args[..], &[&from, &to]].concat(), "")?;
    let mut fields = listed.split(|byte| *byte == 0).filter(|field| !field.is_empty());
    let mut all = Vec::new();
    while let (Some(letter), Some(path)) = (fields.next(), fields.next()) {
        all.push((letter[0], Place::new(path)));
    }
    Ok(all)
}
