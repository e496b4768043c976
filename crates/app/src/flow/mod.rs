//! Flows: started, driven or stepped, decided, and read from their records.

mod driver;
mod driver_documents;
mod driver_phase;
mod driver_resume;
pub mod explain;
pub mod find;
pub mod folder;
pub mod lane;
mod lane_outcome;
mod lane_prompt;
mod lane_split;
mod lane_terminal;
mod next_steps;
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
pub use recorded::{LaneRun, RecordedFlow};
pub(crate) use worktrees::report_leftovers;
