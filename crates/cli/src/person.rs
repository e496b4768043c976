//! Checks that a decision is made by a person.
//!
//! An agent runs below a guard. What only a person may decide is refused there, whatever the process did to its
//! environment, session, terminal or program.

use std::io::IsTerminal as _;

use callsheet_core::diag::{Code, Diag, Failure};
use callsheet_core::record::{By, Id};
use callsheet_run::{is_below_guard, runs_above, state_home};
use callsheet_store::Ledger;

use crate::app::App;
use crate::state::private_folder;

impl App<'_> {
    /// How a person decides here: at a terminal, or with `--yes`. Refuses a process below a guard.
    pub(crate) fn person(&self, yes: bool) -> Result<By, Failure> {
        self.above_guard()?;
        match (is_at_terminal(), yes) {
            (true, _) => Ok(By::Terminal),
            (false, true) => Ok(By::Yes),
            (false, false) => {
                let error = Diag::error(Code::PersonRequired, "a person must decide this");
                Err(error.hint("run the same command at a terminal, or add `--yes`").into())
            }
        }
    }

    /// Refuses a process below a guard of the same state directory.
    pub(crate) fn above_guard(&self) -> Result<(), Failure> {
        if !is_below_guard(None) {
            return Ok(());
        }
        // A path that does not exist can become another name of the guard's directory when it is made.
        let state = state_home().filter(|state| private_folder(state).is_ok());
        if is_below_guard(state.as_deref()) { Err(below_guard()) } else { Ok(()) }
    }

    /// Refuses a process below the guard of a run of this ledger, whichever state directory either of them has.
    pub(crate) fn above_guards_of(&self, ledger: &mut Ledger) -> Result<(), Failure> {
        let own =
            runs_above().iter().filter_map(|run| Id::parse(run)).any(|run| ledger.find(run.as_str()).is_ok());
        if own { Err(below_guard()) } else { Ok(()) }
    }

    /// Who started a command that decides nothing by itself.
    pub(crate) fn caller(&self) -> By {
        if is_at_terminal() { By::Terminal } else { By::Api }
    }
}

fn below_guard() -> Failure {
    let message = "a process that callsheet guards, such as an agent, cannot decide for a person";
    let hint = "run the same command in a terminal of your own";
    Diag::error(Code::PersonBelowGuard, message).hint(hint).into()
}

fn is_at_terminal() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}
