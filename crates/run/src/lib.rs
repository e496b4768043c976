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
mod content_ids;
mod disk;
mod documents;
mod environment;
mod folder;
mod git;
mod guard;
mod host;
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
mod submission;
mod text_arena;
mod tmux;
mod trace;
mod transcript;
mod tree;
mod walk;
mod worktree;

pub use ancestry::{ProcessStamp, find_runs_above, is_below_guard, set_guarded_run, state_home};
pub use checks::run_check;
pub use content_ids::read_content_ids;
pub use disk::{DEFAULT_MAX_FILE_BYTES, Disk, Roots};
pub use documents::DocumentReader;
pub use environment::{PRIVATE_VARIABLES, grace_period};
pub use folder::{WritableFolder, WriteError};
pub use git::{CommonDir, Git, GitError, take_interrupts};
pub use guard::{
    GUARD, RecordSubmission, read_last_documents, read_terminal_exit_code, run_guard, run_guard_with,
};
pub use host::{find_temporary_file_system, read_user_name};
pub use lanes::{LaneLeftovers, ensure_lane_worktree, find_lane_leftovers, merge_lane};
pub use list::MAX_LEFT_OUT;
pub use lock::{LOCK_PATIENCE, lock_file, open_private};
pub use observe::{FingerprintCache, OwnFiles, WorktreeSnapshot};
pub use pack::{FileBody, PackLimits, PackOptions, PackProgress, PackedFile, PackedTree, WantedContent};
pub use perform::{PerformError, PerformOptions, PerformOutcome, delivered_text, perform};
pub use prefetched::PrefetchedSources;
pub use process::{
    MAX_RECORD_BYTES, OutputStream, ProcessEvent, ProcessExit, ProcessJob, ProcessLimits, StartError,
    StopFlag, find_own_program, run_process,
};
pub use programs::{MissingProgram, find_env_program, find_program};
pub use read::{open_file, read_file, read_own_text};
pub use shared_names::find_shared_names;
pub use submission::{
    JudgedSubmission, OpenSubmission, SubmissionGate, SubmissionPermission, SubmissionRequest, ask_guard,
};
pub use tmux::{TerminalError, Tmux, TmuxPane, TmuxServer};
pub use trace::{LivingProcess, ProcessTrace, read_boot_id};
pub use transcript::{existing_at_paths, transcript_has_prompt};
pub use worktree::{Worktree, ensure_worktree, find_worktree_path};
