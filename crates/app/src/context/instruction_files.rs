//! The instruction files that a CLI may load by itself: those of the project, of the folders above it, of the user, and the
//! files that these import.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

use callsheet_core::library::agent::ProbeSpec;
use callsheet_run::{Git, read_file};

use super::attribute::InstructionFile;

/// The most bytes of an instruction file that is searched for.
const MOST_FILE: u64 = 4 << 20;

/// The most folders of a project that are searched.
const MOST_FOLDERS: usize = 2_000;

/// The most instruction files.
const MOST_FILES: usize = 500;

/// The most levels of imports.
const MOST_IMPORTS: usize = 5;

/// Returns the instruction files below a project, with the files that they import, by path from it.
pub(crate) fn list_instruction_files(project: &Path, spec: &ProbeSpec) -> Vec<InstructionFile> {
    let mut found = FoundFiles::new(project, "");
    for folder in list_folders(project) {
        spec.instructions.iter().for_each(|pattern| found.add_pattern(&folder, pattern));
    }
    found.files
}

/// Returns the instruction files of the user, with the files that they import, by path from the home directory.
pub(crate) fn list_home_files(home: &Path, spec: &ProbeSpec) -> Vec<InstructionFile> {
    let mut found = FoundFiles::new(home, "~/");
    spec.home_instructions.iter().for_each(|pattern| found.add_pattern(Path::new(""), pattern));
    found.files
}

/// Returns the instruction files of the folders above a project, up to the top of its repository.
pub(crate) fn list_files_above(project: &Path, spec: &ProbeSpec) -> Vec<InstructionFile> {
    let top = Git::open(project).ok().flatten().and_then(|git| git.top().canonicalize().ok());
    let Some((top, project)) = top.zip(project.canonicalize().ok()) else { return Vec::new() };
    let Ok(below) = project.strip_prefix(&top) else { return Vec::new() };
    let (mut files, mut up, mut folder) = (Vec::new(), String::new(), project.as_path());
    for _ in below.components() {
        let Some(above) = folder.parent() else { break };
        folder = above;
        up.push_str("../");
        let mut found = FoundFiles::new(folder, &up);
        spec.instructions.iter().for_each(|pattern| found.add_pattern(Path::new(""), pattern));
        files.append(&mut found.files);
    }
    files
}

/// Returns the folders of a project, the project first. Hidden folders and links are left out: patterns name the hidden ones.
fn list_folders(project: &Path) -> Vec<PathBuf> {
    let mut folders = vec![PathBuf::new()];
    let mut at = 0;
    while at < folders.len() && folders.len() < MOST_FOLDERS {
        let folder = folders[at].clone();
        let mut inner: Vec<PathBuf> = fs::read_dir(project.join(&folder))
            .into_iter()
            .flatten()
            .flatten()
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
            .filter(|entry| !entry.file_name().to_string_lossy().starts_with('.'))
            .filter(|entry| !matches!(entry.file_name().to_str(), Some("node_modules" | "target")))
            .map(|entry| folder.join(entry.file_name()))
            .collect();
        inner.sort();
        folders.append(&mut inner);
        at += 1;
    }
    folders
}

struct FoundFiles<'r> {
    root: &'r Path,
    prefix: &'r str,
    known: BTreeSet<PathBuf>,
    files: Vec<InstructionFile>,
}

impl<'r> FoundFiles<'r> {
    fn new(root: &'r Path, prefix: &'r str) -> Self {
        Self { root, prefix, known: BTreeSet::new(), files: Vec::new() }
    }

    /// Adds the files of a folder that match a path or a path with `*.md` at its end.
    fn add_pattern(&mut self, folder: &Path, pattern: &str) {
        match pattern.strip_suffix("/*.md") {
            None => self.add(&folder.join(pattern), MOST_IMPORTS),
            Some(inner) => {
                let entries =
                    fs::read_dir(self.root.join(folder).join(inner)).into_iter().flatten().flatten();
                let mut names: Vec<_> = entries.map(|entry| entry.file_name()).collect();
                names.sort();
                for name in names.iter().filter(|name| name.to_string_lossy().ends_with(".md")) {
                    self.add(&folder.join(inner).join(name), MOST_IMPORTS);
                }
            }
        }
    }

    fn add(&mut self, path: &Path, imports: usize) {
        let Some(shown) = path.to_str() else { return };
        if self.files.len() >= MOST_FILES || !self.known.insert(path.to_owned()) {
            return;
        }
        let Ok(Some(text)) = read_file(&self.root.join(path), MOST_FILE) else { return };
        self.files.push(InstructionFile { path: format!("{}{shown}", self.prefix), text: text.to_string() });
        if imports > 0 {
            for import in find_imports(&text) {
                if let Some(path) = normalize(&path.parent().unwrap_or(Path::new("")).join(import)) {
                    self.add(&path, imports - 1);
                }
            }
        }
    }
}

/// Returns the paths that a text imports: words that begin with `@`.
fn find_imports(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split_whitespace().filter_map(|word| word.strip_prefix('@'));
    words.map(|word| word.trim_end_matches(['.', ',', ';', ':', ')'])).filter(|path| path.contains('.'))
}

/// Returns a path without `.` and `..`; `None` if it leads out of its root.
fn normalize(path: &Path) -> Option<PathBuf> {
    let mut parts = Vec::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => parts.push(name),
            Component::CurDir => {}
            Component::ParentDir => {
                parts.pop()?;
            }
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(parts.iter().collect())
}
