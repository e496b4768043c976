//! Data files, located on the search path and parsed: templates, recipes, agents, contracts,
//! plans and preferences.

pub mod agent;
pub mod allowed_command;
pub mod clause;
pub(crate) mod command_words;
pub mod contract;
pub mod format;
pub mod frontmatter;
pub mod layout;
pub mod lookup;
pub mod omission;
pub mod plan;
pub mod preferences;
pub mod prices;
pub mod read_toml;
pub mod recipe;
#[cfg(feature = "schema")]
mod schema_mismatches;
pub mod template;
#[cfg(feature = "schema")]
mod text_locator;
pub mod yaml;
