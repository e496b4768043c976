//! Perform: carries out the acts that a delivery consists of.

use std::path::{Path, PathBuf};
use std::time::Duration;

use callsheet_core::deliver::Act;
use callsheet_core::fact::Ended;

use crate::folder::{Folder, WriteError};
use crate::guard::Order;
use crate::process::{Event, Exit, Job, Limits, StartError, Stop, run_process};
use crate::submission::SubmissionGate;
use crate::tmux::{Pane, Server, TerminalError, Tmux};
use crate::trace::{MARK, ProcessTrace};

/// What acts are carried out with.
#[derive(Clone, Debug)]
pub struct Performing {
    /// The real path of the folder that the agent works in. Files for it are written below, and through no link.
    pub place: PathBuf,
    /// Our own program, for the guard.
    pub guard: PathBuf,
    pub limits: Limits,
    pub stop: Stop,
    /// The tmux server that has the pane, or gets one.
    pub server: Server,
    /// How long an agent in a terminal may take until it is ready.
    pub ready_within: Duration,
    /// The submissions that the agent may make. In a terminal, only an agent with some has a guard.
    pub submissions: Option<SubmissionGate>,
    /// The traces of the run.
    pub trace: Option<ProcessTrace>,
}

/// What came of the acts.
#[derive(Debug)]
pub enum Performed {
    /// A process was run to its end.
    Ran(Exit),
    /// A line was typed, and the agent works on in its pane.
    Typed { pane: Pane, enters: usize },
}

impl Performed {
    /// How it ended; `None` while it goes on.
    pub fn ended(&self) -> Option<Ended> {
        match self {
            Self::Ran(exit) => Some(exit.ended),
            Self::Typed { .. } => None,
        }
    }
}

#[derive(Debug)]
pub enum PerformError {
    Write {
        path: String,
        why: String,
    },
    Start(StartError),
    Terminal(TerminalError),
    /// The acts do not start anything.
    Nothing,
}

impl std::fmt::Display for PerformError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Write { path, why } => write!(f, "`{path}` cannot be written: {why}"),
            Self::Start(error) => error.fmt(f),
            Self::Terminal(error) => error.fmt(f),
            Self::Nothing => f.write_str("nothing was to be started"),
        }
    }
}

impl std::error::Error for PerformError {}

impl From<TerminalError> for PerformError {
    fn from(error: TerminalError) -> Self {
        Self::Terminal(error)
    }
}

/// What the agent is told by these acts: what an echo of it would be.
pub fn told_by(acts: &[Act], prompt: &str) -> String {
    let told = acts.iter().rev().find_map(|act| match act {
        Act::Spawn { stdin, .. } => Some(stdin.of(prompt)),
        Act::Type { line, .. } => Some(line.clone()),
        _ => None,
    });
    told.unwrap_or_default()
}

/// Carries out `acts` in order, telling `tell` what happens in a process. A pane that we opened is closed again where
/// the line could not be typed.
pub fn perform(
    acts: &[Act],
    prompt: &str,
    with: &Performing,
    tell: &mut dyn FnMut(Event),
) -> Result<Performed, PerformError> {
    let tmux = Tmux::new(with.server.clone());
    let mut opened: Option<Pane> = None;
    let result = each(acts, prompt, with, &tmux, &mut opened, tell);
    if let (Err(_), Some(pane)) = (&result, &opened) {
        // What went wrong first is what a person has to know.
        let _ = tmux.close(pane, with.limits.grace);
    }
    result
}

fn each(
    acts: &[Act],
    prompt: &str,
    with: &Performing,
    tmux: &Tmux,
    opened: &mut Option<Pane>,
    tell: &mut dyn FnMut(Event),
) -> Result<Performed, PerformError> {
    let mut performed = Err(PerformError::Nothing);
    for act in acts {
        match act {
            Act::Write { path, text } => write(&with.place, path, text.of(prompt).as_bytes())
                .map_err(|error| PerformError::Write { path: path.clone(), why: error.why })?,
            Act::Spawn { argv, env, cwd, stdin } => {
                let job = Job {
                    argv: argv.clone(),
                    env: env.clone(),
                    cwd: PathBuf::from(cwd),
                    stdin: stdin.of(prompt).into_bytes(),
                    limits: with.limits,
                    guard: with.guard.clone(),
                    stop: with.stop.clone(),
                    submissions: with.submissions.clone(),
                    trace: with.trace.clone(),
                };
                performed = Ok(Performed::Ran(run_process(&job, tell).map_err(PerformError::Start)?));
            }
            Act::Open { argv, env, cwd } => {
                *opened = Some(match &with.submissions {
                    None => tmux.open(argv, env, Path::new(cwd))?,
                    Some(gate) => {
                        let trace =
                            with.trace.clone().unwrap_or_else(|| ProcessTrace::unnamed(gate.run.clone()));
                        let env = env.clone().into_iter().chain([(MARK.to_owned(), trace.mark())]);
                        let order = Order {
                            argv: argv.clone(),
                            env: env.collect(),
                            cwd: cwd.clone(),
                            stdin_bytes: 0,
                            grace_ms: u64::try_from(with.limits.grace.as_millis()).unwrap_or(u64::MAX),
                            own_group: false,
                            submissions: with.submissions.clone(),
                            token: trace.token(),
                            cgroup: trace.cgroup().map(PathBuf::from),
                        };
                        tmux.open_guarded(&with.guard, &order, &gate.dir, &trace)?
                    }
                });
            }
            Act::Await { pane, screen } => {
                let pane = found(tmux, pane.as_deref(), opened.as_ref())?;
                tmux.ready(&pane, screen, with.ready_within, &with.stop)?;
            }
            Act::Type { pane, line, screen } => {
                let pane = found(tmux, pane.as_deref(), opened.as_ref())?;
                let enters = tmux.type_line(&pane, screen, line)?;
                performed = Ok(Performed::Typed { pane, enters });
            }
        }
    }
    performed
}

fn found(tmux: &Tmux, named: Option<&str>, opened: Option<&Pane>) -> Result<Pane, TerminalError> {
    match (named, opened) {
        (Some(name), _) => tmux.find(name),
        (None, Some(pane)) => Ok(pane.clone()),
        (None, None) => Err(TerminalError::Tmux("there is no pane".into())),
    }
}

/// Only its owner can read it, and what a link leads to is never written.
fn write(place: &Path, path: &str, bytes: &[u8]) -> Result<(), WriteError> {
    let fail = |why: String| WriteError { path: path.to_owned(), why };
    let below = Path::new(path).strip_prefix(place).ok().and_then(Path::to_str);
    let below = below.ok_or_else(|| fail("it does not lie where the agent works".into()))?;
    let folder = Folder::open(place).map_err(|error| fail(error.to_string()))?;
    folder.write(below, bytes, 0o600)
}
