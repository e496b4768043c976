//! Warnings about a request: paid twice, cut, changed, too long, repeated.

use std::collections::HashMap;
use std::ops::Range;

use callsheet_core::diag::{Code, Diagnostic, escape_invisible};
use callsheet_core::library::agent::{Agent, ContextKind};
use callsheet_core::source::SourceRoot;
use callsheet_core::source::origin::OriginKind;

use super::attribute::{AttributedRequest, FoundPart, InstructionFile};
use super::prompt_arrival::PromptArrival;
use super::report::list_loaded;
use crate::compose::Composition;
use crate::compose::tokens::TokenCounter;

/// Everything that warnings are derived from.
pub(super) struct WarningInputs<'a> {
    /// The name of the agent's file.
    pub name: &'a str,
    pub agent: &'a Agent,
    pub version: Option<&'a str>,
    pub attributed: &'a AttributedRequest,
    pub files: &'a [InstructionFile],
    pub composition: &'a Composition,
    pub tokens: usize,
    pub counter: &'a TokenCounter,
}

pub(super) fn find_warnings(inputs: &WarningInputs<'_>) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    found.extend(
        inputs.attributed.arrivals.iter().filter_map(|arrival| arrival_warning(inputs.agent, arrival)),
    );
    let twice = find_paid_twice(inputs);
    found.extend(twice.iter().map(|path| {
        let name = &inputs.agent.name;
        let message =
            format!("{name} loads `{path}` by itself, and the prompt carries it too: it is paid twice");
        let version = inputs.version.unwrap_or("VERSION");
        Diagnostic::warning(Code::ContextPaidTwice, message).hint(format!(
            "compose for the installed version: `-a {}@{}`",
            inputs.name,
            first_number(version)
        ))
    }));
    found.extend(list_loaded(inputs.attributed, inputs.files).into_iter().filter_map(|(file, bytes)| {
        let whole = file.text.trim().len();
        (bytes + LEAST_CUT <= whole).then(|| {
            let name = &inputs.agent.name;
            let message = format!("{name} sends {bytes} of the {whole} bytes of `{}`", file.path);
            Diagnostic::warning(Code::ContextCut, message)
                .hint("shorten the file, or move a part of it into the prompt")
        })
    }));
    found.extend(inputs.counter.window_warning(inputs.tokens));
    found.extend(find_repeated(&inputs.attributed.parts).into_iter().filter_map(|repeated| {
        let is_known = twice.contains(&repeated.name);
        (!is_known).then(|| {
            let message = format!(
                "{} bytes stand both in the prompt and in `{}`: {}",
                repeated.bytes, repeated.name, repeated.excerpt
            );
            Diagnostic::warning(Code::ContextRepeated, message).hint("remove one of them")
        })
    }));
    found
}

/// Returns the first word of a version that begins with a digit.
fn first_number(version: &str) -> &str {
    version.split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit())).unwrap_or(version)
}

/// Returns a warning if the prompt did not arrive byte for byte.
fn arrival_warning(agent: &Agent, arrival: &PromptArrival) -> Option<Diagnostic> {
    let name = &agent.name;
    let mut differences = Vec::new();
    let shown = |text: &str| {
        let start: String = text.chars().take(60).collect();
        escape_invisible(&start).replace('\n', " ").trim().to_owned()
    };
    if !arrival.before.is_empty() {
        differences.push(format!("{} bytes before it (`{}`)", arrival.before.len(), shown(&arrival.before)));
    }
    if !arrival.after.is_empty() {
        differences.push(format!("{} bytes after it (`{}`)", arrival.after.len(), shown(&arrival.after)));
    }
    if arrival.missing_start > 0 {
        differences.push(format!("{} bytes of whitespace missing at its start", arrival.missing_start));
    }
    if arrival.missing_end > 0 {
        differences.push(format!("{} bytes of whitespace missing at its end", arrival.missing_end));
    }
    if arrival.is_missing {
        differences.push("it is not in the request".to_owned());
    } else if arrival.is_changed {
        differences.push("some of its lines are changed or missing".to_owned());
    }
    if differences.is_empty() {
        return None;
    }
    let message =
        format!("the prompt did not arrive byte for byte at the model of {name}: {}", differences.join(", "));
    Some(Diagnostic::warning(Code::ContextPrompt, message))
}

/// Returns the instruction files that the CLI loads and that are in the prompt too.
fn find_paid_twice(inputs: &WarningInputs<'_>) -> Vec<String> {
    let carried: Vec<String> = inputs
        .composition
        .rendered
        .spans
        .iter()
        .filter_map(|span| inputs.composition.composed.prompt.origins.get(span.piece?.origin))
        .filter_map(|origin| match &origin.from {
            OriginKind::Source(id) if id.root() == SourceRoot::Project => Some(id.path().to_owned()),
            OriginKind::Document(name) => Some(name.to_string()),
            _ => None,
        })
        .collect();
    let prompt = inputs.composition.text();
    let is_carried = |file: &InstructionFile| {
        let text = file.text.trim();
        carried.contains(&file.path) || !text.is_empty() && prompt.contains(text)
    };
    let loaded = list_loaded(inputs.attributed, inputs.files).into_iter();
    loaded.filter(|(file, _)| is_carried(file)).map(|(file, _)| file.path.clone()).collect()
}

/// The least number of missing bytes of a file that is cut. A CLI that puts an imported file into a line leaves shorter pieces.
const LEAST_CUT: usize = 64;

/// The least number of bytes of a repeated text.
const LEAST_REPEATED: usize = 200;

/// The number of bytes of a block by which repetitions are found: each repeated text contains one whole block.
const BLOCK: usize = LEAST_REPEATED / 2;

/// The most bytes of all texts that are compared.
const MOST_COMPARED: usize = 16 << 20;

/// A text of the prompt that the CLI sends too.
struct RepeatedText {
    name: String,
    bytes: usize,
    excerpt: String,
}

/// Returns the longest text of each part of the CLI that stands in the prompt too.
fn find_repeated(parts: &[FoundPart]) -> Vec<RepeatedText> {
    let prompt: Vec<&FoundPart> = parts.iter().filter(|part| part.kind == ContextKind::Prompt).collect();
    let total: usize = parts.iter().map(|part| part.text.len()).sum();
    if total > MOST_COMPARED {
        return Vec::new();
    }
    let mut blocks: HashMap<&[u8], (&str, usize)> = HashMap::new();
    for part in &prompt {
        for (number, block) in part.text.as_bytes().chunks_exact(BLOCK).enumerate() {
            blocks.entry(block).or_insert((&part.text, number * BLOCK));
        }
    }
    let others = parts.iter().filter(|part| part.kind != ContextKind::Prompt && part.piece.is_some());
    others.filter_map(|part| longest_repeated(part, &blocks)).collect()
}

fn longest_repeated(part: &FoundPart, blocks: &HashMap<&[u8], (&str, usize)>) -> Option<RepeatedText> {
    let text = part.text.as_bytes();
    let mut best: Option<Range<usize>> = None;
    let mut at = 0;
    while at + BLOCK <= text.len() {
        let Some((prompt, start)) = blocks.get(&text[at..at + BLOCK]) else {
            at += 1;
            continue;
        };
        let prompt = prompt.as_bytes();
        let back =
            text[..at].iter().rev().zip(prompt[..*start].iter().rev()).take_while(|(a, b)| a == b).count();
        let ahead = text[at..].iter().zip(&prompt[*start..]).take_while(|(a, b)| a == b).count();
        let range = at - back..at + ahead;
        if range.len() >= LEAST_REPEATED && best.as_ref().is_none_or(|best| best.len() < range.len()) {
            best = Some(range);
        }
        at += ahead.max(1);
    }
    let range = best?;
    let start = part.text.ceil_char_boundary(range.start);
    let excerpt: String = part.text[start..].chars().take(60).collect();
    let excerpt = format!("`{}…`", escape_invisible(excerpt.trim()).replace('\n', " "));
    Some(RepeatedText { name: part.name.clone(), bytes: range.len(), excerpt })
}

#[cfg(test)]
mod tests {
    use callsheet_core::record::sha256;

    use super::*;

    fn part(kind: ContextKind, name: &str, text: &str) -> FoundPart {
        FoundPart {
            kind,
            name: name.into(),
            server: None,
            ranges: Vec::new(),
            text: text.into(),
            prompt: None,
            piece: Some(0),
        }
    }

    #[test]
    fn repeated_text_has_200_bytes() {
        let line = |seed: u64, length: usize| -> String {
            let digests = (seed..).flat_map(|number| sha256(&[&number.to_le_bytes()]).0);
            digests.map(|byte| char::from(b'a' + byte % 26)).take(length).collect()
        };
        for (length, is_found) in [(199, false), (200, true), (450, true)] {
            let shared = line(5_000, length);
            for offset in [0, 1, 57, 99] {
                let prompt = format!("{}{shared}|", line(3_000, offset));
                let other = format!("{}#{shared}", line(11_000, 30));
                let parts = [
                    part(ContextKind::Prompt, "prompt", &prompt),
                    part(ContextKind::System, "system text", &other),
                ];
                let found = find_repeated(&parts);
                let bytes: Vec<usize> = found.iter().map(|found| found.bytes).collect();
                assert_eq!(bytes, if is_found { vec![length] } else { vec![] }, "{length} at {offset}");
            }
        }
    }
}
