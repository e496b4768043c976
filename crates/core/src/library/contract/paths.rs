//! Paths of the session that a contract describes by patterns: `plan_{index}.md`, `review_logic.yaml`.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::Value;

use super::SubmissionValues;
use crate::source::{ListingLimits, SourceId, SourceRoot, Sources};
use crate::text::name::is_name;

/// Replaces every `{field}` of `pattern` with its value. Only names, slugs, choices and numbers can be in a
/// path.
pub(crate) fn fill_path(pattern: &str, data: &SubmissionValues) -> String {
    let mut path = String::with_capacity(pattern.len());
    let mut rest = pattern;
    while let Some((before, after)) = rest.split_once('{') {
        let Some((name, after)) = after.split_once('}') else { break };
        path.push_str(before);
        match data.get(name) {
            Some(Value::String(text)) => path.push_str(text),
            Some(Value::Number(number)) => path.push_str(&number.to_string()),
            _ => {}
        }
        rest = after;
    }
    path + rest
}

/// Appends the value of the field `suffix` to the stem of the file.
pub(crate) fn add_suffix(path: &str, suffix: Option<&str>, data: &SubmissionValues) -> String {
    let Some(word) = suffix.and_then(|field| data.get(field)?.as_str()) else { return path.to_string() };
    match path.rsplit_once('.') {
        Some((stem, extension)) => format!("{stem}_{word}.{extension}"),
        None => format!("{path}_{word}"),
    }
}

/// Returns the files that match `pattern`, which has at most one field in the file name, or with a suffix.
pub(crate) fn find_files(
    sources: &dyn Sources,
    pattern: &str,
    suffix: Option<&str>,
) -> Vec<(String, SubmissionValues)> {
    let (folder, name) = pattern.rsplit_once('/').unwrap_or((".", pattern));
    let Ok(dir) = SourceId::new(SourceRoot::Session, folder) else { return Vec::new() };
    let limits = ListingLimits { depth: 1, entries: 10_000, ignored: true };
    let entries = sources.list(&dir, limits).ok().flatten().map(|listing| listing.entries);
    let mut found = Vec::new();
    for entry in entries.into_iter().flatten().filter(|entry| !entry.dir) {
        if let Some(data) = match_file_name(&entry.path, name, suffix) {
            found.push((format!("{folder}/{}", entry.path), data));
        }
    }
    found
}

/// Matches the name of `file` against `name`. Returns the data from the file name.
pub(crate) fn match_file_name(file: &str, name: &str, suffix: Option<&str>) -> Option<SubmissionValues> {
    let mut data = SubmissionValues::new();
    if let Some((before, rest)) = name.split_once('{') {
        let (field, after) = rest.split_once('}')?;
        let middle = file.strip_prefix(before)?.strip_suffix(after)?;
        let number: u64 = middle.parse().ok()?;
        // Only the canonical spelling: `plan_01.md` does not belong to callsheet.
        let usual = number.to_string() == middle;
        data.insert(field.into(), number.into());
        return usual.then_some(data);
    }
    if file == name {
        return Some(data);
    }
    let (stem, extension) = name.rsplit_once('.')?;
    let (own, other) = file.rsplit_once('.')?;
    let word = own.strip_prefix(stem)?.strip_prefix('_')?;
    if !is_name(word) || extension != other {
        return None;
    }
    data.insert(suffix?.into(), word.into());
    Some(data)
}
