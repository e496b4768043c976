//! Folder of a flow: its documents, the archived documents of earlier rounds, and the state file of a
//! session.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use callsheet_core::flow::{
    CONTEXT, Flow, FlowState, FolderKind as Kind, SessionLabels, add_changes, build_session_state,
    render_session_context,
};
use callsheet_core::submission::SessionChanges;
use callsheet_core::text::glob::Glob;
use callsheet_run::WritableFolder;
use callsheet_store::now;

use super::FlowOptions;
use crate::error::{Result, unreadable_error};
use crate::project::Project;
use crate::session::open_folder;

/// State file of a session.
const STATE: &str = "state.json";
/// Folder of the archived documents.
const EARLIER: &str = "earlier";

#[derive(Clone, Debug)]
pub(crate) struct FlowFolder {
    pub path: PathBuf,
    /// Path relative to the project.
    pub relative: String,
    kind: Kind,
}

impl FlowFolder {
    pub(crate) fn new(project: &Project, plan: &FlowOptions) -> Self {
        let relative = plan.folder();
        let path = project.dir.join(&relative);
        let archived = archive_path(&path);
        let path = if !path.exists() && archived.exists() { archived } else { path };
        Self { path, relative, kind: plan.definition.folder }
    }

    /// Creates the folder if it is missing, without following links.
    pub(crate) fn create(&self, project: &Project) -> Result<()> {
        Ok(open_folder(&project.dir)?.create_folder(&self.relative, 0o700)?)
    }

    fn open_folder(&self) -> Result<WritableFolder> {
        open_folder(&self.path)
    }

    pub(crate) fn write(&self, files: &BTreeMap<String, String>) -> Result<()> {
        if files.is_empty() {
            return Ok(());
        }
        let changes = SessionChanges { write: files.clone(), remove: Vec::new() };
        Ok(self.open_folder()?.apply(&changes)?)
    }

    /// Adds a person's requested changes to a phase. The same request is not added twice.
    pub(crate) fn note_changes(&self, flow: &Flow, phase: &str, changes: &str) -> Result<()> {
        let add = |text: &str| (add_changes(flow, phase, text, changes), ());
        Ok(self.open_folder()?.update(&flow.changes, u64::MAX, add)?)
    }

    /// Returns the text of a file, or an empty text if the file is missing.
    pub(crate) fn read(&self, file: &str) -> Result<String> {
        let text = self.open_folder()?.read(file, u64::MAX).map_err(|error| unreadable_error(file, error))?;
        Ok(text.unwrap_or_default())
    }

    /// Returns every file below the folder, relative to it, without the archived ones.
    pub(crate) fn files(&self) -> Vec<String> {
        files_below(&self.path, EARLIER)
    }

    /// Returns the files that match `patterns`, in byte order. Plain paths need no search of the folder,
    /// which can hold as many files as there are lanes that ask.
    fn matching_files(&self, patterns: &[String]) -> BTreeSet<String> {
        let is_glob = |pattern: &&String| pattern.contains(['*', '?', '[', '{', '\\']);
        let (globs, paths): (Vec<&String>, Vec<&String>) = patterns.iter().partition(is_glob);
        let mut found: BTreeSet<String> =
            paths.into_iter().filter(|path| self.has_file(path)).cloned().collect();
        let globs: Vec<_> = globs.into_iter().filter_map(|glob| Glob::parse(glob).ok()).collect();
        if !globs.is_empty() {
            let fits = |file: &String| globs.iter().any(|glob| glob.matches(file));
            found.extend(self.files().into_iter().filter(fits));
        }
        found
    }

    /// Returns whether `path` is one of the [files](Self::files). A path behind a link or above the folder is
    /// not.
    fn has_file(&self, path: &str) -> bool {
        let mut at = self.path.clone();
        let mut parts = Path::new(path).components().peekable();
        let mut is_file = false;
        while let Some(part) = parts.next() {
            let Component::Normal(name) = part else { return false };
            at.push(name);
            let Ok(meta) = at.symlink_metadata() else { return false };
            is_file = !meta.is_dir();
            if is_file == parts.peek().is_some() || at == self.path.join(EARLIER) {
                return false;
            }
        }
        is_file
    }

    /// Moves the files that match `patterns` to the folder `aside`. Returns all files in `aside`.
    pub(crate) fn archive_files(&self, patterns: &[String], aside: &str) -> Result<Vec<String>> {
        let to = self.path.join(aside);
        for file in self.matching_files(patterns) {
            let moved = self.open_folder()?.rename(&file, &format!("{aside}/{file}"));
            moved?;
        }
        Ok(files_below(&to, ""))
    }

    /// Copies the documents to a lane's worktree. Returns their folder there.
    pub(crate) fn copy_to(&self, worktree: &Path) -> Result<PathBuf> {
        let (from, to) = (self.open_folder()?, open_folder(worktree)?);
        // A process that was killed while copying leaves the temporary file that was to replace a document.
        let is_left = |file: &&String| {
            let name = file.rsplit('/').next().unwrap_or_default();
            name.starts_with('.') && name.ends_with(".new")
        };
        for file in files_below(&worktree.join(&self.relative), EARLIER).iter().filter(is_left) {
            to.remove(&format!("{}/{file}", self.relative))?;
        }
        // Files that callsheet writes meanwhile are not for agents.
        let is_ours = |file: &String| file.starts_with('.') || file == STATE;
        let is_file =
            |file: &String| self.path.join(file).symlink_metadata().is_ok_and(|meta| meta.is_file());
        for file in self.files().into_iter().filter(|file| !is_ours(file) && is_file(file)) {
            let copied = to.copy(&format!("{}/{file}", self.relative), &from, &file);
            copied?;
        }
        to.create_folder(&self.relative, 0o777)?;
        Ok(worktree.join(&self.relative))
    }

    /// Copies a lane's own documents back from its worktree.
    pub(crate) fn take_from(&self, worktree: &Path, patterns: &[String]) -> Result<()> {
        let there = Self { path: worktree.join(&self.relative), ..self.clone() };
        let mut write = BTreeMap::new();
        for file in there.matching_files(patterns) {
            // A link could lead anywhere.
            let is_file = there.path.join(&file).symlink_metadata().is_ok_and(|meta| meta.is_file());
            let text = if is_file { there.open_folder()?.read(&file, u64::MAX) } else { Ok(None) };
            let text = text.map_err(|error| unreadable_error(&file, error))?;
            write.extend(text.map(|text| (file, text)));
        }
        self.write(&write)
    }

    pub(crate) fn can_show_state(&self) -> bool {
        self.kind == Kind::Sessions && self.path.exists()
    }

    /// Returns the name and text of the file with which a session describes itself to every agent in it.
    pub(crate) fn context_file(&self) -> Result<Option<(String, String)>> {
        if self.kind != Kind::Sessions {
            return Ok(None);
        }
        Ok(Some((CONTEXT.to_owned(), render_session_context(&self.relative)?)))
    }

    pub(crate) fn write_state(&self, plan: &FlowOptions, state: &FlowState, last_event: &str) -> Result<()> {
        let updated_at = now();
        let session = SessionLabels {
            feature_dir: &self.relative,
            session_name: &plan.name,
            last_event,
            updated_at: &updated_at,
        };
        let shown = build_session_state(&plan.definition, state, &session);
        self.write(&BTreeMap::from([(STATE.to_owned(), format!("{shown:#}\n"))]))
    }

    /// Returns the paths that only callsheet writes while agents work.
    pub(crate) fn own_paths(&self) -> Vec<PathBuf> {
        vec![self.path.join(STATE), self.path.join(EARLIER).join("")]
    }

    /// Moves the folder of a finished flow to the archive.
    pub(crate) fn archive(&mut self) -> Result<()> {
        let to = archive_path(&self.path);
        let name = self.path.file_name().and_then(|name| name.to_str());
        let (Some(name), Some(above)) = (name, self.path.parent()) else { return Ok(()) };
        if self.path == to || !self.path.exists() {
            return Ok(());
        }
        open_folder(above)?.rename(name, &format!("archive/{name}"))?;
        self.path = to;
        Ok(())
    }
}

/// Returns the folder's path after its flow has finished.
fn archive_path(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default();
    match path.parent() {
        Some(folder) if folder.file_name().is_some_and(|name| name == "archive") => path.to_owned(),
        Some(folder) => folder.join("archive").join(name),
        None => path.to_owned(),
    }
}

/// Returns files in byte order, without those in the folder `but`.
fn files_below(root: &Path, but: &str) -> Vec<String> {
    let mut files = Vec::new();
    let mut open = vec![String::new()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(root.join(&folder)).into_iter().flatten().flatten() {
            let Some(name) = entry.file_name().to_str().map(str::to_owned) else { continue };
            let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => open.extend((path != but).then_some(path)),
                Ok(_) => files.push(path),
                Err(_) => {}
            }
        }
    }
    files.sort();
    files
}

/// Derives an unused folder name from a person's request.
pub(crate) fn choose_name(request: &str, is_taken: impl Fn(&str) -> bool) -> String {
    let mut name = String::new();
    for word in request.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()) {
        if name.len() + word.len() > 40 {
            break;
        }
        if !name.is_empty() {
            name.push('-');
        }
        name.push_str(&word.to_ascii_lowercase());
    }
    if name.is_empty() || name == "archive" {
        name = "change".into();
    }
    let numbered = (2..).map(|number| format!("{name}-{number}"));
    std::iter::once(name.clone()).chain(numbered).find(|name| !is_taken(name)).unwrap_or(name)
}
