//! Context of a command: the project, its configuration and its sources.

use std::env;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use callsheet_core::diag::{Code, Diagnostic, Diagnostics};
use callsheet_run::{DEFAULT_MAX_FILE_BYTES, Disk, Roots};

use crate::args::GlobalArgs;
use crate::config::Config;
use crate::inputs::relative_path;
use crate::print::OutputPrinter;
use crate::project::ProjectHome;

#[derive(Debug)]
pub(crate) struct AppContext<'p> {
    pub(crate) print: &'p OutputPrinter,
    /// Directory in which the command was started.
    pub(crate) here: PathBuf,
    pub(crate) project: PathBuf,
    /// Whether the user named the project. If so, nothing else may name it.
    pub(crate) project_named: bool,
    pub(crate) user: Option<PathBuf>,
    pub(crate) config: Config,
    /// Ledger that the user named.
    pub(crate) ledger: Option<String>,
    /// Whether the runs of every project count.
    pub(crate) all_projects: bool,
    /// Facts about the project's directory.
    pub(crate) home: OnceLock<ProjectHome>,
    pub(crate) name: OnceLock<String>,
}

/// Resolves a program that was named by a path. Returns `None` if it is missing, so that the error shows the
/// name as given.
fn resolve_program(here: &Path, name: &str) -> Option<PathBuf> {
    let at = here.join(name);
    let file = at.file_name().filter(|_| name.contains('/') && at.is_file())?;
    Some(at.parent()?.canonicalize().ok()?.join(file))
}

/// Options of a command besides its project.
struct AppOptions {
    user: Option<PathBuf>,
    ledger: Option<String>,
    all_projects: bool,
    /// The command only ends or inspects something, so unreadable project settings do not prevent it.
    only_ends: bool,
}

impl<'p> AppContext<'p> {
    /// Resolves a typed program with its arguments. A path is relative to the directory in which it was
    /// typed, wherever the program works.
    pub(crate) fn resolve_typed_program(&self, program: &[String]) -> Vec<String> {
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
            && let Some(path) = resolve_program(here, first).filter(|path| !path.starts_with(&self.project))
            && let Some(path) = path.to_str()
        {
            path.clone_into(first);
        }
        argv
    }

    pub(crate) fn new(
        global: &GlobalArgs,
        print: &'p OutputPrinter,
        only_ends: bool,
    ) -> Result<Self, Diagnostics> {
        let here = env::current_dir().map_err(|error| {
            Diagnostic::error(Code::InputNotFound, format!("the current directory cannot be found: {error}"))
        })?;
        let project = match &global.project {
            Some(dir) => resolve_directory(&here.join(dir), dir)?,
            None => find_project_dir(&here),
        };
        let (named, ledger) = (global.project.is_some(), global.ledger.clone());
        let around = AppOptions { user: user_dir(), ledger, all_projects: global.all_projects, only_ends };
        Self::build(print, here, project, named, around)
    }

    /// Builds the context of a command that was started elsewhere.
    pub(crate) fn from_paths(
        print: &'p OutputPrinter,
        here: Option<String>,
        project: Option<String>,
        ledger: Option<String>,
    ) -> Result<Self, Diagnostics> {
        let here = PathBuf::from(here.unwrap_or_default());
        let project = PathBuf::from(project.unwrap_or_default());
        let project = resolve_directory(&project, &project)?;
        let around = AppOptions { user: user_dir(), ledger, all_projects: true, only_ends: false };
        Self::build(print, here, project, true, around)
    }

    /// Returns the same context in another project.
    pub(crate) fn with_project(&self, dir: &str) -> Result<Self, Diagnostics> {
        let project = resolve_directory(&self.here.join(dir), Path::new(dir))?;
        let around = AppOptions {
            user: self.user.clone(),
            ledger: self.ledger.clone(),
            all_projects: self.all_projects,
            only_ends: false,
        };
        Self::build(self.print, self.here.clone(), project, true, around)
    }

    fn build(
        print: &'p OutputPrinter,
        here: PathBuf,
        project: PathBuf,
        project_named: bool,
        around: AppOptions,
    ) -> Result<Self, Diagnostics> {
        let AppOptions { user, ledger, all_projects, only_ends } = around;
        let config = match Config::load(Some(&project), user.as_deref(), false) {
            Err(Diagnostics(diags)) if only_ends => {
                print.print_diagnostics(&diags);
                Config::load(None, user.as_deref(), false)?
            }
            config => config?,
        };
        let (home, name) = (OnceLock::new(), OnceLock::new());
        let mut app =
            Self { print, here, project, project_named, user, config, ledger, all_projects, home, name };
        // The requests of a trusted project take effect.
        if app.is_trusted() {
            match Config::load(Some(&app.project), app.user.as_deref(), true) {
                Err(_) if only_ends => {}
                config => app.config = config?,
            }
        }
        app.config.ledger.value.iter().for_each(|address| print.hide_address(address));
        Ok(app)
    }

    /// Resolves a session flag: a directory where the command was started, else one of the project. The MCP
    /// server may be started from anywhere.
    pub(crate) fn session_path(&self, dir: &Path) -> PathBuf {
        let (here, inside) = (self.here.join(dir), self.project.join(dir));
        if !here.is_dir() && inside.is_dir() { inside } else { here }
    }

    /// Rewrites a path of the project relative to the directory in which the command was started.
    pub(crate) fn path_from_here(&self, path: &str) -> String {
        match relative_path(&self.here, &self.project).as_str() {
            "." => path.into(),
            way => format!("{way}/{path}"),
        }
    }

    /// Returns the project's sources, with `session` as the root of includes.
    pub(crate) fn disk(&self, session: Option<PathBuf>) -> Disk {
        let roots = Roots { user: self.user.clone(), project: Some(self.project.clone()), session };
        Disk::new(&roots, self.config.max_file_bytes.value)
    }
}

impl AppContext<'_> {
    /// Returns the sources with fixed limits, whatever is configured: consent must not depend on the settings
    /// it covers.
    pub(crate) fn disk_for_trust(&self) -> Disk {
        let roots = Roots { user: self.user.clone(), project: Some(self.project.clone()), session: None };
        Disk::new(&roots, DEFAULT_MAX_FILE_BYTES)
    }
}

pub(crate) fn resolve_directory(path: &Path, shown: &Path) -> Result<PathBuf, Diagnostics> {
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
