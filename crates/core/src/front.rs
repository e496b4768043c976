//! Frontmatter: the YAML header of a template.
//!
//! Its fences are whole lines, it starts at byte 0, and it is small. A bad header is an error of
//! that file alone; a header is never passed on to an agent.

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

use crate::agent::PermissionLevel;
use crate::diag::{Code, Diagnostic};
use crate::name::is_name;
use crate::source::SourceId;
use crate::template::TextRange;
use crate::text::SharedText;

const MAX_BYTES: usize = 64 * 1024;
const BOM: &str = "\u{feff}";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TemplateFrontmatter {
    pub name: Option<String>,
    pub description: Option<String>,
    pub category: Option<String>,
    pub version: Option<String>,
    pub tags: Vec<String>,
    /// The instruction units in which an agent's own template differs from the BASE one, on purpose.
    pub differs: Vec<String>,
    /// Of a profile: what it may write where the task does not say.
    pub write: Vec<String>,
    /// Of a profile: what it must never touch.
    pub exclude: Vec<String>,
    /// Of a profile: the agent that takes it on.
    pub agent: Option<String>,
    /// Of a profile: the model that the agent uses.
    pub model: Option<String>,
    /// Of a profile: the most that the agent may do without asking.
    pub permit: Option<PermissionLevel>,
    /// `None` where the header has no such key: then nothing is declared, and nothing is undeclared.
    pub variables: Option<Vec<TemplateVariable>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateVariable {
    pub name: String,
    pub description: Option<String>,
    pub required: bool,
    pub default: Option<SharedText>,
}

impl TemplateFrontmatter {
    pub fn variable(&self, name: &str) -> Option<&TemplateVariable> {
        self.variables.iter().flatten().find(|variable| variable.name == name)
    }
}

/// Every scalar is read as the text that is written: YAML's own types would turn `1.50` into `1.5`.
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
    variables: Option<Vec<Spanned<VariableDeclaration>>>,
}

/// The keys of [`FrontmatterFields`].
pub(crate) const KEYS: [&str; 12] = [
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
    "variables",
];

enum VariableDeclaration {
    Name(String),
    /// A scalar that is no text to YAML, such as `yes`.
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

/// The header, if there is one, and where the body is: without the blank lines around it.
pub(crate) fn split(
    id: &SourceId,
    text: &SharedText,
) -> Result<(TemplateFrontmatter, TextRange), Diagnostic> {
    let start = if text.starts_with(BOM) { BOM.len() } else { 0 };
    let mut lines = text[start..].split_inclusive('\n');
    // Without looking for the end of the first line, which can be all of the text.
    let fenced = text[start..].starts_with("---");
    if !fenced || lines.next().map(str::trim_end) != Some("---") {
        return Ok((TemplateFrontmatter::default(), trimmed(text, start)));
    }
    let bad = |message: &str| {
        let first_line = start..start + 3;
        Diagnostic::error(Code::FrontBad, message).at(id, text, first_line)
    };
    let yaml_start = start + text[start..].find('\n').map_or(3, |at| at + 1);
    let mut at = yaml_start;
    for line in lines {
        if line.trim_end() == "---" {
            let front = read(id, text, yaml_start, at)?;
            return Ok((front, trimmed(text, at + line.len())));
        }
        at += line.len();
        if at - yaml_start > MAX_BYTES {
            return Err(bad("the frontmatter is longer than 64 KiB"));
        }
    }
    Err(bad("the frontmatter is not closed").hint("close it with a line that holds `---` and nothing else"))
}

/// The keys of a header that are none of ours, which the body of `text` begins after.
pub(crate) fn foreign_keys(text: &str, body: TextRange) -> Vec<Range<usize>> {
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

fn trimmed(text: &str, start: usize) -> TextRange {
    let body = &text[start..];
    let lead = body.len() - body.trim_start_matches(['\n', '\r']).len();
    let end = start + body.trim_end().len();
    TextRange { start: (start + lead).min(end), end }
}

fn read(
    id: &SourceId,
    text: &SharedText,
    start: usize,
    end: usize,
) -> Result<TemplateFrontmatter, Diagnostic> {
    let yaml = &text[start..end];
    if yaml.trim().is_empty() {
        return Ok(TemplateFrontmatter::default());
    }
    let header: FrontmatterFields = serde_saphyr::from_str_with_options(yaml, options(10_000, false))
        .map_err(|error| {
            let at = start + error.location().map_or(0, |place| offset(yaml, place.line(), place.column()));
            let bad = Diagnostic::error(
                Code::FrontBad,
                format!("the frontmatter cannot be read: {}", words(&error)),
            );
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
            let at = offset(yaml, referenced.line(), referenced.column());
            let written = yaml[at..].split([',', ']', '#', '\n']).next().unwrap_or_default().trim();
            declare(value, written).map_err(|message| {
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
        variables: variables.transpose()?,
    })
}

/// No anchors, tags, merge keys: nothing of YAML that can multiply or mean something else.
fn options(most_nodes: usize, strict_booleans: bool) -> serde_saphyr::Options {
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

/// Reads any YAML as data within the limits of a header, or says what is wrong and where.
pub(crate) fn read_yaml(yaml: &str, most_nodes: usize) -> Result<Value, (String, usize)> {
    serde_saphyr::from_str_with_options(yaml, options(most_nodes, true)).map_err(|error| {
        let at = error.location().map_or(0, |place| offset(yaml, place.line(), place.column()));
        (words(&error), at)
    })
}

/// What is wrong, without the reader's own vocabulary and without the place, which is shown anyway.
fn words(error: &Error) -> String {
    let fixed = match error {
        Error::Eof { .. } => "it ends too early",
        Error::MultipleDocuments { .. } => "it holds more than one document",
        Error::Unexpected { expected: "mapping start", .. } => "a mapping is wanted here: `key: value`",
        Error::Unexpected { expected: "sequence start", .. } => "a list is wanted here",
        Error::Unexpected { .. } | Error::NullIntoString { .. } => "a text is wanted here",
        Error::InvalidScalar { ty: "boolean" | "bool", .. } => "`true` or `false` is wanted here",
        Error::SerdeInvalidType { .. } => VARIABLE,
        Error::MergeKeyNotAllowed { .. } => "`<<` is not allowed",
        Error::UnsupportedTag { .. } | Error::TaggedScalarCannotDeserializeIntoString { .. } => {
            "tags are not allowed"
        }
        Error::Budget { breach: BudgetBreach::Anchors { .. } | BudgetBreach::Aliases { .. }, .. }
        | Error::UnknownAnchor { .. } => "anchors and aliases are not allowed",
        Error::Budget { .. } => "it is too deep or has too much in it",
        Error::DuplicateMappingKey { key: Some(key), .. } => {
            return format!("the key `{key}` is there twice");
        }
        Error::DuplicateMappingKey { .. } => "a key is there twice",
        Error::SerdeUnknownField { field, .. } => return format!("a variable has no key `{field}`"),
        Error::SerdeMissingField { field, .. } => return format!("a variable needs a `{field}`"),
        Error::ExternalMessage { msg, .. } => {
            return msg.lines().next().unwrap_or("it is no YAML").to_owned();
        }
        _ => "it is no YAML of the kind that is wanted here",
    };
    fixed.to_owned()
}

/// The variable that is declared; `written` is the text of a scalar.
fn declare(declared: VariableDeclaration, written: &str) -> Result<TemplateVariable, String> {
    let bare = |name: String| VariableMapping { name, description: None, required: None, default: None };
    let full = match declared {
        VariableDeclaration::Name(name) => bare(name),
        VariableDeclaration::Scalar => bare(written.to_owned()),
        VariableDeclaration::Full(full) => full,
    };
    if !is_name(&full.name) {
        return Err(format!("`{}` cannot be the name of a variable", full.name));
    }
    let default = full.default.map(SharedText::from);
    Ok(TemplateVariable {
        name: full.name,
        description: full.description,
        required: full.required.unwrap_or(default.is_none()),
        default,
    })
}

/// The byte offset of a line and column, both from 1.
fn offset(text: &str, line: u64, column: u64) -> usize {
    let skip = |n: u64| usize::try_from(n).unwrap_or(usize::MAX).saturating_sub(1);
    let before: usize = text.split_inclusive('\n').take(skip(line)).map(str::len).sum();
    let row = text[before..].lines().next().unwrap_or_default();
    before + row.char_indices().nth(skip(column)).map_or(row.len(), |(at, _)| at)
}
