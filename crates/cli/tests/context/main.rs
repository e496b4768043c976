//! `callsheet context` with the real CLIs: every byte of their requests, by part; and with CLIs that misbehave.

#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "tests")]

mod commands;
mod comparing;
mod doc_page;
mod hostile;
mod lanes;
mod layouts;
mod project;
