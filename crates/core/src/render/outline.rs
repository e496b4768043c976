//! Outlines: the structure that a CommonMark reader sees in a text, checked before the text is sent.
//!
//! A text is written in the least form in which the reader sees exactly the headings and rules of the
//! prompt's own text, in their places, and also sees the text that follows.

use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use pulldown_cmark::{Event, Options, Parser, Tag};

use super::structure_risk::OwnStructure;

/// The longest text that is parsed. A longer one that raises a doubt is fenced.
pub(super) const LONGEST: usize = 1 << 20;

/// The deepest nesting of quotes and lists: parsers are slow with more.
const DEEPEST: usize = 100;

/// A heading and a rule that must be visible after a text.
const FOLLOWS: &str = "\n\n# x\n\n---\n";

/// Lists that may precede a text that begins with whitespace: the text could become part of them.
const LISTS: [&str; 4] = ["- x\n\n", "1. x\n\n", "12) x\n\n", "- - - x\n\n"];

/// A range of the prompt's own text, and how many bytes of its own text precede it.
pub(super) type OwnRange = (Range<usize>, usize);

/// A heading with its level, or a rule (0), with its offset in the prompt's own text.
pub(super) type OutlineMark = (u8, usize);

/// Returns the headings and rules of `text` that count. Returns `None` if one of them is not in the prompt's
/// own text, if the text after it is hidden, or if the outline cannot be determined.
pub(super) fn outline(text: &str, own: &[OwnRange], uses: &impl OwnStructure) -> Option<Vec<OutlineMark>> {
    if text.len() > LONGEST || is_too_deep(text) {
        return None;
    }
    let marks = parse_marks("", text, own, uses)?;
    let same = |before: &str, text: &str| parse_marks(before, text, own, uses).as_ref() == Some(&marks);
    let indented = text.starts_with([' ', '\t']);
    let in_lists = !indented || LISTS.iter().all(|list| same(list, text));
    // Parsers disagree whether a carriage return is a line end.
    let returns = !text.contains('\r') || same("", &with_line_feeds(text));
    // A byte order mark counts only at the start of the whole prompt.
    let marked = !text.starts_with('\u{feff}') || same("x\n\n", text);
    // Parsers disagree about the end of a list, a quote or an element, and so about its content.
    let feeds = with_line_feeds(text);
    let bare = strip_containers(&feeds, own)
        .is_none_or(|(text, own)| parse_marks("", &text, &own, uses).as_ref() == Some(&marks));
    (in_lists && returns && marked && bare).then_some(marks)
}

/// Returns the text without containers that may hide the rest: signs of lists and quotes become spaces at the
/// end of their lines, and an empty line precedes every opener. The prompt's own text stays. Returns `None`
/// if nothing changes.
fn strip_containers(text: &str, own: &[OwnRange]) -> Option<(String, Vec<OwnRange>)> {
    let mut out = String::with_capacity(text.len() + 16);
    let mut own_out = own.to_vec();
    let (mut at, mut changed) = (0, false);
    for line in text.split_inclusive('\n') {
        let index = own.partition_point(|(range, _)| range.end <= at);
        let is_own = own.get(index).is_some_and(|(range, _)| range.contains(&at));
        at += line.len();
        if is_own {
            out.push_str(line);
            continue;
        }
        let lead = sign_length(line);
        let end = line.trim_end_matches(['\n', '\r']).len().max(lead);
        if is_opener(&line[lead..end]) {
            out.push('\n');
            for (range, _) in &mut own_out[index..] {
                *range = range.start + 1..range.end + 1;
            }
            changed = true;
        }
        out.push_str(&line[lead..end]);
        out.extend(core::iter::repeat_n(' ', lead));
        out.push_str(&line[end..]);
        changed |= lead > 0;
    }
    changed.then_some((out, own_out))
}

/// Checks whether a line may open a construct that continues over empty lines.
fn is_opener(line: &str) -> bool {
    const OPENERS: [&str; 8] = ["```", "~~~", "<!", "<?", "<pre", "<script", "<style", "<textarea"];
    let line = line.trim_start_matches([' ', '\t']);
    let begins =
        |opener: &str| line.get(..opener.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(opener));
    OPENERS.iter().copied().any(begins)
}

/// Returns how many bytes of a line are signs of lists and quotes.
fn sign_length(line: &str) -> usize {
    let mut rest = line.trim_end_matches(['\n', '\r']);
    let whole = rest.len();
    let mut left = whole;
    loop {
        rest = rest.trim_start_matches([' ', '\t']);
        let number = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        let after = match rest.as_bytes() {
            [b'>', ..] => &rest[1..],
            [b'-' | b'+' | b'*', ..] if rest.len() == 1 || rest[1..].starts_with([' ', '\t']) => &rest[1..],
            _ if number.len() < rest.len() && number.starts_with(['.', ')']) => {
                let after = &number[1..];
                if !after.is_empty() && !after.starts_with([' ', '\t']) {
                    return whole - left;
                }
                after
            }
            _ => return whole - left,
        };
        rest = after.trim_start_matches([' ', '\t']);
        left = rest.len();
    }
}

/// Replaces each carriage return without a line feed by a line feed, which keeps all offsets.
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

fn parse_marks(
    before: &str,
    text: &str,
    own: &[OwnRange],
    uses: &impl OwnStructure,
) -> Option<Vec<OutlineMark>> {
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
            Some(level) if if level == 0 { uses.has_rules() } else { level <= uses.deepest_level() } => {
                let at = place.start.checked_sub(before.len())?;
                let index = own.partition_point(|(range, _)| range.end <= at);
                let (range, key) = own.get(index).filter(|(range, _)| range.contains(&at))?;
                marks.push((level, key + at - range.start));
            }
            _ => {}
        }
        match event {
            Event::Start(Tag::HtmlBlock) if has_mixed_raw_tags(&source[place]) => return None,
            Event::Start(_) => depth += 1,
            Event::End(_) => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    (follows == 2).then_some(marks)
}

/// Checks whether an HTML block is an element of raw content with the end tag of another one in it. By the
/// specification that tag ends the block, but not all parsers follow it.
fn has_mixed_raw_tags(block: &str) -> bool {
    const NAMES: [&str; 4] = ["pre", "script", "style", "textarea"];
    let name = |text: &str| {
        let begins =
            |name: &&str| text.get(..name.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(name));
        NAMES.into_iter().find(begins)
    };
    let Some(opener) = block.trim_start().strip_prefix('<').and_then(name) else { return false };
    let mut ends = block.match_indices("</").filter_map(|(at, sign)| name(&block[at + sign.len()..]));
    ends.next().is_some_and(|end| end != opener)
}

/// Checks whether a line begins with very many nested quotes and lists.
fn is_too_deep(text: &str) -> bool {
    text.split(['\n', '\r']).any(|line| {
        let inner = line.trim_start_matches(|c: char| " \t>-+*.)".contains(c) || c.is_ascii_digit());
        let lead = &line.as_bytes()[..line.len() - inner.len()];
        let blank = |byte: u8| matches!(byte, b' ' | b'\t');
        let begins = |pair: &&[u8]| pair[0] == b'>' || !blank(pair[0]) && blank(pair[1]);
        lead.len() > DEEPEST && lead.windows(2).filter(begins).count() > DEEPEST
    })
}
