//! Paths by name: relative to a directory, or below it.

use std::path::{Path, PathBuf};

/// Checks whether a folder belongs to a checkout, as far as that is visible without git.
pub fn is_in_git(dir: &Path) -> bool {
    dir.ancestors().any(|dir| dir.join(".git").exists())
}

/// Returns the canonical form of a path, or the path itself if it has none.
pub(crate) fn canonicalize_or_keep(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_path_buf())
}

/// Returns `path` relative to `project` with `/` between components, or `None` if it is not below it. `.` and
/// `..` are resolved by name alone: a link inside the project keeps the name that the person gave.
pub(crate) fn path_below(path: &Path, project: &Path) -> Option<String> {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::CurDir => {}
            std::path::Component::ParentDir => {
                plain.pop();
            }
            part => plain.push(part),
        }
    }
    let below = plain.strip_prefix(project).map(Path::to_path_buf).or_else(|_| {
        // The project's path may contain a link.
        canonicalize_or_keep(&plain).strip_prefix(canonicalize_or_keep(project)).map(Path::to_path_buf)
    });
    let below = below.ok()?;
    Some(if below.as_os_str().is_empty() { ".".into() } else { join_slashes(&below) })
}

/// Returns the relative path from one directory to another, both in canonical form; `.` if they are the same.
pub fn relative_path(from: &Path, to: &Path) -> String {
    let shared = from.components().zip(to.components()).take_while(|(a, b)| a == b).count();
    let up = from.components().skip(shared).map(|_| "..".into());
    let down = to.components().skip(shared).map(|part| part.as_os_str().to_string_lossy());
    let way: Vec<_> = up.chain(down).collect();
    if way.is_empty() { ".".into() } else { way.join("/") }
}

fn join_slashes(path: &Path) -> String {
    path.components().map(|part| part.as_os_str().to_string_lossy()).collect::<Vec<_>>().join("/")
}

/// Returns a word for a shell.
pub fn shell_word(word: &str) -> String {
    let is_plain = |sign: char| sign.is_ascii_alphanumeric() || "-_./=:,@%+".contains(sign);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Returns a path as the last argument of a command line: a path is never taken as a flag.
pub fn path_words(path: &str) -> String {
    let word = shell_word(path);
    if path.starts_with('-') { format!("-- {word}") } else { word }
}
