//! YAML: reads an agent's submission, and writes data so that every parser reads the same data back.

use alloc::format;
use alloc::string::{String, ToString};
use core::fmt::Write as _;

use serde_json::Value;

use crate::diag::{Code, Diagnostic, is_invisible};
use crate::library::contract::SubmissionValues;
use crate::library::frontmatter;
use crate::text::SharedText;

/// About ten times the size of a plan with dozens of sub-plans.
const MAX_BYTES: usize = 1024 * 1024;

/// Reads the data of a submission. Diagnostics call the text `name`.
pub fn read_yaml(name: &str, text: &SharedText) -> Result<Value, Diagnostic> {
    if text.len() > MAX_BYTES {
        let message = format!("`{name}` has {} bytes; a submission has at most {MAX_BYTES}", text.len());
        return Err(Diagnostic::error(Code::SubmissionBad, message));
    }
    let yaml = text.strip_prefix('\u{feff}').unwrap_or(text);
    frontmatter::read_yaml(yaml, 100_000).map_err(|(message, at)| {
        let at = text.len() - yaml.len() + at;
        let message = format!("cannot read the file: {message}");
        Diagnostic::error(Code::SubmissionBad, message).at(name, text, at..at + 1)
    })
}

/// Writes the data as YAML: keys in their order, and each text in a form that every parser reads as text.
pub(crate) fn write_yaml(data: &SubmissionValues) -> String {
    let mut out = String::new();
    write_map(&mut out, data, 0, false);
    out
}

/// Writes a map. `inline` is set if the first key follows a dash.
fn write_map(out: &mut String, data: &SubmissionValues, depth: usize, mut inline: bool) {
    for (key, value) in data {
        if !core::mem::take(&mut inline) {
            write_indent(out, depth);
        }
        write_scalar(out, key);
        out.push(':');
        write_value(out, value, depth);
    }
}

/// Writes the value that follows a colon.
fn write_value(out: &mut String, value: &Value, depth: usize) {
    match value {
        Value::Object(data) if !data.is_empty() => {
            out.push('\n');
            write_map(out, data, depth + 1, false);
        }
        Value::Array(entries) if !entries.is_empty() => {
            out.push('\n');
            for entry in entries {
                write_indent(out, depth + 1);
                out.push('-');
                match entry {
                    Value::Object(data) if !data.is_empty() => {
                        out.push(' ');
                        write_map(out, data, depth + 2, true);
                    }
                    entry => write_value(out, entry, depth + 1),
                }
            }
        }
        value => {
            out.push(' ');
            match value {
                Value::String(text) if is_block(text) => write_block(out, text, depth + 1),
                Value::String(text) => write_scalar(out, text),
                Value::Object(_) => out.push_str("{}"),
                Value::Array(_) => out.push_str("[]"),
                value => out.push_str(&value.to_string()),
            }
            out.push('\n');
        }
    }
}

/// Writes the data in few lines: one for each key, and one for each entry that has fields of its own.
pub(crate) fn write_compact_yaml(data: &SubmissionValues) -> String {
    let mut out = String::new();
    for (key, value) in data {
        write_scalar(&mut out, key);
        out.push(':');
        match value {
            Value::Array(entries) if entries.iter().any(Value::is_object) => {
                for entry in entries {
                    out.push_str("\n  - ");
                    write_inline(&mut out, entry);
                }
            }
            Value::String(text) if !text.contains('\n') => {
                out.push(' ');
                write_scalar(&mut out, text);
            }
            value => {
                out.push(' ');
                write_inline(&mut out, value);
            }
        }
        out.push('\n');
    }
    out
}

/// Writes a value on one line.
fn write_inline(out: &mut String, value: &Value) {
    match value {
        Value::Object(data) => {
            out.push('{');
            for (nth, (key, value)) in data.iter().enumerate() {
                out.push_str(if nth > 0 { ", " } else { "" });
                write_inline(out, &Value::String(key.clone()));
                out.push_str(": ");
                write_inline(out, value);
            }
            out.push('}');
        }
        Value::Array(entries) => {
            out.push('[');
            for (nth, entry) in entries.iter().enumerate() {
                out.push_str(if nth > 0 { ", " } else { "" });
                write_inline(out, entry);
            }
            out.push(']');
        }
        // A comma ends a plain text here.
        Value::String(text) if text.contains(',') => write_quoted(out, text),
        Value::String(text) => write_scalar(out, text),
        value => out.push_str(&value.to_string()),
    }
}

fn write_indent(out: &mut String, depth: usize) {
    out.extend(core::iter::repeat_n("  ", depth));
}

/// Checks whether a text can be written as a block, line by line.
fn is_block(text: &str) -> bool {
    let plain = |c: char| c == '\n' || !is_invisible(c) && c != '\t';
    text.contains('\n')
        && text.chars().all(plain)
        && !text.starts_with([' ', '\n'])
        && !text.ends_with('\n')
        && text.lines().all(|line| line.trim_end() == line)
}

fn write_block(out: &mut String, text: &str, depth: usize) {
    out.push_str("|-");
    for line in text.split('\n') {
        out.push('\n');
        if !line.is_empty() {
            write_indent(out, depth);
            out.push_str(line);
        }
    }
}

fn write_scalar(out: &mut String, text: &str) {
    if is_plain(text) { out.push_str(text) } else { write_quoted(out, text) }
}

fn write_quoted(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            // Writing to a string cannot fail.
            c if is_invisible(c) => drop(write!(out, "\\U{:08X}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
}

/// Checks whether every parser reads the bare text as text: words and paths, no sign that YAML uses.
fn is_plain(text: &str) -> bool {
    const OTHERS: [&str; 10] = ["true", "false", "yes", "no", "on", "off", "y", "n", "null", "nan"];
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, ' ' | '_' | '-' | '.' | '/' | ',' | '(' | ')'))
        && !text.ends_with(' ')
        && !OTHERS.iter().any(|other| text.eq_ignore_ascii_case(other))
}
