//! The directory in which an agent works.

use std::path::{Path, PathBuf};

use callsheet_core::diag::{Code, Diagnostic};
use callsheet_run::{Git, ensure_worktree, find_worktree_path};

use super::options::RunLocation;
use crate::error::Result;
use crate::project::Project;
use crate::project::state::{create_private_folder, directory_key, path_error, state_dir};

/// Returns the folder in which the agent works, and whether it is a separate worktree.
pub(super) fn resolve_location(project: &Project, place: &RunLocation, dry: bool) -> Result<(PathBuf, bool)> {
    match place {
        RunLocation::Project | RunLocation::Fresh => Ok((project.dir.clone(), false)),
        RunLocation::At(dir) => Ok((dir.clone(), true)),
        RunLocation::Own(task) => {
            let git = Git::open(&project.dir)?.ok_or_else(|| {
                let message =
                    format!("`{}` is not in a git repository; worktrees need one", project.dir.display());
                Diagnostic::error(Code::GitFailed, message).hint("run `git init`, or remove `--worktree`")
            })?;
            let name = project.dir.file_name().unwrap_or_default().to_string_lossy();
            let home = state_dir()?.join("worktrees").join(format!("{name}-{}", directory_key(&project.dir)));
            if git.head()?.is_none() {
                let message = "a worktree needs a commit to start from, and the repository has none";
                let hint = "commit first, or run without `--worktree`";
                return Err(Diagnostic::error(Code::GitFailed, message).hint(hint).into());
            }
            let made = if dry {
                find_worktree_path(&git, &home, task)
            } else {
                create_private_folder(&home)?;
                let home = home.canonicalize().map_err(|error| path_error(&home, error))?;
                ensure_worktree(&git, &home, task).map(|made| made.path)
            };
            let made = made?;
            Ok((project_in(project, &git, &made), true))
        }
    }
}

/// Returns the project inside a worktree of its repository. The project may be a subfolder of the repository.
pub(crate) fn project_in(project: &Project, git: &Git, worktree: &Path) -> PathBuf {
    let top = git.top().canonicalize().unwrap_or_else(|_| git.top().to_owned());
    let below = project.dir.canonicalize().ok().and_then(|dir| Some(dir.strip_prefix(top).ok()?.to_owned()));
    worktree.join(below.unwrap_or_default())
}
