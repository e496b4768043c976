//! Data files and requests: reading TOML and JSON into their types, with every unknown key named.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ops::Range;

use schemars::{JsonSchema, schema_for};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::agent::{self, Agent};
use crate::contract::{Contract, ContractChoice};
use crate::diag::{Code, Diagnostic, Diagnostics, MOST};
use crate::locate::{PathStep, TextLocator, ValuePath};
use crate::lookup::{self, Library, names_in};
use crate::name::{NAME_HINT, is_name};
use crate::recipe::{BlockSpec, OneOrMore, Recipe, RowWording, SectionPriority};
use crate::reply::{Status, Verdict};
use crate::request::{Layout, Request};
use crate::source::{SourceId, SourceRoot};
use crate::submission::unknown_slots;
use crate::template::{Template, written};
use crate::text::SharedText;

/// How a request is written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileFormat {
    Toml,
    Json,
}

/// Reads a request; `name` is what diagnostics call the text.
pub fn read_request(name: &str, text: &SharedText, notation: FileFormat) -> Result<Request, Diagnostics> {
    if notation == FileFormat::Toml && text.len() > MAX_TOML_BYTES {
        let message =
            format!("`{name}` has {} bytes; a request in TOML has at most {MAX_TOML_BYTES}", text.len());
        return Err(Diagnostic::error(Code::RequestBad, message).hint("write it as JSON").into());
    }
    let codes = ReadErrorCodes { bad: Code::RequestBad, unknown: Code::RequestUnknownKey };
    read(name, text, notation, codes)
}

/// Nobody writes that much by hand, and reading TOML takes forty times its size in memory.
const MAX_TOML_BYTES: usize = 4 * 1024 * 1024;

/// Far above any recipe that a person writes. What is said in it is looked for in it, so length costs twice.
const MAX_BYTES: usize = 64 * 1024;

pub(crate) fn check_length(id: &SourceId, text: &SharedText, code: Code) -> Result<(), Diagnostic> {
    if text.len() <= MAX_BYTES {
        return Ok(());
    }
    Err(Diagnostic::error(code, format!("{id}: it has {} bytes, the limit is {MAX_BYTES}", text.len())))
}

/// Reads an agent's file.
pub fn read_agent(id: &SourceId, text: &SharedText) -> Result<Agent, Diagnostics> {
    check_length(id, text, Code::AgentBad)?;
    let codes = ReadErrorCodes { bad: Code::AgentBad, unknown: Code::AgentBad };
    let agent: Agent = read(&id.to_string(), text, FileFormat::Toml, codes)?;
    let wrong: Vec<Diagnostic> = agent::problems(&agent)
        .into_iter()
        .map(|(message, hint)| Diagnostic::error(Code::AgentBad, format!("{id}: {message}")).hint(hint))
        .collect();
    if wrong.is_empty() { Ok(agent) } else { Err(Diagnostics(wrong)) }
}

/// Reads a contract.
pub fn read_contract(id: &SourceId, text: &SharedText) -> Result<Contract, Diagnostics> {
    check_length(id, text, Code::ContractBad)?;
    let codes = ReadErrorCodes { bad: Code::ContractBad, unknown: Code::ContractBad };
    let contract: Contract = read(&id.to_string(), text, FileFormat::Toml, codes)?;
    let unknown = contract.submission.as_ref().map(unknown_slots).unwrap_or_default();
    let bad = |slot: String| Diagnostic::error(Code::ContractBad, format!("{id}: nothing fills `{slot}`"));
    let mut wrong: Vec<Diagnostic> = unknown.into_iter().map(bad).collect();
    let mut fields: Vec<&str> = contract
        .submission
        .iter()
        .flat_map(|submission| &submission.field)
        .map(|field| field.name.as_str())
        .collect();
    fields.sort_unstable();
    for pair in fields.windows(2).filter(|pair| pair[0] == pair[1]) {
        wrong.push(Diagnostic::error(
            Code::ContractBad,
            format!("{id}: more than one field is `{}`", pair[0]),
        ));
    }
    let mut compare = |what: &str, said: &[ContractChoice], known: Vec<&str>| {
        for word in said.iter().map(|choice| &choice.name).filter(|word| !known.contains(&word.as_str())) {
            let message = format!("{id}: nothing reads `{word}` as a {what}");
            let hint = format!("what is read is {}", known.join(", "));
            wrong.push(
                Diagnostic::error(Code::ContractBad, message).suggest(word, known.iter().copied()).hint(hint),
            );
        }
    };
    compare("verdict", &contract.verdict, Verdict::ALL.iter().map(|verdict| verdict.name()).collect());
    compare("status", &contract.task_status, Status::ALL.iter().map(|status| status.name()).collect());
    if wrong.is_empty() { Ok(contract) } else { Err(Diagnostics(wrong)) }
}

/// Reads a recipe, and sees to it that every wording stands in the file as it is.
pub fn read_recipe(id: &SourceId, text: &SharedText) -> Result<Recipe, Diagnostics> {
    check_length(id, text, Code::RecipeBad)?;
    let codes = ReadErrorCodes { bad: Code::RecipeBad, unknown: Code::RecipeBad };
    let recipe: Recipe = read(&id.to_string(), text, FileFormat::Toml, codes)?;
    let mut wrong = Vec::new();
    let mut bad = |message: String, hint: &str| {
        wrong.push(Diagnostic::error(Code::RecipeBad, format!("{id}: {message}")).hint(hint));
    };
    if recipe.section.is_empty() {
        bad("it has no section".to_string(), "a recipe has at least one `[[section]]`");
    }
    for (field, value) in recipe.defaults.iter().filter(|(_, value)| !is_name(value)) {
        let field = format!("{field:?}").to_lowercase();
        bad(format!("`{value}` cannot be the default of `{field}`"), NAME_HINT);
    }
    for (name, spec) in &recipe.derive {
        if !is_name(name) {
            bad(format!("`{name}` cannot be the name of a derived value"), NAME_HINT);
        }
        let each = match &spec.each {
            None => Vec::new(),
            Some(RowWording::All(one)) => alloc::vec![one],
            Some(RowWording::Kinds(kinds)) => kinds.values().collect(),
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
        if section.heading.as_ref().is_some_and(|heading| written(text, heading).is_none()) {
            bad(format!("the heading of `{}` needs escapes", section.name), "write it in single quotes");
        }
        let gives_way = |block: &BlockSpec| block.level.unwrap_or(section.level) != SectionPriority::Must;
        if section.required && section.blocks.iter().any(gives_way) {
            bad(
                format!("the section `{}` is required, so it cannot give way to others", section.name),
                "leave out `required` or `level`",
            );
        }
        for (at, block) in section.blocks.iter().enumerate() {
            let sources = [
                block.template.is_some(),
                block.value.is_some(),
                block.documents.is_some(),
                block.context.is_some(),
            ];
            for path in block.template.iter().flat_map(OneOrMore::all) {
                if let Err(why) = SourceId::new(SourceRoot::Builtin, path) {
                    bad(
                        format!("the template `{path}` cannot be looked for: {why}"),
                        "it lies in one of the roots, for example `templates/identity/{role}.md`",
                    );
                }
            }
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
    if wrong.is_empty() { Ok(recipe) } else { Err(Diagnostics(wrong)) }
}

/// A recipe and the file that it was read from.
#[derive(Clone, Debug, PartialEq)]
pub struct RecipeFile {
    pub name: String,
    pub id: SourceId,
    pub text: SharedText,
    pub recipe: Recipe,
}

pub(crate) fn recipe(library: &Library<'_>, name: &str, layout: &Layout) -> Result<RecipeFile, Diagnostics> {
    let (id, text) = find(library, "recipes", name, layout, Code::RecipeNotFound)?;
    let recipe = read_recipe(&id, &text)?;
    Ok(RecipeFile { name: name.into(), id, text, recipe })
}

/// The contract `name`, and where it was found.
pub fn find_contract(
    library: &Library<'_>,
    name: &str,
    layout: &Layout,
) -> Result<(SourceId, Contract), Diagnostics> {
    let (id, _, contract) = contract_file(library, name, layout)?;
    Ok((id, contract))
}

/// The same, with how it is written there.
pub(crate) fn contract_file(
    library: &Library<'_>,
    name: &str,
    layout: &Layout,
) -> Result<(SourceId, SharedText, Contract), Diagnostics> {
    let (id, text) = find(library, "contracts", name, layout, Code::ContractNotFound)?;
    let contract = read_contract(&id, &text)?;
    Ok((id, text, contract))
}

/// What the agent `name` is called in its file: `CLAUDE` is `claude`, where there is no `CLAUDE`.
pub fn agent_name(library: &Library<'_>, name: String, layout: &Layout) -> String {
    let lower = name.to_ascii_lowercase();
    let is_there =
        |name: &str| library.file(&format!("agents/{name}.toml"), layout).is_ok_and(|file| file.is_some());
    if lower == name || is_there(&name) || !is_there(&lower) && lower != "base" { name } else { lower }
}

/// The agent of which there is a system template and nothing else.
pub(crate) fn is_agent_by_template(library: &Library<'_>, name: &str, layout: &Layout) -> bool {
    let start = format!("{}-", name.to_ascii_uppercase());
    names_in(library.sources, "templates/system", layout).iter().any(|file| file.starts_with(&start))
}

/// The agent `name`, and where it was found.
pub fn find_agent(
    library: &Library<'_>,
    name: &str,
    layout: &Layout,
) -> Result<(SourceId, Agent), Diagnostics> {
    let (id, text) = find(library, "agents", name, layout, Code::AgentNotFound)?;
    let agent = read_agent(&id, &text)?;
    Ok((id, agent))
}

pub(crate) fn find(
    library: &Library<'_>,
    folder: &str,
    name: &str,
    layout: &Layout,
    not_found: Code,
) -> Result<(SourceId, SharedText), Diagnostics> {
    let path = format!("{folder}/{name}.toml");
    library.file(&path, layout)?.ok_or_else(|| {
        let known = names_in(library.sources, folder, layout);
        Diagnostic::error(not_found, format!("there is no `{path}`"))
            .looked(lookup::candidates(&path, layout))
            .suggest(name, known.iter().map(String::as_str))
            .hint(format!("{folder} that exist: {}", known.join(", ")))
            .into()
    })
}

/// What a mistake in a file is called: a wrong form, and a key that does not exist.
#[derive(Clone, Copy, Debug)]
pub struct ReadErrorCodes {
    pub bad: Code,
    pub unknown: Code,
}

/// Reads `text` as a `T`; `name` is what diagnostics call it. Every unknown key is named at once.
pub fn read<T: DeserializeOwned + JsonSchema>(
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
    let SchemaMismatches { told, more } = wrong;
    if told.is_empty() {
        let message = message.lines().next().unwrap_or("it cannot be read").to_string();
        return Err(Diagnostic::error(codes.bad, message).at(name, text, span).into());
    }
    let located = TextLocator::new(text, notation);
    let diags = told.into_iter().map(|SchemaMismatch { path, message, known }| {
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

/// What a parser says, and where.
type ParseResult<T> = Result<T, (String, Range<usize>)>;

fn parse_toml<T: DeserializeOwned>(text: &str) -> ParseResult<T> {
    toml::from_str(text).map_err(|error| (error.message().to_string(), error.span().unwrap_or(0..0)))
}

fn parse_json<T: DeserializeOwned>(text: &str) -> ParseResult<T> {
    serde_json::from_str(text).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        let at = offset(text, line, column);
        let said = error.to_string();
        // The place is shown anyway.
        let said = said.strip_suffix(&format!(" at line {line} column {column}")).unwrap_or(&said);
        (said.to_string(), at..at + 1)
    })
}

fn offset(text: &str, line: usize, column: usize) -> usize {
    let before: usize = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    (before + column.saturating_sub(1)).min(text.len())
}

/// Something of a value that its schema does not allow.
struct SchemaMismatch {
    path: Vec<PathStep>,
    message: String,
    /// The keys that exist, where the mistake is one that does not.
    known: Vec<String>,
}

#[derive(Default)]
struct SchemaMismatches {
    told: Vec<SchemaMismatch>,
    /// How many there are besides.
    more: usize,
}

impl SchemaMismatches {
    fn push(&mut self, misfit: impl FnOnce() -> SchemaMismatch) {
        if self.told.len() < MOST {
            self.told.push(misfit());
        } else {
            self.more += 1;
        }
    }
}

/// Everything of `value` that does not fit `schema`; `path` leads to it.
fn find_mismatches(
    value: &Value,
    schema: &Value,
    root: &Value,
    path: &mut Vec<PathStep>,
    wrong: &mut SchemaMismatches,
) {
    let here = if path.is_empty() { "it".to_string() } else { format!("`{}`", ValuePath(path)) };
    let forms = forms(schema, root);
    let Some(schema) = forms.iter().find(|form| fits_type(value, form)) else {
        let mut wanted: Vec<&str> = forms.iter().flat_map(|form| types(form)).collect();
        wanted.retain(|wanted| *wanted != "null" || forms.len() == 1);
        wanted.dedup();
        let message = format!("{here} is of type {}, not {}", type_of(value), wanted.join(" or "));
        wrong.push(|| SchemaMismatch { path: path.clone(), message, known: Vec::new() });
        return;
    };
    let mut bad = |path: &[PathStep], message: String| {
        wrong.push(|| SchemaMismatch { path: path.to_vec(), message, known: Vec::new() });
    };
    let choices = choices(schema);
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
    for key in words(schema.get("required")).into_iter().filter(|key| value.get(key).is_none()) {
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

/// The forms that a schema allows: itself, or each of its alternatives, references followed.
fn forms<'v>(schema: &'v Value, root: &'v Value) -> Vec<&'v Value> {
    if let Some(target) = schema.get("$ref").and_then(Value::as_str).and_then(|at| at.strip_prefix('#')) {
        return root.pointer(target).map_or_else(|| alloc::vec![schema], |schema| forms(schema, root));
    }
    match schema.get("anyOf").and_then(Value::as_array) {
        Some(any) => any.iter().flat_map(|form| forms(form, root)).collect(),
        None => alloc::vec![schema],
    }
}

/// The types that a schema allows; any, where there is none.
fn types(schema: &Value) -> Vec<&str> {
    let types = words(schema.get("type"));
    if types.is_empty() && !choices(schema).is_empty() { alloc::vec!["string"] } else { types }
}

fn fits_type(value: &Value, schema: &Value) -> bool {
    let types = types(schema);
    types.is_empty() || types.iter().any(|wanted| is_of_type(value, wanted))
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
