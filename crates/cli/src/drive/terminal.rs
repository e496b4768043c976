//! Runs that work on in a terminal after their line was typed.

use callsheet_core::diag::{Code, Diag, Failure};
use callsheet_core::record::Id;
use callsheet_run::{Server, Tmux, grace};

use super::server_of;
use crate::state::Desk;

fn tmux(server: &str) -> Tmux {
    Tmux::new(if server.is_empty() { Server::Usual } else { Server::Own(server.into()) })
}

/// Whether the agent is still there.
pub(crate) fn pane_lives((server, pane): &(String, String)) -> bool {
    let tmux = tmux(server);
    tmux.find(pane).is_ok_and(|pane| tmux.lives(&pane))
}

/// The first process of a pane: the agent's guard, or the shell of a person.
pub(super) fn pane_process(server: &str, pane: &str) -> Option<i32> {
    let tmux = tmux(server);
    tmux.find(pane).and_then(|pane| tmux.pane_pid(&pane)).ok()
}

/// Ends the agent in a pane that we opened.
pub(crate) fn close_pane((server, pane): &(String, String)) -> Result<(), Failure> {
    let refused = |message: String| Diag::error(Code::RunRefused, message);
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

/// Ends whatever a run has in a terminal of its own.
pub(super) fn close_server(run: &Id) {
    // There is none, or it has not come so far.
    let _ = Tmux::new(Server::Own(server_of(run))).close_all(grace());
}

/// Whether a process of callsheet drives the run.
pub(crate) fn is_driven(run: &Id) -> bool {
    Desk::of(run).is_ok_and(|desk| desk.is_taken())
}
