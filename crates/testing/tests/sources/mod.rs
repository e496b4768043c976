//! Reads the source files of the workspace for tests of names and imports.

use std::fs;
use std::path::{Path, PathBuf};

/// The crate for tests has a vocabulary of its own.
const UNCOUNTED: &str = "testing";

/// A file below the `src` folder of a crate.
#[derive(Clone, Debug)]
pub(crate) struct SourceFile {
    pub(crate) below_src: String,
    pub(crate) text: String,
}

/// Returns the top folder of the repository.
pub(crate) fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the crates that are counted.
pub(crate) fn crate_names() -> Vec<String> {
    let entries = fs::read_dir(top().join("crates")).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.retain(|name| name != UNCOUNTED);
    names.sort();
    assert!(names.len() > 3, "{names:?}");
    names
}

/// Reads the files below `src` of a crate.
pub(crate) fn crate_sources(name: &str) -> Vec<SourceFile> {
    let src = top().join("crates").join(name).join("src");
    let read = |path: PathBuf| SourceFile {
        below_src: path.strip_prefix(&src).unwrap().to_str().unwrap().to_owned(),
        text: fs::read_to_string(&path).unwrap(),
    };
    files_below(&src, "rs").into_iter().map(read).collect()
}

/// Returns all files below a folder whose names end in `.ending`, in order.
pub(crate) fn files_below(dir: &Path, ending: &str) -> Vec<PathBuf> {
    let mut entries: Vec<PathBuf> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    let mut found = Vec::new();
    for path in entries {
        if path.is_dir() {
            found.extend(files_below(&path, ending));
        } else if path.extension().is_some_and(|known| known == ending) {
            found.push(path);
        }
    }
    found
}
