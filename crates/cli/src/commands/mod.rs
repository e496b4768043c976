//! One file per command: what it is, its arguments, what it does.

pub(crate) mod agents;
pub(crate) mod check;
pub(crate) mod completions;
pub(crate) mod compose;
pub(crate) mod config;
pub(crate) mod diff;
pub(crate) mod doctor;
pub(crate) mod explain;
pub(crate) mod export;
pub(crate) mod fuzz;
pub(crate) mod gc;
pub(crate) mod import;
pub(crate) mod init;
pub(crate) mod log;
pub(crate) mod man;
pub(crate) mod mcp;
pub(crate) mod prefs;
pub(crate) mod read;
pub(crate) mod read_submission;
pub(crate) mod schema;
pub(crate) mod show;
pub(crate) mod templates;
pub(crate) mod verify;
pub(crate) mod watch;
