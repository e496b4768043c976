//! The folder of a probe: a copy of the project, an empty home, and the files that lead the CLI to the server.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use callsheet_core::diag::{Code, Diagnostic};
use callsheet_core::library::agent::{ProbeSpec, ProbeValues};
use callsheet_run::{WritableFolder, copy_project, open_private};
use callsheet_store::new_id;
use serde_json::Value;

use super::instruction_files::list_instruction_files;
use crate::error::Result;
use crate::project::Project;
use crate::project::state::{create_private_folder, path_error, state_dir};

/// A folder of a probe. It is removed on drop.
#[derive(Debug)]
pub(crate) struct ProbeFolder {
    path: PathBuf,
    /// Held while the probe runs, so that no other process removes the folder.
    _lock: File,
}

impl ProbeFolder {
    /// Creates a folder, and removes those that killed processes left behind.
    pub(crate) fn create() -> Result<Self> {
        let all = state_dir()?.join("probes");
        create_private_folder(&all)?;
        let all = all.canonicalize().map_err(|error| path_error(&all, error))?;
        remove_abandoned(&all);
        let id = new_id().ok_or_else(|| Diagnostic::error(Code::LedgerFailed, "cannot generate an id"))?;
        let path = all.join(id.as_str());
        create_private_folder(&path)?;
        let lock = open_private(&path.join("lock")).map_err(|error| path_error(&path, error))?;
        lock.try_lock().map_err(|error| path_error(&path, error.into()))?;
        Ok(Self { path, _lock: lock })
    }

    /// Copies the project, with the instruction files that git ignores. Returns the copy.
    pub(crate) fn copy(&self, project: &Project, spec: &ProbeSpec) -> Result<PathBuf> {
        let name = project.dir.file_name().and_then(|name| name.to_str()).unwrap_or("project");
        // The lock and the home are beside it.
        let to = self.path.join("worktree").join(name);
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

    /// Returns the empty home, with the files that the CLI needs there.
    pub(crate) fn create_home(&self, spec: &ProbeSpec, values: &ProbeValues) -> Result<()> {
        let home = self.home();
        create_private_folder(&home)?;
        let folder = open(&home)?;
        for path in &spec.isolated_folders {
            folder.create_folder(path, 0o700)?;
        }
        write_files(&folder, spec.isolated_files.iter(), values)
    }

    /// Writes the files of the probe besides those of the home.
    pub(crate) fn write_files(&self, spec: &ProbeSpec, values: &ProbeValues) -> Result<()> {
        write_files(&open(&self.path)?, spec.files.iter(), values)
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

fn open(path: &Path) -> Result<WritableFolder> {
    WritableFolder::open(path).map_err(|error| path_error(path, error))
}

fn write_files<'f>(
    folder: &WritableFolder,
    files: impl Iterator<Item = (&'f String, &'f Value)>,
    values: &ProbeValues,
) -> Result<()> {
    for (path, value) in files {
        folder.write(path, format!("{}\n", values.fill_value(value)).as_bytes(), 0o600)?;
    }
    Ok(())
}

/// Removes the folders of probes that no process holds.
fn remove_abandoned(all: &Path) {
    for entry in fs::read_dir(all).into_iter().flatten().flatten() {
        let lock = open_private(&entry.path().join("lock"));
        if lock.is_ok_and(|lock| lock.try_lock().is_ok()) {
            // What remains is removed by the next probe.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
