//! Markdown: sections one after the other, and tags only where a text would pass for structure.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cell::OnceCell;
use core::ops::Range;

use memchr::{memchr, memchr_iter, memchr2, memrchr, memrchr2};

use super::{Encoding, Item, Writer, each_item, encode};
use crate::diag::{Code, Diag, tell};
use crate::name::is_name_byte;
use crate::prompt::{Block, Origins, Piece, Prompt, Supplied};
use crate::recipe::Separator;
use crate::request::DocumentKind;

pub(super) fn write(prompt: &Prompt, writer: &mut Writer<'_>) {
    let structure = Structure::of(prompt);
    each_item(prompt, prompt.sections.iter(), &mut |item| write_item(&item, &structure, writer));
}

/// Writes items as Markdown, for other formats that carry Markdown inside.
pub(super) fn items(items: &[Item<'_>], structure: &Structure<'_>, writer: &mut Writer<'_>) {
    items.iter().for_each(|item| write_item(item, structure, writer));
}

fn write_item(item: &Item<'_>, structure: &Structure<'_>, writer: &mut Writer<'_>) {
    match item {
        Item::Edge => writer.edge(),
        Item::Engine(text) => writer.engine(text),
        Item::Piece(piece) => writer.plain(*piece),
        Item::Block(block) => {
            write_block(block, structure, writer);
            writer.hand_on();
        }
    }
}

fn write_block(block: &Block, structure: &Structure<'_>, writer: &mut Writer<'_>) {
    if let Some((kind, name)) = block.document {
        document(block, kind, name, writer);
        return;
    }
    // Most texts need no tags. So the block is written first and looked at where it stands; only if a text
    // in it would pass for structure it is taken back and written again.
    let mark = writer.mark();
    let mut looked = mark.text;
    let mut marked = false;
    // What was just written is still near: a long text comes from memory once.
    let mut look = |out: &String| {
        if out.len() - looked >= encode::BLOCK {
            marked = marked || structure.marks(&out[looked..]);
            looked = out.len();
        }
    };
    for piece in &block.pieces {
        writer.encoded(*piece, Encoding::Plain, |text, out| {
            if text.len() < encode::BLOCK {
                out.push_str(text);
                return look(out);
            }
            for part in encode::blocks(text) {
                out.push_str(part);
                look(out);
            }
        });
    }
    marked = marked || structure.marks(&writer.text[looked..]);
    let written = &writer.text[mark.text..];
    let all = Search { whole: written, supplied: 0..written.len(), fence_end: None };
    let leaves = |supplied: &Supplied| {
        let mut pieces = block.pieces[supplied.pieces.clone()].iter();
        supplied.tagged || (supplied.line && pieces.any(|piece| leaves_line(piece.text(writer.origins))))
    };
    let needs_tags = || marked && all.structure(structure).is_some() || block.supplied.iter().any(leaves);
    if !block.supplied.is_empty() && needs_tags() {
        let whole = written.to_string();
        writer.back_to(mark);
        write_fenced(block, &whole, structure, writer);
    }
}

/// Writes a block, whose text is `whole`, with tags around every supplied text that needs them.
fn write_fenced(block: &Block, whole: &str, structure: &Structure<'_>, writer: &mut Writer<'_>) {
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
        let own_line = supplied.line && leaves_line(text);
        let search = Search { whole, supplied: start..at, fence_end };
        let own = (own_line || supplied.tagged).then_some(start..at);
        let Some(line) = own.or_else(|| search.structure(structure)) else {
            pieces.iter().for_each(|piece| writer.plain(*piece));
            continue;
        };
        fence_end = Some(at);
        let origins = writer.origins;
        let name = supplied.name(block, origins);
        let tag = free_tag(text, name);
        // Tags that are always there need no explanation.
        let told = if supplied.tagged { &mut Vec::new() } else { &mut writer.talk };
        tell(told, Code::TextFenced, || {
            let shown = &whole[line.clone()];
            let why = if own_line {
                "it has its place in one line, and leaves it".to_string()
            } else {
                let shown = &shown[..shown.floor_char_boundary(LONGEST_SHOWN)];
                format!("it contains `{shown}`, which this format uses itself")
            };
            let message = format!("the text of `{name}` stands between <{tag}> tags: {why}");
            let line = line.start.max(start) - start..line.end.min(at) - start;
            let origin = &origins[pieces[0].origin];
            let warning = Diag::warning(Code::TextFenced, message);
            match pieces {
                [one] => {
                    warning.at(origin.label(), &origin.text, one.start + line.start..one.start + line.end)
                }
                _ => warning,
            }
        });
        let after = block.pieces.get(next).map_or("\n", |piece| piece.text(writer.origins));
        fence(writer, &tag, pieces, text.ends_with('\n'), after.starts_with(['\n', '\r']));
    }
    for piece in &block.pieces[next..] {
        writer.plain(*piece);
    }
}

/// Whether a text that has its place in one line, in a list or a code span, would leave it.
fn leaves_line(text: &str) -> bool {
    text.contains(['\n', '\r', '`'])
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
    let assembled;
    let text = match block.pieces.as_slice() {
        [one] => one.text(writer.origins),
        _ => {
            assembled = block.text(writer.origins);
            &assembled
        }
    };
    let tag = free_tag(text, kind.name());
    if tag != kind.name() {
        let label = name.text(writer.origins);
        let message = format!("`{label}` stands between <{tag}> tags: it contains <{}> itself", kind.name());
        tell(&mut writer.talk, Code::TextFenced, || Diag::warning(Code::TextFenced, message));
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
    if !encode::holds_tag(text, name) {
        return name.to_string();
    }
    let taken = encode::tag_numbers(text, name);
    let mut number = 2;
    while taken.contains(&number) {
        number += 1;
    }
    format!("{name}-{number}")
}

/// The lines that this prompt's Markdown uses itself.
pub(super) struct Structure<'p> {
    prompt: &'p Prompt,
    rule: bool,
    headings: bool,
    /// Names that tags around supplied text can have; gathered when the first `<` is met.
    tags: OnceCell<BTreeSet<&'p str>>,
}

impl<'p> Structure<'p> {
    pub(super) fn of(prompt: &'p Prompt) -> Self {
        Self {
            prompt,
            rule: prompt.separator == Separator::Rule,
            headings: prompt.sections.iter().any(|section| section.heading.is_some()),
            tags: OnceCell::new(),
        }
    }

    /// Whether these items have lines of their own that a text in them could imitate: headings, rules, rows,
    /// or tags that a template puts around what is supplied.
    pub(super) fn is_in(&self, items: &[Item<'_>], origins: &Origins) -> bool {
        let tagged = |block: &Block| {
            let ends = core::iter::once(0).chain(block.supplied.iter().map(|supplied| supplied.pieces.end));
            let starts = block.supplied.iter().map(|supplied| supplied.pieces.start);
            let ours = ends.zip(starts.chain([block.pieces.len()])).map(|(end, start)| end..start);
            ours.flat_map(|ours| &block.pieces[ours]).any(|piece| {
                let text = piece.text(origins);
                let tag = |at: usize| self.tag(text[at + 1..].trim_start_matches('/'));
                memchr_iter(b'<', text.as_bytes()).any(|at| tag(at).is_some())
            })
        };
        let rows = |block: &Block| block.supplied.iter().any(|supplied| supplied.line || supplied.tagged);
        let mut blocks = items.iter().filter_map(|item| match item {
            Item::Block(block) if block.document.is_none() => Some(block),
            _ => None,
        });
        self.rule || self.headings || blocks.any(|block| rows(block) || tagged(block))
    }

    /// Whether `text` holds a byte without which no line of it, nor of what it becomes a part of, is structure.
    fn marks(&self, text: &str) -> bool {
        let bytes = text.as_bytes();
        let lines = || memchr2(b'-', if self.headings { b'#' } else { b'-' }, bytes).is_some();
        memchr(b'<', bytes).is_some()
            || (self.rule || self.headings) && lines()
            || self.headings && memchr(b'=', bytes).is_some()
    }

    /// The name of the tag that begins with `inside`, what follows `<` or `</`; its numbered forms too.
    fn tag<'t>(&self, inside: &'t str) -> Option<&'t str> {
        let length = inside.bytes().take_while(|byte| is_name_byte(*byte)).count();
        let (name, rest) = inside.split_at(length);
        if !rest.is_empty() && !rest.starts_with(['>', ' ', '\t', '\n', '\r', '/']) {
            return None;
        }
        let tags = self.tags.get_or_init(|| {
            let blocks = self.prompt.sections.iter().flat_map(|section| &section.blocks);
            let origins = &self.prompt.origins;
            let supplied =
                blocks.flat_map(|block| block.supplied.iter().map(|supplied| supplied.name(block, origins)));
            supplied.chain(["file", "artifact", "thought"]).collect()
        });
        let first = name.trim_end_matches(|c: char| c.is_ascii_digit()).strip_suffix('-').unwrap_or(name);
        (tags.contains(name) || tags.contains(first)).then_some(name)
    }
}

/// How much of a line that looks like structure a warning repeats.
const LONGEST_SHOWN: usize = 120;

/// How far before a text is looked for where its line, or a tag that it ends, begins. What lies further back is
/// no structure; looking there from each of many texts in one long line would take time.
const REACH: usize = 4096;

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
        let tag = || self.tag(structure);
        rule().or_else(heading).or_else(|| underline(b'-')).or_else(|| underline(b'=')).or_else(tag)
    }

    fn tag(&self, structure: &Structure<'_>) -> Option<Range<usize>> {
        // A tag that ends in the text may begin before it, but not before the last `<` there.
        let bytes = self.whole.as_bytes();
        let near = self.supplied.start.saturating_sub(REACH);
        let before = memrchr(b'<', &bytes[near..self.supplied.start]);
        let mut from = before.map_or(self.supplied.start, |at| near + at);
        while let Some(found) = memchr(b'<', &bytes[from..self.supplied.end]) {
            let start = from + found;
            from = start + 1;
            let inside = self.whole[from..].trim_start_matches('/');
            let Some(tag) = structure.tag(inside) else { continue };
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
        let near_start = |at: usize| {
            let near = at.saturating_sub(REACH);
            let start = memrchr2(b'\n', b'\r', &bytes[near..at]).map(|end| near + end + 1);
            start.or((near == 0).then_some(0))
        };
        let mut from = near_start(self.supplied.start).unwrap_or(self.supplied.start);
        while let Some(found) = memchr(mark, &bytes[from..self.supplied.end]) {
            let at = from + found;
            // Nothing else in this line can begin it.
            let rest = &bytes[at..self.supplied.end];
            from = memchr2(b'\n', b'\r', rest).map_or(self.supplied.end, |end| at + end);
            let Some(start) = near_start(at) else { continue };
            let marks = bytes[at..].iter().take_while(|byte| **byte == mark).count();
            let ours = at + marks < self.supplied.start;
            if ours || at - start > 3 || !bytes[start..at].iter().all(|byte| *byte == b' ') {
                continue;
            }
            let end = line_end(at);
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
