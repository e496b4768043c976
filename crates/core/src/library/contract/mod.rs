//! Contracts: the required contents of a reply, written once as data.
//!
//! The contract determines the instruction in the prompt, the schema of the submission tool, the file that an
//! agent without that tool writes, and how the reply is read. This module holds the data and checks the
//! fields of a submission.

mod conflicts;
mod context;
mod fields;
pub(crate) mod paths;
mod read;
mod verdict;

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::text::word_enum::word_enum;

pub(crate) use conflicts::find_conflicts;
pub(crate) use context::SubmissionContext;
pub(crate) use fields::normalize_project_glob;
pub(crate) use read::find_contract_file;
pub use read::{find_contract, read_contract};
pub(crate) use verdict::ONE_TASK;
pub use verdict::{Status, Verdict};

/// The contents of `contracts/NAME.toml`. A contract without any part requires nothing that a machine reads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", schemars(title = "Contract"))]
pub struct Contract {
    /// The purpose of the contract, in one sentence.
    pub description: String,
    /// The verdicts of a reply, of which it gives one in a `review` marker.
    #[serde(default)]
    pub verdict: Vec<ContractChoice>,
    /// The words that a reply may use for each task, in a `task_status` marker.
    #[serde(default)]
    pub task_status: Vec<ContractChoice>,
    /// The ids of the tasks if the caller names no others.
    #[serde(default)]
    pub tasks: Vec<String>,
    /// The parts of a report to a person.
    #[serde(default)]
    pub part: Vec<ContractChoice>,
    /// The data that an agent submits by a tool with the name of the contract, or by a file.
    #[serde(default)]
    pub submission: Option<Submission>,
}

/// A word that a reply may use, and its condition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ContractChoice {
    /// The word.
    pub name: String,
    /// The condition under which an agent uses it, as prompts show it.
    pub when: String,
}

/// The data that an agent submits: its fields, and the files that result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Submission {
    /// The roles that may submit the data.
    pub roles: Vec<String>,
    /// The file in the session that holds the data; `{index}` is replaced by that field. Without it, only the tool
    /// can submit the data.
    #[serde(default)]
    pub file: Option<String>,
    /// A field whose value, if given, is added to the names of all files: `review.yaml` becomes
    /// `review_logic.yaml`.
    #[serde(default)]
    pub suffix: Option<String>,
    /// Files of the session that must exist before the submission.
    #[serde(default)]
    pub needs: Vec<String>,
    /// Files of the session that are outdated after the submission.
    #[serde(default)]
    pub stale: Vec<String>,
    /// The contracts of a plan, if the submission is a plan or its order: the rules for plans apply.
    #[serde(default)]
    pub plan: Option<PlanContracts>,
    /// Files that are written besides the data, for readers of Markdown.
    #[serde(default)]
    pub write: Vec<CompanionFile>,
    /// The fields of the data.
    pub field: Vec<SubmissionField>,
}

/// The contracts that the parts of a plan fulfil.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PlanContracts {
    /// The contract of a sub-plan.
    pub subplan: String,
    /// The contract of the order. Without it, this contract is the order itself, and the sub-plans are in the session.
    #[serde(default)]
    pub order: Option<String>,
}

/// A file that is generated from the data. In its path `{field}` is replaced by a field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CompanionFile {
    /// The path of the file, relative to the session.
    pub path: String,
    /// The text of the file. `{{field}}` alone on a line is replaced by the field unchanged; if the field is empty, the
    /// line and the empty line after it are removed. Among other words the field is folded into the line.
    pub text: String,
}

/// A field of a submission, or of the items in one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SubmissionField {
    /// The key of the field.
    pub name: String,
    /// The type of its value.
    #[serde(rename = "type")]
    pub kind: FieldType,
    /// Whether the field must be given.
    #[serde(default)]
    pub required: FieldRequirement,
    /// The minimum of a number, or the minimum number of entries.
    #[serde(default)]
    pub at_least: Option<u64>,
    /// The only allowed number. It is written even if the field is not given.
    #[serde(default)]
    pub fixed: Option<u64>,
    /// Whether the field is written with the data; otherwise only companions contain it.
    #[serde(default = "yes")]
    pub kept: bool,
    /// The allowed values of a choice.
    #[serde(default)]
    pub choices: Vec<String>,
    /// Choices that contradict a value of another field of the submission: choice → field → value.
    #[serde(default)]
    pub never: BTreeMap<String, BTreeMap<String, String>>,
    /// Whether its texts are questions to the person.
    #[serde(default)]
    pub asks: bool,
    /// The meaning of the field, as prompts and tools show it.
    pub description: String,
    /// The value in the example that the instruction shows.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Option<Value>"))]
    pub example: Option<Value>,
    /// In companions: the words for each entry of a list, with `{{number}}` and `{{text}}` or the entry's fields.
    #[serde(default)]
    pub each: Option<String>,
    /// In companions: the text between entries.
    #[serde(default = "newline")]
    pub join: String,
    /// In companions: the words around it, with `{{rows}}`; not used if the field is not given.
    #[serde(default)]
    pub wrap: Option<String>,
    /// The fields of a map, or of each item.
    #[serde(default)]
    pub field: Vec<Self>,
}

fn yes() -> bool {
    true
}

fn newline() -> String {
    "\n".into()
}

word_enum! {
    /// The type of a field of a submission.
    FieldType {
        /// A text that is not blank.
        Text "text",
        /// A name: not a path, not a flag.
        Name "name",
        /// Words in lower case joined by single hyphens.
        Slug "slug",
        /// A whole number.
        Integer "integer",
        /// `true` or `false`.
        Boolean "boolean",
        /// One of the choices.
        Choice "choice",
        /// A list of texts.
        Texts "texts",
        /// A path or glob inside the project.
        Glob "glob",
        /// A list of paths or globs inside the project.
        Globs "globs",
        /// A list of whole numbers.
        Integers "integers",
        /// Fields of its own.
        Map "map",
        /// A list, each entry with fields of its own.
        Items "items",
        /// A list of `{target_role, bullet}`.
        Preferences "preferences",
    }
}

/// Whether a field of a submission must be given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum FieldRequirement {
    /// Always, or never.
    Always(bool),
    /// Only if another field has this value.
    Where(BTreeMap<String, String>),
}

impl Default for FieldRequirement {
    fn default() -> Self {
        Self::Always(true)
    }
}

impl Contract {
    /// Returns, in words, every point in which `self` requires less than `shipped`; empty if it requires at
    /// least as much. A difference that cannot be compared counts as less.
    pub fn find_weakenings(&self, shipped: &Self) -> Vec<String> {
        let mut less = Vec::new();
        let names = |choices: &[ContractChoice]| choices.iter().map(|it| it.name.clone()).collect::<Vec<_>>();
        let differ =
            |own: &[ContractChoice], all: &[ContractChoice]| !all.is_empty() && names(own) != names(all);
        if differ(&self.verdict, &shipped.verdict) {
            less.push("other verdicts".into());
        }
        if differ(&self.task_status, &shipped.task_status) {
            less.push("other task statuses".into());
        }
        if self.tasks != shipped.tasks {
            less.push("other tasks".into());
        }
        if !shipped.part.iter().all(|part| self.part.iter().any(|own| own.name == part.name)) {
            less.push("fewer parts of the report".into());
        }
        match (&self.submission, &shipped.submission) {
            (_, None) => {}
            (None, Some(_)) => less.push("no submission".into()),
            (Some(own), Some(shipped)) => own.collect_weakenings(shipped, &mut less),
        }
        less
    }
}

impl Submission {
    fn collect_weakenings(&self, shipped: &Self, less: &mut Vec<String>) {
        let mut note = |is_less: bool, why: &str| {
            if is_less {
                less.push(why.into());
            }
        };
        let keeps = |own: &[String], all: &[String]| all.iter().all(|item| own.contains(item));
        note(!keeps(&shipped.roles, &self.roles), "more roles may submit it");
        note(!keeps(&self.needs, &shipped.needs), "it requires fewer files");
        note(!keeps(&self.stale, &shipped.stale), "it makes fewer files stale");
        let places = |it: &Self| (it.file.clone(), it.suffix.clone(), it.plan.clone());
        note(places(self) != places(shipped), "it has another file, or other rules");
        note(self.write != shipped.write, "it writes other files");
        collect_field_weakenings(&self.field, &shipped.field, "", less);
    }
}

fn collect_field_weakenings(
    own: &[SubmissionField],
    shipped: &[SubmissionField],
    above: &str,
    less: &mut Vec<String>,
) {
    for field in shipped {
        let name = alloc::format!("{above}{}", field.name);
        let Some(mine) = own.iter().find(|mine| mine.name == field.name) else {
            less.push(alloc::format!("no field `{name}`"));
            continue;
        };
        let always = mine.required == FieldRequirement::Always(true);
        let never = field.required == FieldRequirement::Always(false);
        let fewer = mine.choices.iter().all(|choice| field.choices.contains(choice));
        let is_as_much = mine.kind == field.kind
            && (always || never || mine.required == field.required)
            && mine.at_least.unwrap_or(0) >= field.at_least.unwrap_or(0)
            && mine.fixed == field.fixed
            && mine.kept == field.kept
            && mine.never == field.never
            && mine.asks == field.asks
            && (fewer && mine.choices.is_empty() == field.choices.is_empty());
        if !is_as_much {
            less.push(alloc::format!("the field `{name}` accepts more"));
        }
        collect_field_weakenings(&mine.field, &field.field, &alloc::format!("{name}."), less);
    }
}

/// Data of a submission: only known fields, in the order of the contract, texts without outer blank lines.
pub(crate) type SubmissionValues = Map<String, Value>;
