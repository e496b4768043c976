//! Data files and requests: reading TOML and JSON into their types, with every unknown key named.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ops::Range;

use schemars::{JsonSchema, schema_for};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::agent::{self, Agent};
use crate::contract::{Choice, Contract};
use crate::diag::{Code, Diag, Failure, MOST};
use crate::locate::{Located, Path, Step};
use crate::lookup::{self, Library, names_in};
use crate::name::{NAME_HINT, is_name};
use crate::recipe::{BlockSpec, Each, Level, OneOrMore, Recipe};
use crate::reply::{Status, Verdict};
use crate::request::{Layout, Request};
use crate::source::{Root, SourceId};
use crate::submission::unknown_slots;
use crate::template::{Template, written};
use crate::text::Text;

/// How a request is written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notation {
    Toml,
    Json,
}

/// Reads a request; `name` is what diagnostics call the text.
pub fn read_request(name: &str, text: &Text, notation: Notation) -> Result<Request, Failure> {
    if notation == Notation::Toml && text.len() > MAX_TOML_BYTES {
        let message =
            format!("`{name}` has {} bytes; a request in TOML has at most {MAX_TOML_BYTES}", text.len());
        return Err(Diag::error(Code::RequestBad, message).hint("write it as JSON").into());
    }
    let codes = Codes { bad: Code::RequestBad, unknown: Code::RequestUnknownKey };
    read(name, text, notation, codes)
}

/// Nobody writes that much by hand, and reading TOML takes forty times its size in memory.
const MAX_TOML_BYTES: usize = 4 * 1024 * 1024;

/// Far above any recipe that a person writes. What is said in it is looked for in it, so length costs twice.
const MAX_BYTES: usize = 64 * 1024;

pub(crate) fn is_short(id: &SourceId, text: &Text, code: Code) -> Result<(), Diag> {
    if text.len() <= MAX_BYTES {
        return Ok(());
    }
    Err(Diag::error(code, format!("{id}: it has {} bytes, the limit is {MAX_BYTES}", text.len())))
}

/// Reads an agent's file.
pub fn read_agent(id: &SourceId, text: &Text) -> Result<Agent, Failure> {
    is_short(id, text, Code::AgentBad)?;
    let codes = Codes { bad: Code::AgentBad, unknown: Code::AgentBad };
    let agent: Agent = read(&id.to_string(), text, Notation::Toml, codes)?;
    let wrong: Vec<Diag> = agent::problems(&agent)
        .into_iter()
        .map(|(message, hint)| Diag::error(Code::AgentBad, format!("{id}: {message}")).hint(hint))
        .collect();
    if wrong.is_empty() { Ok(agent) } else { Err(Failure(wrong)) }
}

/// Reads a contract.
pub fn read_contract(id: &SourceId, text: &Text) -> Result<Contract, Failure> {
    is_short(id, text, Code::ContractBad)?;
    let codes = Codes { bad: Code::ContractBad, unknown: Code::ContractBad };
    let contract: Contract = read(&id.to_string(), text, Notation::Toml, codes)?;
    let unknown = contract.submission.as_ref().map(unknown_slots).unwrap_or_default();
    let bad = |slot: String| Diag::error(Code::ContractBad, format!("{id}: nothing fills `{slot}`"));
    let mut wrong: Vec<Diag> = unknown.into_iter().map(bad).collect();
    let mut fields: Vec<&str> = contract
        .submission
        .iter()
        .flat_map(|submission| &submission.field)
        .map(|field| field.name.as_str())
        .collect();
    fields.sort_unstable();
    for pair in fields.windows(2).filter(|pair| pair[0] == pair[1]) {
        wrong.push(Diag::error(Code::ContractBad, format!("{id}: more than one field is `{}`", pair[0])));
    }
    let mut compare = |what: &str, said: &[Choice], known: Vec<&str>| {
        for word in said.iter().map(|choice| &choice.name).filter(|word| !known.contains(&word.as_str())) {
            let message = format!("{id}: nothing reads `{word}` as a {what}");
            let hint = format!("what is read is {}", known.join(", "));
            wrong.push(
                Diag::error(Code::ContractBad, message).suggest(word, known.iter().copied()).hint(hint),
            );
        }
    };
    compare("verdict", &contract.verdict, Verdict::ALL.iter().map(|verdict| verdict.name()).collect());
    compare("status", &contract.task_status, Status::ALL.iter().map(|status| status.name()).collect());
    if wrong.is_empty() { Ok(contract) } else { Err(Failure(wrong)) }
}

/// Reads a recipe, and sees to it that every wording stands in the file as it is.
pub fn read_recipe(id: &SourceId, text: &Text) -> Result<Recipe, Failure> {
    is_short(id, text, Code::RecipeBad)?;
    let codes = Codes { bad: Code::RecipeBad, unknown: Code::RecipeBad };
    let recipe: Recipe = read(&id.to_string(), text, Notation::Toml, codes)?;
    let mut wrong = Vec::new();
    let mut bad = |message: String, hint: &str| {
        wrong.push(Diag::error(Code::RecipeBad, format!("{id}: {message}")).hint(hint));
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
        if section.heading.as_ref().is_some_and(|heading| written(text, heading).is_none()) {
            bad(format!("the heading of `{}` needs escapes", section.name), "write it in single quotes");
        }
        let gives_way = |block: &BlockSpec| block.level.unwrap_or(section.level) != Level::Must;
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
                if let Err(why) = SourceId::new(Root::Builtin, path) {
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
    if wrong.is_empty() { Ok(recipe) } else { Err(Failure(wrong)) }
}

/// A recipe and the file that it was read from.
#[derive(Clone, Debug, PartialEq)]
pub struct RecipeFile {
    pub name: String,
    pub id: SourceId,
    pub text: Text,
    pub recipe: Recipe,
}

pub(crate) fn recipe(library: &Library<'_>, name: &str, layout: &Layout) -> Result<RecipeFile, Failure> {
    let (id, text) = find(library, "recipes", name, layout, Code::RecipeNotFound)?;
    let recipe = read_recipe(&id, &text)?;
    Ok(RecipeFile { name: name.into(), id, text, recipe })
}

/// The contract `name`, and where it was found.
pub fn contract(library: &Library<'_>, name: &str, layout: &Layout) -> Result<(SourceId, Contract), Failure> {
    let (id, _, contract) = contract_file(library, name, layout)?;
    Ok((id, contract))
}

/// The same, with how it is written there.
pub(crate) fn contract_file(
    library: &Library<'_>,
    name: &str,
    layout: &Layout,
) -> Result<(SourceId, Text, Contract), Failure> {
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
pub fn agent(library: &Library<'_>, name: &str, layout: &Layout) -> Result<(SourceId, Agent), Failure> {
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
    let mut wrong = Misfits::default();
    if let Ok(value) = &value {
        misfits(value, &schema, &schema, &mut Vec::new(), &mut wrong);
    }
    let Misfits { told, more } = wrong;
    if told.is_empty() {
        let message = message.lines().next().unwrap_or("it cannot be read").to_string();
        return Err(Diag::error(codes.bad, message).at(name, text, span).into());
    }
    let located = Located::new(text, notation);
    let diags = told.into_iter().map(|Misfit { path, message, known }| {
        let code = if known.is_empty() { codes.bad } else { codes.unknown };
        let place = located.find(&path).unwrap_or(0..0);
        let error = Diag::error(code, message).at(name, text, place);
        match path.last() {
            Some(Step::Key(key)) if !known.is_empty() => error
                .suggest(key, known.iter().map(String::as_str))
                .hint(format!("keys that exist: {}", known.join(", "))),
            _ => error,
        }
    });
    let mut diags: Vec<Diag> = diags.collect();
    if let Some(last) = diags.last_mut() {
        last.more = more;
    }
    Err(Failure(diags))
}

/// What a parser says, and where.
type Parsed<T> = Result<T, (String, Range<usize>)>;

fn parse_toml<T: DeserializeOwned>(text: &str) -> Parsed<T> {
    toml::from_str(text).map_err(|error| (error.message().to_string(), error.span().unwrap_or(0..0)))
}

fn parse_json<T: DeserializeOwned>(text: &str) -> Parsed<T> {
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
struct Misfit {
    path: Vec<Step>,
    message: String,
    /// The keys that exist, where the mistake is one that does not.
    known: Vec<String>,
}

#[derive(Default)]
struct Misfits {
    told: Vec<Misfit>,
    /// How many there are besides.
    more: usize,
}

impl Misfits {
    fn push(&mut self, misfit: impl FnOnce() -> Misfit) {
        if self.told.len() < MOST {
            self.told.push(misfit());
        } else {
            self.more += 1;
        }
    }
}

/// Everything of `value` that does not fit `schema`; `path` leads to it.
fn misfits(value: &Value, schema: &Value, root: &Value, path: &mut Vec<Step>, wrong: &mut Misfits) {
    let here = if path.is_empty() { "it".to_string() } else { format!("`{}`", Path(path)) };
    let forms = forms(schema, root);
    let Some(schema) = forms.iter().find(|form| fits_type(value, form)) else {
        let mut wanted: Vec<&str> = forms.iter().flat_map(|form| types(form)).collect();
        wanted.retain(|wanted| *wanted != "null" || forms.len() == 1);
        wanted.dedup();
        let message = format!("{here} is of type {}, not {}", type_of(value), wanted.join(" or "));
        wrong.push(|| Misfit { path: path.clone(), message, known: Vec::new() });
        return;
    };
    let mut bad = |path: &[Step], message: String| {
        wrong.push(|| Misfit { path: path.to_vec(), message, known: Vec::new() });
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
        path.push(Step::Key(key.to_string()));
        bad(path, format!("`{}` is missing", Path(path)));
        path.pop();
    }
    let properties = schema.get("properties").and_then(Value::as_object);
    let others = schema.get("additionalProperties");
    for (key, value) in value.as_object().into_iter().flatten() {
        path.push(Step::Key(key.clone()));
        match (properties.and_then(|known| known.get(key)), others, properties) {
            (Some(schema), ..) => misfits(value, schema, root, path, wrong),
            (None, Some(schema @ Value::Object(_)), _) => misfits(value, schema, root, path, wrong),
            (None, _, Some(known)) => wrong.push(|| {
                let mut known: Vec<String> = known.keys().cloned().collect();
                known.sort();
                let message = format!("there is no key `{}`", Path(path));
                Misfit { path: path.clone(), message, known }
            }),
            (None, _, None) => {}
        }
        path.pop();
    }
    if let (Some(items), Some(schema)) = (value.as_array(), schema.get("items")) {
        for (at, item) in items.iter().enumerate() {
            path.push(Step::Index(at));
            misfits(item, schema, root, path, wrong);
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
