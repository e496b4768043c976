//! The Model Context Protocol, on standard input and output.
//!
//! The only place with an async runtime: one thread, and nothing of it on the way of `compose`.

mod id;
mod install;
mod prompts;
mod resources;
mod server;
mod transport;

pub(crate) use install::{McpClient, change};
pub(crate) use server::{SessionServer, SubmittingRun, serve};
