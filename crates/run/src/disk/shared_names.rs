//! Finds the files of a project that have more than one name, by symbolic links or hard links.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use callsheet_core::library::plan::SharedName;

/// The most entries that are examined. An entry that was not examined shares no name.
const MOST_ENTRIES: usize = 500_000;

/// The target of a name.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum FileIdentity {
    /// A file with several names, by device and inode.
    File(u64, u64),
    /// The target of a link.
    Place(PathBuf),
}

/// Returns the files and folders below `root` that have several names by links. Skips git's and callsheet's
/// own folders.
pub fn find_shared_names(root: &Path) -> Vec<SharedName> {
    let Ok(root) = root.canonicalize() else { return Vec::new() };
    let mut found: BTreeMap<FileIdentity, (BTreeSet<String>, bool)> = BTreeMap::new();
    let mut open = vec![root.clone()];
    let mut seen = 0;
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            seen += 1;
            let path = entry.path();
            let Ok(meta) = entry.metadata() else { continue };
            let is_own = matches!(entry.file_name().to_str(), Some(".git" | ".callsheet"));
            if seen > MOST_ENTRIES || is_own {
                continue;
            }
            if meta.is_dir() {
                open.push(path);
            } else if meta.is_symlink() {
                let Ok(target) = path.canonicalize() else { continue };
                let Ok(real) = target.metadata() else { continue };
                let mut add = |path: &Path| {
                    let Some(name) = relative_name(&root, path) else { return };
                    let key = if real.is_file() && real.nlink() > 1 {
                        FileIdentity::File(real.dev(), real.ino())
                    } else {
                        FileIdentity::Place(target.clone())
                    };
                    let (names, is_folder) = found.entry(key).or_default();
                    names.insert(name);
                    *is_folder = real.is_dir();
                };
                add(&path);
                add(&target);
            } else if meta.is_file() && meta.nlink() > 1 {
                let names = found.entry(FileIdentity::File(meta.dev(), meta.ino())).or_default();
                names.0.extend(relative_name(&root, &path));
            }
        }
    }
    let shared = found.into_values().filter(|(names, _)| names.len() > 1);
    shared.map(|(names, is_folder)| SharedName { paths: names.into_iter().collect(), is_folder }).collect()
}

fn relative_name(root: &Path, path: &Path) -> Option<String> {
    let name = path.strip_prefix(root).ok()?.to_str()?;
    // A link to the whole project gives every file of it two names.
    Some(if name.is_empty() { ".".to_owned() } else { name.to_owned() })
}
