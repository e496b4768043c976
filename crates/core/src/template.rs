//! Templates: text with holes.
//!
//! A template is parsed once into [`Node`]s that point into its source. Filling a hole copies the
//! value; **a value is never parsed again**, so nothing an agent wrote can open a second hole.
//!
//! This module knows nothing of sections, phases or files; see [`compose`](crate::compose).

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use memchr::{memchr, memchr_iter};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::diag::Diag;
use crate::front::{self, Front};
use crate::name::{is_name, is_name_byte};
use crate::source::SourceId;
use crate::text::Text;
use crate::unit::{self, Unit};

/// Which spelling of a hole is live; the other one is plain text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Notation {
    /// `{{name}}`, `{{> fragment}}`
    #[default]
    Braces,
    /// `[[placeholder:name]]`, `[[shared:fragment]]`, `[[include:path]]`, `[[include-optional:path]]`
    Brackets,
}

/// A byte range of a template's own text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub start: usize,
    pub end: usize,
}

impl Span {
    pub fn of(self, text: &str) -> &str {
        &text[self.start..self.end]
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    Text(Span),
    /// A value goes here; the span is the name's.
    Slot(Span),
    /// Another template goes here; the span is the name's.
    Fragment(Span),
    /// A session file goes here.
    Include(Box<Include>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Include {
    pub path: Vec<Node>,
    pub at: Span,
    pub optional: bool,
}

/// A parsed template.
#[derive(Clone, Debug)]
pub struct Template {
    pub id: SourceId,
    pub text: Text,
    pub front: Front,
    /// What is live in it, and in the fragments that it names.
    pub notation: Notation,
    pub nodes: Vec<Node>,
    /// The statements in it that have an id.
    pub(crate) units: Vec<Unit>,
}

impl Template {
    /// Parses `text`: frontmatter first, then the body without its outer blank lines.
    pub fn parse(id: SourceId, text: Text, notation: Notation) -> Result<Self, Diag> {
        let (front, body) = front::split(&id, &text)?;
        let nodes = match notation {
            Notation::Braces => parse_braces(&text, body),
            Notation::Brackets => parse_brackets(&text, body, Live::All),
        };
        let units = unit::units(&text, body);
        let nodes = if units.is_empty() { nodes } else { unit::without_marks(nodes, &units) };
        Ok(Self { id, text, front, notation, nodes, units })
    }

    /// Parses a project's extension: all of it is body, and only `[[placeholder:…]]` is live.
    pub fn parse_extension(id: SourceId, text: Text) -> Self {
        let body = Span { start: 0, end: text.len() };
        let nodes = parse_brackets(&text, body, Live::Placeholders);
        Self { id, text, front: Front::default(), notation: Notation::Brackets, nodes, units: Vec::new() }
    }

    /// Parses words that stand somewhere in a larger file, in braces. `None` where the file spells them
    /// otherwise, for example with escapes: then there are no bytes to point at.
    pub(crate) fn words(id: &SourceId, file: &Text, words: &str) -> Option<Self> {
        let nodes = parse_braces(file, written(file, words)?);
        Some(Self {
            id: id.clone(),
            text: file.clone(),
            front: Front::default(),
            notation: Notation::Braces,
            nodes,
            units: Vec::new(),
        })
    }

    /// What it says by itself, whatever goes into its holes.
    pub(crate) fn words_of_its_own(&self) -> String {
        let text = |node: &Node| match node {
            Node::Text(span) => Some(span.of(&self.text)),
            _ => None,
        };
        self.nodes.iter().filter_map(text).collect()
    }

    /// The names of all slots in order of appearance, those in include paths too.
    pub fn slots(&self) -> Vec<Span> {
        let mut slots = Vec::new();
        for node in &self.nodes {
            match node {
                Node::Slot(name) => slots.push(*name),
                Node::Include(include) => slots.extend(include.path.iter().filter_map(|node| match node {
                    Node::Slot(name) => Some(*name),
                    _ => None,
                })),
                Node::Text(_) | Node::Fragment(_) => {}
            }
        }
        slots
    }
}

/// The version that the header of a text gives.
pub fn version(id: &SourceId, text: &Text) -> Option<String> {
    front::split(id, text).ok()?.0.version
}

/// Where a TOML file holds `words` as a string without escapes; a comment that has them does not count.
pub(crate) fn written(file: &str, words: &str) -> Option<Span> {
    let find = |words: &str| {
        file.match_indices(words).map(|(at, _)| Span { start: at, end: at + words.len() }).find(|span| {
            let (before, after) = (&file[..span.start], &file[span.end..]);
            let line = before.rfind('\n').map_or(0, |at| at + 1);
            let quoted = ['"', '\''].into_iter().any(|quote| {
                // A line end after three quotes is not part of the string.
                let opened =
                    before.strip_suffix('\n').map(|before| before.strip_suffix('\r').unwrap_or(before));
                let long: String = core::iter::repeat_n(quote, 3).collect();
                let opens = before.ends_with(quote) || opened.is_some_and(|before| before.ends_with(&long));
                opens && after.starts_with(quote)
            });
            quoted && !before[line..].trim_start().starts_with('#')
        })
    };
    find(words).or_else(|| find(&words.replace('\n', "\r\n")))
}

/// Collects nodes; text between holes is emitted when the next hole, or the end, is known.
struct Nodes<'t> {
    text: &'t str,
    nodes: Vec<Node>,
    /// Where the text that is not yet emitted begins.
    pending: usize,
    has_crlf: bool,
}

impl<'t> Nodes<'t> {
    fn new(text: &'t str, body: Span) -> Self {
        let has_crlf = memchr(b'\r', body.of(text).as_bytes()).is_some();
        // Room for a hole in every other line, so that the list seldom has to move.
        let nodes = Vec::with_capacity((body.end - body.start) / 96 + 4);
        Self { text, nodes, pending: body.start, has_crlf }
    }

    /// Emits the pending text up to `end` and goes on at `next`.
    fn text_until(&mut self, end: usize, next: usize) {
        let mut start = self.pending;
        if self.has_crlf {
            // What we parse is normalised: the carriage return of a line end is stepped over, so
            // that every node still points at bytes of the file as it is.
            let (bytes, first) = (self.text.as_bytes(), start);
            for at in memchr_iter(b'\r', &bytes[first..end]).map(|at| at + first) {
                if bytes.get(at + 1) == Some(&b'\n') {
                    self.push_text(start, at);
                    start = at + 1;
                }
            }
        }
        self.push_text(start, end);
        self.pending = next;
    }

    fn push_text(&mut self, start: usize, end: usize) {
        if start < end {
            self.nodes.push(Node::Text(Span { start, end }));
        }
    }

    /// Handles the backslash before `open`, the position of a two-byte opener. True if there is one.
    fn escaped(&mut self, open: usize) -> bool {
        let escaped = open > self.pending && self.text.as_bytes()[open - 1] == b'\\';
        if escaped {
            self.text_until(open - 1, open);
        }
        escaped
    }

    fn finish(mut self, end: usize) -> Vec<Node> {
        self.text_until(end, end);
        self.nodes
    }
}

pub(crate) fn parse_braces(text: &str, body: Span) -> Vec<Node> {
    let bytes = &text.as_bytes()[..body.end];
    let mut nodes = Nodes::new(text, body);
    let mut at = body.start;
    while let Some(found) = memchr(b'{', &bytes[at..]) {
        let open = at + found;
        at = open + 1;
        if bytes.get(open + 1) != Some(&b'{') {
            continue;
        }
        if nodes.escaped(open) {
            at = open + 2;
        } else if let Some((node, end)) = brace_node(bytes, open + 2) {
            nodes.text_until(open, end);
            nodes.nodes.push(node);
            at = end;
        }
    }
    nodes.finish(body.end)
}

/// The slot or fragment whose inside begins at `at`, and where it ends.
fn brace_node(bytes: &[u8], mut at: usize) -> Option<(Node, usize)> {
    let skip_blanks = |mut at: usize| {
        while matches!(bytes.get(at), Some(b' ' | b'\t')) {
            at += 1;
        }
        at
    };
    at = skip_blanks(at);
    let fragment = bytes.get(at) == Some(&b'>');
    if fragment {
        at = skip_blanks(at + 1);
    }
    let start = at;
    if !bytes.get(start)?.is_ascii_alphanumeric() {
        return None;
    }
    at += bytes[start..].iter().position(|byte| !is_name_byte(*byte))?;
    let name = Span { start, end: at };
    at = skip_blanks(at);
    if !bytes[at..].starts_with(b"}}") {
        return None;
    }
    Some((if fragment { Node::Fragment(name) } else { Node::Slot(name) }, at + 2))
}

#[derive(Clone, Copy, PartialEq)]
enum Live {
    All,
    Placeholders,
}

fn parse_brackets(text: &str, body: Span, live: Live) -> Vec<Node> {
    let bytes = &text.as_bytes()[..body.end];
    let mut nodes = Nodes::new(text, body);
    let mut at = body.start;
    while let Some(found) = memchr(b'[', &bytes[at..]) {
        let open = at + found;
        at = open + 1;
        if bytes.get(open + 1) != Some(&b'[') {
            continue;
        }
        let node = bracket_node(&text[..body.end], open, live);
        // In an extension only what would be live can need an escape: the rest is the project's own text.
        let escapable = live == Live::All || node.is_some();
        if escapable && nodes.escaped(open) {
            at = open + 2;
        } else if let Some((node, end)) = node {
            nodes.text_until(open, end);
            nodes.nodes.push(node);
            at = end;
        }
    }
    nodes.finish(body.end)
}

/// The directive that opens at `open`, and where it ends.
fn bracket_node(text: &str, open: usize, live: Live) -> Option<(Node, usize)> {
    let inside = open + 2;
    if let Some((name, end)) = bracket_name(text, inside, "placeholder:") {
        return Some((Node::Slot(name), end));
    }
    if live == Live::Placeholders {
        return None;
    }
    if let Some((name, end)) = bracket_name(text, inside, "shared:") {
        return Some((Node::Fragment(name), end));
    }
    let rest = &text[inside..];
    let (keyword, optional) = if rest.starts_with("include:") {
        ("include:", false)
    } else if rest.starts_with("include-optional:") {
        ("include-optional:", true)
    } else {
        return None;
    };
    let (path, end) = include_path(text, inside + keyword.len())?;
    Some((Node::Include(Box::new(Include { path, at: Span { start: open, end }, optional })), end))
}

fn bracket_name(text: &str, at: usize, keyword: &str) -> Option<(Span, usize)> {
    let rest = text[at..].strip_prefix(keyword)?;
    let length = rest.bytes().take_while(|byte| is_name_byte(*byte)).count();
    let start = at + keyword.len();
    let name = Span { start, end: start + length };
    (is_name(name.of(text)) && rest[length..].starts_with("]]")).then_some((name, name.end + 2))
}

/// A path on one line, blanks around it dropped, placeholders inside it live.
fn include_path(text: &str, start: usize) -> Option<(Vec<Node>, usize)> {
    let mut path = Vec::new();
    let mut at = start + blanks(&text[start..]);
    let mut pending = at;
    loop {
        let rest = &text[at..];
        if rest.starts_with("]]") {
            let end = pending + text[pending..at].trim_end_matches([' ', '\t']).len();
            if pending < end {
                path.push(Node::Text(Span { start: pending, end }));
            }
            return (!path.is_empty()).then_some((path, at + 2));
        }
        if rest.starts_with("[[") {
            let (name, end) = bracket_name(text, at + 2, "placeholder:")?;
            if pending < at {
                path.push(Node::Text(Span { start: pending, end: at }));
            }
            path.push(Node::Slot(name));
            (at, pending) = (end, end);
            continue;
        }
        match rest.chars().next() {
            None | Some('\n' | '\r') => return None,
            Some(c) => at += c.len_utf8(),
        }
    }
}

fn blanks(text: &str) -> usize {
    text.len() - text.trim_start_matches([' ', '\t']).len()
}
