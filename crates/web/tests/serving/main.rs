//! The server over real sockets: who may talk to it, how much, and how text of others reaches a page.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod actions;
mod client;
mod escaping;
mod limits;
mod live;
mod one_file;
mod refusals;
mod security;
