//! Decides whether a prompt is delivered in two parts, and describes them.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::hole_filler::to_quoted;
use super::{DeliveryContext, MAX_ARGUMENT_BYTES, refused_error};
use crate::diag::{Code, Diagnostic};
use crate::library::agent::{Agent, DeliveryMethod};
use crate::text::word_enum::word_enum;

word_enum! {
    /// A part of a prompt that is delivered in two.
    PromptPart {
        /// The part that prompts for other tasks begin with too: in the agent's own system prompt.
        Shared "shared",
        /// The rest.
        Own "own",
    }
}

/// A part of a prompt and the way in which the agent got it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct DeliveredPart {
    /// The part.
    pub part: PromptPart,
    /// Its delivery. The shared part is in a file or an argument that the agent adds to its system prompt.
    pub by: DeliveryMethod,
    /// The offset of its first byte in the prompt.
    pub start: usize,
    /// The offset after its last byte.
    pub end: usize,
}

/// Returns the length of the shared part; `None` if the prompt is delivered as one. A note says why, or a warning if a person
/// asked for parts.
pub(super) fn choose_parts(
    agent: &Agent,
    prompt: &str,
    how: &DeliveryContext,
    diagnostics: &mut Vec<Diagnostic>,
) -> Result<Option<usize>, Diagnostic> {
    let Some(wanted) = how.split else { return Ok(None) };
    let mut as_one = |why: String| {
        let message = format!("the prompt is delivered as one: {why}");
        diagnostics.push(match how.requires_split {
            true => Diagnostic::warning(Code::DeliverWhole, message),
            false => Diagnostic::note(Code::DeliverWhole, message),
        });
        Ok(None)
    };
    let name = &agent.name;
    let obstacle = match agent.shared_argument() {
        None => Some((
            format!("{name} has no way to add a text to its system prompt"),
            "of the shipped agents, claude and codex have one",
        )),
        Some(_) if how.resume.is_some() => {
            Some(("a resumed session keeps its first system prompt".into(), "start a new session"))
        }
        Some(_) if how.by == Some(DeliveryMethod::Terminal) => Some((
            "in a terminal, the agent gets all of it in a file".into(),
            "remove `--terminal` or `--split`",
        )),
        Some(_) => None,
    };
    match obstacle {
        Some((why, hint)) if how.requires_split => {
            return Err(refused_error(format!("the prompt cannot be split: {why}")).hint(hint));
        }
        Some((why, _)) => return as_one(why),
        None => {}
    }
    let Some((shared, own)) = prompt.split_at_checked(wanted) else {
        return Err(refused_error(format!("the prompt cannot be split at byte {wanted}")));
    };
    if shared.trim().is_empty() {
        return as_one("it begins with the task, so no part of it is shared".into());
    }
    if own.trim().is_empty() {
        return as_one("all of it is shared".into());
    }
    if let Some((spec, false)) = agent.shared_argument() {
        let length = spec.prefix.len()
            + spec.suffix.len()
            + if spec.json { to_quoted(&Value::from(shared)).len() } else { shared.len() };
        if length > MAX_ARGUMENT_BYTES {
            let most = MAX_ARGUMENT_BYTES;
            return as_one(format!("an argument is limited to {most} bytes; the shared part needs {length}"));
        }
        if shared.contains('\0') && !spec.json {
            return as_one("the shared part contains a NUL character, so it cannot be an argument".into());
        }
    }
    Ok(Some(wanted))
}

/// Describes the parts of a prompt whose first `shared` bytes are in the agent's system prompt.
pub(super) fn describe_parts(
    agent: &Agent,
    prompt: &str,
    shared: usize,
    by: DeliveryMethod,
) -> Vec<DeliveredPart> {
    let Some((_, is_file)) = agent.shared_argument().filter(|_| shared > 0) else { return Vec::new() };
    let way = if is_file { DeliveryMethod::File } else { DeliveryMethod::Argument };
    [
        DeliveredPart { part: PromptPart::Shared, by: way, start: 0, end: shared },
        DeliveredPart { part: PromptPart::Own, by, start: shared, end: prompt.len() },
    ]
    .into()
}
