//! Runs that work on in a terminal after their line was typed.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use callsheet_core::diag::{Code, Diagnostic, Diagnostics};
use callsheet_core::record::Id;
use callsheet_run::{Tmux, TmuxPane, TmuxServer, grace, terminal_exit_code};

use super::tmux_server_name;
use crate::state::RunDir;

fn tmux(server: &str) -> Tmux {
    Tmux::new(if server.is_empty() { TmuxServer::Usual } else { TmuxServer::Own(server.into()) })
}

/// Whether the agent is still there.
pub(crate) fn is_pane_alive((server, pane): &(String, String)) -> bool {
    let tmux = tmux(server);
    tmux.find(pane).is_ok_and(|pane| tmux.is_pane_alive(&pane))
}

/// The first process of a pane: the agent's guard, or the shell of a person.
pub(super) fn pane_process(server: &str, pane: &str) -> Option<i32> {
    let tmux = tmux(server);
    tmux.find(pane).and_then(|pane| tmux.pane_pid(&pane)).ok()
}

/// Ends the agent in a pane that we opened.
pub(crate) fn close_pane((server, pane): &(String, String)) -> Result<(), Diagnostics> {
    let refused = |message: String| Diagnostic::error(Code::RunRefused, message);
    if server.is_empty() {
        let message = format!("it works in a pane of yours, {pane}");
        return Err(refused(message).hint("end it there, then say `callsheet recover RUN`").into());
    }
    let tmux = tmux(server);
    match tmux.find(pane) {
        Ok(pane) => tmux.close(&pane, grace()).map_err(|error| refused(error.to_string()).into()),
        // It is closed already.
        Err(_) => Ok(()),
    }
}

/// An agent in a pane that shows the same for so long does nothing.
const IDLE: Duration = Duration::from_secs(5);

/// What can be seen of an agent in a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TerminalState {
    Busy,
    Idle,
    /// Its process has ended, with this code.
    Gone(Option<i32>),
}

/// An agent that works in a pane of ours.
pub(crate) struct TerminalWatch {
    server: String,
    tmux: Tmux,
    pane: TmuxPane,
    /// Where its guard writes down how it ended.
    dir: PathBuf,
    /// What it showed last, and since when.
    shown: (String, Instant),
}

impl TerminalWatch {
    /// The pane of a run, if it has one.
    pub(crate) fn of(run: &Id) -> Result<Option<Self>, Diagnostics> {
        let desk = RunDir::of(run)?;
        let Some((server, pane)) = desk.pane() else { return Ok(None) };
        let tmux = tmux(&server);
        let Ok(pane) = tmux.find(&pane) else { return Ok(None) };
        let dir = desk.dir().to_owned();
        Ok(Some(Self { server, tmux, pane, dir, shown: (String::new(), Instant::now()) }))
    }

    /// What a person types to see it.
    pub(crate) fn attach(&self) -> String {
        format!("tmux -L {} attach", self.server)
    }

    pub(crate) fn look(&mut self) -> TerminalState {
        if !self.tmux.is_pane_alive(&self.pane) {
            return TerminalState::Gone(terminal_exit_code(&self.dir));
        }
        let text = self.text();
        if text != self.shown.0 {
            self.shown = (text, Instant::now());
        }
        if self.shown.1.elapsed() >= IDLE { TerminalState::Idle } else { TerminalState::Busy }
    }

    /// Whether a person is attached to it.
    pub(crate) fn is_attended(&self) -> bool {
        self.tmux.is_attended()
    }

    /// What it showed when it was looked at last.
    pub(crate) fn shown(&self) -> &str {
        &self.shown.0
    }

    /// All that it has shown.
    pub(crate) fn text(&self) -> String {
        self.tmux.text(&self.pane).unwrap_or_default()
    }

    /// Ends the agent.
    pub(crate) fn close(self) -> Result<(), Diagnostics> {
        close_pane(&(self.server, self.pane.to_string()))
    }
}

/// Ends whatever a run has in a terminal of its own.
pub(super) fn close_server(run: &Id) {
    // There is none, or it has not come so far.
    let _ = Tmux::new(TmuxServer::Own(tmux_server_name(run))).close_all(grace());
}

/// Whether a process of callsheet drives the run.
pub(crate) fn is_driven(run: &Id) -> bool {
    RunDir::of(run).is_ok_and(|desk| desk.is_locked())
}
