//! Checks that a decision is made by a person.
//!
//! An agent runs below a guard. Decisions reserved for persons are refused there, whatever the process did to
//! its environment, session, terminal or program.

use std::io::IsTerminal as _;
use std::net::SocketAddr;

use callsheet_core::diag::{Code, Diagnostic};
use callsheet_core::record::{Decided, DecidedBy, Event, Id};
use callsheet_run::{PeerPlace, find_peer_place, find_runs_above, is_below_guard, state_home};
use callsheet_store::Ledger;
use serde_json::Value;

use crate::error::{Error, Result};
use crate::project::Project;
use crate::project::state::create_private_folder;

impl Project {
    /// Returns the project for a person who acts on a page of the web view, which has made sure of it.
    #[must_use]
    pub fn on_page(&self) -> Self {
        Self { on_page: true, ..self.clone() }
    }

    /// Returns how a person decides here: at a terminal, on a page, or with `--yes`. Refuses a process below a guard.
    pub fn require_person(&self, yes: bool) -> Result<DecidedBy> {
        refuse_below_guard()?;
        match (is_at_terminal(), yes) {
            _ if self.on_page => Ok(DecidedBy::Page),
            (true, _) => Ok(DecidedBy::Terminal),
            (false, true) => Ok(DecidedBy::Yes),
            (false, false) => {
                let error = Diagnostic::error(Code::PersonRequired, "this decision needs a person");
                Err(error.hint("run the same command at a terminal, or add `--yes`").into())
            }
        }
    }

    /// Refuses a process below the guard of a run of this ledger, whichever state directory either of them
    /// has.
    pub fn refuse_below_ledger_guard(&self, ledger: &mut Ledger) -> Result<()> {
        let own = find_runs_above()
            .iter()
            .filter_map(|run| Id::parse(run))
            .any(|run| ledger.find(run.as_str()).is_ok());
        if own { Err(below_guard_error()) } else { Ok(()) }
    }

    /// Returns who started a command that itself decides nothing.
    pub fn caller(&self) -> DecidedBy {
        match is_at_terminal() {
            _ if self.on_page => DecidedBy::Page,
            true => DecidedBy::Terminal,
            false => DecidedBy::Api,
        }
    }

    /// Records that a person asked for something on a page: `retry`, `continue` or `stop` of a run. A command needs no record
    /// of its own.
    pub(crate) fn record_page_action(&self, ledger: &mut Ledger, run: &Id, action: &str) -> Result<()> {
        if !self.on_page {
            return Ok(());
        }
        let by = self.require_person(false)?;
        let decided = Decided { by, what: "run".into(), decision: action.into(), detail: Value::Null };
        ledger.append(Some(run), None, &Event::Decided(decided))?;
        Ok(())
    }
}

/// Refuses a process below a guard of the same state directory.
pub fn refuse_below_guard() -> Result<()> {
    if !is_below_guard(None) {
        return Ok(());
    }
    // A path that does not exist can become another name of the guard's directory when it is created.
    let state = state_home().filter(|state| create_private_folder(state).is_ok());
    if is_below_guard(state.as_deref()) { Err(below_guard_error()) } else { Ok(()) }
}

/// Refuses the process that connected from `peer` to `server` on this machine, if it runs below a guard or cannot be seen.
pub fn refuse_guarded_peer(peer: SocketAddr, server: SocketAddr) -> Result<()> {
    match find_peer_place(peer, server) {
        PeerPlace::Free => Ok(()),
        PeerPlace::BelowGuard => Err(below_guard_error()),
        PeerPlace::Unknown => {
            let message = "the process that asks has ended or belongs to another user; it may be an agent";
            let hint = "run `callsheet serve` as the user of the browser, and wait for the answer";
            Err(Diagnostic::error(Code::PersonBelowGuard, message).hint(hint).into())
        }
    }
}

/// Refuses a process in the environment of a run.
pub(crate) fn refuse_agent(why: &str) -> Result<()> {
    match std::env::var_os("CALLSHEET_RUN").is_some_and(|run| !run.is_empty()) {
        true => Err(Diagnostic::error(Code::RunRefused, why).into()),
        false => Ok(()),
    }
}

fn below_guard_error() -> Error {
    let message = "a process that callsheet guards, such as an agent, cannot decide for a person";
    let hint = "run the same command in a terminal of your own";
    Diagnostic::error(Code::PersonBelowGuard, message).hint(hint).into()
}

fn is_at_terminal() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}
