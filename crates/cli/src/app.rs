//! The surroundings of a command: the project, its configuration, its sources.

use std::env;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use callsheet_core::diag::{Code, Diag, Failure};
use callsheet_run::{Disk, Roots};

use crate::args::Global;
use crate::config::Config;
use crate::inputs::from_to;
use crate::print::Print;
use crate::project::ProjectHome;

#[derive(Debug)]
pub(crate) struct App<'p> {
    pub(crate) print: &'p Print,
    /// Where the command was started.
    pub(crate) here: PathBuf,
    pub(crate) project: PathBuf,
    /// Whether the project was named, so that nothing else may name it.
    pub(crate) project_named: bool,
    pub(crate) user: Option<PathBuf>,
    pub(crate) config: Config,
    /// The ledger that was named.
    pub(crate) ledger: Option<String>,
    /// Runs of every project count.
    pub(crate) all_projects: bool,
    /// What was found out about the project's directory.
    pub(crate) home: OnceLock<ProjectHome>,
    pub(crate) name: OnceLock<String>,
}

impl<'p> App<'p> {
    pub(crate) fn new(global: &Global, print: &'p Print) -> Result<Self, Failure> {
        let here = env::current_dir().map_err(|error| {
            Diag::error(Code::InputNotFound, format!("the current directory cannot be found: {error}"))
        })?;
        let project = match &global.project {
            Some(dir) => named_directory(&here.join(dir), dir)?,
            None => nearest(&here),
        };
        let user = user_dir();
        let config = Config::load(&project, user.as_deref())?;
        Ok(Self {
            print,
            here,
            project,
            project_named: global.project.is_some(),
            user,
            config,
            ledger: global.ledger.clone(),
            all_projects: global.all_projects,
            home: OnceLock::new(),
            name: OnceLock::new(),
        })
    }

    /// The same surroundings in another project.
    pub(crate) fn in_project(&self, dir: &str) -> Result<Self, Failure> {
        let project = named_directory(&self.here.join(dir), Path::new(dir))?;
        let config = Config::load(&project, self.user.as_deref())?;
        Ok(Self {
            print: self.print,
            here: self.here.clone(),
            project,
            project_named: true,
            user: self.user.clone(),
            config,
            ledger: self.ledger.clone(),
            all_projects: self.all_projects,
            home: OnceLock::new(),
            name: OnceLock::new(),
        })
    }

    /// How a path of the project is written where the command was started.
    pub(crate) fn shown_here(&self, path: &str) -> String {
        match from_to(&self.here, &self.project).as_str() {
            "." => path.into(),
            way => format!("{way}/{path}"),
        }
    }

    /// The project's sources, with `session` as the root of includes.
    pub(crate) fn disk(&self, session: Option<PathBuf>) -> Disk {
        let roots = Roots { user: self.user.clone(), project: Some(self.project.clone()), session };
        Disk::new(&roots, self.config.max_file_bytes.value)
    }
}

pub(crate) fn named_directory(path: &Path, shown: &Path) -> Result<PathBuf, Failure> {
    match path.canonicalize() {
        Ok(path) if path.is_dir() => Ok(path),
        _ => {
            let message = format!("`{}` is not a directory", shown.display());
            Err(Diag::error(Code::InputNotFound, message).looked([path.display()]).into())
        }
    }
}

/// The nearest folder above with `.callsheet`, else with `.git`, else `here`.
fn nearest(here: &Path) -> PathBuf {
    let with = |mark: &str| here.ancestors().find(|dir| dir.join(mark).exists());
    with(".callsheet").or_else(|| with(".git")).unwrap_or(here).to_path_buf()
}

fn user_dir() -> Option<PathBuf> {
    let dir = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let config = dir("XDG_CONFIG_HOME").or_else(|| dir("HOME").map(|home| home.join(".config")))?;
    Some(config.join("callsheet"))
}
