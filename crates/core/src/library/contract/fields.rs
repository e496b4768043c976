//! Checks the fields of a submission against its contract. Types are strict, unknown fields are refused, and
//! a blank text in an optional field counts as not given.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::{Map, Value};

use super::SubmissionValues;
use crate::diag::{Code, Diagnostic, Diagnostics, is_invisible, push_diagnostic};
use crate::library::contract::{FieldRequirement, FieldType, SubmissionField};
use crate::library::preferences;
use crate::source::{SourceId, SourceRoot};
use crate::text::name::{NAME_HINT, is_name};

/// Checks the data and returns it with all errors. An invalid value becomes null in the data, so that other
/// rules can check the rest and places stay correct.
pub(crate) fn check_fields(
    fields: &[SubmissionField],
    given: &Value,
    roles: &[String],
) -> Result<(SubmissionValues, Vec<Diagnostic>), Diagnostics> {
    let mut judge = FieldChecker { roles, wrong: Vec::new() };
    let Value::Object(map) = given else {
        let message = format!("the submission is {}; expected an object", type_name(given));
        return Err(Diagnostic::error(Code::SubmissionBad, message).into());
    };
    let data = judge.check_map(fields, map, "");
    Ok((data, judge.wrong))
}

struct FieldChecker<'r> {
    roles: &'r [String],
    wrong: Vec<Diagnostic>,
}

impl FieldChecker<'_> {
    fn push_message(&mut self, message: impl Into<String>) {
        self.push_error(Diagnostic::error(Code::SubmissionBad, message));
    }

    fn push_error(&mut self, diag: Diagnostic) {
        push_diagnostic(&mut self.wrong, Code::SubmissionBad, || diag);
    }

    /// Checks the fields of a map at `at`, in the order of the contract.
    fn check_map(
        &mut self,
        fields: &[SubmissionField],
        given: &Map<String, Value>,
        at: &str,
    ) -> SubmissionValues {
        let mut data = SubmissionValues::new();
        for field in fields {
            let at = join_place(at, &field.name);
            match given.get(&field.name).filter(|value| is_given(field, value)) {
                Some(value) => {
                    let value = self.check_value(field, value, &at).unwrap_or(Value::Null);
                    data.insert(field.name.clone(), value);
                }
                None => {
                    let is_missing = self.check_missing(field, given, &at);
                    let value = field.fixed.map(Value::from).or(is_missing.then_some(Value::Null));
                    data.extend(value.map(|value| (field.name.clone(), value)));
                }
            }
        }
        let known = || fields.iter().map(|field| field.name.as_str());
        for name in given.keys().filter(|name| known().all(|known| known != name.as_str())) {
            let all: Vec<&str> = known().collect();
            let diag = unknown_field(at, name).suggest(name, known());
            self.push_error(diag.hint(format!("known fields: {}", all.join(", "))));
        }
        data
    }

    /// Checks whether a field that is not given is required. Reports it if so.
    fn check_missing(&mut self, field: &SubmissionField, given: &Map<String, Value>, at: &str) -> bool {
        match &field.required {
            FieldRequirement::Always(false) => return false,
            FieldRequirement::Always(true) if given.contains_key(&field.name) => {
                self.push_message(format!("`{at}` is blank"))
            }
            FieldRequirement::Always(true) => self.push_message(format!("`{at}` is missing")),
            FieldRequirement::Where(conditions) => {
                let holds = |(name, value): (&String, &String)| {
                    given.get(name).and_then(Value::as_str) == Some(value.as_str())
                };
                if !conditions.iter().all(holds) {
                    return false;
                }
                let why: Vec<String> =
                    conditions.iter().map(|(name, value)| format!("`{name}` is `{value}`")).collect();
                self.push_message(format!("`{at}` is missing; it is required if {}", why.join(" and ")));
            }
        }
        true
    }

    fn check_value(&mut self, field: &SubmissionField, value: &Value, at: &str) -> Option<Value> {
        match field.kind {
            FieldType::Text => self.check_text(value, at).map(Value::String),
            FieldType::Name => self.check_word(value, at, is_name, NAME_HINT),
            FieldType::Slug => {
                self.check_word(value, at, is_slug, "write words in lower case, joined by single hyphens")
            }
            FieldType::Choice => self.check_choice(value, &field.choices, at),
            FieldType::Integer => self.check_integer(field, value, at),
            FieldType::Boolean if value.is_boolean() => Some(value.clone()),
            FieldType::Boolean => {
                self.push_message(format!("`{at}` is {}; expected a boolean", type_name(value)));
                None
            }
            FieldType::Texts => self.check_list(field, value, at, |judge, entry, at| {
                judge.check_text(entry, at).map(Value::String)
            }),
            FieldType::Glob => self.check_glob(value, at),
            FieldType::Globs => self.check_list(field, value, at, Self::check_glob),
            FieldType::Integers => self.check_list(field, value, at, Self::check_whole_number),
            FieldType::Map => match value {
                Value::Object(map) => Some(self.check_map(&field.field, map, at).into()),
                _ => {
                    self.push_message(format!("`{at}` is {}; expected an object", type_name(value)));
                    None
                }
            },
            FieldType::Items => self.check_list(field, value, at, |judge, entry, at| match entry {
                Value::Object(map) => Some(judge.check_map(&field.field, map, at).into()),
                _ => {
                    judge.push_message(format!("`{at}` is {}; expected an object", type_name(entry)));
                    None
                }
            }),
            FieldType::Preferences => self.check_list(field, value, at, Self::check_preference),
        }
    }

    /// Checks a text and removes the blank lines around it.
    fn check_text(&mut self, value: &Value, at: &str) -> Option<String> {
        let Value::String(text) = value else {
            let diag = Diagnostic::error(
                Code::SubmissionBad,
                format!("`{at}` is {}; expected a string", type_name(value)),
            );
            let is_scalar = value.is_boolean() || value.is_number();
            self.push_error(if is_scalar { diag.hint("quote it") } else { diag });
            return None;
        };
        let trimmed = trim_blank_lines(text);
        if trimmed.is_empty() {
            self.push_message(format!("`{at}` is blank"));
            return None;
        }
        Some(trimmed.to_string())
    }

    fn check_word(&mut self, value: &Value, at: &str, is: fn(&str) -> bool, hint: &str) -> Option<Value> {
        let text = self.check_text(value, at)?;
        let text = text.trim();
        if is(text) {
            return Some(text.into());
        }
        let kind = if is("a-b") && is("a_b") { "name" } else { "slug" };
        let message = format!("`{at}` is `{}`; expected a {kind}", shorten(text));
        self.push_error(Diagnostic::error(Code::SubmissionBad, message).hint(hint));
        None
    }

    fn check_choice(&mut self, value: &Value, choices: &[String], at: &str) -> Option<Value> {
        let text = self.check_text(value, at)?;
        if choices.contains(&text) {
            return Some(text.into());
        }
        let message = format!("`{at}` is `{}`, not one of {}", shorten(&text), choices.join(", "));
        let diag = Diagnostic::error(Code::SubmissionBad, message);
        self.push_error(diag.suggest(&text, choices.iter().map(String::as_str)));
        None
    }

    fn check_integer(&mut self, field: &SubmissionField, value: &Value, at: &str) -> Option<Value> {
        let number = self.check_whole_number(value, at)?.as_u64()?;
        if let Some(fixed) = field.fixed.filter(|fixed| *fixed != number) {
            self.push_message(format!("`{at}` is {number}; it can only be {fixed}"));
        }
        if let Some(least) = field.at_least.filter(|least| number < *least) {
            self.push_message(format!("`{at}` is {number}, which is less than {least}"));
        }
        Some(number.into())
    }

    fn check_whole_number(&mut self, value: &Value, at: &str) -> Option<Value> {
        if let Some(number) = parse_whole_number(value) {
            return Some(number.into());
        }
        let what = if value.is_number() { value.to_string() } else { type_name(value).to_string() };
        self.push_message(format!("`{at}` is {what}; expected an integer"));
        None
    }

    fn check_list(
        &mut self,
        field: &SubmissionField,
        value: &Value,
        at: &str,
        entry: impl Fn(&mut Self, &Value, &str) -> Option<Value>,
    ) -> Option<Value> {
        let Value::Array(entries) = value else {
            self.push_message(format!("`{at}` is {}; expected an array", type_name(value)));
            return None;
        };
        if let Some(least) = field.at_least.filter(|least| (entries.len() as u64) < *least) {
            self.push_message(format!("`{at}` has {} entries; expected at least {least}", entries.len()));
        }
        let numbered = entries.iter().enumerate();
        let read = numbered.map(|(nth, value)| entry(self, value, &format!("{at}[{}]", nth + 1)));
        Some(Value::Array(read.map(Option::unwrap_or_default).collect()))
    }

    /// Checks a path or glob inside the project and normalizes it.
    fn check_glob(&mut self, value: &Value, at: &str) -> Option<Value> {
        let text = self.check_text(value, at)?;
        match normalize_project_glob(&text) {
            Ok(glob) => Some(glob.into()),
            Err(why) => {
                self.push_message(format!("`{at}` is {why}"));
                None
            }
        }
    }

    fn check_preference(&mut self, value: &Value, at: &str) -> Option<Value> {
        let Value::Object(map) = value else {
            self.push_message(format!("`{at}` is {}; expected an object", type_name(value)));
            return None;
        };
        let before = self.wrong.len();
        let mut data = SubmissionValues::new();
        for name in preferences::FIELDS {
            let at = join_place(at, name);
            match map.get(name) {
                Some(value) => {
                    data.extend(self.check_text(value, &at).map(|text| (name.into(), text.into())))
                }
                None => self.push_message(format!("`{at}` is missing")),
            }
        }
        for name in map.keys().filter(|name| !preferences::FIELDS.contains(&name.as_str())) {
            self.push_error(unknown_field(at, name).suggest(name, preferences::FIELDS));
        }
        if let Some(preference) = preferences::Preference::from_value(&Value::Object(data.clone())) {
            for wrong in preference.find_problems(self.roles) {
                let Diagnostic { message, hints, .. } = wrong;
                let diag = Diagnostic::error(Code::SubmissionBad, format!("`{at}`: {message}"));
                self.push_error(hints.into_iter().fold(diag, Diagnostic::hint));
            }
        }
        (self.wrong.len() == before).then(|| data.into())
    }
}

/// Longer than any path that an operating system accepts.
const MAX_GLOB: usize = 1000;

/// A text that is no path or glob inside the project, and the reason.
#[derive(Debug, thiserror::Error)]
#[error("`{}`, which is not a path inside the project: {why}", shorten(text))]
pub(crate) struct ProjectGlobError {
    text: String,
    why: String,
}

/// Normalizes a path or glob inside the project.
pub(crate) fn normalize_project_glob(text: &str) -> Result<String, ProjectGlobError> {
    let text = text.trim();
    let why = if text.chars().count() > MAX_GLOB {
        format!("it has more than {MAX_GLOB} characters")
    } else if text.contains(|c: char| is_invisible(c) || c == '\n') {
        "it contains an invisible character".into()
    } else {
        match SourceId::new(SourceRoot::Project, text) {
            Ok(id) => return Ok(id.path().into()),
            Err(why) => why.to_string(),
        }
    };
    Err(ProjectGlobError { text: text.to_string(), why })
}

fn unknown_field(at: &str, name: &str) -> Diagnostic {
    Diagnostic::error(Code::SubmissionBad, format!("unknown field `{}`", join_place(at, name)))
}

fn join_place(at: &str, name: &str) -> String {
    if at.is_empty() { name.to_string() } else { format!("{at}.{name}") }
}

/// Checks whether a value is given. Null and blank texts are not given.
fn is_given(field: &SubmissionField, value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::String(text) => !text.trim().is_empty(),
        Value::Array(entries) if field.required != FieldRequirement::Always(true) => !entries.is_empty(),
        _ => true,
    }
}

/// Parses an integer of zero or more, also if it is written with a fraction of zero.
fn parse_whole_number(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| {
        let number = value.as_f64()?;
        // Above this, an f64 cannot represent every integer.
        let exact = (0.0..9_007_199_254_740_992.0).contains(&number);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range was checked")]
        let whole = number as u64;
        #[expect(clippy::cast_precision_loss, reason = "the range was checked")]
        let same = whole as f64 == number;
        (exact && same).then_some(whole)
    })
}

fn is_slug(text: &str) -> bool {
    let is_word = |word: &str| {
        !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    text.split('-').all(is_word)
}

fn trim_blank_lines(text: &str) -> &str {
    let text = text.trim_end();
    let lead = text.len() - text.trim_start().len();
    let first_line = text[..lead].rfind('\n').map_or(0, |at| at + 1);
    &text[first_line..]
}

fn shorten(text: &str) -> String {
    let mut short: String = text.chars().take(60).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}
