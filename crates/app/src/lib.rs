//! Composes, delivers and records the prompts of AI coding agents: the use cases of callsheet as a library.

pub mod compose;
pub mod diagnostics;
pub mod error;
pub mod flow;
pub mod ledger;
pub mod observer;
pub mod paths;
pub mod project;
pub mod run;
pub mod session;
