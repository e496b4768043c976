//! Implements the Model Context Protocol on standard input and output.
//!
//! This is the only module with an async runtime: it has one thread, and `compose` does not use it.

mod id;
mod install;
mod prompts;
mod resources;
mod server;
mod transport;

pub(crate) use install::{McpClient, install};
pub(crate) use server::{SessionServer, SubmittingRun, serve};
