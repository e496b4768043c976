//! Git's ids of the contents of changed files, and whether a commit has them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use callsheet_core::record::ContentIds;
use callsheet_core::request::fact::{ChangeKind, ChangedFile};

use super::{Git, lossy_text};

/// The most files that are recorded; with more of them, none is.
const MAX_FILES: usize = 10_000;
/// The most bytes that are read for it.
const MAX_BYTES: u64 = 512 << 20;
/// The most links: each takes a process of its own.
const MAX_LINKS: usize = 64;
/// The most commits that are searched for contents.
const MAX_COMMITS: usize = 1000;
/// The most paths that certainly fit into a command line.
const MAX_PATHS: usize = 200;

/// Returns git's ids of the contents of the files that a run changed, with the user's own filters. Returns
/// `None` if one of them cannot be determined: then nothing can be said about the whole.
pub fn read_content_ids(dir: &Path, changed: &[ChangedFile]) -> Option<ContentIds> {
    let git = Git::open(dir).ok().flatten()?;
    let top = git.top().canonicalize().ok()?;
    let folder = dir.canonicalize().ok()?.strip_prefix(&top).ok()?.to_str()?.to_owned();
    let mut contents = ContentIds::new();
    let (mut files, mut bytes, mut links) = (Vec::new(), 0, 0);
    for file in
        changed.iter().filter(|file| !matches!(file.change, ChangeKind::Ignored | ChangeKind::Repository))
    {
        if let Some(from) = &file.from {
            contents.entry(resolve_from_top(&folder, from)?).or_insert(None);
        }
        let path = resolve_from_top(&folder, file.path.trim_end_matches('/'))?;
        let whole = top.join(&path);
        let meta = match whole.symlink_metadata() {
            Ok(meta) => meta,
            Err(_) if file.change == ChangeKind::Untracked => return None,
            Err(_) => {
                contents.insert(path, None);
                continue;
            }
        };
        if meta.is_symlink() {
            links += 1;
            let target = fs::read_link(&whole).ok()?;
            let id = git.run_for_line(&["hash-object", "--stdin"], target.to_str()?).ok()?;
            contents.insert(path, Some(format!("{LINK} {id}")));
        } else if meta.is_file() {
            bytes += meta.len();
            files.push((path, meta.mode() & 0o100 != 0));
        } else {
            // The content of a submodule is its checked-out commit.
            let module = Git::open(&whole).ok().flatten().filter(|module| module.top() != git.top())?;
            contents.insert(path, Some(format!("{SUBMODULE} {}", module.head().ok()??)));
        }
        if files.len() > MAX_FILES || bytes > MAX_BYTES || links > MAX_LINKS {
            return None;
        }
    }
    if !files.is_empty() {
        let list: String = files.iter().map(|(path, _)| format!("{path}\n")).collect();
        let ids = lossy_text(&git.run_checked(&["hash-object", "--stdin-paths"], &list).ok()?);
        let ids: Vec<&str> = ids.lines().collect();
        if ids.len() != files.len() {
            return None;
        }
        let knows_modes = git.has_file_modes();
        let with_mode = |is_executable: bool, id: &str| match (knows_modes, is_executable) {
            (false, _) => id.to_owned(),
            (true, true) => format!("{EXECUTABLE} {id}"),
            (true, false) => format!("{PLAIN} {id}"),
        };
        let all = files.into_iter().zip(ids);
        contents.extend(all.map(|((path, is_executable), id)| (path, Some(with_mode(is_executable, id)))));
    }
    Some(contents)
}

/// Returns a path relative to the top. `None` for a name that git would not read literally.
fn resolve_from_top(folder: &str, path: &str) -> Option<String> {
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
    /// Checks whether the checked-out commit, or one between `since` and it, has each of these contents.
    pub fn has_contents(&self, since: Option<&str>, contents: &ContentIds) -> bool {
        let Ok(Some(head)) = self.head() else { return false };
        let mut left: BTreeMap<&str, Option<&str>> =
            contents.iter().map(|(path, id)| (path.as_str(), id.as_deref())).collect();
        for commit in std::iter::once(head.clone()).chain(self.list_commits(since, &head, contents)) {
            if left.is_empty() {
                break;
            }
            // An unreadable commit proves nothing, not even the absence of a file.
            let Some(found) = self.list_ids(&commit, left.keys().copied()) else { continue };
            left.retain(|path, wanted| !matches_content(found.get(path).map(String::as_str), *wanted));
        }
        left.is_empty()
    }

    /// Returns the commits between `since` and `head` that touch one of the paths: the newest, if there are
    /// too many.
    fn list_commits(&self, since: Option<&str>, head: &str, contents: &ContentIds) -> BTreeSet<String> {
        let is_id = |id: &&str| !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        let most = format!("--max-count={MAX_COMMITS}");
        let until = since.filter(is_id).map(|since| format!("^{since}"));
        let mut args = vec!["rev-list", &most, head];
        args.extend(until.as_deref());
        args.push("--");
        if contents.len() <= MAX_PATHS {
            args.extend(contents.keys().map(String::as_str));
        }
        // Without the history, only the commit itself can be searched.
        let listed = self.run_checked(&args, "").map(|listed| lossy_text(&listed)).unwrap_or_default();
        listed.lines().map(str::to_owned).collect()
    }

    /// Returns the modes and ids that a commit has at these paths.
    fn list_ids<'p>(
        &self,
        commit: &str,
        paths: impl Iterator<Item = &'p str>,
    ) -> Option<BTreeMap<&'p str, String>> {
        let paths: BTreeSet<&str> = paths.collect();
        let mut args = vec!["ls-tree", "-z", "--full-tree"];
        if paths.len() <= MAX_PATHS {
            args.extend([commit, "--"]);
            args.extend(&paths);
        } else {
            // The whole tree, with its folders: a folder is not the absence of a file.
            args.extend(["-r", "-t", commit]);
        }
        let listed = lossy_text(&self.run_checked(&args, "").ok()?);
        let mut all = BTreeMap::new();
        for line in listed.split('\0') {
            let Some((head, path)) = line.split_once('\t') else { continue };
            let mut words = head.split(' ');
            if let (Some(mode), Some(id), Some(path)) = (words.next(), words.nth(1), paths.get(path)) {
                all.insert(*path, format!("{mode} {id}"));
            }
        }
        Some(all)
    }
}

/// Git's modes for kinds of files.
const PLAIN: &str = "100644";
const EXECUTABLE: &str = "100755";
const LINK: &str = "120000";
pub(crate) const SUBMODULE: &str = "160000";

/// Checks whether a commit has the wanted content: the mode too, if it is known.
pub(crate) fn matches_content(found: Option<&str>, wanted: Option<&str>) -> bool {
    match (found, wanted) {
        (Some(found), Some(wanted)) if !wanted.contains(' ') => found.ends_with(wanted),
        (found, wanted) => found == wanted,
    }
}
