//! Frontmatter: the YAML header of a template.
//!
//! Its fences are whole lines, it starts at byte 0, and it is small. A bad header is an error of
//! that file alone; a header is never passed on to an agent.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde::Deserialize;
use serde_json::Value;

use crate::diag::{Code, Diag};
use crate::name::is_name;
use crate::source::SourceId;
use crate::template::Span;
use crate::text::Text;

const MAX_BYTES: usize = 64 * 1024;
const BOM: &str = "\u{feff}";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Front {
    pub name: Option<String>,
    pub description: Option<String>,
    pub category: Option<String>,
    pub version: Option<String>,
    pub tags: Vec<String>,
    /// `None` where the header has no such key: then nothing is declared, and nothing is undeclared.
    pub variables: Option<Vec<Variable>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    pub name: String,
    pub description: Option<String>,
    pub required: bool,
    pub default: Option<Text>,
}

impl Front {
    pub fn variable(&self, name: &str) -> Option<&Variable> {
        self.variables.iter().flatten().find(|variable| variable.name == name)
    }
}

#[derive(Deserialize)]
struct Header {
    name: Option<String>,
    description: Option<String>,
    category: Option<String>,
    version: Option<Value>,
    #[serde(default)]
    tags: Vec<String>,
    variables: Option<Vec<Declared>>,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "a variable is a name or a mapping {name, description, required, default}")]
enum Declared {
    Name(String),
    #[serde(rename_all = "lowercase")]
    Full(DeclaredInFull),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DeclaredInFull {
    name: String,
    description: Option<String>,
    required: Option<bool>,
    default: Option<Value>,
}

/// The header, if there is one, and where the body is: without the blank lines around it.
pub(crate) fn split(id: &SourceId, text: &Text) -> Result<(Front, Span), Diag> {
    let start = if text.starts_with(BOM) { BOM.len() } else { 0 };
    let mut lines = text[start..].split_inclusive('\n');
    if lines.next().map(str::trim_end) != Some("---") {
        return Ok((Front::default(), trimmed(text, start)));
    }
    let bad = |message: &str| {
        let first_line = start..start + 3;
        Diag::error(Code::FrontBad, message).at(id, text, first_line)
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

fn trimmed(text: &str, start: usize) -> Span {
    let body = &text[start..];
    let lead = body.len() - body.trim_start_matches(['\n', '\r']).len();
    let end = start + body.trim_end().len();
    Span { start: (start + lead).min(end), end }
}

fn read(id: &SourceId, text: &Text, start: usize, end: usize) -> Result<Front, Diag> {
    let yaml = &text[start..end];
    if yaml.trim().is_empty() {
        return Ok(Front::default());
    }
    let options = serde_saphyr::options! {
        merge_keys: serde_saphyr::MergeKeyPolicy::Error,
        reject_unsupported_tags: true,
        with_snippet: false,
        budget: serde_saphyr::budget! {
            max_events: 20_000,
            max_aliases: 0,
            max_anchors: 0,
            max_depth: 16,
            max_nodes: 10_000,
        },
    };
    let header: Header = serde_saphyr::from_str_with_options(yaml, options).map_err(|error| {
        let at = start + error.location().map_or(0, |place| offset(yaml, place.line(), place.column()));
        let said = error.to_string();
        let message =
            format!("the frontmatter cannot be read: {}", said.lines().next().unwrap_or("bad YAML"));
        Diag::error(Code::FrontBad, message).at(id, text, at..at + 1)
    })?;
    let bad = |message: String| Diag::error(Code::FrontBad, message).at(id, text, start..start + 1);
    let variables = header
        .variables
        .map(|declared| declared.into_iter().map(|variable| declare(variable).map_err(bad)).collect());
    Ok(Front {
        name: header.name,
        description: header.description,
        category: header.category,
        version: header.version.map(|version| plain(&version)),
        tags: header.tags,
        variables: variables.transpose()?,
    })
}

fn declare(declared: Declared) -> Result<Variable, String> {
    let full = match declared {
        Declared::Name(name) => DeclaredInFull { name, description: None, required: None, default: None },
        Declared::Full(full) => full,
    };
    if !is_name(&full.name) {
        return Err(format!("`{}` cannot be the name of a variable", full.name));
    }
    let default = match full.default {
        None => None,
        Some(Value::Array(_) | Value::Object(_)) => {
            return Err(format!("the default of `{}` is not a text", full.name));
        }
        Some(value) => Some(Text::from(plain(&value))),
    };
    Ok(Variable {
        name: full.name,
        description: full.description,
        required: full.required.unwrap_or(default.is_none()),
        default,
    })
}

/// A scalar as a person would write it.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.to_owned(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// The byte offset of a line and column, both from 1.
fn offset(text: &str, line: u64, column: u64) -> usize {
    let skip = |n: u64| usize::try_from(n).unwrap_or(usize::MAX).saturating_sub(1);
    let before: usize = text.split_inclusive('\n').take(skip(line)).map(str::len).sum();
    let row = text[before..].lines().next().unwrap_or_default();
    before + row.char_indices().nth(skip(column)).map_or(row.len(), |(at, _)| at)
}
