//! The MCP server in each tested revision of the protocol, also seen by clients that are not ours: the official SDK, and
//! the agents' own CLIs.

#![expect(clippy::unwrap_used, reason = "tests")]

mod agents;
mod client;
mod revisions;
