//! Reads requests.

use alloc::format;

use super::Request;
use crate::diag::{Code, Diagnostic, Diagnostics};
use crate::library::read_toml::{FileFormat, ReadErrorCodes, read_data};
use crate::text::SharedText;
use crate::text::json_weight::json_weight;

/// Reads a request; diagnostics call the text `name`.
///
/// ```
/// use callsheet_core::{FileFormat, read_request};
///
/// let text = r#"{"recipe": "unified", "phase": "plan", "instructions": "Add a login page."}"#;
/// let request = read_request("request.json", &text.into(), FileFormat::Json)?;
/// assert_eq!(request.phase.as_deref(), Some("plan"));
///
/// let wrong = read_request("request.json", &r#"{"phse": "plan"}"#.into(), FileFormat::Json);
/// assert!(wrong.is_err());
/// # Ok::<(), callsheet_core::diag::Diagnostics>(())
/// ```
pub fn read_request(name: &str, text: &SharedText, notation: FileFormat) -> Result<Request, Diagnostics> {
    if notation == FileFormat::Toml && text.len() > MAX_TOML_BYTES {
        let message =
            format!("`{name}` has {} bytes; a request in TOML has at most {MAX_TOML_BYTES}", text.len());
        return Err(Diagnostic::error(Code::RequestBad, message).hint("write it as JSON").into());
    }
    if notation == FileFormat::Json && json_weight(text) > MAX_JSON_WEIGHT {
        let message = format!("`{name}` has more values than a request may have");
        let hint = "it may have about 300,000 documents, or 1,200,000 paths or values";
        return Err(Diagnostic::error(Code::RequestBad, message).hint(hint).into());
    }
    let codes = ReadErrorCodes { bad: Code::RequestBad, unknown: Code::RequestUnknownKey };
    read_data(name, text, notation, codes)
}

/// The weight of 300,000 documents, and little more: a prompt of them takes 250 MB.
const MAX_JSON_WEIGHT: usize = 1_210_000;

/// Well above any hand-written request. Reading TOML takes forty times its size in memory.
const MAX_TOML_BYTES: usize = 4 * 1024 * 1024;
