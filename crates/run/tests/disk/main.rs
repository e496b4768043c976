#![expect(clippy::unwrap_used, reason = "tests")]

//! Tests of [`callsheet_run::Disk`]: it reads files inside its roots, refuses paths that lead outside, and
//! never waits.

mod list;
mod pack;
mod path_swaps;
mod project;
mod read;
mod writable_folder;
