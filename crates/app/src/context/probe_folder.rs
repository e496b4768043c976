//! The folder of a probe: a copy of the project, an empty home, and the files that lead the CLI to the server.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use callsheet_core::diag::{Code, Diagnostic};
use callsheet_core::library::agent::{ProbeSpec, ProbeValues};
use callsheet_run::{Git, WritableFolder, copy_project, ensure_lane_worktree, open_private};

use super::instruction_files::list_instruction_files;
use crate::error::Result;
use crate::project::Project;
use crate::project::state::{create_private_folder, directory_key, hold_lock, path_error, state_dir};

/// The most probes of a directory at the same time.
const MOST_PROBES: usize = 100;

/// A folder of a probe. It is removed on drop.
#[derive(Debug)]
pub(crate) struct ProbeFolder {
    path: PathBuf,
    /// Held while the probe runs, so that no other process removes the folder.
    _lock: File,
}

impl ProbeFolder {
    /// Creates a folder for a directory, at a path that later probes of the directory have too, so that they can be compared;
    /// probes for other purposes have other numbers. Removes the folders that killed processes left behind.
    pub(crate) fn create(dir: &Path, purpose: usize) -> Result<Self> {
        let all = state_dir()?.join("probes");
        create_private_folder(&all)?;
        let all = all.canonicalize().map_err(|error| path_error(&all, error))?;
        // Until the folder is locked, another process could remove it.
        let _creating = hold_lock(&all.join("creating"))?;
        remove_abandoned(&all);
        for attempt in 0..MOST_PROBES {
            let path = all.join(format!("{}-{purpose}-{attempt}", directory_key(dir)));
            if path.exists() {
                continue;
            }
            create_private_folder(&path)?;
            let lock = open_private(&path.join("lock")).map_err(|error| path_error(&path, error))?;
            lock.try_lock().map_err(|error| path_error(&path, error.into()))?;
            return Ok(Self { path, _lock: lock });
        }
        let message = format!("{MOST_PROBES} probes of this project are running");
        Err(Diagnostic::error(Code::ContextFailed, message).hint("wait until they end").into())
    }

    /// Copies the project into a folder `below`, with the instruction files that git ignores. Returns the copy.
    pub(crate) fn copy(&self, project: &Project, spec: &ProbeSpec, below: &str) -> Result<PathBuf> {
        let name = project.dir.file_name().and_then(|name| name.to_str()).unwrap_or("project");
        // The lock and the home are beside it.
        let to = self.path.join(below).join(name);
        create_private_folder(&to)?;
        let ignored: Vec<String> =
            list_instruction_files(&project.dir, spec).into_iter().map(|file| file.path).collect();
        copy_project(&project.dir, &to, &ignored).map_err(|error| {
            let message = format!("cannot copy the project: {error}");
            Diagnostic::error(Code::ContextFailed, message)
                .hint("add `--here` to probe the agent in the project itself")
                .into()
        })
    }

    /// Returns a worktree for each lane, as flows make them: of one repository, a copy of the project's, which is not touched.
    /// Without a repository, each lane gets a copy.
    pub(crate) fn create_lanes(
        &self,
        project: &Project,
        spec: &ProbeSpec,
        lanes: usize,
    ) -> Result<Vec<PathBuf>> {
        let copy = self.copy(project, spec, "worktree")?;
        let git = Git::open(&copy)?;
        let lock = self.path.join("lanes.lock");
        let homes = self.path.join("lanes");
        create_private_folder(&homes)?;
        let mut places = Vec::new();
        for lane in 1..=lanes {
            let name = format!("lane-{lane}");
            places.push(match &git {
                Some(git) => {
                    let made = ensure_lane_worktree(git, &lock, &homes, &name)?.path;
                    let below = copy.strip_prefix(git.top()).map(Path::to_owned).unwrap_or_default();
                    made.join(below)
                }
                None => self.copy(project, spec, &name)?,
            });
        }
        Ok(places)
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.path.join("home")
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ProbeFolder {
    fn drop(&mut self) {
        // What remains is removed by the next probe.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Creates an empty home with the files that the CLI needs there.
pub(crate) fn create_home(home: &Path, spec: &ProbeSpec, values: &ProbeValues) -> Result<()> {
    create_private_folder(home)?;
    let folder = WritableFolder::open(home).map_err(|error| path_error(home, error))?;
    for path in &spec.isolated_folders {
        folder.create_folder(path, 0o700)?;
    }
    for (path, value) in &spec.isolated_files {
        folder.write(path, format!("{}\n", values.fill_value(value)).as_bytes(), 0o600)?;
    }
    Ok(())
}

/// Removes the folders of probes that no process holds.
fn remove_abandoned(all: &Path) {
    for entry in fs::read_dir(all).into_iter().flatten().flatten() {
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let lock = open_private(&entry.path().join("lock"));
        if is_folder && lock.is_ok_and(|lock| lock.try_lock().is_ok()) {
            // What remains is removed by the next probe.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
