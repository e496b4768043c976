//! Serves the page of callsheet on loopback, and writes the same pages into one file.
//!
//! Owns HTTP, the session of a browser, HTML and live events. All data and all actions are use cases of the crate `callsheet`.

mod action_forms;
mod actions;
mod answer;
mod base64;
mod connection;
mod live;
mod one_file;
mod pages;
mod server;
mod session;
mod shown_text;
mod site;
mod svg;

pub use one_file::{context_file, flow_file, run_file};
pub use server::{ServeOptions, ServedPage, serve};
