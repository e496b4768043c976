//! The files of a worktree that are not as a commit has them, each with a print of its contents.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;

use callsheet_core::fact::Change;
use callsheet_core::record::Digest;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::print::{Print, Prints};
use crate::git::{Git, GitError, text};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Kind {
    Tracked(Change),
    Submodule,
    Untracked,
    Ignored,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct File {
    pub(super) kind: Kind,
    pub(super) from: Option<String>,
    print: Print,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct State {
    pub(super) files: BTreeMap<String, File>,
    pub(super) unseen: Vec<String>,
    own: Vec<String>,
    #[serde(skip)]
    prints: Arc<Prints>,
}

/// A folder with more files than this is not looked into any further.
const MOST_FILES: usize = 50_000;

/// So many submodules in each other are looked into.
const MOST_NESTED: usize = 8;

impl State {
    /// What differs from `head`, and what git does not follow. What begins like one of `own` is nobody's work.
    pub(super) fn of(
        git: &Git,
        head: Option<&str>,
        own: &[String],
        prints: &Arc<Prints>,
    ) -> Result<Self, GitError> {
        Self::below(git, head, own, prints, MOST_NESTED)
    }

    /// The same, with submodules up to `depth` in each other.
    fn below(
        git: &Git,
        head: Option<&str>,
        own: &[String],
        prints: &Arc<Prints>,
        depth: usize,
    ) -> Result<Self, GitError> {
        let mut state = Self { own: own.to_vec(), prints: Arc::clone(prints), ..Self::default() };
        let against = match head {
            Some(head) => head.to_owned(),
            // Before the first commit there is an empty one to compare with.
            None => text(&git.done(&["hash-object", "-t", "tree", "--stdin"], "")?),
        };
        let flags = [
            "--raw",
            "-z",
            "--abbrev=40",
            "--find-renames",
            "--no-ext-diff",
            "--no-textconv",
            // Git would start a git in them, with the settings that they have.
            "--ignore-submodules=dirty",
        ];
        let mut args = vec!["diff"];
        args.extend(flags);
        args.extend(["--end-of-options", against.trim()]);
        state.tracked(git, &git.done(&args, "")?);
        state.submodules(git, depth)?;
        let untracked = git.done(&["ls-files", "-z", "--others", "--exclude-standard"], "")?;
        state.others(git.top(), &untracked, Kind::Untracked);
        let ignored = ["ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory"];
        state.others(git.top(), &git.done(&ignored, "")?, Kind::Ignored);
        Ok(state)
    }

    /// Whether callsheet itself writes there. Such a file must not even be opened: a process that closes a database
    /// which it has open elsewhere loses its locks.
    fn is_own(&self, path: &str) -> bool {
        self.own.iter().any(|own| path.starts_with(own.as_str()))
    }

    pub(super) fn prints(&self) -> Arc<Prints> {
        Arc::clone(&self.prints)
    }

    /// The links among these files.
    pub(super) fn links(&self) -> impl Iterator<Item = &String> {
        self.files.iter().filter(|(_, file)| file.print.is_link()).map(|(path, _)| path)
    }

    /// Whether there is something that no commit has.
    pub(super) fn is_dirty(&self) -> bool {
        self.files.values().any(|file| file.kind != Kind::Ignored)
    }

    /// Reads `:MODE MODE HASH HASH LETTER\0PATH\0`, with a second path where a file was moved.
    fn tracked(&mut self, git: &Git, raw: &[u8]) {
        let mut fields = raw.split(|byte| *byte == 0).filter(|field| !field.is_empty()).map(text);
        while let Some(head) = fields.next() {
            let words: Vec<&str> = head.trim_start_matches(':').split(' ').collect();
            let [old_mode, new_mode, old, new, letter] = words.as_slice() else {
                self.unseen.push(format!("git told something that is no change: {head}"));
                return;
            };
            let Some(mut path) = fields.next() else { return };
            let mut from = None;
            if letter.starts_with(['R', 'C']) {
                let Some(to) = fields.next() else { return };
                from = letter.starts_with('R').then_some(path);
                path = to;
            }
            if self.is_own(&path) {
                continue;
            }
            let is_submodule = [old_mode, new_mode].iter().any(|mode| **mode == "160000");
            let print = self.prints.of(&git.top().join(&path)).unwrap_or_default();
            let kind = match letter.chars().next() {
                _ if is_submodule => Kind::Submodule,
                Some('A' | 'C') => Kind::Tracked(Change::Added),
                Some('D') => Kind::Tracked(Change::Deleted),
                Some('R') => Kind::Tracked(Change::Renamed),
                Some('T') => Kind::Tracked(Change::Mode),
                _ if old_mode != new_mode && same_contents(git, &path, old, new) => {
                    Kind::Tracked(Change::Mode)
                }
                _ => Kind::Tracked(Change::Modified),
            };
            let print = if is_submodule { print.with(new) } else { print };
            self.files.insert(path, File { kind, from, print });
        }
    }

    /// Looks into every submodule that is there, as into the worktree itself.
    fn submodules(&mut self, git: &Git, depth: usize) -> Result<(), GitError> {
        let staged = text(&git.done(&["ls-files", "-z", "--stage"], "")?);
        let links = staged.split('\0').filter(|line| line.starts_with("160000 "));
        for path in links.filter_map(|line| Some(line.split_once('\t')?.1)) {
            let dir = git.top().join(path);
            if dir.join(".git").symlink_metadata().is_err() {
                continue;
            }
            let real = |path: &Path| path.canonicalize().ok();
            let inside = match Git::at(&dir) {
                _ if depth == 0 => Err("submodules are too deep in each other".to_owned()),
                Ok(Some(inside)) if real(inside.top()) == real(&dir) => inside
                    .head()
                    .and_then(|head| Self::below(&inside, head.as_deref(), &[], &self.prints, depth - 1))
                    .map_err(|error| error.to_string()),
                Ok(_) => Err("it is no repository".to_owned()),
                Err(error) => Err(error.to_string()),
            };
            match inside {
                Err(why) => self.unseen.push(format!("the submodule `{path}`: {why}")),
                Ok(inside) => {
                    self.unseen.extend(inside.unseen.iter().map(|unseen| format!("`{path}`: {unseen}")));
                    let print = inside.print().filter(|_| inside.is_dirty());
                    if let Some(print) = print {
                        let known = self.files.remove(path).map(|file| file.print);
                        let print = known.unwrap_or_default().with(&print);
                        self.files.insert(path.into(), File { kind: Kind::Submodule, from: None, print });
                    }
                }
            }
        }
        Ok(())
    }

    /// All that is known, as one number.
    fn print(&self) -> Option<String> {
        let all = serde_json::to_vec(&self.files).ok()?;
        Some(Digest(Sha256::digest(all).into()).to_string())
    }

    /// Reads `PATH\0`. A path that ends in a slash is a folder that git does not look into.
    fn others(&mut self, top: &Path, raw: &[u8], kind: Kind) {
        for path in raw.split(|byte| *byte == 0).filter(|path| !path.is_empty()).map(text) {
            if self.is_own(&path) {
                continue;
            }
            if path.ends_with('/') && kind == Kind::Untracked {
                self.nested(top, &path);
                continue;
            }
            let print = match kind {
                // What is ignored can be much: when it was written says enough.
                Kind::Ignored => match self.folder_print(top, &path) {
                    Some(print) => print,
                    None => continue,
                },
                _ => self.prints.of(&top.join(&path)).unwrap_or_default(),
            };
            self.files.insert(path, File { kind: kind.clone(), from: None, print });
        }
    }

    /// A repository in the repository: git tells of it, but not of what is in it.
    fn nested(&mut self, top: &Path, folder: &str) {
        let mut open = vec![folder.trim_end_matches('/').to_owned()];
        let mut count = 0;
        while let Some(dir) = open.pop() {
            for entry in fs::read_dir(top.join(&dir)).into_iter().flatten().flatten() {
                let Some(name) = entry.file_name().to_str().map(str::to_owned) else {
                    self.unseen.push(format!("`{dir}` holds a name that is not UTF-8"));
                    continue;
                };
                let path = format!("{dir}/{name}");
                if self.is_own(&path) {
                    continue;
                }
                count += 1;
                if count > MOST_FILES {
                    self.unseen.push(format!("`{folder}` holds more than {MOST_FILES} files"));
                    return;
                }
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() => open.extend((name != "objects").then_some(path)),
                    _ => {
                        let print = self.prints.of(&top.join(&path)).unwrap_or_default();
                        self.files.insert(path, File { kind: Kind::Untracked, from: None, print });
                    }
                }
            }
        }
    }

    /// `None` if there is nothing in it but what callsheet wrote.
    fn folder_print(&mut self, top: &Path, shown: &str) -> Option<Print> {
        let mut is_ours = self.own.iter().any(|own| own.starts_with(shown));
        let mut hash = Sha256::new();
        let mut open = vec![top.join(shown)];
        let mut count = 0;
        while let Some(path) = open.pop() {
            let Ok(meta) = path.symlink_metadata() else { continue };
            count += 1;
            if count > MOST_FILES {
                self.unseen.push(format!("`{shown}` holds more than {MOST_FILES} files"));
                break;
            }
            let below = path.strip_prefix(top).ok().and_then(Path::to_str).unwrap_or_default();
            if self.own.iter().any(|own| below.starts_with(own.trim_end_matches('/'))) {
                continue;
            }
            if meta.is_dir() {
                let mut inside: Vec<_> =
                    fs::read_dir(&path).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
                inside.sort();
                open.extend(inside);
            } else {
                is_ours = false;
                hash.update(path.as_os_str().as_bytes());
                hash.update(format!(
                    "\0{} {} {} {}\0",
                    meta.len(),
                    meta.mtime(),
                    meta.mtime_nsec(),
                    meta.ino()
                ));
            }
        }
        (!is_ours).then(|| Print::of_folder(Digest(hash.finalize().into())))
    }
}

/// A file in the worktree has no name yet: git tells zeros.
fn same_contents(git: &Git, path: &str, old: &str, new: &str) -> bool {
    if !new.chars().all(|c| c == '0') {
        return old == new;
    }
    git.done(&["hash-object", "--no-filters", "--", path], "").is_ok_and(|hash| text(&hash).trim() == old)
}
