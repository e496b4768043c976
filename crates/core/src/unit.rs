//! Instruction units: statements of a template that have an id, so that two templates can be compared by them.
//!
//! `<!-- unit: no-code -->` at the end of a paragraph or list item names it. No agent sees the mark.

use alloc::vec::Vec;

use memchr::memchr_iter;

use crate::name::is_name;
use crate::template::{TemplateNode, TextRange};

const OPEN: &str = "<!-- unit:";
const CLOSE: &str = "-->";

/// A statement with an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Clause {
    pub(crate) id: TextRange,
    /// What it says, without bullet or number.
    pub(crate) words: TextRange,
    /// What is taken out: the mark and the blanks before it.
    mark: TextRange,
}

/// The units that stand in `body`, in order.
pub(crate) fn units(text: &str, body: TextRange) -> Vec<Clause> {
    let mut units: Vec<Clause> = Vec::new();
    // Most templates hold no `<` at all.
    for open in memchr_iter(b'<', body.of(text).as_bytes()).map(|at| body.start + at) {
        if !text[open..body.end].starts_with(OPEN) {
            continue;
        }
        let inside = open + OPEN.len();
        let Some(length) = text[inside..body.end].find(CLOSE) else { break };
        let id = text[inside..inside + length].trim();
        if !is_name(id) {
            continue;
        }
        let id_start = inside + text[inside..].find(id).unwrap_or(0);
        let end = text[body.start..open].trim_end_matches([' ', '\t']).len() + body.start;
        units.push(Clause {
            id: TextRange { start: id_start, end: id_start + id.len() },
            words: TextRange { start: begins(text, body.start, end), end },
            mark: TextRange { start: end, end: inside + length + CLOSE.len() },
        });
    }
    units
}

/// Where the paragraph or list item begins that ends at `end`.
fn begins(text: &str, from: usize, end: usize) -> usize {
    let mut start = end;
    for line in text[from..end].rsplit('\n') {
        let bare = line.trim();
        if bare.is_empty() && start < end || bare.starts_with('#') {
            break;
        }
        let line_start = line.as_ptr() as usize - text.as_ptr() as usize;
        let words = after_bullet(line.trim_start());
        start = line_start + (line.len() - words.map_or(line.trim_start(), |words| words).len());
        if words.is_some() {
            break;
        }
    }
    start
}

/// What follows `- ` or `2. `.
fn after_bullet(line: &str) -> Option<&str> {
    let digits = line.len() - line.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let rest = match digits {
        0 => line.strip_prefix(['-', '*', '+'])?,
        _ => line[digits..].strip_prefix('.')?,
    };
    (rest.is_empty() || rest.starts_with(' ')).then(|| rest.trim_start())
}

/// The nodes without the marks.
pub(crate) fn without_marks(nodes: Vec<TemplateNode>, units: &[Clause]) -> Vec<TemplateNode> {
    let mut kept = Vec::with_capacity(nodes.len() + units.len());
    for node in nodes {
        let TemplateNode::Text(mut span) = node else {
            kept.push(node);
            continue;
        };
        let (start, end) = (span.start, span.end);
        for Clause { mark, .. } in units.iter().filter(|unit| unit.mark.end > start && unit.mark.start < end)
        {
            if span.start < mark.start {
                kept.push(TemplateNode::Text(TextRange { start: span.start, end: mark.start }));
            }
            span.start = mark.end;
        }
        if span.start < span.end {
            kept.push(TemplateNode::Text(span));
        }
    }
    kept
}
