//! Carries out the actions of a delivery.

use std::path::{Path, PathBuf};
use std::time::Duration;

use callsheet_core::delivery::DeliveryAction;

use crate::disk::folder::{WritableFolder, WriteError};
use crate::process::guard::SpawnRequest;
use crate::process::handshake::find_guard_program;
use crate::process::submission::SubmissionGate;
use crate::process::trace::{MARK, ProcessTrace};
use crate::process::{
    ProcessEvent, ProcessExit, ProcessJob, ProcessLimits, StartError, StopFlag, run_process,
};
use crate::tmux::{TerminalError, Tmux, TmuxPane, TmuxServer};

/// Options for carrying out actions.
#[derive(Clone, Debug, Default)]
pub struct PerformOptions {
    /// The real path of the folder that the agent works in. Files for it are written below, and through no
    /// link.
    pub place: PathBuf,
    /// The program that is started as the [guard](crate::guard_if_asked): if none is named, this program if
    /// it has called `guard_if_asked`, else the `callsheet` binary.
    pub guard: Option<PathBuf>,
    /// The limits of time and output.
    pub limits: ProcessLimits,
    /// The flag that stops the agent.
    pub stop: StopFlag,
    /// The terminal, if the actions open one or type into one.
    pub terminal: Option<TerminalOptions>,
    /// The submissions that the agent may make. In a terminal, only an agent with some has a guard.
    pub submissions: Option<SubmissionGate>,
    /// The traces of the run.
    pub trace: Option<ProcessTrace>,
}

impl PerformOptions {
    /// Returns the options for a plain process that works in `place`.
    pub fn new(place: PathBuf) -> Self {
        Self { place, ..Self::default() }
    }
}

/// Options for an agent in a terminal.
#[derive(Clone, Debug)]
pub struct TerminalOptions {
    /// The tmux server that has the pane, or gets one.
    pub server: TmuxServer,
    /// How long the agent may take to become ready.
    pub ready_within: Duration,
}

/// The outcome of the actions.
#[derive(Debug)]
pub enum PerformOutcome {
    /// A process ran to its end.
    Ran(ProcessExit),
    /// A line was typed after `enters` times Enter, and the agent continues to work in its pane.
    Typed {
        /// The pane of the agent.
        pane: TmuxPane,
        /// How often Enter was pressed.
        enters: usize,
    },
}

/// The reason why actions could not be carried out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PerformError {
    /// A file could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// A process did not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The terminal failed.
    #[error(transparent)]
    Terminal(#[from] TerminalError),
    /// The actions do not start anything.
    #[error("the delivery starts no program")]
    Nothing,
}

/// Returns the text that these actions give to the agent, as an echo of it would be.
pub fn delivered_text(acts: &[DeliveryAction], prompt: &str) -> String {
    let text = acts.iter().rev().find_map(|act| match act {
        DeliveryAction::Spawn { stdin, .. } => Some(stdin.to_text(prompt)),
        DeliveryAction::Type { line, .. } => Some(line.clone()),
        _ => None,
    });
    text.unwrap_or_default()
}

/// Carries out `acts` in order, and passes the events of a process to `tell`. Closes a pane that it opened if
/// the line could not be typed.
pub fn perform(
    acts: &[DeliveryAction],
    prompt: &str,
    with: &PerformOptions,
    tell: &mut dyn FnMut(ProcessEvent),
) -> Result<PerformOutcome, PerformError> {
    let tmux = with.terminal.as_ref().map(|terminal| Tmux::new(terminal.server.clone()));
    let mut opened: Option<TmuxPane> = None;
    let result = perform_all(acts, prompt, with, tmux.as_ref(), &mut opened, tell);
    if let (Err(_), Some(tmux), Some(pane)) = (&result, &tmux, &opened) {
        // The first error is the one that a person must know.
        let _ = tmux.close(pane, with.limits.grace);
    }
    result
}

fn perform_all(
    acts: &[DeliveryAction],
    prompt: &str,
    with: &PerformOptions,
    tmux: Option<&Tmux>,
    opened: &mut Option<TmuxPane>,
    tell: &mut dyn FnMut(ProcessEvent),
) -> Result<PerformOutcome, PerformError> {
    let need = || tmux.ok_or_else(|| TerminalError::Tmux("the options name no terminal".into()));
    let ready_within = with.terminal.as_ref().map_or(Duration::ZERO, |terminal| terminal.ready_within);
    let mut performed = Err(PerformError::Nothing);
    for act in acts {
        match act {
            DeliveryAction::Write { path, text } => {
                write_private_file(&with.place, path, text.to_text(prompt).as_bytes())
                    .map_err(|error| WriteError { path: path.clone(), ..error })?
            }
            DeliveryAction::Spawn { argv, env, cwd, stdin } => {
                let job = ProcessJob {
                    argv: argv.clone(),
                    env: env.clone(),
                    cwd: PathBuf::from(cwd),
                    stdin: stdin.to_text(prompt).into_bytes(),
                    limits: with.limits,
                    guard: with.guard.clone(),
                    stop: with.stop.clone(),
                    submissions: with.submissions.clone(),
                    trace: with.trace.clone(),
                };
                performed = Ok(PerformOutcome::Ran(run_process(&job, tell)?));
            }
            DeliveryAction::Open { argv, env, cwd } => {
                *opened = Some(match &with.submissions {
                    None => need()?.open(argv, env, Path::new(cwd))?,
                    Some(gate) => {
                        let trace =
                            with.trace.clone().unwrap_or_else(|| ProcessTrace::new_unnamed(gate.run.clone()));
                        let env = env.clone().into_iter().chain([(MARK.to_owned(), trace.mark())]);
                        let order = SpawnRequest {
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
                        need()?.open_guarded(
                            &find_guard_program(with.guard.as_deref())?,
                            &order,
                            &gate.dir,
                            &trace,
                        )?
                    }
                });
            }
            DeliveryAction::Await { pane, screen } => {
                let pane = find_pane(need()?, pane.as_deref(), opened.as_ref())?;
                need()?.wait_until_ready(&pane, screen, ready_within, &with.stop)?;
            }
            DeliveryAction::Type { pane, line, screen } => {
                let pane = find_pane(need()?, pane.as_deref(), opened.as_ref())?;
                let enters = need()?.type_line(&pane, screen, line)?;
                performed = Ok(PerformOutcome::Typed { pane, enters });
            }
        }
    }
    performed
}

fn find_pane(tmux: &Tmux, named: Option<&str>, opened: Option<&TmuxPane>) -> Result<TmuxPane, TerminalError> {
    match (named, opened) {
        (Some(name), _) => tmux.find_pane(name),
        (None, Some(pane)) => Ok(pane.clone()),
        (None, None) => Err(TerminalError::Tmux("no pane".into())),
    }
}

/// Writes a file that only its owner can read, and never through a link.
fn write_private_file(place: &Path, path: &str, bytes: &[u8]) -> Result<(), WriteError> {
    let fail = |why: String| WriteError { path: path.to_owned(), why };
    let below = Path::new(path).strip_prefix(place).ok().and_then(Path::to_str);
    let below = below.ok_or_else(|| fail("it does not lie where the agent works".into()))?;
    let folder = WritableFolder::open(place).map_err(|error| fail(error.to_string()))?;
    folder.write(below, bytes, 0o600)
}
