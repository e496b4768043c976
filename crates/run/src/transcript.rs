//! Looks up files for a delivery: those behind `@path`, and the transcript that an agent keeps.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};

use callsheet_core::delivery::find_at_paths;
use callsheet_core::delivery::receipt::ReceiptWatcher;
use callsheet_core::library::agent::TranscriptSpec;

use crate::disk::read::open_file;

/// The most levels of folders that are searched: a year, a month and a day, or a project.
const LEVELS: usize = 4;
/// The most bytes of a transcript that are read. The prompt is at its beginning, or was not delivered.
const MOST_BYTES: u64 = 64 * 1024 * 1024;

/// Returns the `@path`s of the prompt that an agent in `worktree` would find.
pub fn existing_at_paths(prompt: &str, worktree: &Path) -> Vec<String> {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let is_there = |path: &String| match (path.strip_prefix("~/"), &home) {
        (Some(rest), Some(home)) => home.join(rest).exists(),
        _ => worktree.join(path).exists(),
    };
    find_at_paths(prompt).into_iter().filter(is_there).collect()
}

/// Checks whether the transcript of `session` has the prompt among the agent's input. `env` holds the
/// variables that were added to the agent's environment.
pub fn transcript_has_prompt(
    transcript: &TranscriptSpec,
    session: &str,
    env: &BTreeMap<String, String>,
    watch: &mut ReceiptWatcher<'_>,
) -> bool {
    let variable = |name: &str| env.get(name).map(OsString::from).or_else(|| std::env::var_os(name));
    let set = variable(&transcript.variable).filter(|value| !value.is_empty()).map(PathBuf::from);
    let root = set.or_else(|| Some(PathBuf::from(variable("HOME")?).join(&transcript.home)));
    let Some(file) = root.and_then(|root| find_session_file(&root.join(&transcript.folder), session, LEVELS))
    else {
        return false;
    };
    let Ok(Some(file)) = open_file(&file) else { return false };
    let mut lines = BufReader::new(file.take(MOST_BYTES)).lines().map_while(Result::ok);
    lines.any(|line| watch.is_transcript_echo(&line))
}

/// Finds the file of a session: its name ends with the id.
fn find_session_file(folder: &Path, session: &str, levels: usize) -> Option<PathBuf> {
    let wanted = format!("{session}.jsonl");
    let mut folders = Vec::new();
    for entry in std::fs::read_dir(folder).ok()?.flatten() {
        let name = entry.file_name();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => folders.push(entry.path()),
            Ok(kind) if kind.is_file() && name.to_string_lossy().ends_with(&wanted) => {
                return Some(entry.path());
            }
            _ => {}
        }
    }
    // The newest folder is the most likely one.
    folders.sort();
    folders
        .iter()
        .rev()
        .filter(|_| levels > 0)
        .find_map(|folder| find_session_file(folder, session, levels - 1))
}
