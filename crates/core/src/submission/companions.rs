//! Renders the Markdown companions of a submission.
//!
//! The template text belongs to the contract. The agent's text is inserted into it and never parsed again, so
//! it cannot introduce a slot.

use alloc::borrow::Cow;
use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::Value;

use crate::library::contract::SubmissionValues;
use crate::library::contract::{FieldType, SubmissionField};
use crate::library::template::{TemplateNode, TextRange, parse_braces};

/// Texts of slots by name.
type SlotTexts<'f> = BTreeMap<&'f str, String>;

/// Renders the text of a file from `data`: it ends with one newline, or is empty.
pub(super) fn fill_file(words: &str, fields: &[SubmissionField], data: &SubmissionValues) -> String {
    let filled = fill_slots(words, &render_fields(fields, data));
    let filled = filled.trim_end();
    if filled.is_empty() { String::new() } else { [filled, "\n"].concat() }
}

/// Renders the text of every field.
fn render_fields<'f>(fields: &'f [SubmissionField], data: &SubmissionValues) -> SlotTexts<'f> {
    let text = |field: &SubmissionField| {
        data.get(&field.name).map(|value| render_field(field, value)).unwrap_or_default()
    };
    fields.iter().map(|field| (field.name.as_str(), text(field))).collect()
}

fn render_field(field: &SubmissionField, value: &Value) -> String {
    let rows = match (field.kind, value) {
        (FieldType::Map, Value::Object(data)) => match &field.each {
            Some(each) => fill_slots(each, &render_fields(&field.field, data)),
            None => String::new(),
        },
        (_, Value::Array(entries)) => {
            let rows = entries.iter().enumerate().map(|(nth, entry)| render_row(field, nth + 1, entry));
            rows.collect::<Vec<String>>().join(&field.join)
        }
        (_, Value::String(text)) => text.clone(),
        (_, value) => value.to_string(),
    };
    match &field.wrap {
        Some(wrap) if !rows.is_empty() => fill_slots(wrap, &SlotTexts::from([("rows", rows)])),
        _ => rows,
    }
}

fn render_row(field: &SubmissionField, number: usize, entry: &Value) -> String {
    let mut slots = match entry {
        Value::Object(data) => render_fields(&field.field, data),
        Value::String(text) => SlotTexts::from([("text", text.clone())]),
        value => SlotTexts::from([("text", value.to_string())]),
    };
    slots.insert("number", number.to_string());
    fill_slots(field.each.as_deref().unwrap_or("- {{text}}"), &slots).trim_end().to_string()
}

fn fill_slots(words: &str, texts: &SlotTexts<'_>) -> String {
    let words = words.strip_prefix('\n').unwrap_or(words);
    let nodes = parse_braces(words, TextRange { start: 0, end: words.len() });
    let mut out = String::with_capacity(words.len() * 2);
    let mut dropped = false;
    for (at, node) in nodes.iter().enumerate() {
        match node {
            TemplateNode::Text(span) => {
                let mut text = span.slice(words);
                if core::mem::take(&mut dropped) {
                    // The empty line after an empty slot is dropped too.
                    text = text.strip_prefix("\n\n").or_else(|| text.strip_prefix('\n')).unwrap_or(text);
                }
                out.push_str(text);
            }
            TemplateNode::Slot(name) => {
                let text = texts.get(name.slice(words)).map_or("", String::as_str);
                let begins = out.is_empty() || out.ends_with('\n');
                let ends = match nodes.get(at + 1) {
                    None => true,
                    Some(TemplateNode::Text(next)) => next.slice(words).starts_with('\n'),
                    Some(_) => false,
                };
                let alone = begins && ends;
                dropped = alone && text.is_empty();
                out.push_str(&if alone { Cow::Borrowed(text) } else { fold_lines(text) });
            }
            TemplateNode::Fragment(_) | TemplateNode::Include(_) => {}
        }
    }
    out
}

/// Joins the text into one line.
fn fold_lines(text: &str) -> Cow<'_, str> {
    if !text.contains(['\n', '\r', '\t']) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.split_whitespace().collect::<Vec<_>>().join(" "))
}
