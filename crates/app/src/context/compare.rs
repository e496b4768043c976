//! Compares two requests by part.

use similar::{ChangeTag, TextDiff};

use crate::output::{
    ContextDiffOutput, ContextOutput, ContextPartOutput, ContextSideOutput, PartChangeOutput, PartLineOutput,
};

/// The most changed lines of a part.
const MOST_LINES: usize = 200;

/// The longest text whose lines are compared.
const MOST_TEXT: usize = 1 << 20;

/// Compares two requests: parts of the same kind, server and name are the same part, in their order.
pub fn compare_contexts(before: &ContextOutput, after: &ContextOutput) -> ContextDiffOutput {
    let mut left: Vec<&ContextPartOutput> = before.parts.iter().collect();
    let mut parts = Vec::new();
    let mut equal_count = 0;
    for part in &after.parts {
        let is_same = |other: &&ContextPartOutput| {
            (other.kind, &other.name, &other.server) == (part.kind, &part.name, &part.server)
        };
        // One with the same text goes before others with the same name.
        let equal = left.iter().position(|other| is_same(other) && other.sha256 == part.sha256);
        match equal.or_else(|| left.iter().position(is_same)) {
            Some(at) => {
                let other = left.remove(at);
                if equal.is_some() {
                    equal_count += 1;
                } else {
                    parts.push(describe_change(Some(other), Some(part)));
                }
            }
            None => parts.push(describe_change(None, Some(part))),
        }
    }
    parts.extend(left.into_iter().map(|part| describe_change(Some(part), None)));
    ContextDiffOutput { before: describe_side(before), after: describe_side(after), parts, equal_count }
}

fn describe_side(context: &ContextOutput) -> ContextSideOutput {
    ContextSideOutput {
        agent: context.agent.clone(),
        version: context.version.clone(),
        model: context.model.clone(),
        bytes: context.bytes,
        tokens: context.tokens,
    }
}

fn describe_change(
    before: Option<&ContextPartOutput>,
    after: Option<&ContextPartOutput>,
) -> PartChangeOutput {
    let [old, new] = [before, after].map(|part| part.and_then(|part| part.text.as_deref()));
    let lines = old.zip(new).map(|(old, new)| diff_lines(old, new)).unwrap_or_default();
    let shown = after.or(before);
    PartChangeOutput {
        kind: shown.map_or(callsheet_core::library::agent::ContextKind::Other, |part| part.kind),
        name: shown.map(|part| part.name.clone()).unwrap_or_default(),
        server: shown.and_then(|part| part.server.clone()),
        bytes_before: before.map(|part| part.bytes),
        bytes_after: after.map(|part| part.bytes),
        tokens_before: before.map(|part| part.tokens),
        tokens_after: after.map(|part| part.tokens),
        lines,
    }
}

fn diff_lines(old: &str, new: &str) -> Vec<PartLineOutput> {
    if old.len().max(new.len()) > MOST_TEXT {
        return Vec::new();
    }
    let diff = TextDiff::from_lines(old, new);
    let changes = diff.iter_all_changes().filter(|change| change.tag() != ChangeTag::Equal);
    let line = |change: similar::Change<&str>| PartLineOutput {
        is_added: change.tag() == ChangeTag::Insert,
        line: change.value().trim_end_matches('\n').to_owned(),
    };
    changes.map(line).take(MOST_LINES).collect()
}
