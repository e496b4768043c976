#![expect(clippy::unwrap_used, reason = "tests")]

//! What [`callsheet_run::Disk`] promises: it reads what is inside, refuses what leads outside, and
//! never waits.

mod folder;
mod list;
mod pack;
mod read;
mod swap;
mod world;
