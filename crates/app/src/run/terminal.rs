//! Runs that continue in a terminal after their line was typed.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use callsheet_core::diag::{Code, Diagnostic};
use callsheet_core::record::Id;
use callsheet_run::{Tmux, TmuxPane, TmuxServer, grace_period, read_terminal_exit_code};

use crate::error::{Error, Result};
use crate::project::state::RunDir;

fn open_tmux(server: &str) -> Tmux {
    Tmux::new(if server.is_empty() { TmuxServer::Usual } else { TmuxServer::Own(server.into()) })
}

/// Returns whether the agent's pane is still alive.
pub(crate) fn is_pane_alive((server, pane): &(String, String)) -> bool {
    let tmux = open_tmux(server);
    tmux.find_pane(pane).is_ok_and(|pane| tmux.is_pane_alive(&pane))
}

/// Returns the first process of a pane: the agent's guard, or a person's shell.
pub(super) fn pane_pid(server: &str, pane: &str) -> Option<i32> {
    let tmux = open_tmux(server);
    tmux.find_pane(pane).and_then(|pane| tmux.read_pane_pid(&pane)).ok()
}

/// Ends the agent in a pane that callsheet opened.
pub(super) fn close_pane((server, pane): &(String, String)) -> Result<()> {
    let refused = |message: String| Diagnostic::error(Code::RunRefused, message);
    if server.is_empty() {
        let message = format!("it works in your own pane {pane}");
        return Err(refused(message).hint("end it there, then run `callsheet recover RUN`").into());
    }
    let tmux = open_tmux(server);
    match tmux.find_pane(pane) {
        Ok(pane) => {
            tmux.close(&pane, grace_period()).map_err(|error| Error::new(refused(error.to_string()), error))
        }
        // The pane is closed already.
        Err(_) => {
            tmux.kill_server();
            Ok(())
        }
    }
}

/// An agent is idle if its pane shows the same text for this long.
const IDLE: Duration = Duration::from_secs(5);

/// Visible state of an agent in a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TerminalState {
    Busy,
    Idle,
    /// The process has ended, with this code.
    Gone(Option<i32>),
}

/// Watches an agent in a pane that callsheet opened.
#[derive(Debug)]
pub(crate) struct TerminalWatch {
    server: String,
    tmux: Tmux,
    pane: TmuxPane,
    /// Directory in which the guard records the exit.
    dir: PathBuf,
    /// Last text of the pane, and the time since which it is shown.
    shown: (String, Instant),
}

impl TerminalWatch {
    /// Finds the pane of a run, if it has one.
    pub(crate) fn find(run: &Id) -> Result<Option<Self>> {
        let run_dir = RunDir::from_run(run)?;
        let Some((server, pane)) = run_dir.pane() else { return Ok(None) };
        let tmux = open_tmux(&server);
        let Ok(pane) = tmux.find_pane(&pane) else { return Ok(None) };
        let dir = run_dir.dir().to_owned();
        Ok(Some(Self { server, tmux, pane, dir, shown: (String::new(), Instant::now()) }))
    }

    /// Returns the command with which a person attaches to the terminal.
    pub(crate) fn attach_command(&self) -> String {
        format!("tmux -L {} attach", self.server)
    }

    pub(crate) fn poll_state(&mut self) -> TerminalState {
        if !self.tmux.is_pane_alive(&self.pane) {
            return TerminalState::Gone(read_terminal_exit_code(&self.dir));
        }
        let text = self.text();
        if text != self.shown.0 {
            self.shown = (text, Instant::now());
        }
        if self.shown.1.elapsed() >= IDLE { TerminalState::Idle } else { TerminalState::Busy }
    }

    /// Returns whether a person is attached to the terminal.
    pub(crate) fn is_attended(&self) -> bool {
        self.tmux.is_attended()
    }

    /// Returns the pane's text at the last look.
    pub(crate) fn shown(&self) -> &str {
        &self.shown.0
    }

    /// Returns the pane's whole text.
    pub(crate) fn text(&self) -> String {
        self.tmux.capture_text(&self.pane).unwrap_or_default()
    }

    /// Ends the agent.
    pub(crate) fn close(self) -> Result<()> {
        close_pane(&(self.server, self.pane.to_string()))
    }
}

/// Returns the name of the tmux server of a run whose pane callsheet opens.
pub(super) fn tmux_server_name(run: &Id) -> String {
    format!("callsheet-{run}")
}

/// Closes the tmux server of a run, with all its panes.
pub(super) fn close_server(run: &Id) {
    // An error means that the server does not exist or was not created yet.
    let _ = Tmux::new(TmuxServer::Own(tmux_server_name(run))).close_all(grace_period());
}

/// Returns whether a callsheet process drives the run.
pub fn is_driven(run: &Id) -> bool {
    RunDir::from_run(run).is_ok_and(|run_dir| run_dir.is_locked())
}
