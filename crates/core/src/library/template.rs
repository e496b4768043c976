//! Templates: text with holes for values, fragments and files.
//!
//! A template is parsed once into [`TemplateNode`]s that point into its source. Filling a hole copies the
//! value; **a value is never parsed again**, so nothing an agent wrote can open a second hole.
//!
//! This module knows nothing of sections, phases or files; see [`compose`](mod@crate::compose).

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use memchr::{memchr, memchr_iter};
use serde::{Deserialize, Serialize};

use crate::diag::Diagnostic;
use crate::library::clause::{self, Clause};
use crate::library::frontmatter::{self, TemplateFrontmatter};
use crate::source::SourceId;
use crate::text::SharedText;
use crate::text::name::{is_name, is_name_byte};

/// Which spelling of a hole is live; the other one is plain text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum TemplateNotation {
    /// `{{name}}`, `{{> fragment}}`
    #[default]
    Braces,
    /// `[[placeholder:name]]`, `[[shared:fragment]]`, `[[include:path]]`, `[[include-optional:path]]`
    Brackets,
}

/// A byte range of a template's own text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextRange {
    /// The first byte.
    pub start: usize,
    /// The byte after the last.
    pub end: usize,
}

impl TextRange {
    /// Returns this range of `text`.
    pub fn slice(self, text: &str) -> &str {
        &text[self.start..self.end]
    }
}

/// A part of a parsed template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TemplateNode {
    /// Literal text.
    Text(TextRange),
    /// A slot, filled by a value; the range is its name.
    Slot(TextRange),
    /// Another template; the range is its name.
    Fragment(TextRange),
    /// A file of the session.
    Include(Box<IncludeNode>),
}

/// An include of a file of the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IncludeNode {
    /// The path: literal text and slots.
    pub path: Vec<TemplateNode>,
    /// The range of the whole directive.
    pub at: TextRange,
    /// Whether the file may be absent.
    pub optional: bool,
}

/// A parsed template.
#[derive(Clone, Debug)]
pub struct Template {
    /// The id of the file.
    pub id: SourceId,
    /// The text of the file.
    pub text: SharedText,
    /// The header.
    pub front: TemplateFrontmatter,
    /// The notation that is live in it and in the fragments that it names.
    pub notation: TemplateNotation,
    /// The parsed body, without the marks of its clauses.
    pub nodes: Vec<TemplateNode>,
    /// Its statements with an id.
    pub clauses: Vec<Clause>,
}

impl Template {
    /// Parses `text`: frontmatter first, then the body without its outer blank lines.
    pub fn parse(id: SourceId, text: SharedText, notation: TemplateNotation) -> Result<Self, Diagnostic> {
        let (front, body) = frontmatter::split_frontmatter(&id, &text)?;
        let nodes = match notation {
            TemplateNotation::Braces => parse_braces(&text, body),
            TemplateNotation::Brackets => parse_brackets(&text, body, LiveDirectives::All),
        };
        let clauses = clause::find_clauses(&text, body);
        let nodes = if clauses.is_empty() { nodes } else { clause::remove_marks(nodes, &clauses) };
        Ok(Self { id, text, front, notation, nodes, clauses })
    }

    /// Parses a project's extension: all of it is body, and only `[[placeholder:…]]` is live.
    pub fn parse_extension(id: SourceId, text: SharedText) -> Self {
        let body = TextRange { start: 0, end: text.len() };
        let nodes = parse_brackets(&text, body, LiveDirectives::Placeholders);
        Self::from_nodes(id, text, TemplateNotation::Brackets, nodes)
    }

    /// Creates a template without a header and clauses.
    fn from_nodes(
        id: SourceId,
        text: SharedText,
        notation: TemplateNotation,
        nodes: Vec<TemplateNode>,
    ) -> Self {
        Self { id, text, front: TemplateFrontmatter::default(), notation, nodes, clauses: Vec::new() }
    }

    /// Parses words of a larger file, in the notation with braces. `None` if the file spells them
    /// differently, for example with escapes: then there are no bytes to point at.
    pub(crate) fn parse_words(id: &SourceId, file: &SharedText, words: &str) -> Option<Self> {
        let nodes = parse_braces(file, find_literal(file, words)?);
        Some(Self::from_nodes(id.clone(), file.clone(), TemplateNotation::Braces, nodes))
    }

    /// Returns its literal text, without the contents of its holes.
    pub fn literal_text(&self) -> String {
        let text = |node: &TemplateNode| match node {
            TemplateNode::Text(span) => Some(span.slice(&self.text)),
            _ => None,
        };
        self.nodes.iter().filter_map(text).collect()
    }

    /// Returns the names of all slots in order of appearance, including those in include paths.
    pub fn slots(&self) -> Vec<TextRange> {
        let mut slots = Vec::new();
        for node in &self.nodes {
            match node {
                TemplateNode::Slot(name) => slots.push(*name),
                TemplateNode::Include(include) => {
                    slots.extend(include.path.iter().filter_map(|node| match node {
                        TemplateNode::Slot(name) => Some(*name),
                        _ => None,
                    }))
                }
                TemplateNode::Text(_) | TemplateNode::Fragment(_) => {}
            }
        }
        slots
    }
}

/// Returns the version in the header of a text.
pub fn read_version(id: &SourceId, text: &SharedText) -> Option<String> {
    frontmatter::split_frontmatter(id, text).ok()?.0.version
}

/// Finds `words` in a TOML file as a string without escapes; a comment that contains them does not count.
pub(crate) fn find_literal(file: &str, words: &str) -> Option<TextRange> {
    let find = |words: &str| {
        file.match_indices(words).map(|(at, _)| TextRange { start: at, end: at + words.len() }).find(|span| {
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

/// A collector of nodes. It emits the text between holes when the next hole, or the end, is known.
struct NodeCollector<'t> {
    text: &'t str,
    nodes: Vec<TemplateNode>,
    /// The start of the text that is not emitted yet.
    pending: usize,
    has_crlf: bool,
}

impl<'t> NodeCollector<'t> {
    fn new(text: &'t str, body: TextRange) -> Self {
        let has_crlf = memchr(b'\r', body.slice(text).as_bytes()).is_some();
        // Capacity for a hole in every other line, so that the list seldom grows.
        let nodes = Vec::with_capacity((body.end - body.start) / 96 + 4);
        Self { text, nodes, pending: body.start, has_crlf }
    }

    /// Emits the pending text up to `end` and continues at `next`.
    fn push_text_until(&mut self, end: usize, next: usize) {
        let mut start = self.pending;
        if self.has_crlf {
            // Line ends are normalised by skipping the carriage return, so that every node still points at
            // bytes of the file as it is.
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
            self.nodes.push(TemplateNode::Text(TextRange { start, end }));
        }
    }

    /// Drops the backslash before `open`, the position of a two-byte opener. Returns whether there is one.
    fn skip_escape(&mut self, open: usize) -> bool {
        let escaped = open > self.pending && self.text.as_bytes()[open - 1] == b'\\';
        if escaped {
            self.push_text_until(open - 1, open);
        }
        escaped
    }

    fn finish(mut self, end: usize) -> Vec<TemplateNode> {
        self.push_text_until(end, end);
        self.nodes
    }
}

/// Parses the range `body` of `text` in the notation with braces.
pub fn parse_braces(text: &str, body: TextRange) -> Vec<TemplateNode> {
    let bytes = &text.as_bytes()[..body.end];
    let mut nodes = NodeCollector::new(text, body);
    let mut at = body.start;
    while let Some(found) = memchr(b'{', &bytes[at..]) {
        let open = at + found;
        at = open + 1;
        if bytes.get(open + 1) != Some(&b'{') {
            continue;
        }
        if nodes.skip_escape(open) {
            at = open + 2;
        } else if let Some((node, end)) = parse_brace_node(bytes, open + 2) {
            nodes.push_text_until(open, end);
            nodes.nodes.push(node);
            at = end;
        }
    }
    nodes.finish(body.end)
}

/// Parses the slot or fragment whose inside begins at `at`. Returns it with its end.
fn parse_brace_node(bytes: &[u8], mut at: usize) -> Option<(TemplateNode, usize)> {
    let skip_whitespace = |mut at: usize| {
        while matches!(bytes.get(at), Some(b' ' | b'\t')) {
            at += 1;
        }
        at
    };
    at = skip_whitespace(at);
    let fragment = bytes.get(at) == Some(&b'>');
    if fragment {
        at = skip_whitespace(at + 1);
    }
    let start = at;
    if !bytes.get(start)?.is_ascii_alphanumeric() {
        return None;
    }
    at += bytes[start..].iter().position(|byte| !is_name_byte(*byte))?;
    let name = TextRange { start, end: at };
    at = skip_whitespace(at);
    if !bytes[at..].starts_with(b"}}") {
        return None;
    }
    Some((if fragment { TemplateNode::Fragment(name) } else { TemplateNode::Slot(name) }, at + 2))
}

#[derive(Clone, Copy, PartialEq)]
enum LiveDirectives {
    All,
    Placeholders,
}

fn parse_brackets(text: &str, body: TextRange, live: LiveDirectives) -> Vec<TemplateNode> {
    let bytes = &text.as_bytes()[..body.end];
    let mut nodes = NodeCollector::new(text, body);
    let mut at = body.start;
    while let Some(found) = memchr(b'[', &bytes[at..]) {
        let open = at + found;
        at = open + 1;
        if bytes.get(open + 1) != Some(&b'[') {
            continue;
        }
        let node = parse_bracket_node(&text[..body.end], open, live);
        // In an extension only a live directive can need an escape: the rest is the project's own text.
        let escapable = live == LiveDirectives::All || node.is_some();
        if escapable && nodes.skip_escape(open) {
            at = open + 2;
        } else if let Some((node, end)) = node {
            nodes.push_text_until(open, end);
            nodes.nodes.push(node);
            at = end;
        }
    }
    nodes.finish(body.end)
}

/// Parses the directive that opens at `open`. Returns it with its end.
fn parse_bracket_node(text: &str, open: usize, live: LiveDirectives) -> Option<(TemplateNode, usize)> {
    let inside = open + 2;
    if let Some((name, end)) = parse_bracket_name(text, inside, "placeholder:") {
        return Some((TemplateNode::Slot(name), end));
    }
    if live == LiveDirectives::Placeholders {
        return None;
    }
    if let Some((name, end)) = parse_bracket_name(text, inside, "shared:") {
        return Some((TemplateNode::Fragment(name), end));
    }
    let rest = &text[inside..];
    let (keyword, optional) = if rest.starts_with("include:") {
        ("include:", false)
    } else if rest.starts_with("include-optional:") {
        ("include-optional:", true)
    } else {
        return None;
    };
    let (path, end) = parse_include_path(text, inside + keyword.len())?;
    Some((
        TemplateNode::Include(Box::new(IncludeNode { path, at: TextRange { start: open, end }, optional })),
        end,
    ))
}

fn parse_bracket_name(text: &str, at: usize, keyword: &str) -> Option<(TextRange, usize)> {
    let rest = text[at..].strip_prefix(keyword)?;
    let length = rest.bytes().take_while(|byte| is_name_byte(*byte)).count();
    let start = at + keyword.len();
    let name = TextRange { start, end: start + length };
    (is_name(name.slice(text)) && rest[length..].starts_with("]]")).then_some((name, name.end + 2))
}

/// Parses a path on one line. Whitespace around it is dropped, and placeholders inside it are live.
fn parse_include_path(text: &str, start: usize) -> Option<(Vec<TemplateNode>, usize)> {
    let mut path = Vec::new();
    let mut at = start + leading_whitespace(&text[start..]);
    let mut pending = at;
    loop {
        let rest = &text[at..];
        if rest.starts_with("]]") {
            let end = pending + text[pending..at].trim_end_matches([' ', '\t']).len();
            if pending < end {
                path.push(TemplateNode::Text(TextRange { start: pending, end }));
            }
            return (!path.is_empty()).then_some((path, at + 2));
        }
        if rest.starts_with("[[") {
            let (name, end) = parse_bracket_name(text, at + 2, "placeholder:")?;
            if pending < at {
                path.push(TemplateNode::Text(TextRange { start: pending, end: at }));
            }
            path.push(TemplateNode::Slot(name));
            (at, pending) = (end, end);
            continue;
        }
        match rest.chars().next() {
            None | Some('\n' | '\r') => return None,
            Some(c) => at += c.len_utf8(),
        }
    }
}

fn leading_whitespace(text: &str) -> usize {
    text.len() - text.trim_start_matches([' ', '\t']).len()
}
