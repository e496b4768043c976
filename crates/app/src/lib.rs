//! Composes, delivers and records the prompts of AI coding agents: the use cases of callsheet as a library.
//!
//! | I want to … | use |
//! |---|---|
//! | open a project with its configuration, trust, ledger and sources | [`Project::open`], [`Project::open_with`] |
//! | compose a prompt, with the origin of every byte | [`Project::compose`] → [`Composition`] |
//! | record a prompt without a run | [`Project::record`] |
//! | see the request that an agent's CLI makes of a prompt | [`Project::probe_context`] → [`ContextProbe`](context::ContextProbe) |
//! | run an agent, with its changes and checks observed | [`Project::prepare`] → [`PreparedRun::execute`] → [`RunReport`] |
//! | record a run whose agent I drive myself | [`PreparedRun::execute_external`] |
//! | run again with the facts of an earlier run | [`Project::prepare_rerun`] |
//! | drive a flow | [`Project::start_flow`], [`Project::resume_flow`], [`Project::decide_flow`], [`Project::stop_flow`] |
//! | drive a flow whose agents I run myself | [`Project::step_flow`] → [`FlowStepper`] |
//! | stop, recover and judge runs and tasks | [`Project::stop_run`], [`Project::recover_runs`], [`Project::list_tasks`] |
//! | show what waits for a person | [`Project::read_inbox`] |
//! | move or shrink the ledger | [`Project::export`], [`Project::import`], [`Project::sweep`] |
//! | see progress, diagnostics and events | an [`Observer`] in [`ProjectOptions`] |
//!
//! A program that runs agents calls [`guard_if_asked`] first in `main`: it is started once more as the guard of each agent.
//! Nothing here prints, parses a command line or exits.

pub mod completion;
pub mod compose;
pub mod context;
pub mod diagnostics;
pub mod error;
pub mod event_words;
pub mod events;
pub mod flow;
pub mod inbox;
pub mod init;
pub mod ledger;
pub mod local_time;
pub mod notify;
pub mod observer;
pub mod output;
pub mod paths;
pub mod project;
pub mod prompt_diff;
pub mod proposed_checks;
pub mod random;
pub mod run;
pub mod run_list;
pub mod run_log;
pub mod run_prompt;
pub mod run_titles;
pub mod session;
pub mod stats;
pub mod template_use;
pub mod templates;
pub mod text_width;
pub mod transfer;

pub use callsheet_core::diag::Diagnostics;
pub use callsheet_core::record::RunOptions;
pub use callsheet_core::{SourceId, SourceRoot};
pub use compose::inputs::{ComposeInput, InputItem, InputKind};
pub use compose::{Composition, Purpose};
pub use error::{Error, Result};
pub use flow::start::FlowStart;
pub use flow::stepper::{FlowLane, FlowStepper};
pub use flow::steps::{FlowBegin, FlowChoice, FlowReport};
pub use observer::{Observer, SilentObserver};
pub use project::{Project, ProjectOptions};
pub use run::options::{RunLocation, RunOverrides, RunSetup};
pub use run::rerun::RerunOptions;
pub use run::{ExternalEnd, ExternalOutput, InterruptFlag, PreparedRun, RunReport, RunStopper};

/// Becomes a guard and exits if this process was started as one. It is the first line of `main` of every program that runs
/// agents.
///
/// ```no_run
/// callsheet::guard_if_asked();
/// // The program begins here.
/// ```
pub fn guard_if_asked() {
    callsheet_run::guard_if_asked_with(run::record_submission);
}

/// The pages of the documentation with Rust in them, which is compiled and run.
#[cfg(doctest)]
mod pages {
    #![doc = include_str!("../../../docs/library.md")]
}
