//! Offers the session's files as read-only resources.

use callsheet::error::{Error, Result, unreadable_error};
use callsheet_core::diag::{Code, Diagnostic};
use callsheet_core::{ListingLimits, SourceId, SourceRoot, Sources as _};
use rmcp::model::{ReadResourceResult, Resource, ResourceContents};

use callsheet::session::SessionDir;

const SCHEME: &str = "session:///";

/// Well above the depth and the number of files of any session.
const LIMITS: ListingLimits = ListingLimits { depth: 16, entries: 1000, ignored: false };

pub(super) fn list(session: &SessionDir) -> Result<Vec<Resource>> {
    let root = SourceId::new(SourceRoot::Session, ".").map_err(|error| unreadable_error(".", error))?;
    let listing = session.disk.list(&root, LIMITS).map_err(|error| unreadable_error(".", &error))?;
    let files = listing.unwrap_or_default().entries.into_iter().filter(|entry| !entry.dir);
    let resource = |path: String| Resource::new(to_uri(&path), path.clone()).with_mime_type(mime_type(&path));
    Ok(files.map(|entry| resource(entry.path)).collect())
}

pub(super) fn read(session: &SessionDir, uri: &str) -> Result<ReadResourceResult> {
    let not_there =
        || -> Error { Diagnostic::error(Code::InputNotFound, format!("unknown resource `{uri}`")).into() };
    let path = uri.strip_prefix(SCHEME).and_then(decode_path).ok_or_else(not_there)?;
    let id = SourceId::new(SourceRoot::Session, &path).map_err(|error| unreadable_error(&path, error))?;
    let text =
        session.disk.text(&id).map_err(|error| unreadable_error(&path, &error))?.ok_or_else(not_there)?;
    let contents = ResourceContents::text(text.as_str(), uri).with_mime_type(mime_type(&path));
    Ok(ReadResourceResult::new(vec![contents]))
}

fn mime_type(path: &str) -> &'static str {
    match path.rsplit_once('.').map(|(_, extension)| extension) {
        Some("md") => "text/markdown",
        Some("yaml" | "yml") => "application/yaml",
        Some("json") => "application/json",
        _ => "text/plain",
    }
}

fn to_uri(path: &str) -> String {
    let mut uri = SCHEME.to_owned();
    for byte in path.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                uri.push(char::from(byte))
            }
            byte => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri
}

fn decode_path(path: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || char::from(rest.next()?).to_digit(16);
        let (high, low) = (digit()?, digit()?);
        bytes.push(u8::try_from(high * 16 + low).ok()?);
    }
    String::from_utf8(bytes).ok()
}
