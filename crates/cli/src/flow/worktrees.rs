//! Worktrees of lanes: creates and merges them, and reports those that ended flows left.

use std::path::{Path, PathBuf};

use callsheet_core::diag::{Code, Diagnostic, Diagnostics, visible};
use callsheet_core::record::Id;
use callsheet_run::{Git, lane_leftovers, lane_worktree, merge_lane};

use crate::app::AppContext;
use crate::drive::{git_failed, project_in};
use crate::state::{failed, private_folder, state_dir};

/// Returns the project in a worktree of this lane.
pub(super) fn make_worktree(
    app: &AppContext<'_>,
    flow: &Id,
    entry: u32,
    lane: &str,
) -> Result<PathBuf, Diagnostics> {
    let (git, home) = lanes_home(app, flow)?;
    let name = lane_name(flow, entry, lane);
    let made = lane_worktree(&git, &lock(&home), &home, &name).map_err(|error| git_failed(&error))?;
    Ok(project_in(app, &git, &made.path))
}

/// Returns the repository and the directory of the worktrees of a flow's lanes.
fn lanes_home(app: &AppContext<'_>, flow: &Id) -> Result<(Git, PathBuf), Diagnostics> {
    let none = || Diagnostic::error(Code::GitFailed, "there is no git repository, so there are no worktrees");
    let git = Git::at(&app.project).map_err(|error| git_failed(&error))?.ok_or_else(none)?;
    let home = state_dir()?.join("lanes").join(flow.as_str());
    private_folder(&home)?;
    let home = home.canonicalize().map_err(|error| failed(&home, &error))?;
    Ok((git, home))
}

/// Returns the lock under which all flows create their worktrees, one at a time.
fn lock(home: &Path) -> PathBuf {
    home.with_file_name("lock")
}

/// Reports the worktrees and branches that ended flows left. They do not hinder new flows.
pub(crate) fn report_leftovers(app: &AppContext<'_>, open: &[String]) -> Result<(), Diagnostics> {
    let Ok(Some(git)) = Git::at(&app.project) else { return Ok(()) };
    let lanes = state_dir()?.join("lanes");
    let lanes = lanes.canonicalize().unwrap_or(lanes);
    let left = lane_leftovers(&git, &lanes, open).map_err(|error| git_failed(&error))?;
    if let Some(path) = left.worktrees.first() {
        let (count, path) = (left.worktrees.len(), visible(&path.display().to_string()).into_owned());
        let line = format!("worktrees that flows have left: {count}, such as `{path}`");
        app.print.say(&format!("{line}; `git worktree remove --force PATH` removes one"));
    }
    if let Some(branch) = left.branches.first() {
        let line =
            format!("branches that flows have left: {}, such as `{}`", left.branches.len(), visible(branch));
        app.print.say(&format!("{line}; `git worktree prune`, then `git branch -D NAME` removes one"));
    }
    Ok(())
}

/// Returns a name that is unique per flow and round, so that a round does not start from the files of an
/// earlier one.
fn lane_name(flow: &Id, entry: u32, lane: &str) -> String {
    format!("lane-{flow}-{entry:03}-{lane}")
}

/// Merges the changes of a lane into the project. Returns the conflicting paths.
pub(super) fn merge(
    app: &AppContext<'_>,
    flow: &Id,
    entry: u32,
    lane: &str,
) -> Result<Vec<String>, Diagnostics> {
    let (git, home) = lanes_home(app, flow)?;
    let name = lane_name(flow, entry, lane);
    let made = lane_worktree(&git, &lock(&home), &home, &name).map_err(|error| git_failed(&error))?;
    merge_lane(&git, &home, &name, &made.path).map_err(|error| git_failed(&error))
}
