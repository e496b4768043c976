//! Identifies the project of a directory by an id that the user's state directory keeps, so that no file of
//! the project can lead to another project's ledger.

use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use callsheet_core::diag::{Code, Diagnostic};
use callsheet_core::record::{Id, is_project_name, project_from_url};
use callsheet_core::{SourceId, SourceRoot, Sources as _};
use callsheet_run::{Disk, Git, Roots, WritableFolder, read_own_text};
use callsheet_store::new_id;
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::project::Project;
use crate::project::state::{create_private_folder, directory_key, hold_lock, replace_private, state_dir};

/// File in git's common directory that holds the project's id.
const ID_FILE: &str = "callsheet-id";

/// An id and a line break fit into this limit.
const ID_BYTES: u64 = 64;

/// Directory of a project, as stored in the state directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct KnownDirectory {
    id: Id,
    path: String,
    inode: u64,
}

/// Facts about a project's directory.
#[derive(Clone, Debug)]
pub(crate) struct ProjectHome {
    /// Id of the project; `None` if it has none yet.
    pub id: Option<Id>,
    git: Option<Git>,
    /// Directory that all worktrees of its repository share.
    common: Option<PathBuf>,
    /// Project's directory, relative to the top of its worktree.
    below: PathBuf,
    pub diagnostics: Vec<Diagnostic>,
}

fn inode(path: &Path) -> u64 {
    path.metadata().map_or(0, |found| found.ino())
}

fn find_by_path(path: &Path) -> Result<Option<KnownDirectory>> {
    Ok(read_place(&state_dir()?.join("places").join(directory_key(path))))
}

fn find_by_id(id: &Id) -> Result<Option<KnownDirectory>> {
    Ok(read_place(&project_folder(id)?.join("place")))
}

fn project_folder(id: &Id) -> Result<PathBuf> {
    Ok(state_dir()?.join("projects").join(id.as_str()))
}

fn read_place(path: &Path) -> Option<KnownDirectory> {
    serde_json::from_str(&read_own_text(path)?).ok()
}

/// Reads the id in git's common directory. Does not follow a link, and accepts only an id.
fn read_written_id(common: &Path) -> Option<Id> {
    let roots = Roots { project: Some(common.to_owned()), ..Roots::default() };
    let text =
        Disk::new(&roots, ID_BYTES).text(&SourceId::new(SourceRoot::Project, ID_FILE).ok()?).ok()??;
    let is_link = common.join(ID_FILE).symlink_metadata().is_ok_and(|found| found.is_symlink());
    Id::parse(text.trim_end_matches('\n')).filter(|_| !is_link)
}

fn write_id(common: &Path, id: &Id) {
    let write = || {
        let folder = WritableFolder::open(common).ok()?;
        folder.update(ID_FILE, ID_BYTES, |_| (format!("{id}\n"), ())).ok()
    };
    // Without the file, the project is identified by its path alone.
    let _ = write();
}

/// Acquires the lock for looking up and writing places.
fn lock_places() -> Result<File> {
    let folder = state_dir()?.join("places");
    create_private_folder(&folder)?;
    hold_lock(&folder.join("lock"))
}

/// Id found in the git directory, with its reliability.
enum GitProjectId {
    Nothing,
    /// Stored for this place, or moved here.
    Kept(Id),
    /// Written in the git directory, but stored nowhere.
    Written(Id),
    /// The same id belongs to a directory that still exists.
    CopyOf(String),
}

fn read_git_id(common: &Path) -> Result<GitProjectId> {
    let written = read_written_id(common);
    let moved = match &written {
        // The former place does not hold the id any more.
        Some(id) => find_by_id(id)?.filter(|place| {
            Path::new(&place.path) != common
                && (inode(common) == place.inode || !Path::new(&place.path).exists())
                && inode(Path::new(&place.path)) != place.inode
        }),
        None => None,
    };
    if let Some(kept) = find_by_path(common)? {
        let is_same = kept.inode == inode(common);
        return Ok(match moved {
            Some(moved) if !is_same && moved.inode == inode(common) => GitProjectId::Kept(moved.id),
            _ => GitProjectId::Kept(kept.id),
        });
    }
    Ok(match (written, moved) {
        (Some(_), Some(moved)) => GitProjectId::Kept(moved.id),
        (Some(id), None) => match find_by_id(&id)? {
            Some(place) if Path::new(&place.path) == common => GitProjectId::Kept(id),
            Some(place) => GitProjectId::CopyOf(place.path),
            None => GitProjectId::Written(id),
        },
        (None, _) => GitProjectId::Nothing,
    })
}

impl ProjectHome {
    /// Finds the project that contains `project`, a real path. Creates an id for a project without one if
    /// `create` is set.
    pub(crate) fn find(project: &Path, create: bool) -> Result<Self> {
        let project = &project.canonicalize().unwrap_or_else(|_| project.to_owned());
        let found = Git::open_with_common(project).ok().flatten();
        let below = found.as_ref().and_then(|found| project.strip_prefix(found.git.top()).ok());
        let below = below.map(Path::to_owned).unwrap_or_default();
        // A `.git` that leads to a repository which does not name this worktree identifies no project, unless
        // it is the only one that leads there.
        let common = match &found {
            Some(found) if found.leads_back => Some(found.common.clone()),
            Some(found) => {
                let known = find_by_path(&found.common).unwrap_or_default();
                let own = find_by_path(project).unwrap_or_default().map(|place| place.id);
                let is_others = known.is_some_and(|known| own != Some(known.id));
                (!is_others).then(|| found.common.clone())
            }
            None => None,
        };
        let git = found.map(|found| found.git);
        let mut home = Self { id: None, git, common, below, diagnostics: Vec::new() };
        if !create && state_dir().is_err() {
            return Ok(home);
        }
        let held = if create { Some(lock_places()?) } else { None };
        home.resolve(project, create)?;
        drop(held);
        Ok(home)
    }

    fn resolve(&mut self, project: &Path, create: bool) -> Result<()> {
        let common = self.common.clone();
        let common = common.as_deref();
        let says = common.map_or(Ok(GitProjectId::Nothing), read_git_id)?;
        // The directory itself decides: a `.git` that was removed, or that leads to another repository now,
        // changes nothing.
        let kept = find_by_path(project)?;
        let is_same = kept.as_ref().is_some_and(|kept| kept.inode == inode(project));
        let warn = |message: String| {
            let hint = "the ledger stays the same; run `callsheet ledger path` to see it";
            Diagnostic::warning(Code::LedgerProject, message).hint(hint)
        };
        let id = match (kept.map(|kept| kept.id), says) {
            (Some(kept), GitProjectId::Kept(id)) if kept == id => Some(kept),
            // Another directory is there now, and the state directory identifies it.
            (Some(_), GitProjectId::Kept(id)) if !is_same => Some(id),
            (Some(kept), GitProjectId::Kept(_) | GitProjectId::Written(_)) => {
                self.diagnostics
                    .push(warn("the git directory of this project holds the id of another one".into()));
                Some(kept)
            }
            (Some(kept), GitProjectId::CopyOf(_) | GitProjectId::Nothing) => Some(kept),
            (None, GitProjectId::Kept(id) | GitProjectId::Written(id)) => Some(id),
            (None, GitProjectId::CopyOf(path)) => {
                let message = format!("this project is a copy of {path}; it has its own ledger");
                self.diagnostics.extend(create.then(|| Diagnostic::note(Code::LedgerProject, message)));
                None
            }
            (None, GitProjectId::Nothing) => None,
        };
        let id = match id {
            Some(id) => Some(id),
            None if create => {
                Some(new_id().ok_or_else(|| Diagnostic::error(Code::LedgerFailed, "cannot generate an id"))?)
            }
            None => None,
        };
        if let (Some(id), Some(common)) = (&id, common) {
            let written = read_written_id(common);
            if written.as_ref() != Some(id) {
                let was_kept = find_by_path(common)?.is_some_and(|place| place.id == *id);
                if was_kept && self.diagnostics.is_empty() {
                    let how = if written.is_some() { "changed" } else { "removed" };
                    self.diagnostics
                        .push(warn(format!("the id of this project was {how} in its git directory")));
                }
                if create || was_kept {
                    write_id(common, id);
                }
            }
        }
        if let Some(id) = &id {
            let is_kept = project_folder(id)?.join("place").exists();
            if create || is_kept {
                let kept = store_directory(id, common.unwrap_or(project), true)
                    .and_then(|()| store_directory(id, project, false));
                // A reader may lack write access: the next writer stores it.
                if create {
                    kept?;
                }
            }
        }
        self.id = id;
        Ok(())
    }

    /// Returns the path of the project's own ledger. A project below the top of its worktree has a separate
    /// ledger.
    pub(crate) fn ledger_path(&self) -> Result<Option<PathBuf>> {
        let Some(id) = &self.id else { return Ok(None) };
        let mut folder = project_folder(id)?;
        if !self.below.as_os_str().is_empty() {
            folder.push(directory_key(&self.below));
        }
        Ok(Some(folder.join("ledger.db")))
    }

    /// Returns the project's name: from its configuration, else from the URL of its origin, else from its
    /// folder.
    pub(crate) fn name(&self, project: &Project) -> String {
        if let Some(name) = &project.config.project {
            return name.clone();
        }
        let origin = self.git.as_ref().and_then(|git| project_from_url(&git.origin_url()?));
        let folder = || {
            // A worktree has the name of the checkout that it belongs to.
            let is_git = |common: &&PathBuf| common.file_name().is_some_and(|name| name == ".git");
            let main = self.common.as_ref().filter(is_git).and_then(|common| common.parent());
            let top = self.git.as_ref().map(Git::top);
            let dir = main.or(top).unwrap_or(&project.dir);
            dir.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
        };
        let mut name = origin.unwrap_or_else(folder);
        if !self.below.as_os_str().is_empty() {
            name = format!("{name}/{}", self.below.display());
        }
        if is_project_name(&name) { name } else { "unnamed".into() }
    }
}

impl Project {
    /// Returns the project of the command. Creates an id for a project without one if `create` is set.
    pub(crate) fn find_home(&self, create: bool) -> Result<ProjectHome> {
        if let Some(home) = self.home.get()
            && (home.id.is_some() || !create)
        {
            return Ok(home.clone());
        }
        let mut home = ProjectHome::find(&self.dir, create)?;
        self.observer.diagnostics(&std::mem::take(&mut home.diagnostics));
        if home.id.is_some() {
            // Another thread may have set it first, with the same value.
            let _ = self.home.set(home.clone());
        }
        Ok(home)
    }

    /// Returns the name of the project in its runs.
    pub fn project_name(&self) -> Result<String> {
        if let Some(name) = self.name.get() {
            return Ok(name.clone());
        }
        let name = self.find_home(false)?.name(self);
        Ok(self.name.get_or_init(|| name).clone())
    }
}

/// Stores the id of a directory, and if `own` is set, the directory of the id.
fn store_directory(id: &Id, path: &Path, own: bool) -> Result<()> {
    let place =
        KnownDirectory { id: id.clone(), path: path.to_string_lossy().into_owned(), inode: inode(path) };
    let text = serde_json::to_string(&place).unwrap_or_default();
    let places = state_dir()?.join("places");
    if find_by_path(path)?.as_ref() != Some(&place) {
        create_private_folder(&places)?;
        replace_private(&places.join(directory_key(path)), &text)?;
    }
    if own && find_by_id(id)?.as_ref() != Some(&place) {
        create_private_folder(&project_folder(id)?)?;
        replace_private(&project_folder(id)?.join("place"), &text)?;
    }
    Ok(())
}
