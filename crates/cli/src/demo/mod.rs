//! The demo: a throw-away project, the commands that are shown in it, and the scripted agent that they start.
//!
//! The commands are started like those of a user, and their outputs are real. `commands::demo` prints them.

mod agent;
mod folder;
mod script;

pub(crate) use agent::act_if_asked;
pub(crate) use folder::{DemoFolder, DemoOutput};
pub(crate) use script::{DemoScript, DemoStep, quote_word};
