//! Reads requests.

use alloc::format;

use super::Request;
use crate::diag::{Code, Diagnostic, Diagnostics};
use crate::library::read_toml::{FileFormat, ReadErrorCodes, read_data};
use crate::text::SharedText;

/// Reads a request; diagnostics call the text `name`.
pub fn read_request(name: &str, text: &SharedText, notation: FileFormat) -> Result<Request, Diagnostics> {
    if notation == FileFormat::Toml && text.len() > MAX_TOML_BYTES {
        let message =
            format!("`{name}` has {} bytes; a request in TOML has at most {MAX_TOML_BYTES}", text.len());
        return Err(Diagnostic::error(Code::RequestBad, message).hint("write it as JSON").into());
    }
    let codes = ReadErrorCodes { bad: Code::RequestBad, unknown: Code::RequestUnknownKey };
    read_data(name, text, notation, codes)
}

/// Well above any hand-written request. Reading TOML takes forty times its size in memory.
const MAX_TOML_BYTES: usize = 4 * 1024 * 1024;
