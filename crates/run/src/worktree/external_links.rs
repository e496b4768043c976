//! Symbolic links that lead out of the worktree.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::FileType;
use serde::{Deserialize, Serialize};

use super::fingerprint::Fingerprint;
use super::survey::{FileClass, FileSurvey};
use super::worktree_path::WorktreePath;
use crate::git::normalize_path;

/// The target of each link, with a stamp that shows its changes.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct ExternalLinks(BTreeMap<WorktreePath, String>);

impl ExternalLinks {
    pub(super) fn from_survey(top: &Path, survey: &FileSurvey) -> Self {
        let real = top.canonicalize().unwrap_or_else(|_| top.to_owned());
        let mut links = BTreeMap::new();
        for entry in survey.entries.iter().filter(|entry| entry.kind() == FileType::Symlink) {
            let Fingerprint::Link(target) = entry.fingerprint() else { continue };
            if entry.class() == FileClass::Ignored {
                continue;
            }
            let link = top.join(std::ffi::OsStr::from_bytes(entry.place().bytes()));
            let end = resolve_target(&link, Path::new(std::ffi::OsStr::from_bytes(target)));
            if !end.starts_with(&real) {
                links.insert(entry.place().clone(), format!("{} {}", end.display(), target_stamp(&end)));
            }
        }
        Self(links)
    }

    /// Returns the links that lead out and did not before, or whose target was touched.
    pub(super) fn changes<'n>(&self, now: &'n Self) -> impl Iterator<Item = &'n WorktreePath> {
        now.0.iter().filter(|(path, end)| self.0.get(*path) != Some(*end)).map(|(path, _)| path)
    }
}

/// Returns the target of a link, whether it exists or not.
fn resolve_target(link: &Path, target: &Path) -> PathBuf {
    if let Ok(end) = link.canonicalize() {
        return end;
    }
    let folder = link.parent().and_then(|folder| folder.canonicalize().ok()).unwrap_or_default();
    normalize_path(&folder.join(target))
}

/// Returns a stamp that changes when the target is written to; for a folder, when an entry comes or goes.
fn target_stamp(path: &Path) -> String {
    let stat = |path: &Path| {
        let meta = path.symlink_metadata().ok()?;
        let (modified, changed) = ((meta.mtime(), meta.mtime_nsec()), (meta.ctime(), meta.ctime_nsec()));
        Some(format!("{} {} {modified:?} {changed:?}", meta.ino(), meta.len()))
    };
    let mut all = stat(path).unwrap_or_default();
    let mut inside: Vec<PathBuf> =
        fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path()).take(1000).collect();
    inside.sort();
    all.extend(inside.iter().filter_map(|path| stat(path)).map(|stat| format!(", {stat}")));
    all
}
