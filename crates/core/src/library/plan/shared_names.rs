//! Files that have more than one name: the owner of one name owns the others.

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;

use super::{OwnedGlob, escape_path};

/// Names of one file or folder, relative to the project.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SharedName {
    /// Paths of the names.
    pub paths: Vec<String>,
    /// Whether it is a folder.
    pub is_folder: bool,
}

/// Maximum number of rounds to find the names of names. Longer chains of links are ignored.
const MOST_ROUNDS: usize = 16;

/// Returns globs of the other names of the files that `owned` owns.
pub fn find_other_names(owned: &[String], shared_names: &[SharedName]) -> Vec<String> {
    let mut globs: Vec<OwnedGlob> = owned.iter().map(|glob| OwnedGlob::new(glob)).collect();
    let mut found: BTreeSet<String> = BTreeSet::new();
    let mut open: Vec<&SharedName> = shared_names.iter().collect();
    for _ in 0..MOST_ROUNDS {
        let mut rest = Vec::new();
        let before = found.len();
        for shared in open {
            let names: Vec<String> =
                shared.paths.iter().map(|path| escape_path(path, shared.is_folder)).collect();
            let own: Vec<OwnedGlob> = names.iter().map(|name| OwnedGlob::new(name)).collect();
            if own.iter().any(|name| globs.iter().any(|glob| glob.overlaps(name))) {
                globs.extend(own);
                found.extend(names);
            } else {
                rest.push(shared);
            }
        }
        if found.len() == before {
            break;
        }
        open = rest;
    }
    found.into_iter().collect()
}
