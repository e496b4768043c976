#![expect(clippy::unwrap_used, reason = "tests")]

//! Tests of [`callsheet_run::Disk`]: it reads files inside its roots, refuses paths that lead outside, and
//! never waits.

mod folder;
mod list;
mod pack;
mod read;
mod swap;
mod world;
