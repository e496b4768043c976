//! Connects the pure core to the machine: files, processes, terminals and git.
//!
//! [`Disk`] gives the core its sources and never leaves the roots it was given. [`read_file`] is for the one
//! case in which a person names a file explicitly, wherever it lies. [`WritableFolder`] is a directory that
//! callsheet writes to; it never leaves that directory either.
//!
//! [`perform()`] carries out the actions that [`delivery`](callsheet_core::delivery) decided: in a
//! [process](run_process) under a [guard](guard()), so that nothing outlives it, or in a [terminal](Tmux).
//! [`WorktreeSnapshot`] and [`WorktreeSnapshot::diff`] report the changes, from git.

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

pub use ancestry::{ProcessStamp, is_below_guard, runs_above, set_guarded_run, state_home};
pub use checks::run_check;
pub use contents::recorded_contents;
pub use disk::{DEFAULT_MAX_FILE_BYTES, Disk, Roots};
pub use documents::DocumentReader;
pub use environment::{PRIVATE_VARIABLES, grace};
pub use folder::{WritableFolder, WriteError};
pub use git::{CommonDir, Git, GitError, take_interrupts};
pub use guard::{GUARD, RecordSubmission, guard, last_documents, run_guard_with, terminal_exit_code};
pub use lanes::{LaneLeftovers, lane_leftovers, lane_worktree, merge_lane};
pub use list::MAX_LEFT_OUT;
pub use lock::{LOCK_PATIENCE, hold_file, open_private};
pub use observe::{FingerprintCache, OwnFiles, WorktreeSnapshot};
pub use pack::{FileBody, PackLimits, PackOptions, PackProgress, PackedFile, PackedTree, WantedContent};
pub use perform::{PerformError, PerformOptions, PerformOutcome, delivered_text, perform};
pub use prefetched::PrefetchedSources;
pub use process::{
    MAX_RECORD_BYTES, OutputStream, ProcessEvent, ProcessExit, ProcessJob, ProcessLimits, StartError,
    StopFlag, own_program, run_process,
};
pub use programs::{MissingProgram, find_program, started_by_env};
pub use read::{open_file, read_file, read_own};
pub use shared_names::shared_names;
pub use submission::{
    JudgedSubmission, OpenSubmission, SubmissionGate, SubmissionPermission, SubmissionRequest, ask_guard,
};
pub use tmux::{TerminalError, Tmux, TmuxPane, TmuxServer};
pub use trace::{LivingProcess, ProcessTrace, boot_id};
pub use transcript::{found_at_paths, transcript_has_prompt};
pub use volume::{temporary_file_system, user_name};
pub use worktree::{Worktree, worktree, worktree_place};
