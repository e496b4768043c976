//! callsheet-core: composes the prompts of AI coding agents.
//!
//! A [`Request`] says what a prompt is for, a recipe says which sections it has, [`Sources`] hold the
//! texts. [`compose`] makes a [`Prompt`] of them, every byte of which has an [`Origin`](prompt::Origin);
//! [`render`](render::render) writes it down as Markdown, XML or JSON.
//!
//! Nothing here reads a file, a clock or the environment: `no_std` lets the compiler see to that. The
//! same request and the same sources give the same bytes, on any machine, on any day.

#![no_std]

extern crate alloc;

pub mod agent;
mod budget;
mod builder;
mod builtin;
mod caseless;
pub mod catalog;
pub mod check;
mod compose;
mod context;
pub mod contract;
mod data;
pub mod deliver;
mod derive;
mod detail;
pub mod diag;
mod document;
pub mod fact;
mod fill;
pub mod flow;
mod front;
pub mod fuzz;
mod glob;
mod instruct;
mod locate;
mod lookup;
mod name;
mod once;
mod origin;
pub mod prefs;
pub mod prompt;
pub mod receipt;
pub mod recipe;
pub mod record;
pub mod render;
pub mod reply;
pub mod request;
mod room;
pub mod scope;
pub mod secrets;
mod source;
mod step;
pub mod submission;
mod system;
pub mod task;
pub mod template;
mod text;
mod unified;
mod unit;
mod values;
mod words;

pub use budget::{Degradation, FittedPrompt, fit};
pub use builder::PromptBuilder;
pub use builtin::{Builtin, FILES};
pub use compose::{ComposedPrompt, compose};
pub use data::{
    FileFormat, ReadErrorCodes, RecipeFile, agent_name, find_agent, find_contract, read, read_agent,
    read_contract, read_recipe, read_request,
};
pub use detail::{DocumentDetail, NoTextReason, TextlessDocument, outline};
pub use fact::{EndReason, RunFacts};
pub use lookup::{Library, candidates, names_in};
pub use name::is_name;
pub use prompt::{Prompt, PromptFormat};
pub use request::Request;
pub use source::{
    BadPath, Listing, ListingEntry, ListingLimits, Snapshot, SourceError, SourceId, SourceRecorder,
    SourceRoot, Sources,
};
pub use step::DetailLevel;
pub use system::{InjectedTemplate, SystemTemplate, inject_variables, load_system_template};
pub use text::SharedText;
pub use unified::{ContextItem, UnifiedPrompt};
pub use values::SlotValues;
pub use words::split_words;

/// Changes only when the same request and sources begin to give other bytes.
pub const ENGINE_VERSION: u32 = 2;
