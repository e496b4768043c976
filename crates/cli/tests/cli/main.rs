//! The program from the outside: the real binary in a directory of its own.

#![expect(clippy::unwrap_used, reason = "tests")]

mod compose;
mod errors;
mod explain;
mod surroundings;
mod world;
