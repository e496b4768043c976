//! Requests: everything explicit that one prompt is made for.
//!
//! A request is plain data that can be written as TOML or JSON. It makes no decisions: the recipe assigns its
//! contents to sections.

pub(crate) mod detail;
pub mod fact;
pub(crate) mod profile;
mod read;
pub mod scope;
pub(crate) mod values;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use profile::Profile;
pub use read::read_request;

use crate::diag::{Code, Diagnostic, Diagnostics, push_diagnostic};
use crate::library::allowed_command::AllowedCommand;
use crate::library::format::PromptFormat;
use crate::library::layout::Layout;
use crate::library::recipe::{DocumentKind, MissingPolicy};
use crate::request::detail::DetailLevel;
use crate::request::detail::{DocumentDetail, TextlessDocument};
use crate::request::fact::RunFacts;
use crate::request::values::SlotValues;
use crate::text::SharedText;
use crate::text::json_weight::json_weight;
use crate::text::name::{NAME_HINT, is_name};
use crate::text::word_enum::word_enum;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
#[cfg_attr(feature = "schema", schemars(title = "Request"))]
pub struct Request {
    /// The name of the schema that the request was written for. It is not kept.
    #[serde(skip_serializing)]
    pub schema: Option<RequestSchema>,
    /// The recipe to follow: layers, unified, staged, run, or a project's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recipe: Option<String>,
    /// The agent that will read the prompt; `base` for no particular agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The version of the agent, if it is not the newest known one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// Identity (layers), agent role (staged) or profile (run).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The session directory, relative to the project. Includes are resolved in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The project's directory, used if `--project` is not given. The core ignores it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Whether the agent works in a folder that is not a checkout of a git repository.
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    pub no_git: bool,
    /// The task in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<SharedText>,
    /// Values for slots, always literal.
    #[serde(skip_serializing_if = "SlotValues::is_empty")]
    pub values: SlotValues,
    /// Keys of values that are delivered, but stored and shown only as placeholders.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub secret: BTreeSet<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub context: Vec<ContextBlock>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub documents: Vec<RequestDocument>,
    /// Commands that the agent may run without asking: `pytest -q`, or `pytest *` with any further arguments. A run gives the
    /// agent the permission.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<String>,
    /// Paths that the agent should read before it starts, relative to the worktree.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub read_first: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub memories: Vec<MemoryEntry>,
    /// Rules that apply to this prompt, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<SharedText>,
    /// JSON Schema tool definitions. They never become text.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<Value>,
    /// Whether the agent is attached to the submission server.
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    pub mcp: bool,
    /// The policy for a slot that nothing fills, in place of the recipe's policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<MissingPolicy>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<PromptFormat>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<Task>,
    /// Facts of an earlier run; they become the digest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous: Option<RunFacts>,
    /// A person's addition to a continued run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub human_input: Option<SharedText>,
    /// The levels to which blocks were reduced to fit into a budget, by block: `documents[3]`, `context[0]`, or the name
    /// of a section and of its block, `project.project_documents`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub steps: BTreeMap<String, DetailLevel>,
    /// The folders and files of a project that differ from the default.
    #[serde(skip_serializing_if = "Layout::is_default")]
    pub layout: Layout,
}

word_enum! {
    /// The name of the schema of a request.
    RequestSchema {
        /// The first version.
        V1 "callsheet/request/1",
    }
}

/// A named block of context: text as given, or data shown as a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", schemars(extend("oneOf" = [
    { "required": ["text"], "properties": { "text": { "type": "string" } } },
    { "required": ["data"], "properties": { "data": { "type": "object" } } },
])))]
pub struct ContextBlock {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<SharedText>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Map<String, Value>>,
}

/// A file, artifact or thought that the prompt includes or refers to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", schemars(extend(
    "anyOf" = [
        { "required": ["path"], "properties": { "path": { "type": "string" } } },
        {
            "required": ["content", "name"],
            "properties": { "content": { "type": "string" }, "name": { "type": "string" } },
        },
    ],
    "not" = {
        "required": ["content", "left_out"],
        "properties": { "content": { "type": "string" }, "left_out": { "not": { "type": "null" } } },
    },
)))]
pub struct RequestDocument {
    #[serde(rename = "type", default)]
    pub kind: DocumentKind,
    /// The name of the document in the prompt [default: its path].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The path of the document, relative to the project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<SharedText>,
    /// How much of the document is included [default: full].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<DocumentDetail>,
    /// Whether the text is included even if the recipe lists paths, provided that the agent supports it.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub embed: bool,
    /// The first and the last line to include, counted from 1 [default: all].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines: Option<[usize; 2]>,
    /// The reason if there is no text to show: then only the path and the reason are included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out: Option<TextlessDocument>,
}

/// A memory of earlier work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct MemoryEntry {
    /// The kind of memory, for example `pattern`, `warning`, `learning`.
    #[serde(rename = "type")]
    pub kind: String,
    pub content: SharedText,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Task {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<SharedText>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<SharedText>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<SharedText>,
    /// The conditions for the task to count as done.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub criteria: Vec<SharedText>,
    /// Globs of files that may be written.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub write: Vec<String>,
    /// Globs of files that must not be touched; they override `write`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(max = 4_294_967_295_u32)))]
    pub depth: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(max = 4_294_967_295_u32)))]
    pub max_depth: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(max = 4_294_967_295_u32)))]
    pub max_steps: Option<u32>,
}

impl Request {
    /// Returns the fields that become part of a file name, each with its name.
    fn file_name_fields(&self) -> [(&'static str, Option<&String>); 5] {
        [
            ("recipe", self.recipe.as_ref()),
            ("agent", self.agent.as_ref()),
            ("phase", self.phase.as_ref()),
            ("role", self.role.as_ref()),
            ("command", self.command.as_ref()),
        ]
    }

    /// Checks names, keys and combinations of fields. Reports all mistakes together.
    pub fn validate(&self) -> Result<(), Diagnostics> {
        let mut wrong: Vec<Diagnostic> = Vec::new();
        let mut refuse = |what: &str, given: &str| {
            push_diagnostic(&mut wrong, Code::RequestBadName, || {
                let message = alloc::format!("invalid {what} `{given}`");
                Diagnostic::error(Code::RequestBadName, message).hint(NAME_HINT)
            });
        };
        for (what, given) in self.file_name_fields() {
            if let Some(given) = given.filter(|given| !is_name(given)) {
                refuse(what, given);
            }
        }
        for key in self.values.invalid_keys() {
            refuse("value key", key);
        }
        for block in self.context.iter().filter(|block| !is_name(&block.name)) {
            refuse("context block name", &block.name);
        }
        let mut bad = |message: String| {
            push_diagnostic(&mut wrong, Code::RequestBad, || Diagnostic::error(Code::RequestBad, message));
        };
        for key in &self.secret {
            let why = match key.as_str() {
                "model" | "max_tokens" => "it becomes a field of request bodies",
                key if self.values.get(key).is_none() => "the request has no such value",
                _ => continue,
            };
            bad(alloc::format!("`{key}` cannot be marked as secret: {why}"));
        }
        for (at, block) in self.context.iter().enumerate() {
            if block.text.is_some() == block.data.is_some() {
                bad(alloc::format!("context[{at}] needs either `text` or `data`"));
            }
        }
        for (at, document) in self.documents.iter().enumerate() {
            if document.path.is_none() && document.content.is_none() {
                bad(alloc::format!("documents[{at}] needs `path` or `content`"));
            } else if document.path.is_none() && document.name.is_none() {
                bad(alloc::format!("documents[{at}] has no `path`, so it needs a `name`"));
            } else if document.lines.is_some_and(|[first, last]| first == 0 || last < first) {
                bad(alloc::format!("invalid documents[{at}].lines: lines are counted from 1"));
            } else if document.content.is_some() && document.left_out.is_some() {
                bad(alloc::format!("documents[{at}] has both `content` and `left_out`"));
            }
        }
        let task = self.task.as_ref();
        let data = self.context.iter().filter_map(|block| block.data.as_ref()).flat_map(Map::values);
        let limits = [
            ("task.write", task.map_or(0, |task| task.write.len()), MAX_GLOBS),
            ("task.exclude", task.map_or(0, |task| task.exclude.len()), MAX_GLOBS),
            ("layout.templates", self.layout.templates.len(), MAX_TEMPLATE_FOLDERS),
            ("allow", self.allow.len(), MAX_COMMANDS),
            ("context.data", data.map(count_values).sum(), MAX_DATA_VALUES),
        ];
        for (what, count, most) in limits.into_iter().filter(|(_, count, most)| count > most) {
            bad(alloc::format!("`{what}` has {count} values; the limit is {most}"));
        }
        for text in self.allow.iter().take(MAX_COMMANDS) {
            if let Err(diag) = AllowedCommand::parse(text) {
                push_diagnostic(&mut wrong, Code::RequestBad, || Diagnostic {
                    code: Code::RequestBad,
                    ..diag
                });
            }
        }
        if wrong.is_empty() { Ok(()) } else { Err(Diagnostics(wrong)) }
    }
}

/// Every command becomes a rule of the agent.
const MAX_COMMANDS: usize = 100;

/// A scope has several copies of its globs, and every path that a run changes is compared with each.
const MAX_GLOBS: usize = 100_000;
/// Each template is searched in each folder, and each absence is kept.
const MAX_TEMPLATE_FOLDERS: usize = 1000;
/// JSON takes up to 250 bytes for a value, and is copied several times on its way into a prompt. The limit is for all tools
/// together, and for all data.
const MAX_DATA_VALUES: usize = 1 << 18;

fn too_many_tools() -> Diagnostics {
    let message = alloc::format!("the tools have more than {MAX_DATA_VALUES} values");
    Diagnostic::error(Code::RequestBad, message).into()
}

/// Reads tools from a JSON array; returns `None` if `text` is not one.
pub fn read_tools(text: &str) -> Result<Option<Vec<Value>>, Diagnostics> {
    // A value weighs at most three, so these are too many before they are parsed.
    if json_weight(text) > 3 * MAX_DATA_VALUES {
        Err(too_many_tools())
    } else {
        Ok(serde_json::from_str(text).ok())
    }
}

fn count_values(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(count_values).sum(),
        Value::Object(map) => map.values().map(count_values).sum(),
        _ => 0,
    }
}

/// Reports every entry of `tools` that is not the definition of a tool.
pub fn check_tools(tools: &[Value]) -> Result<(), Diagnostics> {
    let mut wrong = Vec::new();
    if tools.iter().map(count_values).sum::<usize>() > MAX_DATA_VALUES {
        return Err(too_many_tools());
    }
    for (at, why) in tools.iter().enumerate().filter_map(|(at, tool)| Some((at, find_tool_problem(tool)?))) {
        let message = alloc::format!("tools[{at}] is not a tool definition: {why}");
        let hint =
            "a tool has a `name`, and its arguments as a JSON Schema in `input_schema` or `parameters`";
        push_diagnostic(&mut wrong, Code::RequestBad, || {
            Diagnostic::error(Code::RequestBad, message).hint(hint)
        });
    }
    if wrong.is_empty() { Ok(()) } else { Err(Diagnostics(wrong)) }
}

/// Returns why a value is not the definition of a tool; `None` if it is one. The definitions of the usual
/// APIs all count: the name of the schema differs, and some put the definition below `function`.
fn find_tool_problem(tool: &Value) -> Option<String> {
    let Value::Object(outer) = tool else { return Some("expected an object".into()) };
    let of = match outer.get("function") {
        Some(Value::Object(inner)) => inner,
        Some(_) => return Some("`function` is not an object".into()),
        None => outer,
    };
    match of.get("name") {
        Some(Value::String(name)) if !name.trim().is_empty() => {}
        Some(_) => return Some("`name` is not a string".into()),
        None => return Some("it has no `name`".into()),
    }
    if of.get("description").is_some_and(|words| !words.is_string()) {
        return Some("`description` is not a string".into());
    }
    let schemas = ["input_schema", "inputSchema", "parameters", "parametersJsonSchema"];
    let bad = schemas.into_iter().find(|name| of.get(*name).is_some_and(|schema| !schema.is_object()))?;
    Some(alloc::format!("`{bad}` is not a JSON Schema"))
}
