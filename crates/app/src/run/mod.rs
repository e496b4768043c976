//! Drives a run: from a composed prompt to the last record of its result.
//!
//! Everything is known and in the ledger before a process starts ([`PreparedRun`]). Events are recorded as
//! they happen ([`notes`]), and callsheet itself observes the result ([`mod@finish`]).

mod agent_environment;
pub mod agent_version;
pub(crate) mod allowed;
pub mod changes;
pub mod checks;
pub mod claim;
pub mod close;
pub mod comments;
pub mod cost;
mod day_limit;
pub mod decide;
pub mod denials;
pub mod doctor;
pub mod end;
mod execute;
pub mod external;
mod fault;
pub mod finish;
pub mod installed_agents;
mod location;
pub mod next_steps;
pub mod notes;
pub mod options;
pub mod preflight;
pub mod prepared;
pub mod progress;
mod progress_line;
pub mod read_reply;
pub mod rerun;
pub mod result;
pub mod spool;
pub mod stop;
pub mod submissions;
pub mod task_reason;
pub mod tasks;
pub mod terminal;
pub(crate) mod written_files;

use callsheet_core::record::{Id, RunSummary};

use crate::error::INTERRUPTED;

pub use external::{ExternalEnd, ExternalOutput};
pub use finish::complete;
pub(crate) use finish::{recover, run_pending_checks, terminal_summary};
pub(crate) use location::project_in;
pub(crate) use notes::RedactionRules;
pub use options::{RunLocation, RunSetup};
pub(crate) use preflight::{missing_agent_program, missing_check_programs};
pub use prepared::PreparedRun;
pub(crate) use progress::RunProgress;
pub use result::exit_code;
pub use stop::{InterruptFlag, RunStopper};
pub use submissions::record_submission;
pub use terminal::is_driven;
pub(crate) use terminal::{TerminalState, TerminalWatch, is_pane_alive};

/// A run that has ended, or whose agent continues in a terminal.
#[derive(Debug)]
#[non_exhaustive]
pub struct RunReport {
    /// Everything that is recorded about the run.
    pub summary: RunSummary,
    /// Whether a person interrupted it.
    pub interrupted: bool,
}

impl RunReport {
    /// Returns the id of the run.
    pub fn id(&self) -> &Id {
        &self.summary.run.id
    }

    /// Returns the outcome of the agent's reply as one word; `none` without a reply.
    pub fn reply_outcome(&self) -> &str {
        self.summary.reply().map(|reply| reply.outcome).unwrap_or_default().name()
    }

    /// Returns the exit code of a command that ends with this run.
    pub fn exit_code(&self) -> u8 {
        if self.interrupted { INTERRUPTED } else { exit_code(&self.summary) }
    }
}

pub(crate) fn split_list(list: &str) -> Vec<String> {
    list.split(',').map(str::trim).filter(|item| !item.is_empty()).map(str::to_owned).collect()
}
