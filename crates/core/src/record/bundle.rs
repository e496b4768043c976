//! Builds the record of a composed prompt, and the texts that the record refers to.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::string::ToString;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::digest::{Digest, sha256};
use super::{AssemblyPart, Composed, OriginNote, RecordError, RecordedWarning, Run, TextAssembly};
use crate::ENGINE_VERSION;
use crate::compose;
use crate::diag::{Diagnostic, Severity};
use crate::library::format::ModelApi;
use crate::prompt::Prompt;
use crate::render::{RenderedText, TextEncoding};
use crate::request::Request;
use crate::source::origin::{Origin, OriginKind};
use crate::source::{ListingLimits, Snapshot, SourceId};
use crate::text::SharedText;

/// Record with every text that it needs. A text that was stored before has the same digest and is stored
/// once.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordBundle {
    /// The record.
    pub composed: Composed,
    /// Texts by digest.
    pub blobs: BTreeMap<Digest, SharedText>,
}

/// Minimum size in bytes of a text that is stored by itself, so that the next prompt with this text can refer
/// to it.
pub(super) const LONG: usize = 512;

/// Snapshot with digests instead of texts: every source that was read, present or absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SnapshotManifest {
    /// Source → digest of its text; `None` if it was absent.
    pub texts: BTreeMap<SourceId, Option<Digest>>,
    /// Folder, limits and digest of each listing; `None` if the folder was absent.
    pub lists: Vec<(SourceId, ListingLimits, Option<Digest>)>,
}

/// Builds the record of `rendered`, which was composed from `request` and `snapshot` through `composed`.
/// Refuses a run that is not one of this request and this prompt.
pub fn build_record(
    run: Run,
    request: &Request,
    snapshot: &Snapshot,
    (composed, rendered, api): (&compose::ComposedPrompt, &RenderedText, Option<ModelApi>),
    diagnostics: &[Diagnostic],
) -> Result<RecordBundle, RecordError> {
    run.check(request)?;
    if run.recipe != composed.prompt.recipe {
        return Err(RecordError::Recipe);
    }
    let mut keeper = BlobCollector { blobs: BTreeMap::new() };
    let mut manifest = SnapshotManifest::default();
    for (id, text) in &snapshot.texts {
        manifest.texts.insert(id.clone(), text.as_ref().map(|text| keeper.add_text(text)));
    }
    for (dir, limits, listing) in &snapshot.lists {
        let listing = listing.as_ref().map(serde_json::to_string).transpose()?;
        manifest.lists.push((dir.clone(), *limits, listing.map(|listing| keeper.add_text(&listing.into()))));
    }
    let mut request = serde_json::to_value(request)?;
    keeper.extract_blobs(&mut request);
    let output = keeper.assemble_output(&composed.prompt, rendered, snapshot, &manifest)?;
    let shown = diagnostics.iter().filter(|diag| diag.severity > Severity::Note);
    let warnings = shown
        .map(|diag| RecordedWarning { code: diag.code.to_string(), message: diag.message.clone() })
        .collect();
    let profile = composed.profile.clone();
    let composed = Composed {
        run,
        profile,
        engine: ENGINE_VERSION,
        request,
        snapshot: manifest,
        api,
        output,
        warnings,
        secrets: None,
        sealed: None,
        launch: None,
        made_by: None,
    };
    Ok(RecordBundle { composed, blobs: keeper.blobs })
}

struct BlobCollector {
    blobs: BTreeMap<Digest, SharedText>,
}

impl BlobCollector {
    fn add_text(&mut self, text: &SharedText) -> Digest {
        let digest = sha256(&[text.as_bytes()]);
        self.blobs.entry(digest).or_insert_with(|| text.clone());
        digest
    }

    /// Replaces long strings with `{"$blob": DIGEST}`. An object that already looks like that is wrapped.
    fn extract_blobs(&mut self, value: &mut Value) {
        match value {
            Value::String(text) if text.len() >= LONG => {
                let digest = self.add_text(&core::mem::take(text).into());
                *value = single_entry_object(BLOB, digest.to_string().into());
            }
            Value::Array(values) => values.iter_mut().for_each(|value| self.extract_blobs(value)),
            Value::Object(map) => {
                map.values_mut().for_each(|value| self.extract_blobs(value));
                if map.keys().any(|key| key == BLOB || key == AS_IT_IS) {
                    *value = single_entry_object(AS_IT_IS, value.take());
                }
            }
            _ => {}
        }
    }

    fn assemble_output(
        &mut self,
        prompt: &Prompt,
        rendered: &RenderedText,
        snapshot: &Snapshot,
        manifest: &SnapshotManifest,
    ) -> Result<TextAssembly, RecordError> {
        let text = &rendered.text;
        let mut origins: Vec<OriginNote> = Vec::new();
        // Origin number in the prompt → its number here, and whether its text is stored.
        let mut known: BTreeMap<u32, (u32, bool)> = BTreeMap::new();
        let mut parts = Vec::with_capacity(rendered.spans.len());
        for span in &rendered.spans {
            let written = text.get(span.start..span.end).ok_or(RecordError::Text)?;
            let Some(piece) = span.piece else {
                push_engine_text(&mut parts, written);
                continue;
            };
            let origin = prompt.origins.get(piece.origin).ok_or(RecordError::Text)?;
            let (number, kept) = *known.entry(piece.origin).or_insert_with(|| {
                let note = self.note_origin(origin, snapshot, manifest);
                let kept = note.source.is_some() || note.text.is_some();
                origins.push(note);
                (origins.len() as u32 - 1, kept)
            });
            let from = piece.get(&prompt.origins).ok_or(RecordError::Text)?;
            parts.push(if kept && from == written {
                AssemblyPart::Slice(number, piece.start, piece.end)
            } else if kept && span.encoding != TextEncoding::Plain && span.encoding.encode(from) == written {
                AssemblyPart::Encoded(number, piece.start, piece.end, span.encoding)
            } else {
                AssemblyPart::Literal(number, written.to_owned())
            });
        }
        let places = rendered.section_ranges(prompt);
        let sections = prompt
            .sections
            .iter()
            .zip(places)
            .map(|(section, placed)| (section.name.clone(), placed.section.start, placed.section.end));
        Ok(TextAssembly {
            sha256: sha256(&[text.as_bytes()]),
            bytes: text.len(),
            format: prompt.format,
            sections: sections.collect(),
            origins,
            parts,
        })
    }

    fn note_origin(
        &mut self,
        origin: &Origin,
        snapshot: &Snapshot,
        manifest: &SnapshotManifest,
    ) -> OriginNote {
        if let OriginKind::Source(id) = &origin.from
            && snapshot.texts.get(id).is_some_and(|text| text.as_ref() == Some(&origin.text))
            && let Some(Some(digest)) = manifest.texts.get(id)
        {
            let (source, version) = (Some(id.clone()), digest.short());
            return OriginNote { source, label: None, trust: origin.trust, text: None, version };
        }
        let long = origin.text.len() >= LONG;
        let digest = if long { self.add_text(&origin.text) } else { sha256(&[origin.text.as_bytes()]) };
        let label = Some(origin.label());
        let text = long.then_some(digest);
        OriginNote { source: None, label, trust: origin.trust, text, version: digest.short() }
    }
}

/// Appends the engine's own bytes. Adjacent ones become one part.
fn push_engine_text(parts: &mut Vec<AssemblyPart>, written: &str) {
    match parts.last_mut() {
        Some(AssemblyPart::Engine(text)) => text.push_str(written),
        _ => parts.push(AssemblyPart::Engine(written.to_owned())),
    }
}

const BLOB: &str = "$blob";
const AS_IT_IS: &str = "$as_it_is";

fn single_entry_object(key: &str, value: Value) -> Value {
    let mut map = Map::new();
    map.insert(key.into(), value);
    map.into()
}

/// Reverses `extract_blobs`: restores long strings. An error holds the digest of a text that `blob` does not
/// have.
pub(super) fn restore_blobs(
    value: &mut Value,
    blob: &mut dyn FnMut(Digest) -> Option<SharedText>,
) -> Result<(), Option<Digest>> {
    match value {
        Value::Array(values) => values.iter_mut().try_for_each(|value| restore_blobs(value, blob)),
        Value::Object(map) => {
            if let Some(digest) = map.get(BLOB) {
                let digest = digest.as_str().and_then(Digest::parse).ok_or(None)?;
                *value = Value::String(blob(digest).ok_or(Some(digest))?.as_str().into());
                return Ok(());
            }
            if let Some(inner) = map.get_mut(AS_IT_IS) {
                *value = inner.take();
                let Value::Object(map) = value else { return Err(None) };
                return map.values_mut().try_for_each(|value| restore_blobs(value, blob));
            }
            map.values_mut().try_for_each(|value| restore_blobs(value, blob))
        }
        _ => Ok(()),
    }
}
