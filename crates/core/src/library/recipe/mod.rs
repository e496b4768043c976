//! Recipes: the sections of a prompt, the source of each, and the policies between them.
//!
//! A recipe holds no text that an agent reads, except headings, notices and the wordings of derived values.

mod read;

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use read::find_recipe;
pub use read::{RecipeFile, read_recipe};

use crate::library::format::PromptFormat;
use crate::library::template::TemplateNotation;

/// The contents of `recipes/NAME.toml`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Recipe")]
pub struct Recipe {
    #[serde(default)]
    pub description: String,
    /// The format unless the request says otherwise.
    pub format: PromptFormat,
    #[serde(default)]
    pub notation: TemplateNotation,
    /// Whether files travel as text or as paths.
    #[serde(default)]
    pub files: FilePolicy,
    #[serde(default)]
    pub missing: MissingSlotRule,
    /// What stands between sections in Markdown.
    #[serde(default)]
    pub separator: SectionSeparator,
    /// Request fields that have a value when the request gives none.
    #[serde(default)]
    pub defaults: BTreeMap<RequestField, String>,
    /// How slots are filled that nobody fills by hand.
    #[serde(default)]
    pub derive: BTreeMap<String, DeriveSpec>,
    pub section: Vec<SectionSpec>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FilePolicy {
    #[default]
    Embed,
    Paths,
}

/// What becomes of a slot that nothing fills.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum MissingSlotRule {
    #[default]
    #[serde(skip)]
    Unsaid,
    Policy(MissingPolicy),
    Notice(MissingNotice),
}

/// A notice in the prompt for the slots named, nothing for all others; a warning for each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MissingNotice {
    pub notice: String,
    pub slots: Vec<String>,
}

/// What stands between the sections of a Markdown prompt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SectionSeparator {
    /// An empty line.
    #[default]
    Blank,
    /// A line of three dashes between empty lines, between blocks too.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RequestField {
    Agent,
    Phase,
    Role,
    Command,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SectionSpec {
    pub name: String,
    pub part: Part,
    /// A `##` heading in Markdown.
    #[serde(default)]
    pub heading: Option<String>,
    /// The most bytes that the section's text may have; what is over is cut at a line end.
    #[serde(default)]
    pub max_bytes: Option<usize>,
    /// Without any text in it the prompt makes no sense.
    #[serde(default)]
    pub required: bool,
    /// What becomes of it when the prompt has to fit into a budget.
    #[serde(default)]
    pub level: SectionPriority,
    pub blocks: Vec<BlockSpec>,
}

/// How much a section matters when there is not room for all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SectionPriority {
    /// It is shown whole, or there is no prompt.
    #[default]
    Must,
    /// It gives way when there is nothing left of what may be there.
    Should,
    /// It gives way first.
    May,
}

impl SectionPriority {
    /// Returns the level as recipes write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Must => "must",
            Self::Should => "should",
            Self::May => "may",
        }
    }
}

/// Where a block's text comes from: exactly one of the first four.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BlockSpec {
    /// Template files, the first that is there; `{agent}`, `{AGENT}`, `{phase}`, `{role}` and `{command}`
    /// stand for the request's fields.
    pub template: Option<OneOrMore>,
    /// A request field or a derived value.
    pub value: Option<String>,
    /// The documents of these kinds.
    pub documents: Option<Vec<DocumentKind>>,
    /// The named context blocks, in the order given.
    pub context: Option<bool>,
    /// Only if the request has this field.
    pub when: Option<RequestField>,
    /// Only if the request lacks this field.
    pub unless: Option<RequestField>,
    /// Instead of the section's level.
    pub level: Option<SectionPriority>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum OneOrMore {
    One(String),
    More(Vec<String>),
}

impl OneOrMore {
    /// Returns all entries.
    pub fn all(&self) -> &[String] {
        match self {
            Self::One(one) => core::slice::from_ref(one),
            Self::More(more) => more,
        }
    }
}

/// How a derived value is made and worded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeriveSpec {
    pub from: DerivedValue,
    /// What is filled once per row: one wording for all, or one for each kind of row. A wording is the
    /// name of a fragment, or else the words themselves. Without it a row is its text.
    #[serde(default)]
    pub each: Option<RowWording>,
    /// What stands between rows.
    #[serde(default = "newline")]
    pub join: String,
    /// The wording around all rows, with a slot `rows`; not used when there is no row.
    #[serde(default)]
    pub wrap: Option<String>,
    /// The value stands between tags of this name, or of a numbered form of it that the value does not hold.
    #[serde(default)]
    pub tag: Option<String>,
    /// The contracts that are shown.
    #[serde(default)]
    pub contract: Vec<String>,
    /// What a completion hands in that neither the request nor the session says.
    #[serde(default)]
    pub given: BTreeMap<String, String>,
    /// There is a completion for each sub-plan, and this field has its number.
    #[serde(default)]
    pub per_plan: Option<String>,
    /// Whose preferences a command or a phase has where the request names no role.
    #[serde(default)]
    pub roles: BTreeMap<String, String>,
    /// How deep a directory tree goes.
    #[serde(default)]
    pub depth: Option<usize>,
    /// How many rows there are at most; a last row of kind `rest` counts the others.
    #[serde(default)]
    pub limit: Option<usize>,
}

fn newline() -> String {
    "\n".into()
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum RowWording {
    All(String),
    Kinds(BTreeMap<String, String>),
}

impl DerivedValue {
    /// Returns the keys of the request's values that it uses.
    pub const fn inputs(self) -> &'static [&'static str] {
        match self {
            Self::Tasks => &["tasks"],
            Self::Plans | Self::Completion => &["plan"],
            Self::Findings => &["fix_request_file"],
            Self::Contract => &["review_role"],
            _ => &[],
        }
    }
}

/// The derived values: pure functions of request and sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DerivedValue {
    /// The project's profile, and the file that describes it.
    ProjectContext,
    /// What is remembered of the project, or else its profile and documents.
    ProjectDocuments,
    /// A directory tree of the project.
    ProjectStructure,
    /// The rules of the request.
    Rules,
    /// The names of the artifacts that travel with the prompt.
    Artifacts,
    /// The skeletons of the documents that the phase writes.
    Skeleton,
    /// The tasks of the session's `tasks.md`: those that the value `tasks` picks, or all.
    Tasks,
    /// The topics of finished research in the session.
    Research,
    /// The sub-plan that the value `plan` names, with its checklist; or all of them, in the order of the
    /// execution plan.
    Plans,
    /// All sub-plans with their checklists, for somebody who examines what was made of them.
    SubPlans,
    /// How the work is said to be finished: by the tool of a contract, or by the file that it writes.
    Completion,
    /// What the last review wants fixed.
    Findings,
    /// The number of the review round that comes next.
    ReviewRound,
    /// The execution rules that fit the task's depth.
    Depth,
    /// A context block that is data.
    ContextData,
    /// The project's own text for this role or command.
    Extension,
    /// What a person approved for this role.
    Preferences,
    /// The session directory, relative to the project.
    FeatureDir,
    /// The project directory, relative to the worktree.
    ProjectDir,
    /// What the agent calls its tool for asking the person.
    AskUserTool,
    /// What a reply must contain: the contracts that the value names, or else that of the phase.
    Contract,
    /// Where the agent works.
    Workspace,
    /// The task's id and title.
    Task,
    /// The task's completion criteria.
    Criteria,
    /// Paths to read first.
    ReadFirst,
    /// What is remembered from earlier work.
    Memories,
    /// What may be written.
    Write,
    /// What must not be touched.
    Exclude,
    /// How the previous run ended.
    RunResult,
    /// The checks of the previous run.
    Checks,
    /// Where the previous run left its scope.
    Violations,
    /// The files that the previous run changed.
    Changed,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DocumentKind {
    #[default]
    File,
    Artifact,
    Thought,
}

impl DocumentKind {
    /// Returns the kind as recipes and requests write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Artifact => "artifact",
            Self::Thought => "thought",
        }
    }

    /// Returns the attribute that carries the document's name.
    pub const fn attribute(self) -> &'static str {
        match self {
            Self::File => "path",
            Self::Artifact | Self::Thought => "name",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum MissingPolicy {
    Error,
    Empty,
    Notice,
}

/// Where a section belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Part {
    System,
    Context,
    Instructions,
}
