//! Finds every part of a data file that the schema of its type does not allow. Parsing is left to `read_toml`.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use schemars::{JsonSchema, schema_for};
use serde_json::Value;

use crate::diag::{Diagnostic, Diagnostics, MOST_PER_KIND};
use crate::library::read_toml::{FileFormat, ReadErrorCodes};
use crate::library::text_locator::{PathStep, TextLocator, ValuePath};
use crate::text::SharedText;

/// A part of a value that its schema does not allow.
struct SchemaMismatch {
    path: Vec<PathStep>,
    message: String,
    /// The existing keys, if the mistake is an unknown key.
    known: Vec<String>,
}

/// The parts of a value that its schema does not allow.
#[derive(Default)]
pub(super) struct SchemaMismatches {
    listed: Vec<SchemaMismatch>,
    /// The number of further mismatches.
    more: usize,
}

/// Collects every part of `value` that does not fit the schema of `T`.
pub(super) fn find_all<T: JsonSchema>(value: &Value) -> SchemaMismatches {
    let schema = Value::from(schema_for!(T));
    let mut wrong = SchemaMismatches::default();
    find_mismatches(value, &schema, &schema, &mut Vec::new(), &mut wrong);
    wrong
}

impl SchemaMismatches {
    /// Returns one diagnostic for each mismatch; `None` if there is none.
    pub(super) fn into_diagnostics(
        self,
        name: &str,
        text: &SharedText,
        notation: FileFormat,
        codes: ReadErrorCodes,
    ) -> Option<Diagnostics> {
        let Self { listed, more } = self;
        let located = TextLocator::new(text, notation);
        let diags = listed.into_iter().map(|SchemaMismatch { path, message, known }| {
            let code = if known.is_empty() { codes.bad } else { codes.unknown };
            let place = located.find(&path).unwrap_or(0..0);
            let error = Diagnostic::error(code, message).at(name, text, place);
            match path.last() {
                Some(PathStep::Key(key)) if !known.is_empty() => error
                    .suggest(key, known.iter().map(String::as_str))
                    .hint(format!("known keys: {}", known.join(", "))),
                _ => error,
            }
        });
        let mut diags: Vec<Diagnostic> = diags.collect();
        diags.last_mut()?.more = more;
        Some(Diagnostics(diags))
    }

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
        let expected = match choices.as_slice() {
            [only] => format!("; expected `{only}`"),
            several => format!(", not one of {}", several.join(", ")),
        };
        bad(path, format!("{here} is `{word}`{expected}"));
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
                let message = format!("unknown key `{}`", ValuePath(path));
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
    // Beside the properties of an object, alternatives only restrict their combinations.
    let forms = schema.get("anyOf").filter(|_| schema.get("properties").is_none());
    match forms.and_then(Value::as_array) {
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
