//! A project: its directory, configuration, ledger and sources.

pub mod config;
pub mod config_file;
pub(crate) mod config_merge;
pub mod duration;
pub mod identity;
pub mod person;
pub(crate) mod profiles;
pub mod state;
pub mod trust;

use std::collections::BTreeMap;
use std::env;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use callsheet_core::diag::{Code, Diagnostic};
use callsheet_core::{SharedText, SourceId};
use callsheet_run::{DEFAULT_MAX_FILE_BYTES, Disk, Roots};

use crate::error::Result;
use crate::observer::{Observer, SilentObserver};
use crate::paths::relative_path;
use config::Config;
use identity::ProjectHome;

/// A project and its use cases.
#[derive(Clone, Debug)]
pub struct Project {
    /// The directory of the project.
    pub dir: PathBuf,
    /// The directory that relative paths of the caller refer to.
    pub here: PathBuf,
    /// Whether the caller named the project. If so, nothing else may name it.
    pub is_named: bool,
    /// The directory of the user's own files.
    pub user: Option<PathBuf>,
    /// The merged configuration.
    pub config: Config,
    /// The ledger that the caller named.
    pub ledger: Option<String>,
    /// Whether the runs of every project count.
    pub all_projects: bool,
    /// Receives diagnostics and progress.
    pub observer: Arc<dyn Observer>,
    /// Texts that take the place of files.
    pub texts: Arc<BTreeMap<SourceId, SharedText>>,
    /// Whether a person decides on a page of the web view.
    pub(crate) on_page: bool,
    /// Whether these texts replace all templates, recipes and other sources of the project and the user.
    pub(crate) texts_only: bool,
    /// Facts about the project's directory.
    home: OnceLock<ProjectHome>,
    name: OnceLock<String>,
}

/// How to open a project.
#[derive(Clone, Debug)]
pub struct ProjectOptions {
    /// The directory that relative paths refer to; else the current one.
    pub here: Option<PathBuf>,
    /// The directory of the project; else the nearest one above `here` with `.callsheet`, else with `.git`, else `here`.
    pub dir: Option<PathBuf>,
    /// The ledger: a file, or the URL of a PostgreSQL database; else the configured one.
    pub ledger: Option<String>,
    /// Whether the runs of every project in the ledger count.
    pub all_projects: bool,
    /// Whether unreadable settings of the project are only reported, because the caller just ends or shows something.
    pub config_optional: bool,
    /// Receives diagnostics and progress.
    pub observer: Arc<dyn Observer>,
    /// Texts that take the place of files, such as the caller's own templates.
    pub texts: Arc<BTreeMap<SourceId, SharedText>>,
}

impl Default for ProjectOptions {
    fn default() -> Self {
        Self {
            here: None,
            dir: None,
            ledger: None,
            all_projects: false,
            config_optional: false,
            observer: Arc::new(SilentObserver),
            texts: Arc::default(),
        }
    }
}

/// Resolves a program that was named by a path. Returns `None` if it is missing, so that the error shows the
/// name as given.
fn resolve_program(here: &Path, name: &str) -> Option<PathBuf> {
    let at = here.join(name);
    let file = at.file_name().filter(|_| name.contains('/') && at.is_file())?;
    Some(at.parent()?.canonicalize().ok()?.join(file))
}

impl Project {
    /// Resolves a typed program with its arguments. A path is relative to the directory in which it was
    /// typed, wherever the program works.
    pub fn resolve_typed_program(&self, program: &[String]) -> Vec<String> {
        let mut program = program.to_vec();
        if let Some(first) = program.first_mut()
            && let Some(path) = resolve_program(&self.here, first).as_deref().and_then(Path::to_str)
        {
            path.clone_into(first);
        }
        program
    }

    /// Resolves a check that was typed in `here`. A program in the project is searched in the directory in
    /// which the check works; every other path is relative to `here`.
    pub(crate) fn resolve_typed_check(&self, here: &Path, mut argv: Vec<String>) -> Vec<String> {
        if let Some(first) = argv.first_mut()
            && let Some(path) = resolve_program(here, first).filter(|path| !path.starts_with(&self.dir))
            && let Some(path) = path.to_str()
        {
            path.clone_into(first);
        }
        argv
    }

    /// Opens the project in a directory, with its configured ledger.
    ///
    /// ```no_run
    /// use callsheet::{ComposeInput, Project, Purpose};
    ///
    /// let project = Project::open("path/to/project")?;
    /// let input = ComposeInput { task: Some("Add a login page.".into()), ..ComposeInput::default() };
    /// println!("{}", project.compose(&input, Purpose::Print)?.text());
    /// # Ok::<(), callsheet::Error>(())
    /// ```
    pub fn open(dir: impl Into<PathBuf>) -> Result<Self> {
        Self::open_with(ProjectOptions { dir: Some(dir.into()), ..ProjectOptions::default() })
    }

    /// Opens a project.
    ///
    /// ```
    /// use std::collections::BTreeMap;
    /// use std::sync::Arc;
    ///
    /// use callsheet::{ComposeInput, Project, ProjectOptions, Purpose, SourceId, SourceRoot};
    ///
    /// // A role that is in no file.
    /// let role = SourceId::new(SourceRoot::Project, ".callsheet/profiles/fixer.md").unwrap();
    /// let texts = Arc::new(BTreeMap::from([(role, "You fix one thing, and nothing else.\n".into())]));
    /// let dir = tempfile::tempdir().unwrap();
    /// let project = Project::open_with(ProjectOptions {
    ///     dir: Some(dir.path().into()),
    ///     texts,
    ///     ..ProjectOptions::default()
    /// })?;
    /// let input = ComposeInput {
    ///     role: Some("fixer".into()),
    ///     task: Some("Fix the login.".into()),
    ///     ..ComposeInput::default()
    /// };
    /// let composition = project.compose(&input, Purpose::Print)?;
    /// assert!(composition.text().contains("You fix one thing"));
    /// # Ok::<(), callsheet::Error>(())
    /// ```
    pub fn open_with(options: ProjectOptions) -> Result<Self> {
        let here = match &options.here {
            Some(here) => here.clone(),
            None => env::current_dir().map_err(|error| {
                Diagnostic::error(Code::InputNotFound, format!("cannot find the current directory: {error}"))
            })?,
        };
        let dir = match &options.dir {
            Some(dir) => resolve_directory(&here.join(dir), dir)?,
            None => find_project_dir(&here),
        };
        let (user, observer) = (user_dir(), Arc::clone(&options.observer));
        let config = match Config::load(Some(&dir), user.as_deref(), false) {
            Err(error) if options.config_optional => {
                observer.diagnostics(error.diagnostics());
                Config::load(None, user.as_deref(), false)?
            }
            config => config?,
        };
        let mut project = Self {
            dir,
            here,
            is_named: options.dir.is_some(),
            user,
            config,
            ledger: options.ledger,
            all_projects: options.all_projects,
            observer,
            texts: options.texts,
            on_page: false,
            texts_only: false,
            home: OnceLock::new(),
            name: OnceLock::new(),
        };
        // The requests of a trusted project take effect.
        if project.is_trusted() {
            match Config::load(Some(&project.dir), project.user.as_deref(), true) {
                Err(_) if options.config_optional => {}
                config => project.config = config?,
            }
        }
        project.config.ledger.value.iter().for_each(|address| project.observer.hide_address(address));
        Ok(project)
    }

    /// Opens another project for the same caller.
    pub(crate) fn open_other(&self, dir: &str) -> Result<Self> {
        Self::open_with(ProjectOptions {
            here: Some(self.here.clone()),
            dir: Some(dir.into()),
            ledger: self.ledger.clone(),
            all_projects: self.all_projects,
            config_optional: false,
            observer: Arc::clone(&self.observer),
            texts: Arc::clone(&self.texts),
        })
    }

    /// Resolves a session flag: a directory where the command was started, else one of the project. The MCP
    /// server may be started from anywhere.
    pub fn session_path(&self, dir: &Path) -> PathBuf {
        let (here, inside) = (self.here.join(dir), self.dir.join(dir));
        if !here.is_dir() && inside.is_dir() { inside } else { here }
    }

    /// Rewrites a path of the project relative to the directory in which the command was started.
    pub fn path_from_here(&self, path: &str) -> String {
        match relative_path(&self.here, &self.dir).as_str() {
            "." => path.into(),
            way => format!("{way}/{path}"),
        }
    }

    /// Returns the project with these texts instead of all templates, recipes and other sources of the project and the user.
    #[must_use]
    pub fn with_texts_only(&self, texts: BTreeMap<SourceId, SharedText>) -> Self {
        Self { texts: Arc::new(texts), texts_only: true, ..self.clone() }
    }

    /// Returns the project's sources, with `session` as the root of includes.
    pub fn disk(&self, session: Option<PathBuf>) -> Disk {
        let roots = Roots { user: self.user.clone(), project: Some(self.dir.clone()), session };
        let disk = Disk::new(&roots, self.config.max_file_bytes.value).with_texts(Arc::clone(&self.texts));
        if !self.texts_only {
            return disk;
        }
        let layout = self.config.layout();
        let folders = [".callsheet".to_owned(), layout.prompts, layout.project_context];
        disk.without_folders(folders.into_iter().chain(layout.templates).collect())
    }
}

impl Project {
    /// Returns the sources with fixed limits, whatever is configured: consent must not depend on the settings
    /// it covers.
    pub(crate) fn disk_for_trust(&self) -> Disk {
        let roots = Roots { user: self.user.clone(), project: Some(self.dir.clone()), session: None };
        Disk::new(&roots, DEFAULT_MAX_FILE_BYTES)
    }
}

pub(crate) fn resolve_directory(path: &Path, shown: &Path) -> Result<PathBuf> {
    match path.canonicalize() {
        Ok(path) if path.is_dir() => Ok(path),
        _ => {
            let message = format!("`{}` is not a directory", shown.display());
            Err(Diagnostic::error(Code::InputNotFound, message).searched([path.display()]).into())
        }
    }
}

/// Returns the nearest ancestor with `.callsheet`, else with `.git`, else `here`.
fn find_project_dir(here: &Path) -> PathBuf {
    let with = |mark: &str| here.ancestors().find(|dir| dir.join(mark).exists());
    with(".callsheet").or_else(|| with(".git")).unwrap_or(here).to_path_buf()
}

fn user_dir() -> Option<PathBuf> {
    let dir = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let config = dir("XDG_CONFIG_HOME").or_else(|| dir("HOME").map(|home| home.join(".config")))?;
    Some(config.join("callsheet"))
}
