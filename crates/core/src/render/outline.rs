//! Outlines: the structure that a CommonMark reader sees in a text before it is sent.
//!
//! A text is written in the least form in which the reader sees the headings and rules of the prompt's own text, where
//! they are, and no others, and what follows the text is seen too.

use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use pulldown_cmark::{Event, Options, Parser, Tag};

use super::lines::Uses;

/// The longest text that is parsed. A longer one that raises a doubt is fenced.
pub(super) const LONGEST: usize = 1 << 20;

/// How many quotes and lists may be in each other: parsers take their time with more.
const DEEPEST: usize = 100;

/// What must be seen after a text.
const FOLLOWS: &str = "\n\n# x\n\n---\n";

/// What may be before a text that begins with blanks: it could become a part of that.
const LISTS: [&str; 4] = ["- x\n\n", "1. x\n\n", "12) x\n\n", "- - - x\n\n"];

/// A part of the prompt's own text: where it is, and how much of its own text is before it.
pub(super) type Own = (Range<usize>, usize);

/// A heading with its level, or a rule (0), with its place in the prompt's own text.
pub(super) type Mark = (u8, usize);

/// The headings and rules of `text` that count; `None` if one of them is not of the prompt's own text, if what
/// follows is not seen, or if it cannot be known.
pub(super) fn outline(text: &str, own: &[Own], uses: &impl Uses) -> Option<Vec<Mark>> {
    if text.len() > LONGEST || is_too_deep(text) {
        return None;
    }
    let marks = parse("", text, own, uses)?;
    let same = |before: &str, text: &str| parse(before, text, own, uses).as_ref() == Some(&marks);
    let indented = text.starts_with([' ', '\t']);
    let in_lists = !indented || LISTS.iter().all(|list| same(list, text));
    // Parsers differ in where they see a line end in a carriage return.
    let returns = !text.contains('\r') || same("", &with_line_feeds(text));
    // A mark of the byte order counts only at the start of the whole prompt.
    let marked = !text.starts_with('\u{feff}') || same("x\n\n", text);
    (in_lists && returns && marked).then_some(marks)
}

/// The same with a line feed in the place of each carriage return that has none: all places stay.
fn with_line_feeds(text: &str) -> String {
    let mut feeds = String::with_capacity(text.len());
    for (at, part) in text.split('\r').enumerate() {
        if at > 0 {
            feeds.push(if part.starts_with('\n') { '\r' } else { '\n' });
        }
        feeds.push_str(part);
    }
    feeds
}

fn parse(before: &str, text: &str, own: &[Own], uses: &impl Uses) -> Option<Vec<Mark>> {
    let end = before.len() + text.len();
    let mut source = String::with_capacity(end + FOLLOWS.len());
    [before, text, FOLLOWS].iter().for_each(|part| source.push_str(part));
    let (mut marks, mut depth, mut follows) = (Vec::new(), 0_usize, 0);
    for (event, place) in Parser::new_ext(&source, Options::empty()).into_offset_iter() {
        let level = match &event {
            Event::Start(Tag::Heading { level, .. }) => Some(*level as u8),
            Event::Rule => Some(0),
            _ => None,
        };
        match level {
            Some(_) if place.start >= end => follows += usize::from(depth == 0),
            Some(level) if if level == 0 { uses.rule() } else { level <= uses.deepest() } => {
                let at = place.start.checked_sub(before.len())?;
                let index = own.partition_point(|(range, _)| range.end <= at);
                let (range, key) = own.get(index).filter(|(range, _)| range.contains(&at))?;
                marks.push((level, key + at - range.start));
            }
            _ => {}
        }
        match event {
            Event::Start(_) => depth += 1,
            Event::End(_) => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    (follows == 2).then_some(marks)
}

/// Whether a line begins with very many quotes and lists in each other.
fn is_too_deep(text: &str) -> bool {
    text.split(['\n', '\r']).any(|line| {
        let inner = line.trim_start_matches(|c: char| " \t>-+*.)".contains(c) || c.is_ascii_digit());
        let lead = &line.as_bytes()[..line.len() - inner.len()];
        let blank = |byte: u8| matches!(byte, b' ' | b'\t');
        let begins = |pair: &&[u8]| pair[0] == b'>' || !blank(pair[0]) && blank(pair[1]);
        lead.len() > DEEPEST && lead.windows(2).filter(begins).count() > DEEPEST
    })
}
