//! Markdown: sections one after the other, and tags only where a text would pass for structure.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ops::Range;

use memchr::{memchr, memchr2, memrchr2};

use super::{Item, Writer, encode, run};
use crate::diag::{Code, Diag};
use crate::prompt::{Block, Piece, Prompt};
use crate::recipe::Separator;
use crate::request::DocumentKind;

pub(super) fn write(prompt: &Prompt, writer: &mut Writer<'_>) {
    let structure = Structure::of(prompt);
    items(&run(prompt, prompt.sections.iter()), &structure, writer);
}

/// Writes items as Markdown, for other formats that carry Markdown inside.
pub(super) fn items(items: &[Item<'_>], structure: &Structure<'_>, writer: &mut Writer<'_>) {
    for item in items {
        match item {
            Item::Engine(text) => writer.engine(text),
            Item::Piece(piece) => writer.plain(*piece),
            Item::Block(block) => write_block(block, structure, writer),
        }
    }
}

fn write_block(block: &Block, structure: &Structure<'_>, writer: &mut Writer<'_>) {
    if let Some((kind, name)) = block.document {
        document(block, kind, name, writer);
        return;
    }
    let assembled;
    let whole = match block.pieces.as_slice() {
        [one] => one.text(writer.origins),
        _ => {
            assembled = block.text(writer.origins);
            &assembled
        }
    };
    let mut next = 0;
    let mut at = 0;
    let mut fence_end = None;
    for supplied in &block.supplied {
        for piece in &block.pieces[next..supplied.pieces.start] {
            writer.plain(*piece);
            at += piece.end - piece.start;
        }
        next = supplied.pieces.end;
        let pieces = &block.pieces[supplied.pieces.clone()];
        let start = at;
        at += pieces.iter().map(|piece| piece.end - piece.start).sum::<usize>();
        let text = &whole[start..at];
        let Some(line) = (Search { whole, supplied: start..at, fence_end }).structure(structure) else {
            pieces.iter().for_each(|piece| writer.plain(*piece));
            continue;
        };
        fence_end = Some(at);
        let tag = free_tag(text, &supplied.name);
        let message = format!(
            "the text of `{}` stands between <{tag}> tags: it contains `{}`, which this format uses itself",
            supplied.name,
            &whole[line.clone()],
        );
        let line = line.start.max(start) - start..line.end.min(at) - start;
        let origin = &writer.origins[pieces[0].origin as usize];
        let warning = Diag::warning(Code::TextFenced, message);
        let warning = match pieces {
            [one] => warning.at(origin.label(), &origin.text, one.start + line.start..one.start + line.end),
            _ => warning,
        };
        writer.talk.push(warning);
        let after = block.pieces.get(next).map_or("\n", |piece| piece.text(writer.origins));
        fence(writer, &tag, pieces, text.ends_with('\n'), after.starts_with(['\n', '\r']));
    }
    for piece in &block.pieces[next..] {
        writer.plain(*piece);
    }
}

/// Tags on lines of their own where the text has its lines to itself, else around it in its line.
fn fence(writer: &mut Writer<'_>, tag: &str, pieces: &[Piece], ends_line: bool, before_line_end: bool) {
    let own_lines = before_line_end && (writer.text.is_empty() || writer.text.ends_with('\n'));
    let line_end = if own_lines { "\n" } else { "" };
    writer.engine(&format!("<{tag}>{line_end}"));
    pieces.iter().for_each(|piece| writer.plain(*piece));
    writer.engine(&format!("{}</{tag}>", if ends_line { "" } else { line_end }));
}

fn document(block: &Block, kind: DocumentKind, name: Piece, writer: &mut Writer<'_>) {
    let text = block.text(writer.origins);
    let tag = free_tag(&text, kind.name());
    if tag != kind.name() {
        let label = name.text(writer.origins);
        let message = format!("`{label}` stands between <{tag}> tags: it contains <{}> itself", kind.name());
        writer.talk.push(Diag::warning(Code::TextFenced, message));
    }
    writer.engine(&format!("<{tag} {}=\"", kind.attribute()));
    writer.attribute(name);
    writer.engine("\">\n");
    block.pieces.iter().for_each(|piece| writer.plain(*piece));
    let line_end = if text.ends_with('\n') || text.is_empty() { "" } else { "\n" };
    writer.engine(&format!("{line_end}</{tag}>"));
}

/// `name`, or `name-2` and so on: the first that does not occur in the text as a tag.
fn free_tag(text: &str, name: &str) -> String {
    let mut tag = name.to_string();
    let mut number = 1;
    while encode::holds_tag(text, &tag) {
        number += 1;
        tag = format!("{name}-{number}");
    }
    tag
}

/// The lines that this prompt's Markdown uses itself.
pub(super) struct Structure<'p> {
    rule: bool,
    headings: bool,
    /// Names that tags around supplied text can have.
    tags: Vec<&'p str>,
}

impl<'p> Structure<'p> {
    pub(super) fn of(prompt: &'p Prompt) -> Self {
        let mut tags: Vec<&str> = alloc::vec!["file", "artifact", "thought"];
        for block in prompt.sections.iter().flat_map(|section| &section.blocks) {
            for supplied in &block.supplied {
                if !tags.contains(&supplied.name.as_str()) {
                    tags.push(&supplied.name);
                }
            }
        }
        Self {
            rule: prompt.separator == Separator::Rule,
            headings: prompt.sections.iter().any(|section| section.heading.is_some()),
            tags,
        }
    }
}

/// Looks for structure that a supplied text makes, alone or together with what stands around it.
struct Search<'t> {
    /// The block that the text is a part of: it begins and ends between empty lines.
    whole: &'t str,
    supplied: Range<usize>,
    /// Where a text ended that got tags: a closing tag stands there by now.
    fence_end: Option<usize>,
}

impl Search<'_> {
    /// The first line that a reader could take for structure, if the supplied text has a part in what
    /// makes it that.
    fn structure(&self, structure: &Structure<'_>) -> Option<Range<usize>> {
        if self.supplied.is_empty() {
            return None;
        }
        let rule = || structure.rule.then(|| self.line(b'-', is_rule)).flatten();
        let heading = || structure.headings.then(|| self.line(b'#', is_heading)).flatten();
        let underline = |mark| structure.headings.then(|| self.line(mark, is_underline)).flatten();
        let tag = || self.tag(&structure.tags);
        rule().or_else(heading).or_else(|| underline(b'-')).or_else(|| underline(b'=')).or_else(tag)
    }

    fn tag(&self, tags: &[&str]) -> Option<Range<usize>> {
        let longest = tags.iter().map(|tag| tag.len()).max()?;
        let mut from = self.supplied.start.saturating_sub(longest + 2);
        while let Some(found) = memchr(b'<', &self.whole.as_bytes()[from..self.supplied.end]) {
            let start = from + found;
            from = start + 1;
            let inside = self.whole[from..].trim_start_matches('/');
            let Some(tag) = tags.iter().find(|tag| names_tag(inside, tag)) else { continue };
            if self.whole.len() - inside.len() + tag.len() <= self.supplied.start {
                continue;
            }
            let end = self.whole[start..].find(['>', '\n']).map_or(self.whole.len(), |end| start + end + 1);
            return Some(start..self.whole[..end].trim_end().len().max(from));
        }
        None
    }

    /// The first line that begins with `mark` after at most three blanks and that `fits`, given the line
    /// above it and the one below.
    fn line(&self, mark: u8, fits: fn(above: &str, line: &str, below: &str) -> bool) -> Option<Range<usize>> {
        let (whole, bytes) = (self.whole, self.whole.as_bytes());
        let line_start = |at: usize| memrchr2(b'\n', b'\r', &bytes[..at]).map_or(0, |end| end + 1);
        let line_end = |at: usize| memchr2(b'\n', b'\r', &bytes[at..]).map_or(bytes.len(), |end| at + end);
        let mut from = line_start(self.supplied.start);
        while let Some(found) = memchr(mark, &bytes[from..self.supplied.end]) {
            let at = from + found;
            let (start, end) = (line_start(at), line_end(at));
            // Nothing else in this line can begin it.
            from = end.min(self.supplied.end);
            let marks = bytes[at..end].iter().take_while(|byte| **byte == mark).count();
            let ours = at + marks <= self.supplied.start;
            if ours || at - start > 3 || !bytes[start..at].iter().all(|byte| *byte == b' ') {
                continue;
            }
            let above_end = whole[..start].strip_suffix("\r\n").map_or(start.saturating_sub(1), str::len);
            let above = if start == 0 { "" } else { &whole[line_start(above_end)..above_end] };
            let tagged = self.fence_end.is_some_and(|fence| (line_start(above_end)..=start).contains(&fence));
            let below =
                whole[end..].strip_prefix("\r\n").or_else(|| whole.get(end + 1..)).unwrap_or_default();
            let below = &below[..memchr2(b'\n', b'\r', below.as_bytes()).unwrap_or(below.len())];
            let line = whole[start..end].trim_end();
            let above = if tagged { "tag" } else { above.trim_end() };
            if fits(above, line.trim_start(), below.trim_end()) {
                return Some(start..start + line.len());
            }
        }
        None
    }
}

/// Whether `inside`, what follows `<` or `</`, is a tag of this name or of one of its numbered forms.
fn names_tag(inside: &str, tag: &str) -> bool {
    let Some(rest) = inside.strip_prefix(tag) else { return false };
    let rest = match rest.strip_prefix('-') {
        Some(number) => number.trim_start_matches(|c: char| c.is_ascii_digit()),
        None => rest,
    };
    rest.is_empty() || rest.starts_with(['>', ' ', '\t', '\n', '\r', '/'])
}

/// Three dashes between empty lines; the edge of a text counts as an empty line.
fn is_rule(above: &str, line: &str, below: &str) -> bool {
    line == "---" && above.is_empty() && below.is_empty()
}

/// A heading as high as a section's, or higher.
fn is_heading(_: &str, line: &str, _: &str) -> bool {
    let rest = line.trim_start_matches('#');
    line.len() - rest.len() <= 2 && (rest.is_empty() || rest.starts_with([' ', '\t']))
}

/// A line of dashes or equals signs that makes the line above it a heading.
fn is_underline(above: &str, line: &str, _: &str) -> bool {
    let only = |c: char| line.chars().all(|other| other == c);
    !above.trim().is_empty() && (only('-') || only('='))
}
