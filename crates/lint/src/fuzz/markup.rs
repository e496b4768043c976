//! Finds the constructs that a template opens around a slot, and checks whether a value can end them.
//!
//! This reads Markdown with tags as a model or a person does: code blocks, comments, tags with their
//! attributes, headings. It knows nothing about the rendering of values; see [`engine`](super::engine) for
//! that.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ops::Range;

use crate::markdown::{fence_mark, heading_level};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConstructKind {
    CodeBlock,
    Comment,
    Attribute,
    /// From `<` to `>`.
    TagHead,
    /// From a tag to the one that closes it.
    Element,
    Heading,
}

impl ConstructKind {
    pub(super) const fn words(self) -> &'static str {
        match self {
            Self::CodeBlock => "code block",
            Self::Comment => "comment",
            Self::Attribute => "quoted attribute",
            Self::TagHead => "tag",
            Self::Element => "element",
            Self::Heading => "heading",
        }
    }
}

/// A construct that a text opens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MarkupConstruct {
    pub(super) kind: ConstructKind,
    /// The text that opens it, such as `~~~text` or `<build>`.
    pub(super) open: Range<usize>,
    /// The start of the text that closes it.
    close: Option<usize>,
}

impl MarkupConstruct {
    /// Returns a label by which a person recognises it.
    pub(super) fn label(&self, text: &str) -> String {
        let open = &text[self.open.clone()];
        match self.kind {
            ConstructKind::Attribute => {
                let name = text[..self.open.start].rsplit([' ', '\t', '\n']).next().unwrap_or_default();
                format!("{name}{open}")
            }
            ConstructKind::Element => format!("<{}>", tag_name(&open[1..])),
            ConstructKind::CodeBlock
            | ConstructKind::Comment
            | ConstructKind::TagHead
            | ConstructKind::Heading => open.trim().to_string(),
        }
    }

    /// Returns a text that would end it.
    pub(super) fn closing_text(&self, text: &str) -> String {
        let open = &text[self.open.clone()];
        match self.kind {
            ConstructKind::CodeBlock => {
                let mark = open.trim_start();
                let end = mark.find(|c| !mark.starts_with(c)).unwrap_or(mark.len());
                format!("a\n{}\nb", &mark[..end])
            }
            ConstructKind::Comment => "a --> b".into(),
            ConstructKind::Attribute => format!("a{open}b"),
            ConstructKind::TagHead => "a>b".into(),
            ConstructKind::Element => format!("a</{}>b", tag_name(&open[1..])),
            ConstructKind::Heading => "a\nb".into(),
        }
    }
}

/// Returns the constructs that are open on both sides of `slot`, innermost first.
pub(super) fn find_enclosing(text: &str, slot: &Range<usize>) -> Vec<MarkupConstruct> {
    let mut all = find_constructs(text, &(0..0));
    all.retain(|it| {
        // A slot in a tag is not yet in the element that the tag opens.
        let begins = if it.kind == ConstructKind::Element {
            it.open.end <= slot.start
        } else {
            it.open.start < slot.start
        };
        begins && it.close.is_some_and(|close| close >= slot.end)
    });
    all.sort_by_key(|it| core::cmp::Reverse(it.open.start));
    all
}

/// Returns the innermost of `around` that ends within `value` if that takes the place of `slot`. If callsheet
/// put tags of its own around the value, tags in it end nothing.
pub(super) fn find_ended<'a>(
    text: &str,
    slot: &Range<usize>,
    around: &'a [MarkupConstruct],
    value: &str,
    tagged: bool,
) -> Option<&'a MarkupConstruct> {
    if around.is_empty() {
        return None;
    }
    let with = format!("{}{value}{}", &text[..slot.start], &text[slot.end..]);
    let end = slot.start + value.len();
    let all = find_constructs(&with, &(slot.start..if tagged { end } else { slot.start }));
    around.iter().find(|before| {
        let same = all.iter().find(|it| it.kind == before.kind && it.open.start == before.open.start);
        // The head of a tag that is no longer a tag has ended too early.
        same.is_none_or(|it| it.close.is_some_and(|close| close < end))
    })
}

/// Returns the construct that is left empty if nothing takes the place of `slot`.
pub(super) fn find_dangling(
    text: &str,
    slot: &Range<usize>,
    around: &[MarkupConstruct],
) -> Option<&'static str> {
    let (before, after) = (&text[..slot.start], &text[slot.end..]);
    if let Some(MarkupConstruct { open, close: Some(close), .. }) =
        around.first().filter(|it| it.kind == ConstructKind::CodeBlock)
    {
        let blank = text[open.end..slot.start].trim().is_empty() && text[slot.end..*close].trim().is_empty();
        return blank.then_some("code block");
    }
    let line = before.rsplit('\n').next().unwrap_or_default().trim();
    if !after.split('\n').next().unwrap_or_default().trim().is_empty() {
        return None;
    }
    let number = line.strip_suffix(['.', ')']).unwrap_or("x");
    if ["-", "*", "+"].contains(&line) || (!number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())) {
        return Some("list item");
    }
    if heading_level(line).is_some_and(|level| level == line.len()) {
        return Some("heading");
    }
    let above = heading_level(before.trim_end().rsplit('\n').next()?).filter(|_| line.is_empty())?;
    let below = after.trim_start();
    let ends = below.is_empty() || heading_level(below.lines().next()?).is_some_and(|below| below <= above);
    ends.then_some("heading")
}

/// Returns all constructs that `text` opens. Ignores tags within `opaque`.
fn find_constructs(text: &str, opaque: &Range<usize>) -> Vec<MarkupConstruct> {
    let mut all: Vec<MarkupConstruct> = Vec::new();
    let mut elements: Vec<usize> = Vec::new();
    let mut at = 0;
    while at < text.len() {
        if at == 0 || text[..at].ends_with(['\n', '\r']) {
            let end = line_end(text, at);
            let line = &text[at..end];
            let indent = line.len() - line.trim_start_matches(' ').len();
            if let Some(mark) = fence_mark(line).filter(|_| indent <= 3) {
                let close = find_fence_close(text, end, mark);
                all.push(MarkupConstruct { kind: ConstructKind::CodeBlock, open: at..end, close });
                at = close.map_or(text.len(), |close| line_end(text, close));
                continue;
            }
            if heading_level(line.trim_start()).is_some() && indent <= 3 {
                let marks = at + indent + line.trim_start().bytes().take_while(|byte| *byte == b'#').count();
                all.push(MarkupConstruct { kind: ConstructKind::Heading, open: at..marks, close: Some(end) });
            }
        }
        let Some(found) = text[at..].find(['<', '\n', '\r']) else { break };
        let start = at + found;
        at = start + 1;
        if let Some(inside) = text[start..].strip_prefix("<!--") {
            let close = inside.find("-->").map(|close| start + 4 + close);
            all.push(MarkupConstruct { kind: ConstructKind::Comment, open: start..start + 4, close });
            at = close.map_or(text.len(), |close| close + 3);
        } else if text[start..].starts_with('<') && !opaque.contains(&start) {
            let before = all.len();
            match read_tag(text, start, &mut all, &mut elements) {
                Some(end) => at = end,
                None => all.truncate(before),
            }
        }
    }
    all
}

fn line_end(text: &str, at: usize) -> usize {
    text[at..].find(['\n', '\r']).map_or(text.len(), |end| at + end)
}

fn find_fence_close(text: &str, from: usize, (mark, length): (char, usize)) -> Option<usize> {
    let mut at = from;
    while at < text.len() {
        at += 1;
        let end = line_end(text, at);
        let line = text[at..end].trim_end();
        let marks = line.trim_start_matches(' ');
        let closes =
            marks.len() >= length && marks.chars().all(|c| c == mark) && line.len() - marks.len() <= 3;
        if closes {
            return Some(at);
        }
        at = end;
    }
    None
}

fn tag_name(inside: &str) -> &str {
    let end =
        inside.find(|c: char| !c.is_ascii_alphanumeric() && !"-_.:".contains(c)).unwrap_or(inside.len());
    if inside.starts_with(|c: char| c.is_ascii_alphabetic()) { &inside[..end] } else { "" }
}

/// Reads the tag at `start` and returns its end, or `None` if it is not a tag.
fn read_tag(
    text: &str,
    start: usize,
    all: &mut Vec<MarkupConstruct>,
    elements: &mut Vec<usize>,
) -> Option<usize> {
    let closing = text[start + 1..].starts_with('/');
    let name_at = start + 1 + usize::from(closing);
    let name = tag_name(&text[name_at..]);
    if name.is_empty() {
        return None;
    }
    let mut at = name_at + name.len();
    let end = loop {
        let stop = at + text[at..].find(['>', '\n', '\r', '"', '\''])?;
        match text.as_bytes()[stop] {
            b'>' => break stop,
            quote @ (b'"' | b'\'') if text[..stop].ends_with('=') => {
                let close = stop + 1 + text[stop + 1..].find(char::from(quote))?;
                all.push(MarkupConstruct {
                    kind: ConstructKind::Attribute,
                    open: stop..stop + 1,
                    close: Some(close),
                });
                at = close + 1;
            }
            b'"' | b'\'' => at = stop + 1,
            _ => return None,
        }
    };
    if closing {
        let same =
            elements.iter().rposition(|element| tag_name(&text[all[*element].open.start + 1..]) == name);
        if let Some(same) = same {
            all[elements[same]].close = Some(start);
            elements.truncate(same);
        }
    } else {
        all.push(MarkupConstruct {
            kind: ConstructKind::TagHead,
            open: start..name_at + name.len(),
            close: Some(end),
        });
        if !text[..end].ends_with('/') {
            elements.push(all.len());
            all.push(MarkupConstruct { kind: ConstructKind::Element, open: start..end + 1, close: None });
        }
    }
    Some(end + 1)
}
