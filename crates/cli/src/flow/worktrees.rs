//! The worktrees of lanes: made, merged, and told of where flows that have ended left some.

use std::path::{Path, PathBuf};

use callsheet_core::diag::{Code, Diagnostic, Diagnostics, visible};
use callsheet_core::record::Id;
use callsheet_run::{Git, lane_leftovers, lane_worktree, merge_lane};

use crate::app::AppContext;
use crate::drive::{git_failed, project_in};
use crate::state::{failed, private_folder, state_dir};

/// The project in a worktree of this lane's own.
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

/// Where the worktrees of a flow's lanes are.
fn lanes_home(app: &AppContext<'_>, flow: &Id) -> Result<(Git, PathBuf), Diagnostics> {
    let none = || Diagnostic::error(Code::GitFailed, "there is no git repository, so there are no worktrees");
    let git = Git::at(&app.project).map_err(|error| git_failed(&error))?.ok_or_else(none)?;
    let home = state_dir()?.join("lanes").join(flow.as_str());
    private_folder(&home)?;
    let home = home.canonicalize().map_err(|error| failed(&home, &error))?;
    Ok((git, home))
}

/// All flows make their worktrees one after the other.
fn lock(home: &Path) -> PathBuf {
    home.with_file_name("lock")
}

/// Says what flows that have ended left of their lanes. Nothing of it is in the way.
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

/// Every round of every flow has worktrees of its own: what an earlier one left is not what this one starts from.
fn lane_name(flow: &Id, entry: u32, lane: &str) -> String {
    format!("lane-{flow}-{entry:03}-{lane}")
}

/// Brings what a lane did into the project; answers with what stands in the way.
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
