//! Phrases: words that no agent should have to guess the meaning of.

use alloc::format;
use alloc::vec::Vec;

use crate::check::LintProblems;
use crate::diag::{Code, Diagnostic};
use crate::source::SourceId;
use crate::text::SharedText;

const LIST: &str = include_str!("../../../../builtin/words/phrases.txt");

pub(super) fn check(id: &SourceId, text: &SharedText, problems: &mut LintProblems) {
    let phrases: Vec<&str> = LIST.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    for (at, first) in text.bytes().enumerate() {
        let first = first.to_ascii_lowercase();
        // Phrases are ASCII, so that each begins where a character does.
        for phrase in phrases.iter().filter(|phrase| phrase.as_bytes().first() == Some(&first)) {
            let Some(length) = matched(&text[at..], phrase) else { continue };
            let message = format!("`{phrase}` is a phrase that agents misread");
            let warning = Diagnostic::warning(Code::TextPhrase, message).at(id, text, at..at + length);
            problems.add(id, warning.hint("say plainly what is to be done"));
        }
    }
}

/// How much of `text` is the phrase: in letters of either case, with any gap for a blank.
fn matched(text: &str, phrase: &str) -> Option<usize> {
    let mut rest = text;
    for wanted in phrase.chars() {
        let after = match wanted {
            ' ' => rest.trim_start(),
            wanted => rest.strip_prefix(|found: char| found.to_ascii_lowercase() == wanted)?,
        };
        if after.len() == rest.len() {
            return None;
        }
        rest = after;
    }
    Some(text.len() - rest.len())
}
