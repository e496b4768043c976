//! The user's state directory: data that is neither configuration nor part of a project. Only its owner can
//! read it.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::{Error, Result};

use callsheet_core::diag::{Code, Diagnostic};
use callsheet_core::record::{Digest, Id, sha256};
use callsheet_run::{
    LOCK_PATIENCE, ProcessTrace, WorktreeSnapshot, lock_file, open_file, open_private, read_last_documents,
    read_own_text, state_home,
};

/// Returns `$XDG_STATE_HOME/callsheet`.
pub(crate) fn state_dir() -> Result<PathBuf> {
    Ok(state_home().ok_or_else(|| state_dir_diagnostic("HOME is not set"))?)
}

/// Returns the error for a path that cannot be used.
pub fn path_error(path: &Path, error: io::Error) -> Error {
    Error::new(state_dir_diagnostic(&format!("`{}`: {error}", path.display())), error)
}

/// Returns the diagnostic for a state directory that cannot be written.
fn state_dir_diagnostic(why: &str) -> Diagnostic {
    Diagnostic::error(Code::LedgerFailed, format!("cannot use the state directory: {why}"))
        .hint(STATE_HINT)
        .hint(
            "`run`, `retry`, `continue` and flows need it for locks and for the files that `stop` and `recover` read, also with `--ledger`",
        )
}

/// Hint for a state directory that cannot be written.
pub(crate) const STATE_HINT: &str =
    "set XDG_STATE_HOME to a directory that you can write to, or add `--ledger FILE`";

pub(crate) fn create_private_folder(path: &Path) -> Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        create_private_folder(parent)?;
    }
    let made = match DirBuilder::new().mode(0o700).create(path) {
        // The umask may have removed even the owner's permissions.
        Ok(()) => fs::set_permissions(path, Permissions::from_mode(0o700)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    };
    made.map_err(|error| path_error(path, error))
}

/// Holds a file as a lock until the returned file is dropped.
pub(crate) fn hold_lock(path: &Path) -> Result<File> {
    lock_file(path, LOCK_PATIENCE).map_err(|error| {
        let hint = "another callsheet process is using it; wait for it or end it";
        let message = format!("`{}`: {error}", path.display());
        match error.kind() {
            io::ErrorKind::TimedOut => Diagnostic::error(Code::LedgerLocked, message).hint(hint).into(),
            _ => path_error(path, error),
        }
    })
}

pub(crate) fn write_private(path: &Path, text: &str) -> Result<()> {
    let write = || {
        let mut file = open_private(path)?;
        file.set_len(0)?;
        io::Write::write_all(&mut file, text.as_bytes())
    };
    write().map_err(|error| path_error(path, error))
}

/// Writes a private file in one step: readers see the old text or the new one.
pub(crate) fn replace_private(path: &Path, text: &str) -> Result<()> {
    let number = std::process::id();
    let thread = std::thread::current().id();
    let fresh = path.with_extension(format!("{number}-{thread:?}.new"));
    write_private(&fresh, text)?;
    fs::rename(&fresh, path).map_err(|error| path_error(path, error))
}

/// Returns a name for data that belongs to one directory.
pub(crate) fn directory_key(dir: &Path) -> String {
    use std::os::unix::ffi::OsStrExt as _;
    let Digest(bytes) = sha256(&[dir.as_os_str().as_bytes()]);
    callsheet_core::text::hex::to_hex(&bytes[..12])
}

/// Locks a task: while the returned file lives, no other process on this machine decides whether the task
/// runs again.
pub(crate) fn lock_task(project: &str, task: &str) -> Result<File> {
    let folder = state_dir()?.join("tasks");
    create_private_folder(&folder)?;
    let path = folder.join(directory_key(Path::new(&format!("{project}\n{task}"))));
    hold_lock(&path)
}

/// Returns the runs of this machine, of all projects, whose records are incomplete.
pub fn unfinished_runs() -> Result<Vec<Id>> {
    let folders = fs::read_dir(state_dir()?.join("runs")).into_iter().flatten().flatten();
    let mut runs: Vec<Id> = folders.filter_map(|folder| Id::parse(folder.file_name().to_str()?)).collect();
    runs.sort();
    Ok(runs)
}

/// Per-run directory: lock, stop request and hand-over files shared by local processes.
#[derive(Debug)]
pub struct RunDir {
    dir: PathBuf,
}

/// How long the guard of a run may take to end its processes.
const PATIENCE: Duration = Duration::from_secs(3);

impl RunDir {
    /// Returns the directory of a run in the user's state directory.
    pub fn from_run(run: &Id) -> Result<Self> {
        Ok(Self::from_state_dir(&state_dir()?, run))
    }

    /// Returns the directory below a given state directory, for processes that may not have our environment.
    pub fn from_state_dir(state: &Path, run: &Id) -> Self {
        Self { dir: state.join("runs").join(run.as_str()) }
    }

    /// Returns the directory for files of this run only.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Acquires the run lock, which is held while the returned file lives. Returns `None` if another process
    /// holds it.
    pub(crate) fn try_lock(&self) -> Result<Option<File>> {
        create_private_folder(&self.dir)?;
        let path = self.dir.join("lock");
        let lock = open_private(&path).map_err(|error| path_error(&path, error))?;
        match lock.try_lock() {
            Ok(()) => Ok(Some(lock)),
            Err(fs::TryLockError::WouldBlock) => Ok(None),
            Err(fs::TryLockError::Error(error)) => Err(path_error(&path, error)),
        }
    }

    /// Returns whether a process drives the run.
    pub(crate) fn is_locked(&self) -> bool {
        let lock = open_file(&self.dir.join("lock")).ok().flatten();
        lock.is_some_and(|lock| matches!(lock.try_lock_shared(), Err(fs::TryLockError::WouldBlock)))
    }

    /// Asks the driving process to end the run.
    pub fn request_stop(&self) -> Result<()> {
        write_private(&self.dir.join("stop"), "")
    }

    /// Removes an earlier stop request before the run or flow resumes.
    pub(crate) fn clear_stop(&self) {
        // If it cannot be removed, the run stops again and reports it.
        let _ = fs::remove_file(self.dir.join("stop"));
    }

    pub(crate) fn has_stop_request(&self) -> bool {
        self.dir.join("stop").exists()
    }

    /// Stores the worktree's snapshot for the process that must finish the run.
    pub(crate) fn store_snapshot(&self, before: &WorktreeSnapshot) -> Result<()> {
        let text = serde_json::to_string(before).unwrap_or_default();
        write_private(&self.dir.join("before.json"), &text)
    }

    /// Returns the stored snapshot of the worktree.
    pub fn snapshot(&self) -> Option<WorktreeSnapshot> {
        serde_json::from_str(&read_own_text(&self.dir.join("before.json"))?).ok()
    }

    /// Stores the pane in which the agent continues after its line was typed: the server's name and the pane.
    pub(crate) fn store_pane(&self, server: &str, pane: &str) -> Result<()> {
        write_private(&self.dir.join("pane"), &format!("{server}\n{pane}"))
    }

    /// Returns the tmux server and the pane of a run in a terminal.
    pub fn pane(&self) -> Option<(String, String)> {
        let text = read_own_text(&self.dir.join("pane"))?;
        let (server, pane) = text.split_once('\n')?;
        Some((server.into(), pane.into()))
    }

    /// Stores the version of the agent for the process that completes the run. If that fails, the version stays unknown.
    pub(crate) fn store_version(&self, version: &str) {
        let _ = write_private(&self.dir.join("version"), version);
    }

    /// Returns the version of the agent, if it is known.
    pub(crate) fn version(&self) -> Option<String> {
        read_own_text(&self.dir.join("version"))
    }

    /// Returns the documents of the run's flow after the last process of the run ended, if they are known.
    pub(crate) fn last_documents(&self, run: &Id) -> Option<BTreeMap<String, String>> {
        if !self.dir.is_dir()
            || !ProcessTrace::open(run.as_str(), &self.dir).wait_until_empty(PATIENCE).is_empty()
        {
            return None;
        }
        read_last_documents(&self.dir)
    }

    /// Removes the directory of a run whose records are complete.
    pub fn remove(&self) {
        // A remaining file does no harm.
        let _ = fs::remove_dir_all(&self.dir);
    }
}
