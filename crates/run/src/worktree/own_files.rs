//! The files that callsheet itself writes while an agent works: exact files, folders, and files by their
//! bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use callsheet_core::record::{Digest, sha256};
use rustix::fs::FileType;
use serde::{Deserialize, Serialize};

use super::worktree_path::WorktreePath;

/// The files that callsheet itself writes below a worktree, by whole paths.
#[derive(Clone, Debug, Default)]
pub struct OwnFiles {
    /// Exact paths. One with a slash at its end is a folder with everything in it.
    pub paths: Vec<PathBuf>,
    /// Paths with their exact bytes.
    pub written: Vec<(PathBuf, Vec<u8>)>,
}

impl OwnFiles {
    /// Adds an SQLite database, with the files that it has beside it.
    pub fn add_database(&mut self, path: &Path) {
        for end in ["", "-wal", "-shm", "-journal"] {
            let mut name = path.as_os_str().to_owned();
            name.push(end);
            self.paths.push(name.into());
        }
    }
}

/// The paths of [`OwnFiles`], relative to a worktree.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct OwnPaths {
    files: BTreeSet<WorktreePath>,
    folders: Vec<WorktreePath>,
    written: BTreeMap<WorktreePath, Digest>,
}

impl OwnPaths {
    /// Returns the part of `own` that lies below `top`.
    pub(super) fn from_files_below(top: &Path, own: &OwnFiles) -> Self {
        let below = |path: &Path| Some(path.strip_prefix(top).ok()?.as_os_str().as_bytes().to_vec());
        let mut all = Self::default();
        for path in &own.paths {
            let Some(bytes) = below(path) else { continue };
            let is_folder = path.as_os_str().as_bytes().ends_with(b"/");
            let place = WorktreePath::new(bytes.strip_suffix(b"/").unwrap_or(&bytes));
            if is_folder {
                all.folders.push(place);
            } else {
                all.files.insert(place);
            }
        }
        for (path, bytes) in &own.written {
            all.written.extend(below(path).map(|path| (WorktreePath::new(&path), sha256(&[bytes]))));
        }
        all
    }

    /// Checks whether callsheet writes there. Such a file must not even be opened: a process that closes a
    /// database which it has open elsewhere loses its locks. An entry of another kind than callsheet creates
    /// there is not its own.
    pub(super) fn is_own(&self, path: &[u8], kind: FileType) -> bool {
        match kind {
            FileType::RegularFile => self.files.contains(path),
            FileType::Directory => self.folders.iter().any(|folder| folder.bytes() == path),
            _ => false,
        }
    }

    /// Checks whether callsheet wrote exactly these contents there.
    pub(super) fn is_own_content(&self, path: &[u8], contents: &Digest) -> bool {
        self.written.get(path) == Some(contents)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_paths_match_exactly() {
        let mut own =
            OwnFiles { paths: vec!["/w/flow/earlier/".into(), "/x/out".into()], ..OwnFiles::default() };
        own.add_database(Path::new("/w/.callsheet/ledger.db"));
        own.written.push(("/w/run/prompt.md".into(), b"hello".to_vec()));
        let own = OwnPaths::from_files_below(Path::new("/w"), &own);
        for path in ["", "-wal", "-shm", "-journal"] {
            let path = format!(".callsheet/ledger.db{path}");
            assert!(own.is_own(path.as_bytes(), FileType::RegularFile), "{path}");
            assert!(!own.is_own(path.as_bytes(), FileType::Directory), "{path}");
        }
        assert!(
            own.is_own(b"flow/earlier", FileType::Directory)
                && !own.is_own(b"flow/earlier", FileType::Symlink)
        );
        for path in [
            ".callsheet/ledger.db.sh",
            ".callsheet/ledger.db-wal2",
            "flow/earlier.sh",
            "flow",
            "x/out",
            "ledger.db",
        ] {
            assert!(!own.is_own(path.as_bytes(), FileType::RegularFile), "{path}");
        }
        assert!(own.is_own_content(b"run/prompt.md", &sha256(&[b"hello"])));
        assert!(
            !own.is_own_content(b"run/prompt.md", &sha256(&[b"hello "]))
                && !own.is_own_content(b"run/x", &sha256(&[b"hello"]))
        );
    }
}
