//! Reads TOML and JSON into the types of data files and requests, and names every unknown key.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ops::Range;

use schemars::{JsonSchema, schema_for};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::diag::{Code, Diagnostic, Diagnostics, MOST_PER_KIND};
use crate::library::layout::Layout;
use crate::library::lookup::{self, DynLibrary, list_names};
use crate::library::text_locator::{PathStep, TextLocator, ValuePath};
use crate::source::SourceId;
use crate::text::SharedText;

/// The format of a data file or a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileFormat {
    /// TOML.
    Toml,
    /// JSON.
    Json,
}

/// Well above any hand-written recipe. Locating strings in the file makes cost quadratic in its length.
const MAX_BYTES: usize = 64 * 1024;

pub(crate) fn check_length(id: &SourceId, text: &SharedText, code: Code) -> Result<(), Diagnostic> {
    if text.len() <= MAX_BYTES {
        return Ok(());
    }
    Err(Diagnostic::error(code, format!("{id}: it has {} bytes, the limit is {MAX_BYTES}", text.len())))
}

pub(crate) fn find_file(
    library: &DynLibrary<'_>,
    folder: &str,
    name: &str,
    layout: &Layout,
    not_found: Code,
) -> Result<(SourceId, SharedText), Diagnostics> {
    let path = format!("{folder}/{name}.toml");
    library.read_file(&path, layout)?.ok_or_else(|| {
        let known = list_names(&library.sources, folder, layout);
        Diagnostic::error(not_found, format!("there is no `{path}`"))
            .searched(lookup::candidates(&path, layout))
            .suggest(name, known.iter().map(String::as_str))
            .hint(format!("{folder} that exist: {}", known.join(", ")))
            .into()
    })
}

/// The codes for the mistakes of a file.
#[derive(Clone, Copy, Debug)]
pub struct ReadErrorCodes {
    /// The code for a wrong form.
    pub bad: Code,
    /// The code for a key that does not exist.
    pub unknown: Code,
}

/// Reads `text` as a `T`; diagnostics call it `name`. All unknown keys are reported together.
pub fn read_data<T: DeserializeOwned + JsonSchema>(
    name: &str,
    text: &SharedText,
    notation: FileFormat,
    codes: ReadErrorCodes,
) -> Result<T, Diagnostics> {
    let read = match notation {
        FileFormat::Toml => parse_toml::<T>(text),
        FileFormat::Json => parse_json::<T>(text),
    };
    let (message, span) = match read {
        Ok(read) => return Ok(read),
        Err(error) => error,
    };
    let value = match notation {
        FileFormat::Toml => parse_toml::<Value>(text),
        FileFormat::Json => parse_json::<Value>(text),
    };
    // The parser stops at the first mistake. A person wants all of them, each with its path.
    let schema = Value::from(schema_for!(T));
    let mut wrong = SchemaMismatches::default();
    if let Ok(value) = &value {
        find_mismatches(value, &schema, &schema, &mut Vec::new(), &mut wrong);
    }
    let SchemaMismatches { listed, more } = wrong;
    if listed.is_empty() {
        let message = message.lines().next().unwrap_or("it cannot be read").to_string();
        return Err(Diagnostic::error(codes.bad, message).at(name, text, span).into());
    }
    let located = TextLocator::new(text, notation);
    let diags = listed.into_iter().map(|SchemaMismatch { path, message, known }| {
        let code = if known.is_empty() { codes.bad } else { codes.unknown };
        let place = located.find(&path).unwrap_or(0..0);
        let error = Diagnostic::error(code, message).at(name, text, place);
        match path.last() {
            Some(PathStep::Key(key)) if !known.is_empty() => error
                .suggest(key, known.iter().map(String::as_str))
                .hint(format!("keys that exist: {}", known.join(", "))),
            _ => error,
        }
    });
    let mut diags: Vec<Diagnostic> = diags.collect();
    if let Some(last) = diags.last_mut() {
        last.more = more;
    }
    Err(Diagnostics(diags))
}

/// A parsed value, or the parser's message with its place.
type ParseResult<T> = Result<T, (String, Range<usize>)>;

fn parse_toml<T: DeserializeOwned>(text: &str) -> ParseResult<T> {
    toml::from_str(text).map_err(|error| (error.message().to_string(), error.span().unwrap_or(0..0)))
}

fn parse_json<T: DeserializeOwned>(text: &str) -> ParseResult<T> {
    serde_json::from_str(text).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        let at = byte_offset(text, line, column);
        let said = error.to_string();
        // The diagnostic shows the place anyway.
        let said = said.strip_suffix(&format!(" at line {line} column {column}")).unwrap_or(&said);
        (said.to_string(), at..at + 1)
    })
}

fn byte_offset(text: &str, line: usize, column: usize) -> usize {
    let before: usize = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    (before + column.saturating_sub(1)).min(text.len())
}

/// A part of a value that its schema does not allow.
struct SchemaMismatch {
    path: Vec<PathStep>,
    message: String,
    /// The existing keys, if the mistake is an unknown key.
    known: Vec<String>,
}

#[derive(Default)]
struct SchemaMismatches {
    listed: Vec<SchemaMismatch>,
    /// The number of further mismatches.
    more: usize,
}

impl SchemaMismatches {
    fn push(&mut self, misfit: impl FnOnce() -> SchemaMismatch) {
        if self.listed.len() < MOST_PER_KIND {
            self.listed.push(misfit());
        } else {
            self.more += 1;
        }
    }
}

/// Collects every part of `value` that does not fit `schema`; `path` is the path of `value`.
fn find_mismatches(
    value: &Value,
    schema: &Value,
    root: &Value,
    path: &mut Vec<PathStep>,
    wrong: &mut SchemaMismatches,
) {
    let here = if path.is_empty() { "it".to_string() } else { format!("`{}`", ValuePath(path)) };
    let forms = resolve_forms(schema, root);
    let Some(schema) = forms.iter().find(|form| fits_type(value, form)) else {
        let mut wanted: Vec<&str> = forms.iter().flat_map(|form| allowed_types(form)).collect();
        wanted.retain(|wanted| *wanted != "null" || forms.len() == 1);
        wanted.dedup();
        let message = format!("{here} is of type {}, not {}", type_name(value), wanted.join(" or "));
        wrong.push(|| SchemaMismatch { path: path.clone(), message, known: Vec::new() });
        return;
    };
    let mut bad = |path: &[PathStep], message: String| {
        wrong.push(|| SchemaMismatch { path: path.to_vec(), message, known: Vec::new() });
    };
    let choices = allowed_words(schema);
    if let Some(word) = value.as_str().filter(|word| !choices.is_empty() && !choices.contains(word)) {
        bad(path, format!("{here} is `{word}`, not one of {}", choices.join(", ")));
    }
    if let Some(least) = schema.get("minimum").and_then(Value::as_i64)
        && value.as_i64().is_some_and(|number| number < least)
    {
        bad(path, format!("{here} is {value}, which is less than {least}"));
    }
    let is_u32 = schema.get("format").and_then(Value::as_str) == Some("uint32");
    if is_u32 && value.as_u64().is_some_and(|number| number > u64::from(u32::MAX)) {
        bad(path, format!("{here} is {value}, which is more than {}", u32::MAX));
    }
    for key in collect_words(schema.get("required")).into_iter().filter(|key| value.get(key).is_none()) {
        path.push(PathStep::Key(key.to_string()));
        bad(path, format!("`{}` is missing", ValuePath(path)));
        path.pop();
    }
    let properties = schema.get("properties").and_then(Value::as_object);
    let others = schema.get("additionalProperties");
    for (key, value) in value.as_object().into_iter().flatten() {
        path.push(PathStep::Key(key.clone()));
        match (properties.and_then(|known| known.get(key)), others, properties) {
            (Some(schema), ..) => find_mismatches(value, schema, root, path, wrong),
            (None, Some(schema @ Value::Object(_)), _) => find_mismatches(value, schema, root, path, wrong),
            (None, _, Some(known)) => wrong.push(|| {
                let mut known: Vec<String> = known.keys().cloned().collect();
                known.sort();
                let message = format!("there is no key `{}`", ValuePath(path));
                SchemaMismatch { path: path.clone(), message, known }
            }),
            (None, _, None) => {}
        }
        path.pop();
    }
    if let (Some(items), Some(schema)) = (value.as_array(), schema.get("items")) {
        for (at, item) in items.iter().enumerate() {
            path.push(PathStep::Index(at));
            find_mismatches(item, schema, root, path, wrong);
            path.pop();
        }
    }
}

/// Returns the forms that a schema allows: itself, or each of its alternatives. Follows references.
fn resolve_forms<'v>(schema: &'v Value, root: &'v Value) -> Vec<&'v Value> {
    if let Some(target) = schema.get("$ref").and_then(Value::as_str).and_then(|at| at.strip_prefix('#')) {
        return root
            .pointer(target)
            .map_or_else(|| alloc::vec![schema], |schema| resolve_forms(schema, root));
    }
    match schema.get("anyOf").and_then(Value::as_array) {
        Some(any) => any.iter().flat_map(|form| resolve_forms(form, root)).collect(),
        None => alloc::vec![schema],
    }
}

/// Returns the types that a schema allows; an empty list allows any type.
fn allowed_types(schema: &Value) -> Vec<&str> {
    let types = collect_words(schema.get("type"));
    if types.is_empty() && !allowed_words(schema).is_empty() { alloc::vec!["string"] } else { types }
}

fn fits_type(value: &Value, schema: &Value) -> bool {
    let types = allowed_types(schema);
    types.is_empty() || types.iter().any(|wanted| is_of_type(value, wanted))
}

/// Returns the words of a value that is a word or a list of words.
fn collect_words(value: Option<&Value>) -> Vec<&str> {
    match value {
        Some(Value::String(word)) => alloc::vec![word],
        Some(Value::Array(words)) => words.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// Returns the words of a closed set. A set with a description for each word is spelled differently.
fn allowed_words(schema: &Value) -> Vec<&str> {
    let mut all = collect_words(schema.get("enum"));
    for choice in schema.get("oneOf").and_then(Value::as_array).into_iter().flatten() {
        all.extend(collect_words(choice.get("const")));
        all.extend(collect_words(choice.get("enum")));
    }
    all
}

fn is_of_type(value: &Value, wanted: &str) -> bool {
    match wanted {
        "integer" => value.is_u64() || value.is_i64(),
        wanted => type_name(value) == wanted,
    }
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Object(_) => "object",
        Value::Array(_) => "array",
        Value::String(_) => "string",
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
    }
}
