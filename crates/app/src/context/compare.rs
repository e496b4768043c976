//! Compares two requests by part.

use callsheet_core::library::agent::ContextKind;
use similar::{ChangeTag, TextDiff};

use crate::output::{
    ContextDiffOutput, ContextOutput, ContextPartOutput, ContextSideOutput, PartChangeOutput, PartLineOutput,
};

/// The most changed lines of a part.
const MOST_LINES: usize = 200;

/// The longest text whose lines are compared.
const MOST_TEXT: usize = 1 << 20;

/// Compares two requests: parts of the same kind, server and name are the same part, in their order. Ids of requests and sessions
/// are no difference.
pub fn compare_contexts(before: &ContextOutput, after: &ContextOutput) -> ContextDiffOutput {
    let mut left: Vec<&ContextPartOutput> = before.parts.iter().collect();
    let mut parts = Vec::new();
    let mut equal_count = 0;
    for part in &after.parts {
        let is_same = |other: &&ContextPartOutput| {
            (other.kind, &other.name, &other.server) == (part.kind, &part.name, &part.server)
        };
        // One with the same text goes before others with the same name.
        let has_same_text = |other: &ContextPartOutput| {
            other.sha256 == part.sha256 || part.kind == ContextKind::Other && differ_in_ids(other, part)
        };
        let equal = left.iter().position(|other| is_same(other) && has_same_text(other));
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

/// The least number of characters of an id.
const LEAST_ID: usize = 32;

/// Returns whether two texts differ only in ids, which are new in every request.
fn differ_in_ids(one: &ContextPartOutput, other: &ContextPartOutput) -> bool {
    let texts = one.text.as_deref().zip(other.text.as_deref());
    texts.is_some_and(|(one, other)| without_ids(one) == without_ids(other))
}

/// Returns a text without its ids: long runs of hexadecimal digits and dashes.
fn without_ids(text: &str) -> String {
    let is_digit = |c: char| matches!(c, '0'..='9' | 'a'..='f' | '-');
    let mut left = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(is_digit) {
        let end = rest[start..].find(|c| !is_digit(c)).map_or(rest.len(), |length| start + length);
        left.push_str(&rest[..if end - start >= LEAST_ID { start } else { end }]);
        rest = &rest[end..];
    }
    left + rest
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
        kind: shown.map_or(ContextKind::Other, |part| part.kind),
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

#[cfg(test)]
mod tests {
    use super::without_ids;

    #[test]
    fn ids_are_left_out() {
        let text = "{\"id\":\"at_01a1ef4a-b05a-74e0-aa83-75ff390d0795\",\"n\":128000,\"face\":\"dead-beef\"}";
        assert_eq!(without_ids(text), "{\"id\":\"at_\",\"n\":128000,\"face\":\"dead-beef\"}");
    }
}
