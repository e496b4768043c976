//! Implements the Model Context Protocol on standard input and output.
//!
//! This is the only crate with an async runtime, which has one thread.

mod id;
mod prompts;
mod resources;
mod server;
mod transport;

pub use server::{SessionServer, SubmittingRun, serve};
