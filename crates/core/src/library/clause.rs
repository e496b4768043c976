//! Instruction clauses: statements of a template with an id, by which two templates can be compared.
//!
//! `<!-- unit: no-code -->` at the end of a paragraph or list item gives it the id. No agent sees the mark.

use alloc::vec::Vec;

use memchr::memchr_iter;

use crate::library::template::{TemplateNode, TextRange};
use crate::text::name::is_name;

const OPEN: &str = "<!-- unit:";
const CLOSE: &str = "-->";

/// A statement with an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clause {
    /// The id.
    pub id: TextRange,
    /// The statement, without bullet or number.
    pub words: TextRange,
    /// The removed range: the mark and the whitespace before it.
    mark: TextRange,
}

/// Finds the clauses of `body`, in order.
pub(crate) fn find_clauses(text: &str, body: TextRange) -> Vec<Clause> {
    let mut clauses: Vec<Clause> = Vec::new();
    // Most templates contain no `<` at all.
    for open in memchr_iter(b'<', body.slice(text).as_bytes()).map(|at| body.start + at) {
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
        clauses.push(Clause {
            id: TextRange { start: id_start, end: id_start + id.len() },
            words: TextRange { start: find_statement_start(text, body.start, end), end },
            mark: TextRange { start: end, end: inside + length + CLOSE.len() },
        });
    }
    clauses
}

/// Finds the start of the paragraph or list item that ends at `end`.
fn find_statement_start(text: &str, from: usize, end: usize) -> usize {
    let mut start = end;
    for line in text[from..end].rsplit('\n') {
        let bare = line.trim();
        if bare.is_empty() && start < end || bare.starts_with('#') {
            break;
        }
        let line_start = line.as_ptr() as usize - text.as_ptr() as usize;
        let words = strip_bullet(line.trim_start());
        start = line_start + (line.len() - words.map_or(line.trim_start(), |words| words).len());
        if words.is_some() {
            break;
        }
    }
    start
}

/// Returns the text after `- ` or `2. `; `None` if the line has no bullet.
fn strip_bullet(line: &str) -> Option<&str> {
    let digits = line.len() - line.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let rest = match digits {
        0 => line.strip_prefix(['-', '*', '+'])?,
        _ => line[digits..].strip_prefix('.')?,
    };
    (rest.is_empty() || rest.starts_with(' ')).then(|| rest.trim_start())
}

/// Removes the marks from the nodes.
pub(crate) fn remove_marks(nodes: Vec<TemplateNode>, clauses: &[Clause]) -> Vec<TemplateNode> {
    let mut kept = Vec::with_capacity(nodes.len() + clauses.len());
    for node in nodes {
        let TemplateNode::Text(mut span) = node else {
            kept.push(node);
            continue;
        };
        let (start, end) = (span.start, span.end);
        for Clause { mark, .. } in
            clauses.iter().filter(|clause| clause.mark.end > start && clause.mark.start < end)
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
