//! The MCP server, seen by clients that are not ours: the official SDK, and the agents' own CLIs.

#![expect(clippy::unwrap_used, reason = "tests")]

mod agents;
mod client;
