//! The edge of callsheet: where the pure core meets the machine.
//!
//! [`Disk`] gives the core its sources and never leaves the roots it was given. [`read_file`] is for
//! the one case where a person names a file outright, wherever it lies. [`Folder`] is a directory that
//! is written to, and never leaves it either.
//!
//! [`perform()`] carries out what [`deliver`](callsheet_core::deliver) decided: in a [process](run_process), under a
//! [guard](guard()) so that nothing outlives it, or in a [terminal](Tmux). [`Before`] and [`Before::observe`] tell what it
//! changed, from git.

mod ancestry;
mod checks;
mod disk;
mod environment;
mod folder;
mod git;
mod guard;
mod lanes;
mod list;
mod observe;
mod pack;
mod perform;
mod prefetched;
mod process;
mod read;
mod shelf;
mod submission;
mod tmux;
mod transcript;
mod tree;
mod volume;
mod walk;
mod worktree;

pub use ancestry::{guard_run, is_below_guard, runs_above, state_home};
pub use checks::run_check;
pub use disk::{DEFAULT_MAX_FILE_BYTES, Disk, Roots};
pub use environment::PRIVATE_VARIABLES;
pub use folder::{Folder, WriteError};
pub use git::{CommonDir, Git, GitError};
pub use guard::{GUARD, RecordSubmission, guard, guard_with};
pub use lanes::{lane_worktree, merge_lane};
pub use list::MAX_LEFT_OUT;
pub use observe::{Before, OwnFiles, Prints};
pub use pack::{Body, PackLimits, Packed, PackedFile, Packing, Progress, Want};
pub use perform::{PerformError, Performed, Performing, perform, told_by};
pub use prefetched::Prefetched;
pub use process::{
    Event, Exit, Job, Limits, MAX_RECORD_BYTES, StartError, Stop, Stream, own_program, run_process,
};
pub use read::read_file;
pub use submission::{
    AcceptedSubmission, OpenSubmission, Permission, SubmissionGate, SubmissionRequest, ask_guard,
};
pub use tmux::{Pane, Server, TerminalError, Tmux};
pub use transcript::{found_at_paths, transcript_has_prompt};
pub use volume::{short_lived, user_name};
pub use worktree::{Worktree, worktree, worktree_place};
