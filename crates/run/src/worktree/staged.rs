//! Contents that only the index has: the next commit would take them, and no file shows them.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use callsheet_core::request::fact::{ChangeKind, ChangedFile};

use super::compare::ScopedChange;
use super::repository::{IndexSnapshot, index_changes};
use super::worktree_path::WorktreePath;
use crate::git::content_ids::{SUBMODULE, matches_content, read_content_ids};
use crate::git::{Git, GitError, parse_raw_diff};

/// Returns the paths that were staged since `before` with contents other than the file's. `dir` is `None` if
/// the files are nowhere.
pub(super) fn find_staged_only(
    git: &Git,
    dir: Option<&Path>,
    before: &IndexSnapshot,
    head: Option<&str>,
) -> Result<Vec<WorktreePath>, GitError> {
    let mut found = Vec::new();
    let mut staged = BTreeMap::new();
    for (place, content) in list_staged(git, head)? {
        if !before.has_content(&place, content.as_deref()) {
            staged.insert(place, content);
        }
    }
    let Some(dir) = dir else { return Ok(staged.into_keys().collect()) };
    let mut files = Vec::new();
    for (place, content) in &staged {
        let changed = ChangedFile { path: place.to_text(), change: ChangeKind::Modified, from: None };
        let is_module = content.as_ref().is_some_and(|content| content.starts_with(SUBMODULE));
        let is_folder =
            dir.join(OsStr::from_bytes(place.bytes())).symlink_metadata().is_ok_and(|meta| meta.is_dir());
        let is_plain = std::str::from_utf8(place.bytes()).is_ok_and(|path| !path.contains(['\n', '"']));
        if is_plain && !is_module && !is_folder {
            files.push(changed);
            continue;
        }
        let there = read_content_ids(dir, &[changed]).and_then(|all| all.into_values().next());
        if there.is_none_or(|there| !matches_content(content.as_deref(), there.as_deref())) {
            found.push(place.clone());
        }
    }
    let unknown = || GitError::new("index", "its contents could not be compared with the files");
    let there = read_content_ids(dir, &files).ok_or_else(unknown)?;
    let is_other = |file: &&ChangedFile| {
        let content = staged.get(file.path.as_bytes()).and_then(Option::as_deref);
        !matches_content(content, there.get(&file.path).and_then(Option::as_deref))
    };
    found.extend(files.iter().filter(is_other).map(|file| WorktreePath::new(file.path.as_bytes())));
    Ok(found)
}

/// Returns the differences of the index from the commit: the mode and the id of each, or `None` if the index
/// has none.
fn list_staged(git: &Git, head: Option<&str>) -> Result<Vec<(WorktreePath, Option<String>)>, GitError> {
    let raw = git.diff_raw(&["--cached"], head)?;
    // An unresolved merge cannot be committed.
    let resolved = parse_raw_diff(&raw).into_iter().filter(|change| change.letter != "U");
    Ok(resolved.map(|change| (WorktreePath::new(change.path), change.after)).collect())
}

/// Returns the changes for staged paths. The scope is checked for the files themselves.
pub(super) fn staged_changes(paths: &[WorktreePath]) -> impl Iterator<Item = ScopedChange> {
    let all = index_changes("staged", paths.iter());
    let files = paths.iter().map(WorktreePath::to_text);
    let files: Vec<Vec<String>> =
        if all.len() == paths.len() { files.map(|file| vec![file]).collect() } else { vec![files.collect()] };
    all.into_iter().zip(files).map(|(changed, paths)| ScopedChange { changed, paths })
}
