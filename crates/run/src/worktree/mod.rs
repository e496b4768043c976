//! One worktree and one branch for each task, created once and used again. Only worktrees that were never
//! finished are deleted here.

mod checkout;
mod commits;
mod compare;
pub(crate) mod contents;
pub(crate) mod copy;
mod external_links;
pub(crate) mod fingerprint;
mod ignore_rules;
pub(crate) mod lanes;
mod nested_repositories;
pub(crate) mod own_files;
mod repository;
pub(crate) mod snapshot;
mod staged;
mod survey;
mod worktree_path;

use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use crate::git::{Git, GitError, lossy_text};

/// A checkout of its own for a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Worktree {
    /// The folder of the worktree.
    pub path: PathBuf,
    /// The branch that is checked out there.
    pub branch: String,
    /// Whether it was created just now.
    pub fresh: bool,
}

/// Returns the path where the worktree of the task is, or would be created.
pub fn find_worktree_path(git: &Git, home: &Path, task: &str) -> Result<PathBuf, GitError> {
    let name = task_file_name(task);
    Ok(find_checked_out(git, &format!("callsheet/{name}"))?.unwrap_or_else(|| home.join(name)))
}

/// Returns the worktree that has the branch checked out, if it is still a folder.
fn find_checked_out(git: &Git, branch: &str) -> Result<Option<PathBuf>, GitError> {
    let of_branch = list_worktrees(git)?.into_iter().find(|(_, of)| of.as_deref() == Some(branch));
    Ok(of_branch.map(|(path, _)| path).filter(|path| path.is_dir()))
}

/// Returns the worktree of the task, below `home`; creates it from the present commit if there is none.
pub fn ensure_worktree(git: &Git, home: &Path, task: &str) -> Result<Worktree, GitError> {
    ensure_worktree_from(git, home, task, || Ok("HEAD".to_owned()))
}

/// Like [`worktree()`], but creates it from the commit that `start` returns.
pub(crate) fn ensure_worktree_from(
    git: &Git,
    home: &Path,
    task: &str,
    start: impl FnOnce() -> Result<String, GitError>,
) -> Result<Worktree, GitError> {
    let name = task_file_name(task);
    let branch = format!("callsheet/{name}");
    let path = home.join(&name);
    let shown = path.to_str().ok_or_else(|| GitError::new("worktree", "a path is not UTF-8"))?;
    // No agent has worked in an unfinished worktree: the process that created it was killed.
    let unfinished = home.join(format!("{name}.unfinished"));
    if unfinished.symlink_metadata().is_ok() {
        let _ = git.run_checked(&["worktree", "remove", "--force", "--force", "--end-of-options", shown], "");
        let _ = std::fs::remove_dir_all(&path);
    }
    if let Some(path) = find_checked_out(git, &branch)? {
        return Ok(Worktree { path, branch, fresh: false });
    }
    if path.symlink_metadata().is_ok() {
        let why = format!("`{shown}` exists, but is not a worktree of branch `{branch}`; it was not changed");
        return Err(GitError::new("worktree", why));
    }
    let failed = |error: io::Error| GitError::new("worktree", format!("`{}`: {error}", home.display()));
    std::fs::create_dir_all(home).map_err(failed)?;
    std::fs::write(&unfinished, "").map_err(failed)?;
    let full = format!("refs/heads/{branch}");
    let exists =
        git.run_checked(&["rev-parse", "--verify", "--quiet", "--end-of-options", &full], "").is_ok();
    // Forced twice, because git still knows a worktree whose folder was removed, and locks one that it did
    // not finish.
    let mut args = vec!["worktree", "add", "--force", "--force", "--quiet", "--no-checkout"];
    let start = if exists { None } else { Some(start()?) };
    match &start {
        None => args.extend(["--end-of-options", shown, &branch]),
        Some(start) => args.extend(["-b", &branch, "--end-of-options", shown, start]),
    }
    git.run_checked(&args, "")?;
    if let Err(error) = check_out(git, &path) {
        // The first error is the one that a person must know.
        let _ = git.run_checked(&["worktree", "remove", "--force", "--end-of-options", shown], "");
        return Err(error);
    }
    std::fs::remove_file(&unfinished).map_err(failed)?;
    Ok(Worktree { path, branch, fresh: true })
}

/// Writes the files of the commit with the user's own filters alone, which is why git does not write them
/// with the rest.
fn check_out(git: &Git, path: &Path) -> Result<(), GitError> {
    let odd = || GitError::new("worktree", format!("`{}` is not a worktree", path.display()));
    let made = Git::open(path)?.filter(|made| made.is_of_same_repository(git)).ok_or_else(odd)?;
    let head = made.head()?.ok_or_else(odd)?;
    made.run_checked(&["read-tree", "--reset", "-u", &head], "").map(drop)
}

/// Returns every worktree, and the branch that is checked out there.
fn list_worktrees(git: &Git) -> Result<Vec<(PathBuf, Option<String>)>, GitError> {
    let mut all: Vec<(PathBuf, Option<String>)> = Vec::new();
    for line in lossy_text(&git.run_checked(&["worktree", "list", "--porcelain", "-z"], "")?).split('\0') {
        if let Some(path) = line.strip_prefix("worktree ") {
            all.push((PathBuf::from(path), None));
        } else if let (Some(branch), Some(last)) = (line.strip_prefix("branch refs/heads/"), all.last_mut()) {
            last.1 = Some(branch.to_owned());
        }
    }
    Ok(all)
}

/// Returns a task's id as part of a branch and of a path. An unusable id gets a unique name instead.
fn task_file_name(task: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let good =
        task.starts_with(|c: char| c.is_ascii_alphanumeric()) && task.chars().all(plain) && task.len() <= 64;
    if good {
        return task.to_owned();
    }
    let readable: String = task.chars().filter(|c| plain(*c)).take(40).collect();
    let digest = Sha256::digest(task.as_bytes());
    let hash = callsheet_core::text::hex::to_hex(&digest[..6]);
    format!("task-{}-{hash}", readable.trim_matches('-')).replace("--", "-")
}

#[cfg(test)]
mod tests {
    use super::task_file_name;

    #[test]
    fn task_names_are_safe_and_unique() {
        assert_eq!(task_file_name("T-12"), "T-12");
        let odd = ["-x", "../../x", "a/b", "a b", "", ".git", "x.lock", "a~b", "é", "a\nb"];
        let names: Vec<String> = odd.iter().map(|task| task_file_name(task)).collect();
        for name in &names {
            assert!(
                name.starts_with("task-") && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-'),
                "{name}"
            );
        }
        let mut different = names.clone();
        different.sort();
        different.dedup();
        assert_eq!(different.len(), names.len());
    }
}
