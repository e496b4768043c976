//! Reads TOML and JSON into the types of data files and requests, and names every unknown key.

use alloc::format;
use alloc::string::{String, ToString};
// Every type is sized: without the feature, nothing more is demanded.
#[cfg(not(feature = "schema"))]
use core::marker::Sized as FileSchema;
use core::ops::Range;

#[cfg(feature = "schema")]
use schemars::JsonSchema as FileSchema;
use serde::de::DeserializeOwned;

use crate::diag::{Code, Diagnostic, Diagnostics};
use crate::library::layout::Layout;
use crate::library::lookup::{self, DynLibrary, list_names};
#[cfg(feature = "schema")]
use crate::library::schema_mismatches;
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
    Err(Diagnostic::error(code, format!("{id} has {} bytes; the limit is {MAX_BYTES}", text.len())))
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
        Diagnostic::error(not_found, format!("unknown {} `{name}`", folder.trim_end_matches('s')))
            .searched(lookup::candidates(&path, layout))
            .suggest(name, known.iter().map(String::as_str))
            .hint(format!("known {folder}: {}", known.join(", ")))
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

/// A type that a data file is read as. With the feature `schema` it has a JSON Schema, by which all mistakes of
/// a file are found; without it, the parser reports the first one.
pub trait DataFile: DeserializeOwned + FileSchema {}

impl<T: DeserializeOwned + FileSchema> DataFile for T {}

/// Reads `text` as a `T`; diagnostics call it `name`. All unknown keys are reported together.
pub fn read_data<T: DataFile>(
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
    #[cfg(feature = "schema")]
    {
        let value = match notation {
            FileFormat::Toml => parse_toml::<serde_json::Value>(text),
            FileFormat::Json => parse_json::<serde_json::Value>(text),
        };
        // The parser stops at the first mistake. A person wants all of them, each with its path.
        let wrong = value.ok().map(|value| schema_mismatches::find_all::<T>(&value)).unwrap_or_default();
        if let Some(diags) = wrong.into_diagnostics(name, text, notation, codes) {
            return Err(diags);
        }
    }
    let message = message.lines().next().unwrap_or("invalid file").to_string();
    let is_unknown = cfg!(not(feature = "schema")) && message.starts_with("unknown field");
    let code = if is_unknown { codes.unknown } else { codes.bad };
    Err(Diagnostic::error(code, message).at(name, text, span).into())
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
