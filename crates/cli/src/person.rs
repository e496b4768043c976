//! Checks that a decision is made by a person.
//!
//! An agent runs below a guard. What only a person may decide is refused there, whatever the process did to its
//! environment, session, terminal or program.

use std::io::IsTerminal as _;

use callsheet_core::diag::{Code, Diag, Failure};
use callsheet_core::record::By;
use callsheet_run::is_below_guard;

use crate::app::App;
use crate::state::state_dir;

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
        if !is_below_guard(&state_dir()?) {
            return Ok(());
        }
        let message = "a process that callsheet guards, such as an agent, cannot decide for a person";
        let hint = "run the same command in a terminal of your own";
        Err(Diag::error(Code::PersonBelowGuard, message).hint(hint).into())
    }

    /// Who started a command that decides nothing by itself.
    pub(crate) fn caller(&self) -> By {
        if is_at_terminal() { By::Terminal } else { By::Api }
    }
}

fn is_at_terminal() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}
