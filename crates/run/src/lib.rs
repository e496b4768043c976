//! Connects the pure core to the machine: files, processes, terminals and git.
//!
//! [`Disk`] gives the core its sources and never leaves the roots it was given. [`read_file`] is for the one
//! case in which a person names a file explicitly, wherever it lies. [`WritableFolder`] is a directory that
//! callsheet writes to; it never leaves that directory either.
//!
//! [`perform()`] carries out the actions that [`delivery`](callsheet_core::delivery) decided: in a
//! [process](run_process) under a [guard](guard_if_asked), so that nothing outlives it, or in a [terminal](Tmux).
//! [`WorktreeSnapshot`] and [`WorktreeSnapshot::diff`] report the changes, from git.

mod diagnostics;
mod disk;
mod git;
mod perform;
mod process;
mod terminal_size;
mod tmux;
mod transcript;
mod worktree;

pub use disk::documents::DocumentReader;
pub use disk::folder::{FileWrite, FoundFile, WritableFolder, WriteError};
pub use disk::list::MAX_LEFT_OUT;
pub use disk::lock::{LOCK_PATIENCE, lock_file, open_private};
pub use disk::pack::{
    FileBody, PackLimits, PackOptions, PackProgress, PackedFile, PackedTree, WantedContent,
};
pub use disk::prefetched::PrefetchedSources;
pub use disk::read::{open_file, read_file, read_own_text};
pub use disk::shared_names::find_shared_names;
pub use disk::{DEFAULT_MAX_FILE_BYTES, Disk, Roots};
pub use git::content_ids::read_content_ids;
pub use git::{CommonDir, Git, GitError, take_interrupts};
pub use perform::{PerformError, PerformOptions, PerformOutcome, TerminalOptions, delivered_text, perform};
pub use process::ancestry::{ProcessStamp, find_runs_above, is_below_guard, set_guarded_run, state_home};
pub use process::checks::run_check;
pub use process::environment::{PRIVATE_VARIABLES, grace_period, new_command};
pub use process::guard::{
    RecordSubmission, guard_if_asked, guard_if_asked_with, read_last_documents, read_terminal_exit_code,
};
pub use process::host::{find_temporary_file_system, host_name, read_user_name};
pub use process::peer::{PeerPlace, find_peer_place};
pub use process::programs::{MissingProgram, find_env_program, find_program};
pub use process::submission::{
    OpenSubmission, SubmissionError, SubmissionGate, SubmissionPermission, SubmissionRequest, ask_guard,
};
pub use process::trace::{LivingProcess, ProcessTrace, read_boot_id};
pub use process::{
    MAX_RECORD_BYTES, OutputStream, ProcessEvent, ProcessExit, ProcessJob, ProcessLimits, StartError,
    StopFlag, find_own_program, run_process,
};
pub use terminal_size::terminal_size;
pub use tmux::{TerminalError, Tmux, TmuxPane, TmuxServer};
pub use transcript::{existing_at_paths, transcript_has_prompt};
pub use worktree::contents::{FileContents, VersionContents};
pub use worktree::copy::copy_project;
pub use worktree::lanes::{
    LaneLeftovers, ensure_lane_worktree, find_lane_leftovers, merge_lane, remove_merged_lane,
};
pub use worktree::snapshot::{FingerprintCache, OwnFiles, WorktreeSnapshot};
pub use worktree::{Worktree, ensure_worktree, find_worktree_path};
