//! The files of a worktree that are not as a commit has them, each with a print of its contents.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use callsheet_core::fact::Change;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

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
    print: String,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct State {
    pub(super) files: BTreeMap<String, File>,
    pub(super) unseen: Vec<String>,
    own: Vec<String>,
}

/// A folder with more files than this is not looked into any further.
const MOST_FILES: usize = 50_000;

impl State {
    /// What differs from `head`, and what git does not follow. What begins like one of `own` is nobody's work.
    pub(super) fn of(git: &Git, head: Option<&str>, own: &[String]) -> Result<Self, GitError> {
        let mut state = Self { own: own.to_vec(), ..Self::default() };
        // Before the first commit there is an empty one to compare with.
        let empty = git.done(&["hash-object", "-t", "tree", "--stdin"], "")?;
        let empty = text(&empty);
        let against = head.unwrap_or(empty.trim());
        let flags = [
            "--raw",
            "-z",
            "--abbrev=40",
            "--find-renames",
            "--no-ext-diff",
            "--no-textconv",
            "--ignore-submodules=none",
        ];
        let mut args = vec!["diff"];
        args.extend(flags);
        args.extend(["--end-of-options", against]);
        state.tracked(git, &git.done(&args, "")?);
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
            let print = print_of(&git.top().join(&path)).unwrap_or_default();
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
            let print = if is_submodule { format!("{new} {print}") } else { print };
            self.files.insert(path, File { kind, from, print });
        }
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
                Kind::Ignored => self.folder_print(top, &path),
                _ => print_of(&top.join(&path)).unwrap_or_default(),
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
                        let print = print_of(&top.join(&path)).unwrap_or_default();
                        self.files.insert(path, File { kind: Kind::Untracked, from: None, print });
                    }
                }
            }
        }
    }

    fn folder_print(&mut self, top: &Path, shown: &str) -> String {
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
        hex(&hash.finalize())
    }
}

/// A file in the worktree has no name yet: git tells zeros.
fn same_contents(git: &Git, path: &str, old: &str, new: &str) -> bool {
    if !new.chars().all(|c| c == '0') {
        return old == new;
    }
    git.done(&["hash-object", "--no-filters", "--", path], "").is_ok_and(|hash| text(&hash).trim() == old)
}

/// What tells a file from another one at the same place: its mode and its contents, or where it leads.
pub(super) fn print_of(path: &Path) -> Option<String> {
    let meta = path.symlink_metadata().ok()?;
    let mode = meta.mode();
    if meta.is_symlink() {
        return Some(format!("{mode:o} → {}", fs::read_link(path).ok()?.display()));
    }
    if !meta.is_file() {
        return Some(format!("{mode:o}"));
    }
    let mut hash = Sha256::new();
    let copied =
        fs::File::open(path).and_then(|mut file| std::io::copy(&mut file, &mut HashWriter(&mut hash)));
    // A file that cannot be read can still be told from one of another time.
    let contents =
        copied.map_or_else(|_| format!("{} {}", meta.mtime(), meta.mtime_nsec()), |_| hex(&hash.finalize()));
    Some(format!("{mode:o} {contents}"))
}

struct HashWriter<'h>(&'h mut Sha256);

impl std::io::Write for HashWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
