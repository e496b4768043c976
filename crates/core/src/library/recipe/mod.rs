//! Recipes: the sections of a prompt, the source of each, and the policies between them.
//!
//! A recipe holds no text that an agent reads, except headings, notices and the wordings of derived values.

mod derived_value;
mod path_hole;
mod read;

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

pub use derived_value::{DerivedValue, RowKind};
pub use path_hole::PathHole;
pub use read::find_recipe;
pub use read::{RecipeFile, read_recipe};

use crate::library::format::PromptFormat;
use crate::library::template::TemplateNotation;
use crate::text::word_enum::word_enum;

/// The contents of `recipes/NAME.toml`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", schemars(title = "Recipe"))]
pub struct Recipe {
    /// The purpose of the recipe, in one sentence.
    #[serde(default)]
    pub description: String,
    /// The format if the request names none.
    pub format: PromptFormat,
    /// The notation of slots in its templates.
    #[serde(default)]
    pub notation: TemplateNotation,
    /// Whether files are included as text or as paths.
    #[serde(default)]
    pub files: FilePolicy,
    /// The policy for slots that nothing fills.
    #[serde(default)]
    pub missing: MissingSlotRule,
    /// The text between sections in Markdown.
    #[serde(default)]
    pub separator: SectionSeparator,
    /// Values of request fields that the request leaves out.
    #[serde(default)]
    pub defaults: BTreeMap<RequestField, String>,
    /// Rules for slots that callsheet fills by itself.
    #[serde(default)]
    pub derive: BTreeMap<String, DeriveSpec>,
    /// The sections, in the order of the prompt.
    pub section: Vec<SectionSpec>,
}

/// How files get into a prompt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum FilePolicy {
    /// As text.
    #[default]
    Embed,
    /// As paths that the agent reads by itself.
    Paths,
}

/// The policy for a slot that nothing fills.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum MissingSlotRule {
    /// No policy: a slot that nothing fills is an error.
    #[default]
    #[serde(skip)]
    Unsaid,
    /// One policy for all slots.
    Policy(MissingPolicy),
    /// A notice for some slots.
    Notice(MissingNotice),
}

/// A notice in the prompt for the named slots, nothing for all others; a warning for each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct MissingNotice {
    /// The text in place of the value.
    pub notice: String,
    /// The slots that show it.
    pub slots: Vec<String>,
}

/// The text between the sections of a Markdown prompt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum SectionSeparator {
    /// An empty line.
    #[default]
    Blank,
    /// A line of three dashes between empty lines; also between blocks.
    Rule,
}

impl SectionSeparator {
    /// Returns the text between two sections.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Blank => "\n\n",
            Self::Rule => "\n\n---\n\n",
        }
    }
}

/// A field of the request that file names and conditions can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum RequestField {
    /// The agent.
    Agent,
    /// The phase.
    Phase,
    /// The role.
    Role,
    /// The command.
    Command,
}

/// A section of a prompt: its place, and the sources of its text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SectionSpec {
    /// The name of the section; in XML the name of its element.
    pub name: String,
    /// The part of the prompt that it belongs to.
    pub part: Part,
    /// The text of a `##` heading in Markdown.
    #[serde(default)]
    pub heading: Option<String>,
    /// The maximum size of the section's text in bytes; a longer text is truncated at a line end.
    #[serde(default)]
    pub max_bytes: Option<usize>,
    /// Whether an empty section is an error.
    #[serde(default)]
    pub required: bool,
    /// The section's priority if the prompt must fit into a budget.
    #[serde(default)]
    pub level: SectionPriority,
    /// The sources of its text, in order.
    pub blocks: Vec<BlockSpec>,
}

word_enum! {
    /// The priority of a section if not all sections fit.
    #[derive(Default)]
    SectionPriority {
        /// The section is shown whole, or no prompt is composed.
        #[default]
        Must "must",
        /// The section is reduced after all sections of level `may`.
        Should "should",
        /// The section is reduced first.
        May "may",
    }
}

/// The source of a block's text: exactly one of the first four fields.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct BlockSpec {
    /// Template files, of which the first existing one is used; `{agent}`, `{AGENT}`, `{phase}`, `{role}` and
    /// `{command}` are replaced by the request's fields.
    pub template: Option<OneOrMore>,
    /// The name of a request field or a derived value.
    pub value: Option<String>,
    /// The kinds of the documents to include.
    pub documents: Option<Vec<DocumentKind>>,
    /// Whether the block holds the named context blocks, in the given order.
    pub context: Option<bool>,
    /// The request field that must be set.
    pub when: Option<RequestField>,
    /// The request field that must not be set.
    pub unless: Option<RequestField>,
    /// The priority of the block, in place of the section's level.
    pub level: Option<SectionPriority>,
}

/// One text or a list of texts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum OneOrMore {
    /// One text.
    One(String),
    /// A list.
    More(Vec<String>),
}

impl OneOrMore {
    /// Returns all entries.
    pub fn as_slice(&self) -> &[String] {
        match self {
            Self::One(one) => core::slice::from_ref(one),
            Self::More(more) => more,
        }
    }
}

/// The source and the wording of a derived value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct DeriveSpec {
    /// The value.
    pub from: DerivedValue,
    /// The wording of a row: one for all rows, or one for each kind of row. A wording is the name of a fragment,
    /// or else the words themselves. Without it, a row is its text.
    #[serde(default)]
    pub each: Option<RowWording>,
    /// The text between rows.
    #[serde(default = "newline")]
    pub join: String,
    /// The wording around all rows, with a slot `rows`; not used if there are no rows.
    #[serde(default)]
    pub wrap: Option<String>,
    /// The name of the tags around the value; numbered if the value contains the name.
    #[serde(default)]
    pub tag: Option<String>,
    /// The contracts to show.
    #[serde(default)]
    pub contract: Vec<String>,
    /// Values of a completion's fields that neither the request nor the session provides.
    #[serde(default)]
    pub given: BTreeMap<String, String>,
    /// The field with the number of the sub-plan; if set, each sub-plan has a completion.
    #[serde(default)]
    pub per_plan: Option<String>,
    /// The role of each command or phase whose preferences apply if the request names no role.
    #[serde(default)]
    pub roles: BTreeMap<String, String>,
    /// The maximum depth of a directory tree.
    #[serde(default)]
    pub depth: Option<usize>,
    /// The maximum number of rows; a last row of kind `rest` counts the others.
    #[serde(default)]
    pub limit: Option<usize>,
}

fn newline() -> String {
    "\n".into()
}

/// The wording of the rows of a derived value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum RowWording {
    /// One wording for all rows.
    All(String),
    /// A wording for each kind of row.
    Kinds(BTreeMap<String, String>),
}

word_enum! {
    /// The kind of a document.
    #[derive(Default)]
    DocumentKind {
        /// A file of the project.
        #[default]
        File "file",
        /// An output of earlier work.
        Artifact "artifact",
        /// A thought of an agent or a person.
        Thought "thought",
    }
}

impl DocumentKind {
    /// Returns the attribute that carries the document's name.
    pub const fn attribute(self) -> &'static str {
        match self {
            Self::File => "path",
            Self::Artifact | Self::Thought => "name",
        }
    }
}

/// The policy for a slot that nothing fills.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum MissingPolicy {
    /// The prompt is not composed.
    Error,
    /// The slot is empty, and a warning is reported.
    Empty,
    /// The slot shows a notice, and a warning is reported.
    Notice,
}

/// The place of a section in the prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Part {
    /// The system prompt.
    System,
    /// The context that the task depends on.
    Context,
    /// The task.
    Instructions,
}
