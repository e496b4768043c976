//! Files of the session that are called as a pattern says: those that wait to be read, and those of an earlier plan.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::{SubmissionContext, SubmissionValues};
use crate::contract::Submission;
use crate::diag::Diagnostics;
use crate::lookup::Library;
use crate::name::is_name;
use crate::request::Layout;
use crate::source::{ListingLimits, SourceId, SourceRoot, Sources};

/// The files of the session in which the contract `name` can be handed in, in byte order; each with the data that
/// its own name gives.
pub fn waiting(
    sources: &dyn Sources,
    layout: &Layout,
    name: &str,
) -> Result<Vec<(String, SubmissionValues)>, Diagnostics> {
    let desk = SubmissionContext {
        library: Library::new(sources),
        layout,
        roles: Vec::new(),
        shared_names: &Vec::new,
    };
    let submission = desk.submission(name)?;
    let Some(file) = &submission.file else { return Ok(Vec::new()) };
    Ok(found(sources, file, submission.suffix.as_deref()))
}

/// Those files of the numbered ones, data and companions, whose number is not among `numbers`.
pub(super) fn find_surplus_files(
    sources: &dyn Sources,
    submission: &Submission,
    data_too: bool,
    is_kept: &dyn Fn(u64) -> bool,
) -> Vec<String> {
    let companions = submission.write.iter().map(|companion| companion.path.as_str());
    let data = submission.file.as_deref().filter(|_| data_too);
    let mut beyond = Vec::new();
    for pattern in companions.chain(data) {
        for (path, data) in found(sources, pattern, None) {
            if data.values().filter_map(serde_json::Value::as_u64).any(|number| !is_kept(number)) {
                beyond.push(path);
            }
        }
    }
    beyond
}

/// The files that `pattern` fits, with at most one field in their name, or with a suffix.
pub(super) fn found(
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
        if let Some(data) = fits(&entry.path, name, suffix) {
            found.push((format!("{folder}/{}", entry.path), data));
        }
    }
    found
}

/// The data that the name of `file` gives, if it is called as `name` says.
pub(super) fn fits(file: &str, name: &str, suffix: Option<&str>) -> Option<SubmissionValues> {
    let mut data = SubmissionValues::new();
    if let Some((before, rest)) = name.split_once('{') {
        let (field, after) = rest.split_once('}')?;
        let middle = file.strip_prefix(before)?.strip_suffix(after)?;
        let number: u64 = middle.parse().ok()?;
        // Only the usual spelling: `plan_01.md` is somebody else's file.
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
