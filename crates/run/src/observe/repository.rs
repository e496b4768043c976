//! What a repository holds besides objects: settings, hooks, attributes, flags of the index. Git obeys them, and people do not
//! see them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, FileType};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use callsheet_core::fact::{ChangeKind, ChangedFile};
use serde::{Deserialize, Serialize};

use super::place::{WorktreePath, shown};
use super::print::FingerprintCache;
use crate::git::{Git, GitError, irregular_kind, rules_text, user_configs, user_folder};

/// The files that git obeys, each with its print; by path, as a person would write it.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct RepositoryFiles {
    files: BTreeMap<String, String>,
    /// What is there in the place of a regular file, and what it is.
    pub(super) odd: BTreeMap<String, String>,
    /// What could not be looked at.
    pub(super) unseen: Vec<(String, String)>,
    /// The folders of repositories in it, as a person would write them, and where they are.
    #[serde(skip)]
    pub(super) modules: Vec<(String, PathBuf)>,
    /// The worktrees that were whole when it was looked at.
    #[serde(default)]
    worktrees: BTreeSet<String>,
    /// The top of the worktree, as a real path.
    #[serde(skip)]
    top: PathBuf,
}

/// Where a worktree says which repository it belongs to.
const POINTER: &str = ".git";

/// More files than this are not looked at.
const MOST_FILES: usize = 200_000;

/// Folders that are in each other more than this are not looked into.
const MOST_DEPTH: usize = 64;

/// Of a folder that a setting names, no more files than this are looked at.
const MOST_NAMED: usize = 1_000;

impl RepositoryFiles {
    pub(super) fn of(git: &Git, prints: &FingerprintCache) -> Self {
        let top = git.top().canonicalize().unwrap_or_else(|_| git.top().to_owned());
        let mut all = Self { top, ..Self::default() };
        let pointer = git.top().join(POINTER);
        if pointer.symlink_metadata().is_ok_and(|meta| meta.is_dir()) {
            all.files.insert(POINTER.to_owned(), "a folder".to_owned());
        } else {
            all.note(POINTER, &pointer, prints);
        }
        all.folder(git.common(), ".git", prints, 0);
        if git.is_linked() {
            let name = git.own().file_name().unwrap_or_default().to_string_lossy();
            all.folder(git.own(), &format!(".git/worktrees/{name}"), prints, 0);
        }
        let worktrees = git.common().join("worktrees");
        for (name, _) in all.entries(&worktrees, ".git/worktrees", FileType::is_dir) {
            let shown = name.to_string_lossy().into_owned();
            // Git writes this file last: before its line is whole, the worktree is being made or removed.
            // Asked before the files are noted, since it can be written in between.
            let is_made =
                rules_text(&worktrees.join(&name).join("commondir")).is_some_and(|line| line.ends_with('\n'));
            for file in ["config.worktree", "gitdir", "commondir"] {
                let path = worktrees.join(&name).join(file);
                all.note(&format!(".git/worktrees/{shown}/{file}"), &path, prints);
            }
            if is_made {
                all.worktrees.insert(shown);
            }
        }
        all.named(git, prints);
        for path in user_configs() {
            all.note_of_user(&path, prints);
        }
        for name in ["ignore", "attributes"] {
            user_folder().into_iter().for_each(|folder| all.note_of_user(&folder.join(name), prints));
        }
        all
    }

    /// What the settings name, as they were read before the run.
    fn named(&mut self, git: &Git, prints: &FingerprintCache) {
        for path in &git.named().files {
            let shown = self.shown(git, path);
            self.note(&shown, path, prints);
        }
        for folder in &git.named().folders {
            let shown = self.shown(git, folder);
            // Git looks for no hook deeper in it.
            let all = self.entries(folder, &shown, |kind| !kind.is_dir());
            if all.len() > MOST_NAMED {
                self.unseen.push((shown.clone(), format!("there are more than {MOST_NAMED} files")));
            }
            for (name, _) in all.into_iter().take(MOST_NAMED) {
                self.note(&format!("{shown}/{}", name.to_string_lossy()), &folder.join(&name), prints);
            }
        }
    }

    /// A path as a person would write it.
    fn shown(&self, git: &Git, path: &Path) -> String {
        let below = |folder: &Path, name: &str| {
            path.strip_prefix(folder)
                .ok()
                .map(|below| format!("{name}{}", self::shown(below.as_os_str().as_bytes())))
        };
        below(git.common(), ".git/")
            .or_else(|| below(git.top(), ""))
            .or_else(|| below(&self.top, ""))
            .unwrap_or_else(|| display_user_path(path))
    }

    pub(super) fn folder(&mut self, folder: &Path, shown: &str, prints: &FingerprintCache, depth: usize) {
        if depth > MOST_DEPTH {
            self.unseen.push((shown.to_owned(), "repositories are too deep in each other".to_owned()));
            return;
        }
        for file in ["config", "config.worktree", "commondir", "gitdir", "shallow", "objects/info/alternates"]
        {
            self.note(&format!("{shown}/{file}"), &folder.join(file), prints);
        }
        for file in ["HEAD", "index", "packed-refs"] {
            self.add_irregular_file(&format!("{shown}/{file}"), &folder.join(file));
        }
        // `git gc` writes this list of references for copies of the repository; git itself never reads it.
        let list = format!("{shown}/info/refs");
        for part in ["hooks", "info"] {
            let mut note = |all: &mut Self, shown: &str, path: &Path| {
                if *shown != list {
                    all.note(shown, path, prints);
                }
            };
            self.tree(&folder.join(part), &format!("{shown}/{part}"), depth, |_| true, &mut note);
        }
        // A repository can have very many loose objects: their names are not collected.
        for part in ["refs", "objects"] {
            let shown = format!("{shown}/{part}");
            self.tree(&folder.join(part), &shown, depth, |kind| !kind.is_file(), &mut |_, _, _| {});
        }
        self.modules(&folder.join("modules"), &format!("{shown}/modules"), prints, depth + 1);
    }

    /// Submodules have repositories of their own, below this one, in folders of any depth.
    fn modules(&mut self, folder: &Path, shown: &str, prints: &FingerprintCache, depth: usize) {
        for (name, kind) in self.entries(folder, shown, |_| true) {
            let (path, shown) = (folder.join(&name), format!("{shown}/{}", name.to_string_lossy()));
            if kind.is_dir() && depth <= MOST_DEPTH {
                if path.join("HEAD").symlink_metadata().is_ok() {
                    self.folder(&path, &shown, prints, depth + 1);
                    self.modules.push((shown, path));
                } else {
                    self.modules(&path, &shown, prints, depth + 1);
                }
            }
        }
    }

    /// Meets every file below a folder that is wanted by its kind.
    fn tree(
        &mut self,
        folder: &Path,
        shown: &str,
        depth: usize,
        is_wanted: fn(&FileType) -> bool,
        meet: &mut dyn FnMut(&mut Self, &str, &Path),
    ) {
        if depth > MOST_DEPTH {
            self.unseen.push((shown.to_owned(), "folders are too deep in each other".to_owned()));
            return;
        }
        for (name, kind) in self.entries(folder, shown, is_wanted) {
            let (path, shown) = (folder.join(&name), format!("{shown}/{}", name.to_string_lossy()));
            if kind.is_dir() {
                self.tree(&path, &shown, depth + 1, is_wanted, meet);
            } else {
                if !kind.is_file() {
                    self.add_irregular_file(&shown, &path);
                }
                meet(self, &shown, &path);
            }
        }
    }

    /// The entries of a folder that are wanted by their kind.
    fn entries(
        &mut self,
        folder: &Path,
        shown: &str,
        is_wanted: fn(&FileType) -> bool,
    ) -> Vec<(std::ffi::OsString, FileType)> {
        let mut all = Vec::new();
        match fs::read_dir(folder) {
            Ok(entries) => {
                for entry in entries.flatten() {
                    if self.files.len() + all.len() > MOST_FILES {
                        self.unseen
                            .push((shown.to_owned(), format!("there are more than {MOST_FILES} files")));
                        break;
                    }
                    let kind = entry.file_type().ok().filter(is_wanted);
                    all.extend(kind.map(|kind| (entry.file_name(), kind)));
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
                self.unseen.push((shown.to_owned(), error.to_string()));
            }
            // One that is no folder is odd, and told as such.
            Err(_) => {}
        }
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all
    }

    fn note(&mut self, shown: &str, path: &Path, prints: &FingerprintCache) {
        if let Some(mut print) = prints.at(path) {
            // A link is obeyed for what is behind it. What is among the files of the worktree is told as one of them.
            let behind = path.canonicalize().ok().filter(|_| path.is_symlink());
            let is_outside = |behind: &PathBuf| {
                !behind.starts_with(&self.top) || behind.starts_with(self.top.join(POINTER))
            };
            if let Some(behind) = behind.filter(is_outside).and_then(|behind| prints.at(&behind)) {
                print = format!("{print} {behind}");
            }
            self.files.insert(shown.to_owned(), print);
        }
        self.add_irregular_file(shown, path);
    }

    fn note_of_user(&mut self, path: &Path, prints: &FingerprintCache) {
        self.note(&display_user_path(path), path, prints);
    }

    /// Git would wait for it, or read without an end.
    fn add_irregular_file(&mut self, shown: &str, path: &Path) {
        if let Some(kind) = irregular_kind(path) {
            self.files.insert(shown.to_owned(), kind.to_owned());
            // Of a folder git says by itself that it is none of its files.
            self.odd.extend((kind != "a folder").then(|| (shown.to_owned(), kind.to_owned())));
        }
    }

    pub(super) fn changes(&self, now: &Self) -> Vec<ChangedFile> {
        let paths = self.files.keys().chain(now.files.keys());
        let different: Vec<&String> =
            paths.filter(|path| self.files.get(*path) != now.files.get(*path)).collect();
        // If all of it is gone or another one, nobody asks for its parts.
        let is_other = different.iter().any(|path| *path == POINTER);
        let is_part = |path: &str| is_other && path.starts_with(".git/");
        // What cannot be seen is not gone.
        let is_hidden = |path: &String| {
            let below = |folder: &str| path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'));
            !now.files.contains_key(path) && now.unseen.iter().any(|(folder, _)| below(folder))
        };
        // Another run can make a worktree meanwhile, and a person can remove one.
        let is_there = |name: &str| now.files.contains_key(&format!(".git/worktrees/{name}/commondir"));
        let is_other_worktree = |path: &str| {
            let name = path.strip_prefix(".git/worktrees/").and_then(|rest| rest.split('/').next());
            name.is_some_and(|name| !self.worktrees.contains(name) || !is_there(name))
        };
        different
            .into_iter()
            .filter(|path| !is_part(path) && !is_hidden(path) && !is_other_worktree(path))
            .map(|path| changed(path))
            .collect()
    }
}

/// A path outside of the worktree: below the user's home, or a whole one.
fn display_user_path(path: &Path) -> String {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let below = path.strip_prefix(&home).ok().filter(|_| !home.as_os_str().is_empty());
    let below = below.map(|below| format!("~/{}", shown(below.as_os_str().as_bytes())));
    below.unwrap_or_else(|| shown(path.as_os_str().as_bytes()))
}

fn changed(path: &str) -> ChangedFile {
    ChangedFile { path: path.to_owned(), change: ChangeKind::Repository, from: None }
}

/// What an index says, as far as it concerns us. Whether a file is as the index has it is never believed.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct IndexSnapshot {
    /// In byte order. It is not kept: a survey has most of it.
    #[serde(skip)]
    pub(super) tracked: Vec<WorktreePath>,
    /// The mode and the id of each, in the same order. A conflict has none. `None` if it was not kept.
    #[serde(skip)]
    contents: Option<Vec<Box<str>>>,
    /// Submodules, in byte order.
    pub(super) submodules: Vec<WorktreePath>,
    /// Files that git is told not to look at, and how.
    flags: BTreeMap<WorktreePath, IndexFlag>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum IndexFlag {
    AssumeUnchanged,
    SkipWorktree,
}

impl IndexFlag {
    fn name(self) -> &'static str {
        match self {
            Self::AssumeUnchanged => "assume-unchanged",
            Self::SkipWorktree => "skip-worktree",
        }
    }
}

/// More paths of an index than this are shown as one.
const MOST_SHOWN: usize = 100;

impl IndexSnapshot {
    /// Reads a copy of an index. `copy` is changed: it has no flags afterwards.
    pub(super) fn of(git: &Git, copy: &Path) -> Result<Self, GitError> {
        let git = git.with_index(copy);
        let listed = git.done(&["ls-files", "-z", "-v", "--stage"], "")?;
        let mut index = Self::default();
        let mut entries = Vec::new();
        for line in listed.split(|byte| *byte == 0).filter(|line| !line.is_empty()) {
            let Some(tab) = line.iter().position(|byte| *byte == b'\t') else { continue };
            let (head, path) = (&line[..tab], &line[tab + 1..]);
            let place = WorktreePath::new(path);
            let flag = match head.first() {
                Some(b'S' | b's') => Some(IndexFlag::SkipWorktree),
                Some(tag) if tag.is_ascii_lowercase() => Some(IndexFlag::AssumeUnchanged),
                _ => None,
            };
            index.flags.extend(flag.map(|flag| (place.clone(), flag)));
            if head[1..].starts_with(b" 160000 ") {
                index.submodules.push(place.clone());
            }
            // A letter, the mode, the id and the stage.
            let content = head.strip_suffix(b" 0").and_then(|head| std::str::from_utf8(head.get(2..)?).ok());
            entries.push((place, content.unwrap_or_default().into()));
        }
        entries.sort_unstable();
        entries.dedup_by(|one, other| one.0 == other.0);
        let (tracked, contents) = entries.into_iter().unzip();
        (index.tracked, index.contents) = (tracked, Some(contents));
        index.submodules.sort_unstable();
        for flag in [IndexFlag::AssumeUnchanged, IndexFlag::SkipWorktree] {
            // A file can have both.
            let paths: Vec<u8> =
                index.flags.keys().flat_map(|place| [place.bytes(), b"\0"].concat()).collect();
            if !paths.is_empty() {
                let option = format!("--no-{}", flag.name());
                git.done(&["update-index", &option, "-z", "--stdin"], &paths)?;
            }
        }
        Ok(index)
    }

    /// Whether it has this content at a path, or none. If it was not kept, nothing is known to be other than it was.
    pub(super) fn has(&self, path: &WorktreePath, content: Option<&str>) -> bool {
        let Some(contents) = &self.contents else { return true };
        let found = self.tracked.binary_search(path).ok().map(|at| &*contents[at]);
        found == content
    }

    /// Files that git leaves out of a sparse worktree.
    pub(super) fn left_out(&self, path: &[u8]) -> bool {
        self.flags.get(path) == Some(&IndexFlag::SkipWorktree)
    }

    /// Flags that were set since.
    pub(super) fn changes(&self, now: &Self) -> Vec<ChangedFile> {
        let mut all = Vec::new();
        for flag in [IndexFlag::AssumeUnchanged, IndexFlag::SkipWorktree] {
            let new =
                now.flags.iter().filter(|(path, set)| **set == flag && self.flags.get(*path) != Some(&flag));
            all.extend(index_changes(flag.name(), new.map(|(path, _)| path)));
        }
        all
    }
}

/// How paths of the index are shown that something was done to.
pub(super) fn index_changes<'p>(
    done: &str,
    paths: impl Iterator<Item = &'p WorktreePath>,
) -> Vec<ChangedFile> {
    let paths: Vec<String> = paths.map(|path| format!(".git/index:{done}:{}", path.text())).collect();
    if paths.len() > MOST_SHOWN {
        return vec![changed(&format!(".git/index:{done}"))];
    }
    paths.iter().map(|path| changed(path)).collect()
}
