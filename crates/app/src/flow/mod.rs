//! Flows: started, driven or stepped, decided, and read from their records.

mod driver;
mod driver_documents;
mod driver_phase;
mod driver_resume;
pub mod find;
pub mod folder;
pub mod lane;
mod lane_outcome;
mod lane_prompt;
mod lane_terminal;
pub mod options;
mod parked;
pub mod preferences;
mod recorded;
mod report_lines;
pub mod run_view;
pub mod start;
pub mod status;
pub mod stepper;
pub mod steps;
pub mod worktrees;

pub(crate) use folder::{FlowFolder, choose_name};
pub use options::FlowOptions;
pub use recorded::RecordedFlow;
pub use status::{explain_wait, wait_reasons};
pub(crate) use worktrees::report_leftovers;
