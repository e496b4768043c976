//! Data files and requests: reading TOML and JSON into their types, with every unknown key named.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ops::Range;

use schemars::{JsonSchema, schema_for};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::agent::Agent;
use crate::diag::{Code, Diag, Failure};
use crate::lookup::{self, Library, names_in};
use crate::name::{NAME_HINT, is_name};
use crate::recipe::{Each, Recipe};
use crate::request::{Layout, Request};
use crate::source::SourceId;
use crate::template::Template;
use crate::text::Text;

/// How a request is written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notation {
    Toml,
    Json,
}

/// Reads a request; `name` is what diagnostics call the text.
pub fn read_request(name: &str, text: &Text, notation: Notation) -> Result<Request, Failure> {
    let codes = Codes { bad: Code::RequestBad, unknown: Code::RequestUnknownKey };
    read(name, text, notation, codes)
}

/// Reads an agent's file.
pub fn read_agent(id: &SourceId, text: &Text) -> Result<Agent, Failure> {
    read(&id.to_string(), text, Notation::Toml, Codes { bad: Code::AgentBad, unknown: Code::AgentBad })
}

/// Reads a recipe, and sees to it that every wording stands in the file as it is.
pub fn read_recipe(id: &SourceId, text: &Text) -> Result<Recipe, Failure> {
    let codes = Codes { bad: Code::RecipeBad, unknown: Code::RecipeBad };
    let recipe: Recipe = read(&id.to_string(), text, Notation::Toml, codes)?;
    let mut wrong = Vec::new();
    let mut bad = |message: String, hint: &str| {
        wrong.push(Diag::error(Code::RecipeBad, format!("{id}: {message}")).hint(hint));
    };
    for (name, spec) in &recipe.derive {
        if !is_name(name) {
            bad(format!("`{name}` cannot be the name of a derived value"), NAME_HINT);
        }
        let each = match &spec.each {
            None => Vec::new(),
            Some(Each::All(one)) => alloc::vec![one],
            Some(Each::Kinds(kinds)) => kinds.values().collect(),
        };
        for wording in each.into_iter().chain(&spec.wrap) {
            if Template::words(id, text, wording).is_none() {
                bad(
                    format!("the wording `{wording}` needs escapes"),
                    "write it in single quotes, or as a fragment",
                );
            }
        }
    }
    for section in &recipe.section {
        if !is_name(&section.name) {
            bad(format!("`{}` cannot be the name of a section", section.name), NAME_HINT);
        }
        if section.heading.as_ref().is_some_and(|heading| !text.contains(heading.as_str())) {
            bad(format!("the heading of `{}` needs escapes", section.name), "write it in single quotes");
        }
        for (at, block) in section.blocks.iter().enumerate() {
            let sources = [
                block.template.is_some(),
                block.value.is_some(),
                block.documents.is_some(),
                block.context.is_some(),
            ];
            if sources.iter().filter(|given| **given).count() != 1 {
                bad(
                    format!(
                        "section `{}`, block {}: it has none or more than one source",
                        section.name,
                        at + 1
                    ),
                    "a block has exactly one of `template`, `value`, `documents`, `context`",
                );
            }
        }
    }
    if wrong.is_empty() { Ok(recipe) } else { Err(Failure(wrong)) }
}

pub(crate) fn recipe(
    library: &Library<'_>,
    name: &str,
    layout: &Layout,
) -> Result<(SourceId, Text, Recipe), Failure> {
    let (id, text) = find(library, "recipes", name, layout, Code::RecipeNotFound)?;
    let recipe = read_recipe(&id, &text)?;
    Ok((id, text, recipe))
}

pub(crate) fn agent(library: &Library<'_>, name: &str, layout: &Layout) -> Result<Agent, Failure> {
    let (id, text) = find(library, "agents", name, layout, Code::AgentNotFound)?;
    read_agent(&id, &text)
}

fn find(
    library: &Library<'_>,
    folder: &str,
    name: &str,
    layout: &Layout,
    not_found: Code,
) -> Result<(SourceId, Text), Failure> {
    let path = format!("{folder}/{name}.toml");
    library.file(&path, layout)?.ok_or_else(|| {
        let known = names_in(library.sources, folder, layout);
        Diag::error(not_found, format!("there is no `{path}`"))
            .looked(lookup::candidates(&path, layout))
            .suggest(name, known.iter().map(String::as_str))
            .hint(format!("{folder} that exist: {}", known.join(", ")))
            .into()
    })
}

/// What a mistake in a file is called: a wrong form, and a key that does not exist.
#[derive(Clone, Copy, Debug)]
pub struct Codes {
    pub bad: Code,
    pub unknown: Code,
}

/// Reads `text` as a `T`; `name` is what diagnostics call it. Every unknown key is named at once.
pub fn read<T: DeserializeOwned + JsonSchema>(
    name: &str,
    text: &Text,
    notation: Notation,
    codes: Codes,
) -> Result<T, Failure> {
    let read = match notation {
        Notation::Toml => parse_toml::<T>(text),
        Notation::Json => parse_json::<T>(text),
    };
    let (message, span) = match read {
        Ok(read) => return Ok(read),
        Err(error) => error,
    };
    let value = match notation {
        Notation::Toml => parse_toml::<Value>(text),
        Notation::Json => parse_json::<Value>(text),
    };
    // The parser stops at the first mistake. A person wants all of them, each with its path.
    let schema = Value::from(schema_for!(T));
    let mut wrong = Vec::new();
    if let Ok(value) = &value {
        misfits(value, &schema, &schema, "", &mut wrong);
    }
    if wrong.is_empty() {
        let message = message.lines().next().unwrap_or("it cannot be read").to_string();
        return Err(Diag::error(codes.bad, message).at(name, text, span).into());
    }
    let diags = wrong.into_iter().map(|Misfit { path, message, known }| {
        let key = path.rsplit_once('.').map_or(path.as_str(), |(_, key)| key);
        let code = if known.is_empty() { codes.bad } else { codes.unknown };
        let error = Diag::error(code, message);
        let span = find_key(text, key.split('[').next().unwrap_or(key)).unwrap_or(0..0);
        let error = error.at(name, text, span);
        if known.is_empty() {
            return error;
        }
        error
            .suggest(key, known.iter().map(String::as_str))
            .hint(format!("keys that exist: {}", known.join(", ")))
    });
    Err(Failure(diags.collect()))
}

/// What a parser says, and where.
type Parsed<T> = Result<T, (String, Range<usize>)>;

fn parse_toml<T: DeserializeOwned>(text: &str) -> Parsed<T> {
    toml::from_str(text).map_err(|error| (error.message().to_string(), error.span().unwrap_or(0..0)))
}

fn parse_json<T: DeserializeOwned>(text: &str) -> Parsed<T> {
    serde_json::from_str(text).map_err(|error| {
        let at = offset(text, error.line(), error.column());
        (error.to_string(), at..at + 1)
    })
}

fn offset(text: &str, line: usize, column: usize) -> usize {
    let before: usize = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    (before + column.saturating_sub(1)).min(text.len())
}

/// Where a key is written, as well as that can be told without a parser: the first time it stands
/// before `=`, `:`, `]` or `.`.
fn find_key(text: &str, key: &str) -> Option<Range<usize>> {
    if key.is_empty() {
        return None;
    }
    text.match_indices(key).map(|(at, _)| at).find_map(|at| {
        let after = text[at + key.len()..].trim_start_matches(['"', '\'', ' ', '\t']);
        after.starts_with(['=', ':', ']', '.']).then(|| at..at + key.len())
    })
}

/// Something of a value that its schema does not allow.
struct Misfit {
    path: String,
    message: String,
    /// The keys that exist, where the mistake is one that does not.
    known: Vec<String>,
}

/// Everything of `value` that does not fit `schema`.
fn misfits(value: &Value, schema: &Value, root: &Value, path: &str, wrong: &mut Vec<Misfit>) {
    let schema = resolve(schema, root);
    let here = if path.is_empty() { "it".to_string() } else { format!("`{path}`") };
    let mut bad = |path: String, message: String| wrong.push(Misfit { path, message, known: Vec::new() });
    let types = words(schema.get("type"));
    if !types.is_empty() && !types.iter().any(|wanted| is_of_type(value, wanted)) {
        let wanted = types.iter().find(|wanted| **wanted != "null").unwrap_or(&"null");
        bad(path.into(), format!("{here} is of type {}, not {wanted}", type_of(value)));
        return;
    }
    let choices = choices(schema);
    if let Some(word) = value.as_str().filter(|word| !choices.is_empty() && !choices.contains(word)) {
        bad(path.into(), format!("{here} is `{word}`, not one of {}", choices.join(", ")));
    }
    let inside = |key: &str| if path.is_empty() { key.to_string() } else { format!("{path}.{key}") };
    for key in words(schema.get("required")).into_iter().filter(|key| value.get(key).is_none()) {
        bad(inside(key), format!("`{}` is missing", inside(key)));
    }
    if let (Some(map), Some(known)) = (value.as_object(), schema.get("properties").and_then(Value::as_object))
    {
        for (key, value) in map {
            match known.get(key) {
                Some(schema) => misfits(value, schema, root, &inside(key), wrong),
                None => {
                    let mut known: Vec<String> = known.keys().cloned().collect();
                    known.sort();
                    let message = format!("there is no key `{}`", inside(key));
                    wrong.push(Misfit { path: inside(key), message, known });
                }
            }
        }
    }
    if let (Some(items), Some(schema)) = (value.as_array(), schema.get("items")) {
        for (at, item) in items.iter().enumerate() {
            misfits(item, schema, root, &format!("{path}[{at}]"), wrong);
        }
    }
    if let (Some(map), Some(schema)) =
        (value.as_object(), schema.get("additionalProperties").filter(|schema| schema.is_object()))
    {
        for (key, value) in map {
            misfits(value, schema, root, &inside(key), wrong);
        }
    }
}

/// A word or a list of words.
fn words(value: Option<&Value>) -> Vec<&str> {
    match value {
        Some(Value::String(word)) => alloc::vec![word],
        Some(Value::Array(words)) => words.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// The words that a closed set allows; sets with a description for each word are spelled differently.
fn choices(schema: &Value) -> Vec<&str> {
    let mut all = words(schema.get("enum"));
    for choice in schema.get("oneOf").and_then(Value::as_array).into_iter().flatten() {
        all.extend(words(choice.get("const")));
        all.extend(words(choice.get("enum")));
    }
    all
}

fn is_of_type(value: &Value, wanted: &str) -> bool {
    match wanted {
        "integer" => value.is_u64() || value.is_i64(),
        wanted => type_of(value) == wanted,
    }
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Object(_) => "object",
        Value::Array(_) => "array",
        Value::String(_) => "string",
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
    }
}

/// Follows references and looks through `T | null`.
fn resolve<'v>(schema: &'v Value, root: &'v Value) -> &'v Value {
    if let Some(target) = schema.get("$ref").and_then(Value::as_str).and_then(|at| at.strip_prefix('#')) {
        return root.pointer(target).map_or(schema, |schema| resolve(schema, root));
    }
    let choices = schema.get("anyOf").and_then(Value::as_array);
    let object = choices.into_iter().flatten().find(|choice| choice.get("$ref").is_some());
    object.map_or(schema, |choice| resolve(choice, root))
}
