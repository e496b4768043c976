//! The contents of a repository besides objects: settings, hooks, attributes, flags of the index. Git obeys
//! them, and people do not see them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, FileType};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use callsheet_core::request::fact::{ChangeKind, ChangedFile};
use serde::{Deserialize, Serialize};

use super::fingerprint::FingerprintCache;
use super::worktree_path::{WorktreePath, display_bytes};
use crate::git::{Git, GitError, irregular_kind, read_rules, user_config_dir, user_config_files};

/// The files that git obeys, each with its fingerprint; by path, as a person would write it.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct RepositoryFiles {
    files: BTreeMap<String, String>,
    /// Entries in the place of a regular file, and their kinds.
    pub(super) odd: BTreeMap<String, String>,
    /// Paths that could not be examined, and why.
    pub(super) unseen: Vec<(String, String)>,
    /// The folders of repositories in it, as a person would write them, with their real paths.
    #[serde(skip)]
    pub(super) modules: Vec<(String, PathBuf)>,
    /// The worktrees that were complete when the repository was examined.
    #[serde(default)]
    worktrees: BTreeSet<String>,
    /// The top of the worktree, as a real path.
    #[serde(skip)]
    top: PathBuf,
}

/// The file by which a worktree names its repository.
const POINTER: &str = ".git";

/// The most files that are examined.
const MOST_FILES: usize = 200_000;

/// The most nested folders that are entered.
const MOST_DEPTH: usize = 64;

/// The most files that are examined of a folder that a setting names.
const MOST_NAMED: usize = 1_000;

impl RepositoryFiles {
    pub(super) fn from_git(git: &Git, prints: &FingerprintCache) -> Self {
        let top = git.top().canonicalize().unwrap_or_else(|_| git.top().to_owned());
        let mut all = Self { top, ..Self::default() };
        let pointer = git.top().join(POINTER);
        if pointer.symlink_metadata().is_ok_and(|meta| meta.is_dir()) {
            all.files.insert(POINTER.to_owned(), "a folder".to_owned());
        } else {
            all.add_file(POINTER, &pointer, prints);
        }
        all.add_repository(git.common_dir(), ".git", prints, 0);
        if git.is_linked() {
            let name = git.git_dir().file_name().unwrap_or_default().to_string_lossy();
            all.add_repository(git.git_dir(), &format!(".git/worktrees/{name}"), prints, 0);
        }
        let worktrees = git.common_dir().join("worktrees");
        for (name, _) in all.list_entries(&worktrees, ".git/worktrees", FileType::is_dir) {
            let shown = name.to_string_lossy().into_owned();
            // Git writes this file last: before its line is complete, the worktree is being created or
            // removed. Checked before the files are noted, because it can be written in between.
            let is_made =
                read_rules(&worktrees.join(&name).join("commondir")).is_some_and(|line| line.ends_with('\n'));
            for file in ["config.worktree", "gitdir", "commondir"] {
                let path = worktrees.join(&name).join(file);
                all.add_file(&format!(".git/worktrees/{shown}/{file}"), &path, prints);
            }
            if is_made {
                all.worktrees.insert(shown);
            }
        }
        all.add_named_files(git, prints);
        for path in user_config_files() {
            all.add_user_file(&path, prints);
        }
        for name in ["ignore", "attributes"] {
            user_config_dir().into_iter().for_each(|folder| all.add_user_file(&folder.join(name), prints));
        }
        all
    }

    /// Adds the files that the settings named when they were read, before the run.
    fn add_named_files(&mut self, git: &Git, prints: &FingerprintCache) {
        for path in &git.named_files().files {
            let shown = self.display_path(git, path);
            self.add_file(&shown, path, prints);
        }
        for folder in &git.named_files().folders {
            let shown = self.display_path(git, folder);
            // Git does not search for hooks deeper in it.
            let all = self.list_entries(folder, &shown, |kind| !kind.is_dir());
            if all.len() > MOST_NAMED {
                self.unseen.push((shown.clone(), format!("there are more than {MOST_NAMED} files")));
            }
            for (name, _) in all.into_iter().take(MOST_NAMED) {
                self.add_file(&format!("{shown}/{}", name.to_string_lossy()), &folder.join(&name), prints);
            }
        }
    }

    /// Returns a path as a person would write it.
    fn display_path(&self, git: &Git, path: &Path) -> String {
        let below = |folder: &Path, name: &str| {
            path.strip_prefix(folder)
                .ok()
                .map(|below| format!("{name}{}", self::display_bytes(below.as_os_str().as_bytes())))
        };
        below(git.common_dir(), ".git/")
            .or_else(|| below(git.top(), ""))
            .or_else(|| below(&self.top, ""))
            .unwrap_or_else(|| display_user_path(path))
    }

    pub(super) fn add_repository(
        &mut self,
        folder: &Path,
        shown: &str,
        prints: &FingerprintCache,
        depth: usize,
    ) {
        if depth > MOST_DEPTH {
            self.unseen.push((shown.to_owned(), "repositories are nested too deep".to_owned()));
            return;
        }
        for file in ["config", "config.worktree", "commondir", "gitdir", "shallow", "objects/info/alternates"]
        {
            self.add_file(&format!("{shown}/{file}"), &folder.join(file), prints);
        }
        for file in ["HEAD", "index", "packed-refs"] {
            self.add_irregular_file(&format!("{shown}/{file}"), &folder.join(file));
        }
        // `git gc` writes this list of references for copies of the repository; git itself never reads it.
        let list = format!("{shown}/info/refs");
        for part in ["hooks", "info"] {
            let mut note = |all: &mut Self, shown: &str, path: &Path| {
                if *shown != list {
                    all.add_file(shown, path, prints);
                }
            };
            self.visit_files(&folder.join(part), &format!("{shown}/{part}"), depth, |_| true, &mut note);
        }
        // A repository can have very many loose objects: their names are not collected.
        for part in ["refs", "objects"] {
            let shown = format!("{shown}/{part}");
            self.visit_files(&folder.join(part), &shown, depth, |kind| !kind.is_file(), &mut |_, _, _| {});
        }
        self.add_submodules(&folder.join("modules"), &format!("{shown}/modules"), prints, depth + 1);
    }

    /// Adds the repositories of submodules, which are below this one, in folders of any depth.
    fn add_submodules(&mut self, folder: &Path, shown: &str, prints: &FingerprintCache, depth: usize) {
        for (name, kind) in self.list_entries(folder, shown, |_| true) {
            let (path, shown) = (folder.join(&name), format!("{shown}/{}", name.to_string_lossy()));
            if kind.is_dir() && depth <= MOST_DEPTH {
                if path.join("HEAD").symlink_metadata().is_ok() {
                    self.add_repository(&path, &shown, prints, depth + 1);
                    self.modules.push((shown, path));
                } else {
                    self.add_submodules(&path, &shown, prints, depth + 1);
                }
            }
        }
    }

    /// Passes every file below a folder whose kind is wanted to `meet`.
    fn visit_files(
        &mut self,
        folder: &Path,
        shown: &str,
        depth: usize,
        is_wanted: fn(&FileType) -> bool,
        meet: &mut dyn FnMut(&mut Self, &str, &Path),
    ) {
        if depth > MOST_DEPTH {
            self.unseen.push((shown.to_owned(), "folders are nested too deep".to_owned()));
            return;
        }
        for (name, kind) in self.list_entries(folder, shown, is_wanted) {
            let (path, shown) = (folder.join(&name), format!("{shown}/{}", name.to_string_lossy()));
            if kind.is_dir() {
                self.visit_files(&path, &shown, depth + 1, is_wanted, meet);
            } else {
                if !kind.is_file() {
                    self.add_irregular_file(&shown, &path);
                }
                meet(self, &shown, &path);
            }
        }
    }

    /// Returns the entries of a folder whose kind is wanted.
    fn list_entries(
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
            // A path that is not a folder is irregular, and reported as such.
            Err(_) => {}
        }
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all
    }

    fn add_file(&mut self, shown: &str, path: &Path, prints: &FingerprintCache) {
        if let Some(mut print) = prints.fingerprint_path(path) {
            // Git obeys the target of a link. A target among the files of the worktree is reported as one of
            // them.
            let behind = path.canonicalize().ok().filter(|_| path.is_symlink());
            let is_outside = |behind: &PathBuf| {
                !behind.starts_with(&self.top) || behind.starts_with(self.top.join(POINTER))
            };
            if let Some(behind) =
                behind.filter(is_outside).and_then(|behind| prints.fingerprint_path(&behind))
            {
                print = format!("{print} {behind}");
            }
            self.files.insert(shown.to_owned(), print);
        }
        self.add_irregular_file(shown, path);
    }

    fn add_user_file(&mut self, path: &Path, prints: &FingerprintCache) {
        self.add_file(&display_user_path(path), path, prints);
    }

    /// Adds a file that git would wait for, or read without an end.
    fn add_irregular_file(&mut self, shown: &str, path: &Path) {
        if let Some(kind) = irregular_kind(path) {
            self.files.insert(shown.to_owned(), kind.to_owned());
            // Git reports by itself that a folder is not one of its files.
            self.odd.extend((kind != "a folder").then(|| (shown.to_owned(), kind.to_owned())));
        }
    }

    pub(super) fn changes(&self, now: &Self) -> Vec<ChangedFile> {
        let paths = self.files.keys().chain(now.files.keys());
        let different: Vec<&String> =
            paths.filter(|path| self.files.get(*path) != now.files.get(*path)).collect();
        // If the whole repository is gone or another one, its parts do not matter.
        let is_other = different.iter().any(|path| *path == POINTER);
        let is_part = |path: &str| is_other && path.starts_with(".git/");
        // A hidden file is not gone.
        let is_hidden = |path: &String| {
            let below = |folder: &str| path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'));
            !now.files.contains_key(path) && now.unseen.iter().any(|(folder, _)| below(folder))
        };
        // Another run can create a worktree meanwhile, and a person can remove one.
        let is_there = |name: &str| now.files.contains_key(&format!(".git/worktrees/{name}/commondir"));
        let is_other_worktree = |path: &str| {
            let name = path.strip_prefix(".git/worktrees/").and_then(|rest| rest.split('/').next());
            name.is_some_and(|name| !self.worktrees.contains(name) || !is_there(name))
        };
        different
            .into_iter()
            .filter(|path| !is_part(path) && !is_hidden(path) && !is_other_worktree(path))
            .map(|path| repository_change(path))
            .collect()
    }
}

/// Renders a path outside the worktree: below the user's home, or as a whole.
fn display_user_path(path: &Path) -> String {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let below = path.strip_prefix(&home).ok().filter(|_| !home.as_os_str().is_empty());
    let below = below.map(|below| format!("~/{}", display_bytes(below.as_os_str().as_bytes())));
    below.unwrap_or_else(|| display_bytes(path.as_os_str().as_bytes()))
}

fn repository_change(path: &str) -> ChangedFile {
    ChangedFile { path: path.to_owned(), change: ChangeKind::Repository, from: None }
}

/// The relevant contents of an index. Its claim that a file is unchanged is never trusted.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct IndexSnapshot {
    /// The tracked paths, in byte order. Not kept: a survey has most of them.
    #[serde(skip)]
    pub(super) tracked: Vec<WorktreePath>,
    /// The mode and the id of each, in the same order. A conflict has none. `None` if they were not kept.
    #[serde(skip)]
    contents: Option<Vec<Box<str>>>,
    /// Submodules, in byte order.
    pub(super) submodules: Vec<WorktreePath>,
    /// Files that git must not examine, and the flag of each.
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

/// The most paths of an index that are shown one by one.
const MOST_SHOWN: usize = 100;

impl IndexSnapshot {
    /// Reads a copy of an index. Changes `copy`: it has no flags afterwards.
    pub(super) fn from_index_copy(git: &Git, copy: &Path) -> Result<Self, GitError> {
        let git = git.with_index(copy);
        let listed = git.run_checked(&["ls-files", "-z", "-v", "--stage"], "")?;
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
            // A file can have both flags.
            let paths: Vec<u8> =
                index.flags.keys().flat_map(|place| [place.bytes(), b"\0"].concat()).collect();
            if !paths.is_empty() {
                let option = format!("--no-{}", flag.name());
                git.run_checked(&["update-index", &option, "-z", "--stdin"], &paths)?;
            }
        }
        Ok(index)
    }

    /// Checks whether the index has this content at a path, or none. If the contents were not kept, no path
    /// counts as changed.
    pub(super) fn has_content(&self, path: &WorktreePath, content: Option<&str>) -> bool {
        let Some(contents) = &self.contents else { return true };
        let found = self.tracked.binary_search(path).ok().map(|at| &*contents[at]);
        found == content
    }

    /// Checks whether git leaves a file out of a sparse worktree.
    pub(super) fn is_left_out(&self, path: &[u8]) -> bool {
        self.flags.get(path) == Some(&IndexFlag::SkipWorktree)
    }

    /// Returns the flags that were set since.
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

/// Returns paths of the index as changed files, with the operation `done` to them.
pub(super) fn index_changes<'p>(
    done: &str,
    paths: impl Iterator<Item = &'p WorktreePath>,
) -> Vec<ChangedFile> {
    let paths: Vec<String> = paths.map(|path| format!(".git/index:{done}:{}", path.to_text())).collect();
    if paths.len() > MOST_SHOWN {
        return vec![repository_change(&format!(".git/index:{done}"))];
    }
    paths.iter().map(|path| repository_change(path)).collect()
}
