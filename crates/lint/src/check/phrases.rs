//! Phrases whose meaning an agent would have to guess.

use alloc::format;
use alloc::vec::Vec;

use crate::check::LintProblems;
use callsheet_core::diag::{Code, Diagnostic};
use callsheet_core::source::SourceId;
use callsheet_core::text::SharedText;

const LIST: &str = include_str!("phrases.txt");

pub(super) fn check(id: &SourceId, text: &SharedText, problems: &mut LintProblems) {
    let phrases: Vec<&str> = LIST.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    for (at, first) in text.bytes().enumerate() {
        let first = first.to_ascii_lowercase();
        // Phrases are ASCII, so each begins at a character boundary.
        for phrase in phrases.iter().filter(|phrase| phrase.as_bytes().first() == Some(&first)) {
            let Some(length) = match_phrase(&text[at..], phrase) else { continue };
            let message = format!("`{phrase}` is a phrase that agents misread");
            let warning = Diagnostic::warning(Code::TextPhrase, message).at(id, text, at..at + length);
            problems.add(id, warning.hint("name the actor and the action"));
        }
    }
}

/// Returns the length of the phrase at the start of `text`. Ignores the case of letters; a space matches any
/// whitespace.
fn match_phrase(text: &str, phrase: &str) -> Option<usize> {
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
