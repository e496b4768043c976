//! Restores a prompt from its record and the stored texts: by concatenating its parts, and by composing it
//! again.
//!
//! `blob` returns a text by its digest, or `None` if the text is missing or does not match its digest.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use serde::de::DeserializeOwned;

use super::bundle::restore_blobs;
use super::digest::{Digest, sha256};
use super::{AssemblyPart, Composed, OriginNote, Run};
use crate::ENGINE_VERSION;
use crate::compose::compose;
use crate::diag::Diagnostics;
use crate::render::render;
use crate::request::Request;
use crate::request::values::SlotValues;
use crate::secrets::{HmacKey, find_missing_values, find_sealed, unseal};
use crate::source::Snapshot;
use crate::text::SharedText;

type BlobLookup<'b> = &'b mut dyn FnMut(Digest) -> Option<SharedText>;

/// Input of a record that is missing or cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReplayError {
    /// Description of the input.
    pub what: String,
    /// The blob, if the input is a blob that is missing or damaged.
    pub digest: Option<Digest>,
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.digest {
            Some(digest) => write!(f, "{}: blob {digest} is missing or damaged", self.what),
            None => write!(f, "{}: unreadable", self.what),
        }
    }
}

/// Result of composing a prompt again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplayOutcome {
    /// The bytes are the same.
    Same,
    /// Another version of the engine composed it: its texts are complete, but this engine cannot compose it
    /// again.
    OtherEngine(u32),
    /// Values with these names were delivered and are not stored. They are needed to compose the delivered
    /// text.
    NeedsSecret(Vec<String>),
    /// The result differs from the record.
    Differs {
        /// The first input that differs from the record, if one can be named.
        input: Option<String>,
        /// Explanation.
        why: String,
    },
}

fn differs(input: Option<String>, why: impl Into<String>) -> ReplayOutcome {
    ReplayOutcome::Differs { input, why: why.into() }
}

/// Composes again from the request and the snapshot of `record`, and compares the bytes.
pub fn verify(record: &Composed, blob: BlobLookup<'_>) -> Result<ReplayOutcome, ReplayError> {
    for origin in &record.output.origins {
        let digest = match &origin.source {
            Some(source) => record.snapshot.texts.get(source).copied().flatten(),
            None => origin.text,
        };
        let agrees = digest.is_none_or(|digest| digest.short() == origin.version);
        if !agrees || origin.source.is_some() && digest.is_none() {
            let why = "its text is not the version that the prompt was composed from";
            return Ok(differs(Some(origin.label()), why));
        }
    }
    let recorded = restore_text(record, blob)?;
    if sha256(&[recorded.as_bytes()]) != record.output.sha256 || recorded.len() != record.output.bytes {
        let why = format!("its parts do not give the text with the SHA-256 {}", record.output.sha256);
        return Ok(differs(None, why));
    }
    if record.engine != ENGINE_VERSION {
        // A request of another engine may have another form. The texts that it needs must still exist.
        for digest in list_blobs(record)? {
            blob(digest).ok_or_else(|| ReplayError { what: "a text".into(), digest: Some(digest) })?;
        }
        return Ok(ReplayOutcome::OtherEngine(record.engine));
    }
    let request = restore_request(record, blob)?;
    if let Some(field) = find_contradiction(&record.run, &request) {
        return Ok(differs(Some(field), "it differs from the request"));
    }
    let snapshot = restore_snapshot(record, blob)?;
    let again = compose(&request, &snapshot).and_then(|composed| {
        let rendered = render(&composed.prompt, record.output.format, record.api)?;
        Ok((composed, rendered.text))
    });
    let has_parts = record.sealed.is_some() || are_whole_parts(record, &recorded);
    Ok(match again {
        Err(Diagnostics(diags)) => {
            let first = diags.first().map(ToString::to_string).unwrap_or_default();
            differs(None, format!("cannot compose it again: {first}"))
        }
        Ok((composed, _)) if composed.prompt.recipe != record.run.recipe => {
            differs(Some("run recipe".into()), "it differs from the request")
        }
        Ok((_, text)) if text != recorded => {
            let at = text.bytes().zip(recorded.bytes()).take_while(|(a, b)| a == b).count();
            let input = find_origin_at(record, at, blob)?;
            differs(input, format!("composed again, the text differs from byte {at} on"))
        }
        Ok(_) if !has_parts => {
            differs(Some("launch parts".into()), "together, the delivered parts are not the prompt")
        }
        Ok(_) => ReplayOutcome::Same,
    })
}

/// Checks whether the delivered parts give the text, one after the other. A text with secret values has other lengths in its
/// record.
fn are_whole_parts(record: &Composed, text: &str) -> bool {
    let parts = record.launch.iter().flat_map(|launch| &launch.parts);
    let mut at = None;
    for part in parts {
        if part.start != at.unwrap_or(0) || text.get(part.start..part.end).is_none_or(str::is_empty) {
            return false;
        }
        at = Some(part.end);
    }
    at.is_none_or(|at| at == text.len())
}

/// Checks the delivered text against its HMAC. If a record has no HMAC, or if its secret values are not in
/// the prompt, it holds the delivered text. Otherwise composes the prompt with the values in `given`.
pub fn verify_sealed(
    record: &Composed,
    given: &SlotValues,
    blob: BlobLookup<'_>,
) -> Result<ReplayOutcome, ReplayError> {
    let Some(sealed) = &record.sealed else { return Ok(ReplayOutcome::Same) };
    let keyed = HmacKey::new(sealed.key.0);
    let was_delivered = |text: &str| keyed.hash(text.as_bytes()) == sealed.text;
    let recorded = restore_text(record, blob)?;
    let as_recorded = was_delivered(&recorded);
    let request = match restore_request(record, blob) {
        Ok(request) => request,
        Err(_) if record.engine != ENGINE_VERSION => return Ok(ReplayOutcome::OtherEngine(record.engine)),
        Err(lost) => return Err(lost),
    };
    let opened = match unseal(&request, given, &keyed) {
        Ok(request) => request,
        Err(keys) => {
            let input = format!("value {}", keys.join(", "));
            return Ok(differs(Some(input), "it is not the value that was delivered"));
        }
    };
    if as_recorded {
        return Ok(ReplayOutcome::Same);
    }
    let missing = find_sealed(&request, find_missing_values(&request, given), &recorded);
    if record.engine != ENGINE_VERSION {
        return Ok(match missing.is_empty() {
            true => ReplayOutcome::OtherEngine(record.engine),
            false => ReplayOutcome::NeedsSecret(missing),
        });
    }
    let snapshot = restore_snapshot(record, blob)?;
    let again = compose(&opened, &snapshot)
        .and_then(|composed| render(&composed.prompt, record.output.format, record.api));
    Ok(match again {
        Ok(rendered) if was_delivered(&rendered.text) => ReplayOutcome::Same,
        _ if !missing.is_empty() => ReplayOutcome::NeedsSecret(missing),
        _ => differs(None, "composed with the values, the text differs from the delivered text"),
    })
}

/// Returns a column of the run that the request contradicts.
pub(super) fn find_contradiction(run: &Run, request: &Request) -> Option<String> {
    let task = request.task.as_ref().and_then(|task| task.id.as_deref());
    let fields = [
        ("task", run.task.as_deref(), task),
        ("agent", run.agent.as_deref(), request.agent.as_deref()),
        ("phase", run.phase.as_deref(), request.phase.as_deref()),
        ("role", run.role.as_deref(), request.role.as_deref()),
    ];
    fields.into_iter().find(|(_, run, request)| run != request).map(|(name, ..)| format!("run {name}"))
}

/// Restores the request of the prompt.
pub fn restore_request(record: &Composed, blob: BlobLookup<'_>) -> Result<Request, ReplayError> {
    let lost = |digest| ReplayError { what: "the request".into(), digest };
    let mut value = record.request.clone();
    restore_blobs(&mut value, blob).map_err(lost)?;
    serde_json::from_value(value).map_err(|_| lost(None))
}

/// Restores every source that the prompt was composed from, present or absent.
pub fn restore_snapshot(record: &Composed, blob: BlobLookup<'_>) -> Result<Snapshot, ReplayError> {
    let mut snapshot = Snapshot::default();
    for (id, digest) in &record.snapshot.texts {
        let lost = |digest| ReplayError { what: id.to_string(), digest: Some(digest) };
        let text = digest.map(|digest| blob(digest).ok_or_else(|| lost(digest))).transpose()?;
        snapshot.texts.insert(id.clone(), text);
    }
    for (dir, limits, digest) in &record.snapshot.lists {
        let what = format!("the listing of {dir}");
        let listing = digest.map(|digest| read_blob(digest, &what, blob)).transpose()?;
        snapshot.lists.push((dir.clone(), *limits, listing));
    }
    Ok(snapshot)
}

/// Returns the digest of every blob that `record` needs.
pub fn list_blobs(record: &Composed) -> Result<BTreeSet<Digest>, ReplayError> {
    let mut needed: BTreeSet<Digest> =
        record.output.origins.iter().filter_map(|origin| origin.text).collect();
    needed.extend(record.snapshot.texts.values().flatten());
    needed.extend(record.snapshot.lists.iter().filter_map(|(_, _, listing)| *listing));
    let mut noted = |digest| {
        needed.insert(digest);
        Some(SharedText::default())
    };
    restore_blobs(&mut record.request.clone(), &mut noted)
        .map_err(|_| ReplayError { what: "the request".into(), digest: None })?;
    Ok(needed)
}

fn read_blob<T: DeserializeOwned>(
    digest: Digest,
    what: &str,
    blob: BlobLookup<'_>,
) -> Result<T, ReplayError> {
    let lost = |digest| ReplayError { what: what.into(), digest };
    let text = blob(digest).ok_or_else(|| lost(Some(digest)))?;
    serde_json::from_str(&text).map_err(|_| lost(None))
}

/// Texts of the origins, each read once and only if a part refers to it.
struct OriginTexts<'r> {
    record: &'r Composed,
    texts: BTreeMap<u32, SharedText>,
}

impl OriginTexts<'_> {
    fn write_part(
        &mut self,
        part: &AssemblyPart,
        blob: BlobLookup<'_>,
        out: &mut String,
    ) -> Result<(), ReplayError> {
        match part {
            AssemblyPart::Engine(text) | AssemblyPart::Literal(_, text) => out.push_str(text),
            AssemblyPart::Slice(origin, start, end) => {
                out.push_str(self.read_slice(*origin, *start, *end, blob)?)
            }
            AssemblyPart::Encoded(origin, start, end, encoding) => {
                let written = encoding.encode(self.read_slice(*origin, *start, *end, blob)?);
                out.push_str(&written);
            }
        }
        Ok(())
    }

    fn read_slice(
        &mut self,
        number: u32,
        start: usize,
        end: usize,
        blob: BlobLookup<'_>,
    ) -> Result<&str, ReplayError> {
        let lost = |what: String, digest| ReplayError { what, digest };
        let nameless = || lost(format!("origin {number}"), None);
        let origin = self.record.output.origins.get(number as usize).ok_or_else(nameless)?;
        if !self.texts.contains_key(&number) {
            let of_source = |source| self.record.snapshot.texts.get(source).copied().flatten();
            let digest = origin.text.or_else(|| origin.source.as_ref().and_then(of_source));
            let digest = digest.ok_or_else(|| lost(origin.label(), None))?;
            let text = blob(digest).ok_or_else(|| lost(origin.label(), Some(digest)))?;
            self.texts.insert(number, text);
        }
        let text = self.texts.get(&number).ok_or_else(nameless)?;
        text.get(start..end).ok_or_else(|| lost(origin.label(), None))
    }
}

/// Restores the finished text without composing it. Callers verify it by its digest.
pub fn restore_text(record: &Composed, blob: BlobLookup<'_>) -> Result<String, ReplayError> {
    let mut pieces = OriginTexts { record, texts: BTreeMap::new() };
    let mut text = String::new();
    for part in &record.output.parts {
        pieces.write_part(part, blob, &mut text)?;
    }
    Ok(text)
}

/// Returns the label of the origin of byte `at`.
fn find_origin_at(record: &Composed, at: usize, blob: BlobLookup<'_>) -> Result<Option<String>, ReplayError> {
    let (_, ranges) = locate_parts(record, blob)?;
    let origin = ranges.iter().find(|range| range.end > at).and_then(|range| range.origin);
    Ok(origin.and_then(|origin| record.output.origins.get(origin as usize)).map(OriginNote::label))
}

/// Returns the finished text and the range of each part, with the number of its origin and the line in the
/// origin's text that it begins in.
pub fn locate_parts(
    record: &Composed,
    blob: BlobLookup<'_>,
) -> Result<(String, Vec<OriginRange>), ReplayError> {
    let mut pieces = OriginTexts { record, texts: BTreeMap::new() };
    let mut text = String::new();
    let mut placed = Vec::with_capacity(record.output.parts.len());
    for part in &record.output.parts {
        let start = text.len();
        pieces.write_part(part, blob, &mut text)?;
        let line = match part {
            AssemblyPart::Slice(origin, from, _) | AssemblyPart::Encoded(origin, from, ..) => {
                let before = pieces.texts.get(origin).and_then(|text| text.get(..*from));
                before.map(|before| before.matches('\n').count() + 1)
            }
            AssemblyPart::Engine(_) | AssemblyPart::Literal(..) => None,
        };
        placed.push(OriginRange { start, end: text.len(), origin: part.origin(), line });
    }
    Ok((text, placed))
}

/// Range of a finished text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OriginRange {
    /// Offset of its first byte.
    pub start: usize,
    /// Offset behind its last byte.
    pub end: usize,
    /// Number of the origin; `None` for the engine's own text.
    pub origin: Option<u32>,
    /// Line of the origin's text that it begins in, if that text is stored.
    pub line: Option<usize>,
}
