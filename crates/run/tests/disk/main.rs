#![expect(clippy::unwrap_used, reason = "tests")]

//! Tests of [`callsheet_run::Disk`]: it reads files inside its roots, refuses paths that lead outside, and
//! never waits.

mod documents;
mod host;
mod list;
mod lock;
mod pack;
mod path_swaps;
mod programs;
mod project;
mod read;
mod shared_names;
mod writable_folder;
