//! Lanes that work in parallel: each in a worktree of its own, created from the project as it is, and merged
//! in order.
//!
//! Nothing is committed to a branch that a person uses, and the person's index is left alone. The changes of
//! a lane are copied to the project only if the project is still as the lane found it: anything else is a
//! conflict, and then nothing is copied.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Worktree, ensure_worktree_from, find_checked_out, task_file_name};
use crate::disk::folder::WritableFolder;
use crate::disk::lock::lock_file;
use crate::disk::read::read_own_text;
use crate::git::content_ids::SUBMODULE;
use crate::git::{Git, GitError, RawChange, lossy_text, parse_raw_diff};

/// How long a lane waits while the worktrees of others are created.
const LONGEST_CHECKOUTS: Duration = Duration::from_secs(600);

/// A path that a lane changed, with git's ids of the contents before and after.
struct LaneChange {
    path: String,
    before: Option<String>,
    after: Option<String>,
    /// Whether it cannot be copied, such as another repository.
    odd: bool,
}

/// Returns a worktree for a lane, from the project as it is now, uncommitted work included. Uses an existing
/// one again. Git fails on worktrees that other processes are just creating, so all processes that create
/// some hold `lock`.
pub fn ensure_lane_worktree(git: &Git, lock: &Path, home: &Path, name: &str) -> Result<Worktree, GitError> {
    fs::create_dir_all(home).map_err(worktree_error)?;
    let _alone = lock_file(lock, LONGEST_CHECKOUTS).map_err(worktree_error)?;
    ensure_worktree_from(git, home, name, || {
        let start = commit_snapshot(git, home, name)?;
        fs::write(start_path(home, name), &start).map_err(worktree_error)?;
        Ok(start)
    })
}

/// Worktrees and branches of lanes that no flow needs any more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LaneLeftovers {
    /// The folders of the worktrees.
    pub worktrees: Vec<PathBuf>,
    /// The names of the branches.
    pub branches: Vec<String>,
}

/// Returns the lane leftovers of flows that have ended or are no longer known: branches of the repository,
/// and worktrees below `lanes` that belong to it or to one that was in its place. `open` are the ids of flows
/// that continue.
pub fn find_lane_leftovers(git: &Git, lanes: &Path, open: &[String]) -> Result<LaneLeftovers, GitError> {
    let is_open = |name: &str| open.iter().any(|id| name.starts_with(&format!("lane-{id}-")));
    let refs =
        git.run_checked(&["for-each-ref", "--format=%(refname:short)", "refs/heads/callsheet/"], "")?;
    let is_left = |branch: &&str| {
        let name = branch.strip_prefix("callsheet/").unwrap_or_default();
        name.starts_with("lane-") && !is_open(name)
    };
    let branches = lossy_text(&refs).lines().filter(is_left).map(str::to_owned).collect();
    let mut worktrees = Vec::new();
    let folders = |path: &Path| fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    for worktree in folders(lanes).flat_map(|home| folders(&home)) {
        let is_own = read_own_text(&worktree.join(".git")).is_some_and(|link| {
            let at = link.trim().strip_prefix("gitdir: ").map(PathBuf::from);
            at.is_some_and(|at| at.starts_with(git.common_dir()))
        });
        let name = worktree.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if is_own && !is_open(name) {
            worktrees.push(worktree);
        }
    }
    worktrees.sort();
    Ok(LaneLeftovers { worktrees, branches })
}

/// Returns the file that keeps the start commit of a lane. The lane itself could change git's memory of it.
fn start_path(home: &Path, name: &str) -> PathBuf {
    home.join(format!("{name}.start"))
}

/// Returns the file that keeps the tree of a lane when it was merged.
fn merged_path(home: &Path, name: &str) -> PathBuf {
    home.join(format!("{name}.merged"))
}

fn worktree_error(error: io::Error) -> GitError {
    GitError::new("worktree", error)
}

/// Commits everything that git tracks or would track, except our own files.
fn commit_snapshot(git: &Git, home: &Path, name: &str) -> Result<String, GitError> {
    let (tree, _) = write_tree(git, &home.join(format!("{name}.index")))?;
    let head = git.head()?;
    let mut args = vec!["commit-tree", "-m", "callsheet: start of a lane"];
    if let Some(head) = &head {
        args.extend(["-p", head]);
    }
    args.push(&tree);
    git.run_for_line(&args, "")
}

/// Writes the files of a worktree as a tree, by an index that no other process uses. Also returns the files
/// that are not in it because their names are not UTF-8.
fn write_tree(git: &Git, index: &Path) -> Result<(String, Vec<String>), GitError> {
    if let Some(folder) = index.parent() {
        fs::create_dir_all(folder).map_err(worktree_error)?;
    }
    // From the person's index, so that only changed files are read again.
    if !git.copy_index(index).map_err(worktree_error)? {
        let _ = fs::remove_file(index);
    }
    let git = &git.with_index(index);
    // Never `git add`: it queries submodules by starting a git in them, with their settings.
    let changed = git.run_checked(&["diff-files", "-z", "--name-only", "--ignore-submodules=dirty"], "")?;
    let untracked = git.run_checked(&["ls-files", "-z", "--others", "--exclude-standard"], "")?;
    let tracked = git.run_checked(&["ls-files", "-z"], "")?;
    let is_ours = |path: &&str| path.split('/').any(|part| part == ".callsheet");
    let names = changed.split(|byte| *byte == 0).chain(untracked.split(|byte| *byte == 0));
    let odd: Vec<String> = names.filter(|name| std::str::from_utf8(name).is_err()).map(lossy_text).collect();
    let (changed, untracked, tracked) = (lossy_text(&changed), lossy_text(&untracked), lossy_text(&tracked));
    let names = changed.split('\0').chain(untracked.split('\0')).filter(|path| !path.is_empty());
    let add: String =
        names.filter(|path| !is_ours(path)).map(|path| format!("{}\0", path.trim_end_matches('/'))).collect();
    git.run_checked(&["update-index", "--add", "--remove", "-z", "--stdin"], &add)?;
    // Our own files are transferred separately.
    let ours: String = tracked.split('\0').filter(is_ours).map(|path| format!("{path}\0")).collect();
    git.run_checked(&["update-index", "--force-remove", "-z", "--stdin"], &ours)?;
    let tree = git.run_for_line(&["write-tree", "--missing-ok"], "")?;
    // The index would only be copied again.
    let _ = fs::remove_file(index);
    Ok((tree, odd))
}

/// Copies the changes of the lane's worktree to the project. Returns the paths that were changed there as
/// well; if there are any, nothing is copied. Doing it again changes nothing.
pub fn merge_lane(git: &Git, home: &Path, name: &str, lane: &Path) -> Result<Vec<String>, GitError> {
    let gone = || GitError::new("worktree", format!("`{}` is gone", lane.display()));
    let theirs = Git::open(lane)?.filter(|theirs| theirs.is_of_same_repository(git)).ok_or_else(gone)?;
    let start = read_own_text(&start_path(home, name)).ok_or_else(gone)?;
    let (tree, mut conflicts) = write_tree(&theirs, &home.join(format!("{name}.index")))?;
    let raw = theirs.run_checked(
        &["diff-tree", "-r", "-z", "--no-renames", "--abbrev=40", "--end-of-options", &start, &tree],
        "",
    )?;
    let moved = parse_changes(&raw);
    let mut todo = Vec::new();
    for file in &moved {
        let now = present_content(git, &file.path);
        if file.odd || now.is_err() {
            conflicts.push(file.path.clone());
        } else if now.as_ref().ok() == Some(&file.after) {
            // It was copied before.
        } else if now.as_ref().ok() == Some(&file.before) {
            todo.push(file);
        } else {
            conflicts.push(file.path.clone());
        }
    }
    if !conflicts.is_empty() {
        return Ok(conflicts);
    }
    let folder = |git: &Git| git.top().canonicalize().and_then(|top| WritableFolder::open(&top));
    let (from, to) = (folder(&theirs).map_err(worktree_error)?, folder(git).map_err(worktree_error)?);
    for file in todo {
        let brought =
            if file.after.is_some() { to.copy(&file.path, &from, &file.path) } else { to.remove(&file.path) };
        brought.map_err(|error| GitError::new("merge", error))?;
    }
    fs::write(merged_path(home, name), &tree).map_err(worktree_error)?;
    Ok(Vec::new())
}

/// Removes the worktree and the branch of a lane that was merged, if all of its work is in the project: its
/// files are still those that were merged, and its branch has no commit of its own. Files that git ignores
/// are not work. Returns `false` if it was kept.
pub fn remove_merged_lane(git: &Git, lock: &Path, home: &Path, name: &str) -> Result<bool, GitError> {
    let _alone = lock_file(lock, LONGEST_CHECKOUTS).map_err(worktree_error)?;
    let branch = format!("callsheet/{}", task_file_name(name));
    let full = format!("refs/heads/{branch}");
    let tip = git.run_checked(&["rev-parse", "--verify", "--quiet", "--end-of-options", &full], "");
    let tip = tip.ok().map(|tip| lossy_text(&tip).trim().to_owned());
    let start = read_own_text(&start_path(home, name));
    let merged = read_own_text(&merged_path(home, name));
    if tip.is_some() && tip != start {
        return Ok(false);
    }
    if let Some(path) = find_checked_out(git, &branch)? {
        let theirs = Git::open(&path)?.filter(|theirs| theirs.is_of_same_repository(git));
        let Some(theirs) = theirs else { return Ok(false) };
        let (tree, odd) = write_tree(&theirs, &home.join(format!("{name}.index")))?;
        if Some(tree) != merged || !odd.is_empty() {
            return Ok(false);
        }
        let shown = path.to_str().ok_or_else(|| GitError::new("worktree", "a path is not UTF-8"))?;
        git.run_checked(&["worktree", "remove", "--force", "--force", "--end-of-options", shown], "")?;
    }
    if let Some(tip) = tip {
        git.run_checked(&["update-ref", "-d", &full, &tip], "")?;
    }
    for file in [start_path(home, name), merged_path(home, name)] {
        let _ = fs::remove_file(file);
    }
    // Fails while other lanes are there.
    let _ = fs::remove_dir(home);
    Ok(true)
}

fn parse_changes(raw: &[u8]) -> Vec<LaneChange> {
    let is_module = |state: &Option<String>| state.as_ref().is_some_and(|it| it.starts_with(SUBMODULE));
    let change = |RawChange { path, before, after, .. }: RawChange<'_>| LaneChange {
        odd: std::str::from_utf8(path).is_err() || is_module(&before) || is_module(&after),
        path: lossy_text(path),
        before,
        after,
    };
    parse_raw_diff(raw).into_iter().map(change).collect()
}

/// Returns the present contents of the project at a path, as git identifies them. Follows no links.
fn present_content(git: &Git, path: &str) -> Result<Option<String>, GitError> {
    let odd = || GitError::new("merge", format!("`{path}` is reached through a link"));
    let mut place = PathBuf::from(git.top());
    let parts: Vec<&str> = path.split('/').collect();
    let (name, folders) = parts.split_last().ok_or_else(odd)?;
    for folder in folders {
        place.push(folder);
        match place.symlink_metadata() {
            Ok(meta) if meta.is_dir() => {}
            Ok(_) => return Err(odd()),
            Err(_) => return Ok(None),
        }
    }
    place.push(name);
    let Ok(meta) = place.symlink_metadata() else { return Ok(None) };
    if meta.is_symlink() {
        let target = fs::read_link(&place).map_err(|_| odd())?;
        let target = target.to_str().ok_or_else(odd)?;
        let hash = git.run_for_line(&["hash-object", "--no-filters", "--stdin"], target)?;
        return Ok(Some(format!("120000 {hash}")));
    }
    if !meta.is_file() {
        return Err(odd());
    }
    // Git records the owner's permission alone.
    let mode = if meta.permissions().mode() & 0o100 == 0 { "100644" } else { "100755" };
    let hash = git.run_for_line(&["hash-object", "--", path], "")?;
    Ok(Some(format!("{mode} {hash}")))
}
