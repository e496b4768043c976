//! The files that callsheet itself writes while an agent works.

use std::path::{Path, PathBuf};

use callsheet_core::delivery::DeliveryAction;
use callsheet_core::record::Id;
use callsheet_run::{OwnFiles, WritableFolder};
use callsheet_store::LedgerUrl;

use crate::error::Result;
use crate::project::Project;
use crate::project::state::{directory_key, state_dir};
use crate::session::open_folder;

/// Returns the folder of the files written for a run's agent.
pub(super) fn run_folder(worktree: &Path, run: &Id) -> PathBuf {
    worktree.join(".callsheet/runs").join(run.as_str())
}

/// Returns the files that callsheet itself writes while an agent works. Every other change counts as the
/// agent's.
pub(super) fn own_files(
    project: &Project,
    dir: &Path,
    acts: &[DeliveryAction],
    prompt: &str,
) -> Result<OwnFiles> {
    let canonical = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let mut own = OwnFiles::default();
    let below = canonical(dir);
    own.written.push((below.join(RULES), RULES_TEXT.to_vec()));
    for (path, text) in written_files(acts, prompt) {
        let path = Path::new(path);
        own.written.push((below.join(path.strip_prefix(dir).unwrap_or(path)), text.into_bytes()));
    }
    own.paths.push(canonical(&state_dir()?).join(""));
    if let Some(LedgerUrl::Sqlite(path)) = project.ledger_url()? {
        let folder = path.parent().map(canonical).unwrap_or_default();
        path.file_name().into_iter().for_each(|name| own.add_database(&folder.join(name)));
    }
    Ok(own)
}

/// Returns the files that are written for an agent.
fn written_files<'a>(acts: &'a [DeliveryAction], prompt: &'a str) -> impl Iterator<Item = (&'a str, String)> {
    acts.iter().filter_map(move |act| match act {
        DeliveryAction::Write { path, text } => Some((path.as_str(), text.to_text(prompt))),
        _ => None,
    })
}

/// Returns the file that stores the fingerprints of a worktree.
pub(super) fn fingerprints_file(dir: &Path) -> Result<PathBuf> {
    Ok(state_dir()?.join("prints").join(directory_key(dir)))
}

const RULES: &str = ".callsheet/runs/.gitignore";

const RULES_TEXT: &[u8] = b"*\n";

/// Keeps the files written for an agent out of its commits, even if it adds everything.
pub(crate) fn write_gitignore(place: &Path) -> Result<()> {
    Ok(open_folder(place)?.write(RULES, RULES_TEXT, 0o600)?)
}

/// Removes the files written for the agent, which are in the ledger too. Files that the agent changed or
/// added stay visible.
pub(crate) fn remove_written(place: &Path, acts: &[DeliveryAction], prompt: &str, run: &Id) {
    let Ok(folder) = WritableFolder::open(place) else { return };
    for (path, text) in written_files(acts, prompt) {
        let Some(path) = Path::new(path).strip_prefix(place).ok().and_then(Path::to_str) else { continue };
        if folder.read(path, text.len() as u64).is_ok_and(|found| found.as_ref() == Some(&text)) {
            // A file that cannot be removed does no harm.
            let _ = folder.remove(path);
        }
    }
    let _ = folder.remove_empty(&format!(".callsheet/runs/{run}"));
}

/// Removes the files written for a run's agent, which are in the ledger too. A file that cannot be removed
/// does no harm.
pub(super) fn remove_files(place: &Path, run: &Id) {
    let _ = WritableFolder::open(place).map(|folder| folder.remove_tree(&format!(".callsheet/runs/{run}")));
}
