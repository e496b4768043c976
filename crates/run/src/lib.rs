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
mod contents;
mod disk;
mod documents;
mod environment;
mod folder;
mod git;
mod guard;
mod lanes;
mod list;
mod lock;
mod observe;
mod pack;
mod perform;
mod prefetched;
mod process;
mod programs;
mod read;
mod shared_names;
mod shelf;
mod submission;
mod tmux;
mod trace;
mod transcript;
mod tree;
mod volume;
mod walk;
mod worktree;

pub use ancestry::{ProcessStamp, guard_run, is_below_guard, runs_above, state_home};
pub use checks::run_check;
pub use contents::recorded_contents;
pub use disk::{DEFAULT_MAX_FILE_BYTES, Disk, Roots};
pub use documents::DocumentReader;
pub use environment::{PRIVATE_VARIABLES, grace};
pub use folder::{Folder, WriteError};
pub use git::{CommonDir, Git, GitError};
pub use guard::{GUARD, RecordSubmission, guard, guard_with, terminal_exit_code};
pub use lanes::{LaneLeftovers, lane_leftovers, lane_worktree, merge_lane};
pub use list::MAX_LEFT_OUT;
pub use lock::{LOCK_PATIENCE, hold_file, open_private};
pub use observe::{Before, OwnFiles, Prints};
pub use pack::{Body, PackLimits, Packed, PackedFile, Packing, Progress, Want};
pub use perform::{PerformError, Performed, Performing, perform, told_by};
pub use prefetched::Prefetched;
pub use process::{
    Event, Exit, Job, Limits, MAX_RECORD_BYTES, StartError, Stop, Stream, own_program, run_process,
};
pub use programs::{MissingProgram, find_program};
pub use read::{open_file, read_file, read_own};
pub use shared_names::shared_names;
pub use submission::{
    JudgedSubmission, OpenSubmission, Permission, SubmissionGate, SubmissionRequest, ask_guard,
};
pub use tmux::{Pane, Server, TerminalError, Tmux};
pub use trace::{LivingProcess, ProcessTrace, boot_id};
pub use transcript::{found_at_paths, transcript_has_prompt};
pub use volume::{short_lived, user_name};
pub use worktree::{Worktree, worktree, worktree_place};
