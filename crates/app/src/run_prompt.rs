//! The prompt of a recorded run for a reader: its text with the origin of every byte, the texts of the origins, and the inputs that
//! it lacks.

use std::ops::Range;

use callsheet_core::diag::{Code, Diagnostic};
use callsheet_core::library::omission::OmittedInput;
use callsheet_core::record::{
    AssemblyPart, Composed, Digest, Id, OriginNote, OriginRange, locate_parts, restore_request,
    restore_snapshot,
};
use callsheet_core::{ENGINE_VERSION, compose};
use callsheet_store::Ledger;

use crate::error::Result;

/// The prompt of a recorded run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RunPrompt {
    /// The record.
    pub composed: Composed,
    /// The text.
    pub text: String,
    /// The origin of every byte, in order.
    pub ranges: Vec<OriginRange>,
    /// The inputs that it lacks, each with the reason; or why they cannot be derived.
    pub absent: Result<Vec<OmittedInput>, String>,
}

/// The text of an origin of a prompt.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PromptSource {
    /// The origin.
    pub origin: OriginNote,
    /// The SHA-256 of its text, if the text is stored.
    pub sha256: Option<Digest>,
    /// The text; only the parts that the prompt has if the text is not stored.
    pub text: String,
    /// The bytes of the text that the prompt has, in order of the prompt.
    pub used: Vec<Range<usize>>,
}

impl RunPrompt {
    /// Reads the prompt of a run.
    pub fn read(ledger: &mut Ledger, run: &Id) -> Result<Self> {
        let composed = ledger.prompt_record(run)?;
        let (text, ranges) = ledger.with_blobs(|blob| locate_parts(&composed, blob))?;
        let absent = find_absent(ledger, &composed);
        Ok(Self { composed, text, ranges, absent })
    }
}

/// Composes the prompt again, because a record holds only the inputs that a prompt has.
fn find_absent(ledger: &mut Ledger, composed: &Composed) -> Result<Vec<OmittedInput>, String> {
    if composed.engine != ENGINE_VERSION {
        return Err(format!("another version of the engine composed it ({})", composed.engine));
    }
    let inputs =
        ledger.with_blobs(|blob| Ok((restore_request(composed, blob)?, restore_snapshot(composed, blob)?)));
    let (request, snapshot) = inputs.map_err(|error| error.to_string())?;
    compose(&request, &snapshot).map(|again| again.omitted).map_err(|error| error.to_string())
}

impl PromptSource {
    /// Reads the text of the origin with this number.
    pub fn read(ledger: &mut Ledger, run: &Id, number: u32) -> Result<Self> {
        let composed = ledger.prompt_record(run)?;
        let unknown = || {
            let message = format!("the prompt of run {run} has no origin {number}");
            Diagnostic::error(Code::RunNotFound, message)
        };
        let origin = composed.output.origins.get(number as usize).cloned().ok_or_else(unknown)?;
        let of_source = |source| composed.snapshot.texts.get(source).copied().flatten();
        let sha256 = origin.text.or_else(|| origin.source.as_ref().and_then(of_source));
        let parts = composed.output.parts.iter().filter(|part| part.origin() == Some(number));
        let Some(digest) = sha256 else {
            let (mut text, mut used) = (String::new(), Vec::new());
            for part in parts {
                if let AssemblyPart::Literal(_, written) = part {
                    used.push(text.len()..text.len() + written.len());
                    text.push_str(written);
                }
            }
            return Ok(Self { origin, sha256, text, used });
        };
        let gone = || Diagnostic::error(Code::LedgerDamaged, format!("blob {digest} is gone"));
        let text = ledger.blob(digest)?.ok_or_else(gone)?.to_string();
        let used = parts.filter_map(|part| match part {
            AssemblyPart::Slice(_, start, end) | AssemblyPart::Encoded(_, start, end, _) => {
                Some(*start..*end)
            }
            AssemblyPart::Engine(_) | AssemblyPart::Literal(..) => None,
        });
        Ok(Self { origin, sha256, used: used.collect(), text })
    }
}
