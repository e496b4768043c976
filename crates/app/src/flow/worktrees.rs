//! Worktrees of lanes: creates and merges them, and reports those that ended flows left.

use std::path::{Path, PathBuf};

use callsheet_core::diag::{Code, Diagnostic, escape_invisible};
use callsheet_core::record::Id;
use callsheet_run::{Git, ensure_lane_worktree, find_lane_leftovers, merge_lane, remove_merged_lane};

use crate::error::Result;
use crate::project::Project;
use crate::project::state::{create_private_folder, path_error, state_dir};
use crate::run::project_in;

/// Returns the project in a worktree of this lane.
pub(super) fn make_worktree(project: &Project, flow: &Id, entry: u32, lane: &str) -> Result<PathBuf> {
    let (git, home) = lanes_home(project, flow)?;
    let name = worktree_name(flow, entry, lane);
    let made = ensure_lane_worktree(&git, &lock_path(&home), &home, &name)?;
    Ok(project_in(project, &git, &made.path))
}

/// Returns the repository and the directory of the worktrees of a flow's lanes.
fn lanes_home(project: &Project, flow: &Id) -> Result<(Git, PathBuf)> {
    let none = || Diagnostic::error(Code::GitFailed, "worktrees need a git repository");
    let git = Git::open(&project.dir)?.ok_or_else(none)?;
    let home = state_dir()?.join("lanes").join(flow.as_str());
    create_private_folder(&home)?;
    let home = home.canonicalize().map_err(|error| path_error(&home, error))?;
    Ok((git, home))
}

/// Returns the lock under which all flows create their worktrees, one at a time.
fn lock_path(home: &Path) -> PathBuf {
    home.with_file_name("lock")
}

/// Reports the worktrees and branches that ended flows left. They do not hinder new flows.
pub(crate) fn report_leftovers(project: &Project, open: &[String]) -> Result<()> {
    let Ok(Some(git)) = Git::open(&project.dir) else { return Ok(()) };
    let lanes = state_dir()?.join("lanes");
    let lanes = lanes.canonicalize().unwrap_or(lanes);
    let left = find_lane_leftovers(&git, &lanes, open)?;
    if let Some(path) = left.worktrees.first() {
        let (count, path) =
            (left.worktrees.len(), escape_invisible(&path.display().to_string()).into_owned());
        let noun = if count == 1 { "worktree" } else { "worktrees" };
        let line = format!("flows left {count} {noun}, such as `{path}`");
        project.observer.status(&format!("{line}; remove one with `git worktree remove --force PATH`"));
    }
    if let Some(branch) = left.branches.first() {
        let count = left.branches.len();
        let noun = if count == 1 { "branch" } else { "branches" };
        let line = format!("flows left {count} {noun}, such as `{}`", escape_invisible(branch));
        project
            .observer
            .status(&format!("{line}; remove one with `git worktree prune`, then `git branch -D NAME`"));
    }
    Ok(())
}

/// Returns a name that is unique per flow and round, so that a round does not start from the files of an
/// earlier one.
fn worktree_name(flow: &Id, entry: u32, lane: &str) -> String {
    format!("lane-{flow}-{entry:03}-{lane}")
}

/// Merges the changes of a lane into the project. Returns the conflicting paths.
pub(super) fn merge_worktree(project: &Project, flow: &Id, entry: u32, lane: &str) -> Result<Vec<String>> {
    let (git, home) = lanes_home(project, flow)?;
    let name = worktree_name(flow, entry, lane);
    let made = ensure_lane_worktree(&git, &lock_path(&home), &home, &name)?;
    Ok(merge_lane(&git, &home, &name, &made.path)?)
}

/// Removes the worktree and the branch of a lane that was merged, unless they hold work that is not in the
/// project.
pub(super) fn remove_worktree(project: &Project, flow: &Id, entry: u32, lane: &str) -> Result<()> {
    let Some(git) = Git::open(&project.dir)? else { return Ok(()) };
    let home = state_dir()?.join("lanes").join(flow.as_str());
    let Ok(home) = home.canonicalize() else { return Ok(()) };
    let name = worktree_name(flow, entry, lane);
    if !remove_merged_lane(&git, &lock_path(&home), &home, &name)? {
        let shown = home.join(name).display().to_string();
        let shown = escape_invisible(&shown).into_owned();
        project.observer.status(&format!("kept the worktree of `{lane}`, which has changed since: {shown}"));
    }
    Ok(())
}
