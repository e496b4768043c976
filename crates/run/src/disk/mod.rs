//! The four roots as [`Sources`]: the shipped files, and one directory each for user, project and session.
//!
//! Refuses to write: nothing here can create, change or remove a file.

pub(crate) mod documents;
pub(crate) mod folder;
pub(crate) mod list;
pub(crate) mod lock;
pub(crate) mod pack;
pub(crate) mod prefetched;
pub(crate) mod read;
pub(crate) mod shared_names;
mod text_arena;
pub(crate) mod walk;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use callsheet_core::{
    Builtin, Listing, ListingLimits, SharedText, SourceError, SourceId, SourceRoot, Sources,
};
use cap_std::ambient_authority;
use cap_std::fs::Dir;

use pack::{PackOptions, PackedTree};
use read::PathBase;

/// 16 MiB: far above any prompt, far below a harmful size.
pub const DEFAULT_MAX_FILE_BYTES: u64 = 16 * 1024 * 1024;

/// The directories of the three roots on disk.
///
/// A root without a directory is empty, except that a session without one is the project.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roots {
    /// The directory of the user.
    pub user: Option<PathBuf>,
    /// The directory of the project.
    pub project: Option<PathBuf>,
    /// The directory of the session.
    pub session: Option<PathBuf>,
}

/// A root's directory: open, absent, or present and unusable.
type OpenedRoot = Result<Option<Dir>, SourceError>;

/// Sources on disk.
///
/// The directories are opened once, at the start, so all answers refer to the same directories even if they
/// are renamed meanwhile.
#[derive(Debug)]
pub struct Disk {
    user: OpenedRoot,
    project: OpenedRoot,
    session: Option<OpenedRoot>,
    max_file_bytes: u64,
    texts: Arc<BTreeMap<SourceId, SharedText>>,
    /// Folders of the project that count as absent.
    hidden: Vec<String>,
}

impl Disk {
    /// Opens the roots. Never fails: a root that cannot be opened reports the reason when it is first used.
    ///
    /// ```
    /// use callsheet_core::{SourceId, SourceRoot, Sources};
    /// use callsheet_run::{DEFAULT_MAX_FILE_BYTES, Disk, Roots};
    ///
    /// let project = tempfile::tempdir()?;
    /// std::fs::write(project.path().join("README.md"), "# Shop\n")?;
    /// let roots = Roots { project: Some(project.path().into()), ..Roots::default() };
    /// let disk = Disk::new(&roots, DEFAULT_MAX_FILE_BYTES);
    /// let readme = SourceId::new(SourceRoot::Project, "README.md").unwrap();
    /// assert_eq!(disk.text(&readme).unwrap().as_deref(), Some("# Shop\n"));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn new(roots: &Roots, max_file_bytes: u64) -> Self {
        let open_if_given = |path: &Option<PathBuf>| path.as_deref().map_or(Ok(None), open_root);
        Self {
            user: open_if_given(&roots.user),
            project: open_if_given(&roots.project),
            session: roots.session.as_deref().map(open_root),
            max_file_bytes,
            texts: Arc::default(),
            hidden: Vec::new(),
        }
    }

    /// Returns the same sources with texts that take the place of files. Listings do not have them.
    #[must_use]
    pub fn with_texts(self, texts: Arc<BTreeMap<SourceId, SharedText>>) -> Self {
        Self { texts, ..self }
    }

    /// Returns the same sources without the user's files and without these folders of the project.
    #[must_use]
    pub fn without_folders(self, hidden: Vec<String>) -> Self {
        Self { user: Ok(None), hidden, ..self }
    }

    fn is_hidden(&self, id: &SourceId) -> bool {
        let is_below = |folder: &String| {
            let rest = id.path().strip_prefix(folder.trim_end_matches('/'));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        id.root() == SourceRoot::Project && self.hidden.iter().any(is_below)
    }

    fn root_dir(&self, root: SourceRoot) -> Result<Option<&Dir>, SourceError> {
        let opened = match root {
            SourceRoot::Builtin => return Ok(None),
            SourceRoot::User => &self.user,
            SourceRoot::Project => &self.project,
            SourceRoot::Session => self.session.as_ref().unwrap_or(&self.project),
        };
        match opened {
            Ok(dir) => Ok(dir.as_ref()),
            Err(error) => Err(error.clone()),
        }
    }

    /// Reads all files below the directory `dir` of the project, session or user at once; `None` if there is
    /// no such directory.
    pub fn pack(&self, dir: &SourceId, packing: &PackOptions<'_>) -> Result<Option<PackedTree>, SourceError> {
        match self.root_dir(dir.root())? {
            Some(root) => pack::pack_tree(root, Path::new(dir.path()), self.max_file_bytes, packing),
            None => Ok(None),
        }
    }
}

impl Sources for Disk {
    fn text(&self, id: &SourceId) -> Result<Option<SharedText>, SourceError> {
        if let Some(text) = self.texts.get(id) {
            return Ok(Some(text.clone()));
        }
        if id.root() == SourceRoot::Builtin {
            return Builtin.text(id);
        }
        if self.is_hidden(id) {
            return Ok(None);
        }
        match self.root_dir(id.root())? {
            Some(dir) => read::read_text(PathBase::Within(dir), Path::new(id.path()), self.max_file_bytes),
            None => Ok(None),
        }
    }

    fn list(&self, dir: &SourceId, limits: ListingLimits) -> Result<Option<Listing>, SourceError> {
        if dir.root() == SourceRoot::Builtin {
            return Builtin.list(dir, limits);
        }
        if self.is_hidden(dir) {
            return Ok(None);
        }
        match self.root_dir(dir.root())? {
            Some(root) => list::list_dir(root, Path::new(dir.path()), limits),
            None => Ok(None),
        }
    }
}

fn open_root(path: &Path) -> OpenedRoot {
    match Dir::open_ambient_dir(path, ambient_authority()) {
        Ok(dir) => Ok(Some(dir)),
        Err(error) if !read::is_absence(&error) => Err(read::source_error(&error)),
        // The system reports the same error for a file in the directory's place and for a file further up
        // (`HOME=/dev/null`); only the former is a person's mistake.
        Err(_) if path.exists() => Err(SourceError::Unreadable("its root is not a directory".to_owned())),
        Err(_) => Ok(None),
    }
}
