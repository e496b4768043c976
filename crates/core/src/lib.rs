//! callsheet-core: composes the prompts of AI coding agents.
//!
//! A [`Request`] says what a prompt is for, a recipe says which sections it has, [`Sources`] hold the
//! texts. [`compose()`] makes a [`Prompt`] of them, every byte of which has an [`Origin`](source::origin::Origin);
//! [`render`](render::render) writes it as Markdown, XML or JSON.
//!
//! Each folder is one stage, and imports only the stages before it: text, diag, source, library, request, prompt, compose,
//! render, secrets, delivery, reply, submission, flow, record, builder.
//!
//! Nothing here performs I/O or reads a clock or the environment: the crate itself does not use `std`, so the compiler forbids
//! it. Some of its dependencies need `std`. The same request and the same sources give the same bytes, on any machine, on any day.

#![no_std]

extern crate alloc;

pub mod builder;
pub mod compose;
pub mod delivery;
pub mod diag;
pub mod flow;
pub mod library;
pub mod prompt;
pub mod record;
pub mod render;
pub mod reply;
pub mod request;
pub mod secrets;
pub mod source;
pub mod submission;
pub mod text;

pub use builder::system_template::{
    InjectedTemplate, SystemTemplate, inject_variables, load_system_template,
};
pub use builder::unified_prompt::{ContextItem, UnifiedPrompt};
pub use builder::{BuiltPrompt, PromptBuilder};
pub use compose::outline::outline;
pub use compose::{ComposedPrompt, compose};
pub use library::agent::{find_agent, read_agent, resolve_agent_name};
pub use library::allowed_command::AllowedCommand;
pub use library::command_words::split_words;
pub use library::contract::{find_contract, read_contract};
pub use library::format::PromptFormat;
pub use library::lookup::{DynLibrary, Library, candidates, list_names};
pub use library::read_toml::{DataFile, FileFormat, ReadErrorCodes, read_data};
pub use library::recipe::{RecipeFile, read_recipe};
pub use prompt::Prompt;
pub use render::budget::{Degradation, FittedPrompt, fit};
pub use request::Request;
pub use request::detail::{DetailLevel, DocumentDetail, NoTextReason, TextlessDocument};
pub use request::fact::{EndReason, RunFacts};
pub use request::read_request;
pub use request::values::SlotValues;
pub use source::builtin::{Builtin, FILES};
pub use source::memory_sources::MemorySources;
pub use source::{
    BadPath, Listing, ListingEntry, ListingLimits, Snapshot, SourceError, SourceId, SourceRecorder,
    SourceRoot, Sources,
};
pub use text::SharedText;
pub use text::name::is_name;

/// Changes only when the same request and sources begin to give other bytes.
pub const ENGINE_VERSION: u32 = 2;

#[cfg(doctest)]
mod pages {
    #![doc = include_str!("../README.md")]
}
