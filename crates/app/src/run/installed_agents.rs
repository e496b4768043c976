//! Installed programs of this machine, and the versions that they report.

use std::collections::BTreeMap;
use std::env;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use callsheet_core::library::agent::Agent;
use callsheet_core::{Library, SourceId, SourceRoot, find_agent, list_names};
use callsheet_run::{OutputStream, ProcessEvent, ProcessJob, ProcessLimits, StopFlag, run_process};

use crate::error::Result;
use crate::project::Project;

/// Some CLIs take seconds to print their version.
const PATIENCE: Duration = Duration::from_secs(30);

/// Agent of the search path, with its installed program and version.
#[derive(Debug)]
#[non_exhaustive]
pub struct InstalledAgent {
    /// The name of the agent.
    pub name: String,
    /// The file that describes it.
    pub source: SourceId,
    /// Its description.
    pub agent: Agent,
    /// The path of its program; `None` if it is not installed.
    pub path: Option<PathBuf>,
    /// The version that its program reports.
    pub version: Option<String>,
}

/// Returns every agent. A program that a project defines is not started to ask for its version.
pub fn list_agents(project: &Project) -> Result<Vec<InstalledAgent>> {
    let (disk, layout) = (project.disk(None), project.config.layout());
    let library = Library::new(&disk);
    let mut all = Vec::new();
    for name in list_names(&disk, "agents", &layout) {
        let (source, agent) = find_agent(&library, &name, &layout)?;
        let start = agent.start.as_ref();
        let path = start.and_then(|start| start.program.as_deref()).and_then(find_program);
        let asked = start.map(|start| start.version.as_slice()).unwrap_or_default();
        let version = match &path {
            Some(path) if source.root() != SourceRoot::Project && !asked.is_empty() => {
                read_version(&VersionQuery::new(path, asked))
            }
            _ => None,
        };
        all.push(InstalledAgent { name, source, agent, path, version });
    }
    Ok(all)
}

/// Finds a program in the search path.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    let runs = |path: &Path| {
        path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    };
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(|path| runs(path));
    }
    env::split_paths(&env::var_os("PATH")?).map(|folder| folder.join(name)).find(|path| runs(path))
}

/// A program and the arguments by which it is asked for its version.
#[derive(Clone, Debug)]
pub(crate) struct VersionQuery {
    /// The program and its arguments; `None` if its path is not UTF-8.
    pub(crate) argv: Option<Vec<String>>,
    /// Variables that are added to our environment.
    pub(crate) env: BTreeMap<String, String>,
    /// Ends the question.
    pub(crate) stop: StopFlag,
}

impl VersionQuery {
    /// Creates the command in our environment.
    pub(crate) fn new(program: &Path, args: &[String]) -> Self {
        let program = program.to_str().map(str::to_owned);
        let argv = program.map(|program| [program].into_iter().chain(args.iter().cloned()).collect());
        Self { argv, env: BTreeMap::new(), stop: StopFlag::default() }
    }
}

/// Returns the first line that a program prints when asked for its version.
pub(crate) fn read_version(command: &VersionQuery) -> Option<String> {
    let VersionQuery { argv, env, stop } = command.clone();
    let job = ProcessJob { env, stop, ..ProcessJob::new(argv?, env::temp_dir()) };
    let (code, lines) = run_short(job)?;
    lines.into_iter().find(|line| !line.trim().is_empty()).filter(|_| code == Some(0))
}

/// Runs a program with `input` on stdin. Returns its exit code and its output.
pub(crate) fn run_program(argv: Vec<String>, input: &str) -> Option<(Option<i32>, Vec<String>)> {
    run_short(ProcessJob { stdin: input.as_bytes().to_vec(), ..ProcessJob::new(argv, env::temp_dir()) })
}

/// Runs a program that soon ends and prints little.
fn run_short(job: ProcessJob) -> Option<(Option<i32>, Vec<String>)> {
    let limits = ProcessLimits {
        deadline: Some(PATIENCE),
        head_bytes: 64 * 1024,
        tail_bytes: 0,
        ..ProcessLimits::default()
    };
    let job = ProcessJob { limits, ..job };
    let mut lines = Vec::new();
    let exit = run_process(&job, &mut |event| {
        if let ProcessEvent::Output { stream: OutputStream::Stdout, text, .. } = event {
            lines.push(text);
        }
    });
    Some((exit.ok()?.code, lines))
}
