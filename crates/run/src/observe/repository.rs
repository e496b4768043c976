//! What a repository holds besides objects: settings, hooks, attributes, flags of the index. Git obeys them, and people do not
//! see them.

use std::collections::BTreeMap;
use std::fs::{self, FileType};
use std::path::{Path, PathBuf};

use callsheet_core::fact::{Change, Changed};
use serde::{Deserialize, Serialize};

use super::place::{Place, shown};
use super::print::Prints;
use crate::git::{Git, GitError, odd_kind, user_configs, user_folder};

/// The files that git obeys, each with its print; by path, as a person would write it.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Repository {
    files: BTreeMap<String, String>,
    /// What is there in the place of a regular file, and what it is.
    pub(super) odd: BTreeMap<String, String>,
    /// What could not be looked at.
    pub(super) unseen: Vec<(String, String)>,
}

/// Where a worktree says which repository it belongs to.
const POINTER: &str = ".git";

/// More files than this are not looked at.
const MOST_FILES: usize = 200_000;

/// Folders that are in each other more than this are not looked into.
const MOST_DEPTH: usize = 64;

impl Repository {
    pub(super) fn of(git: &Git, prints: &Prints) -> Self {
        let mut all = Self::default();
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
        for path in user_configs() {
            all.note_of_user(&path, prints);
        }
        for name in ["ignore", "attributes"] {
            user_folder().into_iter().for_each(|folder| all.note_of_user(&folder.join(name), prints));
        }
        all
    }

    fn folder(&mut self, folder: &Path, shown: &str, prints: &Prints, depth: usize) {
        if depth > MOST_DEPTH {
            self.unseen.push((shown.to_owned(), "repositories are too deep in each other".to_owned()));
            return;
        }
        for file in ["config", "config.worktree", "commondir", "gitdir", "shallow", "objects/info/alternates"]
        {
            self.note(&format!("{shown}/{file}"), &folder.join(file), prints);
        }
        for file in ["HEAD", "index", "packed-refs"] {
            self.note_odd(&format!("{shown}/{file}"), &folder.join(file));
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
    fn modules(&mut self, folder: &Path, shown: &str, prints: &Prints, depth: usize) {
        for (name, kind) in self.entries(folder, shown, |_| true) {
            let (path, shown) = (folder.join(&name), format!("{shown}/{}", name.to_string_lossy()));
            if kind.is_dir() && depth <= MOST_DEPTH {
                if path.join("HEAD").symlink_metadata().is_ok() {
                    self.folder(&path, &shown, prints, depth + 1);
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
                    self.note_odd(&shown, &path);
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

    fn note(&mut self, shown: &str, path: &Path, prints: &Prints) {
        self.files.extend(prints.at(path).map(|print| (shown.to_owned(), print)));
        self.note_odd(shown, path);
    }

    fn note_of_user(&mut self, path: &Path, prints: &Prints) {
        let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
        let below = path.strip_prefix(&home).map(|below| format!("~/{}", below.display()));
        self.note(&below.unwrap_or_else(|_| path.display().to_string()), path, prints);
    }

    /// Git would wait for it, or read without an end.
    fn note_odd(&mut self, shown: &str, path: &Path) {
        if let Some(kind) = odd_kind(path) {
            self.files.insert(shown.to_owned(), kind.to_owned());
            // Of a folder git says by itself that it is none of its files.
            self.odd.extend((kind != "a folder").then(|| (shown.to_owned(), kind.to_owned())));
        }
    }

    pub(super) fn changes(&self, now: &Self) -> Vec<Changed> {
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
        different
            .into_iter()
            .filter(|path| !is_part(path) && !is_hidden(path))
            .map(|path| changed(path))
            .collect()
    }
}

fn changed(path: &str) -> Changed {
    Changed { path: path.to_owned(), change: Change::Repository, from: None }
}

/// What an index says, as far as it concerns us. Whether a file is as the index has it is never believed.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Index {
    /// In byte order. It is not kept: a survey has most of it.
    #[serde(skip)]
    pub(super) tracked: Vec<Place>,
    /// Submodules, in byte order.
    pub(super) submodules: Vec<Place>,
    /// Files that git is told not to look at, and how.
    flags: BTreeMap<Place, Flag>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Flag {
    AssumeUnchanged,
    SkipWorktree,
}

impl Flag {
    fn name(self) -> &'static str {
        match self {
            Self::AssumeUnchanged => "assume-unchanged",
            Self::SkipWorktree => "skip-worktree",
        }
    }
}

/// More flags than this are told as one.
const MOST_FLAGS: usize = 100;

impl Index {
    /// Reads a copy of an index. `copy` is changed: it has no flags afterwards.
    pub(super) fn of(git: &Git, copy: &Path) -> Result<Self, GitError> {
        let git = git.with_index(copy);
        let listed = git.done(&["ls-files", "-z", "-v", "--stage"], "")?;
        let mut index = Self::default();
        for line in listed.split(|byte| *byte == 0).filter(|line| !line.is_empty()) {
            let Some(tab) = line.iter().position(|byte| *byte == b'\t') else { continue };
            let (head, path) = (&line[..tab], &line[tab + 1..]);
            let place = Place::new(path);
            let flag = match head.first() {
                Some(b'S' | b's') => Some(Flag::SkipWorktree),
                Some(tag) if tag.is_ascii_lowercase() => Some(Flag::AssumeUnchanged),
                _ => None,
            };
            index.flags.extend(flag.map(|flag| (place.clone(), flag)));
            if head[1..].starts_with(b" 160000 ") {
                index.submodules.push(place.clone());
            }
            index.tracked.push(place);
        }
        index.tracked.sort_unstable();
        index.tracked.dedup();
        index.submodules.sort_unstable();
        for flag in [Flag::AssumeUnchanged, Flag::SkipWorktree] {
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

    /// Files that git leaves out of a sparse worktree.
    pub(super) fn left_out(&self, path: &[u8]) -> bool {
        self.flags.get(path) == Some(&Flag::SkipWorktree)
    }

    /// Flags that were set since.
    pub(super) fn changes(&self, now: &Self) -> Vec<Changed> {
        let mut all = Vec::new();
        for flag in [Flag::AssumeUnchanged, Flag::SkipWorktree] {
            let new =
                now.flags.iter().filter(|(path, set)| **set == flag && self.flags.get(*path) != Some(&flag));
            let mut new: Vec<String> =
                new.map(|(path, _)| format!(".git/index:{}:{}", flag.name(), shown(path.bytes()))).collect();
            if new.len() > MOST_FLAGS {
                new = vec![format!(".git/index:{}", flag.name())];
            }
            all.extend(new.iter().map(|path| changed(path)));
        }
        all
    }
}
