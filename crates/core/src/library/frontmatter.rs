//! Frontmatter: the YAML header of a template.
//!
//! Its fences are whole lines, it starts at byte 0 or after a BOM, and it is small. A bad header is an error
//! of that file alone. An agent never sees a header.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::{Error, Spanned};

use crate::diag::{Code, Diagnostic};
use crate::library::agent::PermissionLevel;
use crate::library::template::TextRange;
use crate::source::SourceId;
use crate::text::SharedText;
use crate::text::name::is_name;

const MAX_BYTES: usize = 64 * 1024;
const BOM: &str = "\u{feff}";

/// The header of a template or profile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TemplateFrontmatter {
    /// The name.
    pub name: Option<String>,
    /// The description.
    pub description: Option<String>,
    /// The category.
    pub category: Option<String>,
    /// The version.
    pub version: Option<String>,
    /// The tags.
    pub tags: Vec<String>,
    /// The ids of the clauses in which an agent's own template differs from the BASE one on purpose.
    pub differs: Vec<String>,
    /// Of a profile: the globs that it may write if the task names none.
    pub write: Vec<String>,
    /// Of a profile: the globs that it must never touch.
    pub exclude: Vec<String>,
    /// Of a profile: its agent.
    pub agent: Option<String>,
    /// Of a profile: the model that the agent uses.
    pub model: Option<String>,
    /// Of a profile: the most that the agent may do without asking.
    pub permit: Option<PermissionLevel>,
    /// Of a profile: the commands that the agent may run without asking.
    pub allow: Vec<String>,
    /// The declared variables. `None` if the header has no such key: then no slot counts as undeclared.
    pub variables: Option<Vec<TemplateVariable>>,
}

/// A variable that a header declares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateVariable {
    /// The name of the slot.
    pub name: String,
    /// The description.
    pub description: Option<String>,
    /// Whether a value must fill the slot.
    pub required: bool,
    /// The text that fills the slot if there is no value.
    pub default: Option<SharedText>,
}

impl TemplateFrontmatter {
    /// Returns the declared variable `name`.
    pub fn variable(&self, name: &str) -> Option<&TemplateVariable> {
        self.variables.iter().flatten().find(|variable| variable.name == name)
    }
}

/// The keys of a header. Every scalar is read as written: YAML's own types would turn `1.50` into `1.5`.
#[derive(Deserialize)]
struct FrontmatterFields {
    name: Option<String>,
    description: Option<String>,
    category: Option<String>,
    version: Option<String>,
    #[serde(default)]
    tags: Vec<String>,
    #[serde(default)]
    differs: Vec<String>,
    #[serde(default)]
    write: Vec<String>,
    #[serde(default)]
    exclude: Vec<String>,
    agent: Option<String>,
    model: Option<String>,
    permit: Option<PermissionLevel>,
    #[serde(default)]
    allow: Vec<String>,
    variables: Option<Vec<Spanned<VariableDeclaration>>>,
}

/// The keys of `FrontmatterFields`.
pub const KEYS: [&str; 13] = [
    "name",
    "description",
    "category",
    "version",
    "tags",
    "differs",
    "write",
    "exclude",
    "agent",
    "model",
    "permit",
    "allow",
    "variables",
];

enum VariableDeclaration {
    Name(String),
    /// A scalar that is not a text in YAML, such as `yes`.
    Scalar,
    Full(VariableMapping),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct VariableMapping {
    name: String,
    description: Option<String>,
    required: Option<bool>,
    default: Option<String>,
}

impl<'de> Deserialize<'de> for VariableDeclaration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(DeclarationVisitor)
    }
}

struct DeclarationVisitor;

impl<'de> Visitor<'de> for DeclarationVisitor {
    type Value = VariableDeclaration;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(VARIABLE)
    }

    fn visit_str<E>(self, name: &str) -> Result<VariableDeclaration, E> {
        Ok(VariableDeclaration::Name(name.to_owned()))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<VariableDeclaration, A::Error> {
        VariableMapping::deserialize(MapAccessDeserializer::new(map)).map(VariableDeclaration::Full)
    }

    fn visit_bool<E>(self, _: bool) -> Result<VariableDeclaration, E> {
        Ok(VariableDeclaration::Scalar)
    }

    fn visit_i64<E>(self, _: i64) -> Result<VariableDeclaration, E> {
        Ok(VariableDeclaration::Scalar)
    }

    fn visit_u64<E>(self, _: u64) -> Result<VariableDeclaration, E> {
        Ok(VariableDeclaration::Scalar)
    }

    fn visit_f64<E>(self, _: f64) -> Result<VariableDeclaration, E> {
        Ok(VariableDeclaration::Scalar)
    }

    fn visit_unit<E>(self) -> Result<VariableDeclaration, E> {
        Ok(VariableDeclaration::Scalar)
    }
}

const VARIABLE: &str = "a variable is a name or a mapping {name, description, required, default}";

/// Splits a text into its header, empty if there is none, and the range of its body, without the blank lines
/// around it.
pub fn split_frontmatter(
    id: &SourceId,
    text: &SharedText,
) -> Result<(TemplateFrontmatter, TextRange), Diagnostic> {
    let start = if text.starts_with(BOM) { BOM.len() } else { 0 };
    let mut lines = text[start..].split_inclusive('\n');
    // Checked first, because the search for the end of the first line can run through the whole text.
    let fenced = text[start..].starts_with("---");
    if !fenced || lines.next().map(str::trim_end) != Some("---") {
        return Ok((TemplateFrontmatter::default(), trim_body(text, start)));
    }
    let bad = |message: &str| {
        let first_line = start..start + 3;
        Diagnostic::error(Code::FrontBad, message).at(id, text, first_line)
    };
    let yaml_start = start + text[start..].find('\n').map_or(3, |at| at + 1);
    let mut at = yaml_start;
    for line in lines {
        if line.trim_end() == "---" {
            let front = read_header(id, text, yaml_start, at)?;
            return Ok((front, trim_body(text, at + line.len())));
        }
        at += line.len();
        if at - yaml_start > MAX_BYTES {
            return Err(bad("the frontmatter is longer than 64 KiB"));
        }
    }
    Err(bad("the frontmatter is not closed").hint("close it with a line that holds `---` and nothing else"))
}

/// Returns the ranges of the keys that are not in [`KEYS`], in the header before `body`.
pub fn find_foreign_keys(text: &str, body: TextRange) -> Vec<Range<usize>> {
    let mut keys = Vec::new();
    let mut at = 0;
    for line in text[..body.start].split_inclusive('\n') {
        let key = line.split(':').next().unwrap_or_default();
        if key.len() < line.len() && is_name(key) && !KEYS.contains(&key) {
            keys.push(at..at + key.len());
        }
        at += line.len();
    }
    keys
}

fn trim_body(text: &str, start: usize) -> TextRange {
    let body = &text[start..];
    let lead = body.len() - body.trim_start_matches(['\n', '\r']).len();
    let end = start + body.trim_end().len();
    TextRange { start: (start + lead).min(end), end }
}

fn read_header(
    id: &SourceId,
    text: &SharedText,
    start: usize,
    end: usize,
) -> Result<TemplateFrontmatter, Diagnostic> {
    let yaml = &text[start..end];
    if yaml.trim().is_empty() {
        return Ok(TemplateFrontmatter::default());
    }
    let header: FrontmatterFields = serde_saphyr::from_str_with_options(yaml, yaml_options(10_000, false))
        .map_err(|error| {
            let at =
                start + error.location().map_or(0, |place| byte_offset(yaml, place.line(), place.column()));
            let bad =
                Diagnostic::error(Code::FrontBad, format!("invalid frontmatter: {}", describe_error(&error)));
            let bad = bad.at(id, text, at..at + 1);
            match &error {
                Error::SerdeUnknownField { field, expected, .. } => {
                    bad.suggest(field, expected.iter().copied())
                }
                _ => bad,
            }
        })?;
    let variables = header.variables.map(|declared| {
        let each = declared.into_iter().map(|Spanned { value, referenced, .. }| {
            let at = byte_offset(yaml, referenced.line(), referenced.column());
            let written = yaml[at..].split([',', ']', '#', '\n']).next().unwrap_or_default().trim();
            build_variable(value, written).map_err(|message| {
                let at = start + at;
                Diagnostic::error(Code::FrontBad, message).at(id, text, at..at + written.len().max(1))
            })
        });
        each.collect()
    });
    Ok(TemplateFrontmatter {
        name: header.name,
        description: header.description,
        category: header.category,
        version: header.version,
        tags: header.tags,
        differs: header.differs,
        write: header.write,
        exclude: header.exclude,
        agent: header.agent,
        model: header.model,
        permit: header.permit,
        allow: header.allow,
        variables: variables.transpose()?,
    })
}

/// Returns options that forbid anchors, tags and merge keys: everything in YAML that can multiply or change
/// its meaning.
fn yaml_options(most_nodes: usize, strict_booleans: bool) -> serde_saphyr::Options {
    serde_saphyr::options! {
        merge_keys: serde_saphyr::MergeKeyPolicy::Error,
        reject_unsupported_tags: true,
        with_snippet: false,
        strict_booleans: strict_booleans,
        budget: serde_saphyr::budget! {
            max_events: 2 * most_nodes,
            max_aliases: 0,
            max_anchors: 0,
            max_depth: 16,
            max_nodes: most_nodes,
        },
    }
}

/// Reads any YAML as data within the limits of a header. An error has a message and a byte offset.
pub(crate) fn read_yaml(yaml: &str, most_nodes: usize) -> Result<Value, (String, usize)> {
    serde_saphyr::from_str_with_options(yaml, yaml_options(most_nodes, true)).map_err(|error| {
        let at = error.location().map_or(0, |place| byte_offset(yaml, place.line(), place.column()));
        (describe_error(&error), at)
    })
}

/// Renders an error without the parser's own vocabulary and without the place, which the diagnostic shows
/// anyway.
fn describe_error(error: &Error) -> String {
    let fixed = match error {
        Error::Eof { .. } => "it ends too early",
        Error::MultipleDocuments { .. } => "it contains more than one document",
        Error::Unexpected { expected: "mapping start", .. } => "expected a mapping: `key: value`",
        Error::Unexpected { expected: "sequence start", .. } => "expected a list",
        Error::Unexpected { .. } | Error::NullIntoString { .. } => "expected a string",
        Error::InvalidScalar { ty: "boolean" | "bool", .. } => "expected `true` or `false`",
        Error::SerdeInvalidType { .. } => VARIABLE,
        Error::MergeKeyNotAllowed { .. } => "`<<` is not allowed",
        Error::UnsupportedTag { .. } | Error::TaggedScalarCannotDeserializeIntoString { .. } => {
            "tags are not allowed"
        }
        Error::Budget { breach: BudgetBreach::Anchors { .. } | BudgetBreach::Aliases { .. }, .. }
        | Error::UnknownAnchor { .. } => "anchors and aliases are not allowed",
        Error::Budget { .. } => "it is nested too deep or too large",
        Error::DuplicateMappingKey { key: Some(key), .. } => {
            return format!("duplicate key `{key}`");
        }
        Error::DuplicateMappingKey { .. } => "duplicate key",
        Error::SerdeUnknownField { field, .. } => return format!("a variable has no key `{field}`"),
        Error::SerdeMissingField { field, .. } => return format!("a variable needs a `{field}`"),
        Error::ExternalMessage { msg, .. } => {
            return msg.lines().next().unwrap_or("invalid YAML").to_owned();
        }
        _ => "unsupported YAML",
    };
    fixed.to_owned()
}

/// Builds the declared variable; `written` is the text of a scalar.
fn build_variable(declared: VariableDeclaration, written: &str) -> Result<TemplateVariable, String> {
    let bare = |name: String| VariableMapping { name, description: None, required: None, default: None };
    let full = match declared {
        VariableDeclaration::Name(name) => bare(name),
        VariableDeclaration::Scalar => bare(written.to_owned()),
        VariableDeclaration::Full(full) => full,
    };
    if !is_name(&full.name) {
        return Err(format!("invalid variable name `{}`", full.name));
    }
    let default = full.default.map(SharedText::from);
    Ok(TemplateVariable {
        name: full.name,
        description: full.description,
        required: full.required.unwrap_or(default.is_none()),
        default,
    })
}

/// Returns the byte offset of a line and column, both counted from 1.
fn byte_offset(text: &str, line: u64, column: u64) -> usize {
    let skip = |n: u64| usize::try_from(n).unwrap_or(usize::MAX).saturating_sub(1);
    let before: usize = text.split_inclusive('\n').take(skip(line)).map(str::len).sum();
    let row = text[before..].lines().next().unwrap_or_default();
    before + row.char_indices().nth(skip(column)).map_or(row.len(), |(at, _)| at)
}
