//! callsheet-lint: checks that the data files of a project fit together.
//!
//! For authors of templates. [`check`](check::check) finds every problem of every template, recipe, agent,
//! contract and flow; [`catalog`] lists the templates and their readers; [`fuzz`] puts hostile values into a
//! template or a recipe. Composing needs none of it.

#![no_std]

extern crate alloc;

pub mod catalog;
pub mod check;
pub mod fuzz;
mod markdown;
