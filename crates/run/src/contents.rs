//! The contents of changed files as git keeps them, and whether a commit has them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use callsheet_core::fact::{Change, Changed};
use callsheet_core::record::Contents;

use crate::git::{Git, text};

/// So many files are recorded; with more of them, none is.
const MAX_FILES: usize = 10_000;
/// So many bytes are read for it.
const MAX_BYTES: u64 = 512 << 20;
/// A link takes a process of its own.
const MAX_LINKS: usize = 64;
/// So many commits are searched for a content.
const MAX_COMMITS: usize = 1000;
/// So many paths fit into a command line without doubt.
const MAX_PATHS: usize = 200;

/// Git's ids of the contents of the files that a run changed, with the user's own filters. `None` if one of them cannot be
/// told: then nothing can be said about the whole.
pub fn recorded_contents(dir: &Path, changed: &[Changed]) -> Option<Contents> {
    let git = Git::at(dir).ok().flatten()?;
    let top = git.top().canonicalize().ok()?;
    let folder = dir.canonicalize().ok()?.strip_prefix(&top).ok()?.to_str()?.to_owned();
    let mut contents = Contents::new();
    let (mut files, mut bytes, mut links) = (Vec::new(), 0, 0);
    for file in changed.iter().filter(|file| !matches!(file.change, Change::Ignored | Change::Repository)) {
        if let Some(from) = &file.from {
            contents.entry(from_top(&folder, from)?).or_insert(None);
        }
        let path = from_top(&folder, file.path.trim_end_matches('/'))?;
        let whole = top.join(&path);
        let meta = match whole.symlink_metadata() {
            Ok(meta) => meta,
            Err(_) if file.change == Change::Untracked => return None,
            Err(_) => {
                contents.insert(path, None);
                continue;
            }
        };
        if meta.is_symlink() {
            links += 1;
            let target = fs::read_link(&whole).ok()?;
            let id = git
                .done(&["hash-object", "--stdin"], std::str::from_utf8(target.as_os_str().as_bytes()).ok()?);
            contents.insert(path, Some(text(&id.ok()?).trim().to_owned()));
        } else if meta.is_file() {
            bytes += meta.len();
            files.push(path);
        } else {
            // A submodule is the commit that is checked out in it.
            let module = Git::at(&whole).ok().flatten().filter(|module| module.top() != git.top())?;
            contents.insert(path, Some(module.head().ok()??));
        }
        if files.len() > MAX_FILES || bytes > MAX_BYTES || links > MAX_LINKS {
            return None;
        }
    }
    if !files.is_empty() {
        let list: String = files.iter().map(|path| format!("{path}\n")).collect();
        let ids = text(&git.done(&["hash-object", "--stdin-paths"], &list).ok()?);
        let ids: Vec<&str> = ids.lines().collect();
        if ids.len() != files.len() {
            return None;
        }
        contents.extend(files.into_iter().zip(ids).map(|(path, id)| (path, Some(id.to_owned()))));
    }
    Some(contents)
}

/// A path relative to the top. `None` for a name that git would not read as it is.
fn from_top(folder: &str, path: &str) -> Option<String> {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    let path = parts.join("/");
    (!path.contains('\n') && !path.starts_with('"')).then_some(path)
}

impl Git {
    /// Whether the commit that is checked out, or one between `since` and it, has each of these contents.
    pub fn has_contents(&self, since: Option<&str>, contents: &Contents) -> bool {
        let Ok(Some(head)) = self.head() else { return false };
        let mut left: BTreeMap<&str, Option<&str>> =
            contents.iter().map(|(path, id)| (path.as_str(), id.as_deref())).collect();
        for commit in std::iter::once(head.clone()).chain(self.commits(since, &head, contents)) {
            if left.is_empty() {
                break;
            }
            let found = self.ids_in(&commit, left.keys().copied());
            left.retain(|path, id| found.get(path).map(String::as_str) != *id);
        }
        left.is_empty()
    }

    /// The commits between `since` and `head` that touch one of the paths, the newest first.
    fn commits(&self, since: Option<&str>, head: &str, contents: &Contents) -> BTreeSet<String> {
        let is_id = |id: &&str| !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        let most = format!("--max-count={MAX_COMMITS}");
        let until = since.filter(is_id).map(|since| format!("^{since}"));
        let mut args = vec!["rev-list", &most, head];
        args.extend(until.as_deref());
        args.push("--");
        if contents.len() <= MAX_PATHS {
            args.extend(contents.keys().map(String::as_str));
        }
        // Without the history the commit itself is what can be asked.
        let listed = self.done(&args, "").map(|listed| text(&listed)).unwrap_or_default();
        listed.lines().map(str::to_owned).collect()
    }

    /// The ids that a commit has at these paths.
    fn ids_in<'p>(&self, commit: &str, paths: impl Iterator<Item = &'p str>) -> BTreeMap<&'p str, String> {
        let paths: Vec<&str> = paths.collect();
        let asked: String = paths.iter().map(|path| format!("{commit}:{path}\n")).collect();
        let answers = self.done(&["cat-file", "--batch-check=%(objectname)"], &asked).unwrap_or_default();
        let answers = text(&answers);
        let known =
            paths.into_iter().zip(answers.lines()).filter(|(_, answer)| !answer.ends_with(" missing"));
        known.map(|(path, answer)| (path, answer.to_owned())).collect()
    }
}
