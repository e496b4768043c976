//! Parses tags and markers at a `<`.
//!
//! The parser does not know the surroundings of a marker, so it does not decide whether the marker counts.
//! Every search ends at the next `<` or at the end of a line, so that a text is read once, however many tags
//! are left open.

use alloc::vec::Vec;
use core::ops::Range;

use memchr::memchr2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MarkerName {
    Review,
    TaskStatus,
    Question,
    /// Encloses the other markers.
    Response,
}

const NAMES: [(&str, MarkerName); 4] = [
    ("review", MarkerName::Review),
    ("task_status", MarkerName::TaskStatus),
    ("question", MarkerName::Question),
    ("response", MarkerName::Response),
];

#[derive(Clone, Copy, Debug)]
pub(super) struct MarkerTag {
    pub(super) name: MarkerName,
    pub(super) closing: bool,
    /// The end of the name.
    pub(super) name_end: usize,
}

impl MarkerTag {
    /// Parses the tag that begins with the `<` at `at`, if it has one of the marker names.
    pub(super) fn parse_at(text: &[u8], at: usize) -> Option<Self> {
        let tag = AnyTag::parse_at(text, at)?;
        let name = &text[tag.name.clone()];
        let (_, known) = NAMES.iter().find(|(known, _)| known.as_bytes().eq_ignore_ascii_case(name))?;
        Some(Self { name: *known, closing: tag.closing, name_end: tag.name.end })
    }
}

/// A tag with any name.
#[derive(Clone, Debug)]
pub(super) struct AnyTag {
    pub(super) name: Range<usize>,
    pub(super) closing: bool,
}

/// The maximum length of a name.
const LONGEST: usize = 64;

impl AnyTag {
    /// Parses the tag that begins with the `<` at `at`.
    pub(super) fn parse_at(text: &[u8], at: usize) -> Option<Self> {
        if text.get(at) != Some(&b'<') {
            return None;
        }
        let mut start = skip_whitespace(text, at + 1);
        let closing = text.get(start) == Some(&b'/');
        if closing {
            start = skip_whitespace(text, start + 1);
        }
        let rest = &text[start..];
        rest.first().filter(|byte| byte.is_ascii_alphabetic() || !byte.is_ascii())?;
        let in_name =
            |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b':' | b'.' | 0x80..);
        let length = rest.iter().take(LONGEST + 1).take_while(in_name).count();
        (length <= LONGEST).then_some(Self { name: start..start + length, closing })
    }

    /// Returns the end of the tag. Attributes do not matter here, so a `>` in one of them may end the tag.
    pub(super) fn find_end(&self, text: &[u8]) -> Option<usize> {
        let from = self.name.end;
        if self.closing {
            let at = from + text[from..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
            return (text.get(at) == Some(&b'>')).then_some(at + 1);
        }
        let at = from + memchr2(b'<', b'>', &text[from..])?;
        (text[at] == b'>').then_some(at + 1)
    }
}

/// Returns the end of the tag whose name ends at `from`, as an HTML renderer reads it: quoted text is a
/// value, and a value without quotes extends to whitespace or a `>`.
pub(super) fn find_html_tag_end(text: &[u8], from: usize) -> Option<usize> {
    let blanks = |at: usize| at + text[at..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    let mut at = from;
    loop {
        at = blanks(at);
        match text.get(at)? {
            b'>' => return Some(at + 1),
            b'/' => {
                at += 1;
                continue;
            }
            b'<' => return None,
            _ => {}
        }
        let in_name = |byte: &&u8| !byte.is_ascii_whitespace() && !matches!(byte, b'<' | b'>' | b'/' | b'=');
        at += text[at..].iter().take_while(in_name).count().max(1);
        let value = blanks(at);
        if text.get(value) != Some(&b'=') {
            continue;
        }
        at = blanks(value + 1);
        at = match text.get(at)? {
            quote @ (b'"' | b'\'') => at + 2 + memchr::memchr(*quote, &text[at + 1..])?,
            _ => {
                let in_value = |byte: &&u8| !byte.is_ascii_whitespace() && **byte != b'>';
                at + text[at..].iter().take_while(in_value).count()
            }
        };
    }
}

/// Checks for whitespace inside a line.
pub(super) const fn is_line_whitespace(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r')
}

pub(super) fn skip_whitespace(text: &[u8], at: usize) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    at + rest.iter().take_while(|byte| is_line_whitespace(**byte)).count()
}

/// A complete marker: a tag, a word and a closing tag, on one line or on three.
#[derive(Clone, Copy, Debug)]
pub(super) struct Marker<'t> {
    pub(super) name: MarkerName,
    pub(super) attributes: &'t str,
    pub(super) word: &'t str,
    pub(super) end: usize,
}

impl<'t> Marker<'t> {
    /// Parses the marker that `tag` opens. Returns `None` if the marker is not complete.
    pub(super) fn parse(bytes: &'t [u8], tag: &MarkerTag) -> Option<Self> {
        if tag.closing {
            return None;
        }
        let open_end = find_tag_end(bytes, tag.name_end)?;
        let (word, close, lines) = match memchr2(b'<', b'\n', &bytes[open_end..])? + open_end {
            at if bytes[at] == b'<' => (open_end..at, at, 1),
            first if skip_whitespace(bytes, open_end) == first => {
                let second = memchr2(b'<', b'\n', &bytes[first + 1..])? + first + 1;
                (first + 1..second, skip_whitespace(bytes, second + 1), 3)
            }
            _ => return None,
        };
        if lines == 3 && bytes[word.end] == b'<' {
            return None;
        }
        let word = str::from_utf8(&bytes[word]).ok()?.trim();
        if bytes.get(close) != Some(&b'<') {
            return None;
        }
        let closing = MarkerTag::parse_at(bytes, close)?;
        if !closing.closing || closing.name != tag.name || word.is_empty() {
            return None;
        }
        let close_end = skip_whitespace(bytes, closing.name_end);
        if bytes.get(close_end) != Some(&b'>') {
            return None;
        }
        let attributes = str::from_utf8(&bytes[tag.name_end..open_end - 1]).ok()?;
        if attributes.ends_with('/') {
            return None;
        }
        Some(Self { name: tag.name, attributes, word, end: close_end + 1 })
    }

    /// Returns names and values; the value of a name without one is empty.
    pub(super) fn attributes(&self) -> impl Iterator<Item = (&'t str, &'t str)> + use<'t> {
        let mut rest = self.attributes;
        core::iter::from_fn(move || {
            rest =
                rest.trim_start_matches(|c: char| c.is_whitespace() || matches!(c, '=' | '/' | '"' | '\''));
            let end = rest.find(|c: char| c.is_whitespace() || c == '=').unwrap_or(rest.len());
            let (name, after) = rest.split_at(end);
            rest = after;
            let Some(value) = after.trim_start().strip_prefix('=').map(str::trim_start) else {
                return (!name.is_empty()).then_some((name, ""));
            };
            let (value, after) = match value.chars().next().filter(|c| matches!(c, '"' | '\'')) {
                Some(quote) => value[1..].split_once(quote).unwrap_or((&value[1..], "")),
                None => value.split_at(value.find(char::is_whitespace).unwrap_or(value.len())),
            };
            rest = after;
            Some((name, value))
        })
    }
}

/// Returns the end of a tag with attributes: a `>` outside of quotes, on the same line.
fn find_tag_end(text: &[u8], from: usize) -> Option<usize> {
    let mut quote = None;
    for (at, byte) in text[from..].iter().enumerate() {
        match (quote, *byte) {
            (_, b'\n' | b'<') => return None,
            (Some(open), byte) if byte == open => quote = None,
            (None, b'"' | b'\'') => quote = Some(*byte),
            (None, b'>') => return Some(from + at + 1),
            _ => {}
        }
    }
    None
}

/// Checks whether `said` is `word` in any case; a space or a hyphen may join its parts too.
pub(super) fn is_word(said: &str, word: &str) -> bool {
    let plain = |byte: u8| if matches!(byte, b' ' | b'-') { b'_' } else { byte.to_ascii_uppercase() };
    said.len() == word.len() && said.bytes().zip(word.bytes()).all(|(a, b)| plain(a) == plain(b))
}

/// Checks whether a marker says only its word: it may have one `id`, and a review may have an `iteration`
/// too.
///
/// The id of a task may be any text. The id of a review has no meaning, so it must not contain a word that
/// has one.
pub(super) fn is_plain(name: MarkerName, attributes: &str) -> bool {
    const WORDS: [&str; 6] = ["review", "task", "round", "iteration", "phase", "plan"];
    let marker = Marker { name, attributes, word: "", end: 0 };
    let mut ids = 0;
    marker.attributes().all(|(attribute, value)| {
        let is_id = attribute.eq_ignore_ascii_case("id");
        ids += usize::from(is_id);
        match name {
            MarkerName::TaskStatus => is_id && ids == 1,
            MarkerName::Review if is_id => {
                let mut runs =
                    value.split(|c: char| c.is_ascii_digit() || matches!(c, '.' | '-' | '_' | '#'));
                let is_harmless = |run: &str| {
                    let is_letter = run.len() == 1 && run.as_bytes()[0].is_ascii_alphabetic();
                    run.is_empty() || is_letter || WORDS.iter().any(|word| word.eq_ignore_ascii_case(run))
                };
                ids == 1 && value.len() <= LONGEST && runs.all(is_harmless)
            }
            MarkerName::Review if attribute.eq_ignore_ascii_case("iteration") => {
                !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit())
            }
            MarkerName::Review | MarkerName::Question | MarkerName::Response => false,
        }
    })
}

/// Checks whether a marker only shows the form, with a placeholder for all words. The reserved form has no
/// attribute except the id of a task.
pub(super) fn is_placeholder(name: MarkerName, attributes: &[u8], word: &[u8]) -> bool {
    let is_reserved = match name {
        MarkerName::TaskStatus => {
            str::from_utf8(attributes).is_ok_and(|attributes| is_plain(name, attributes))
        }
        _ => attributes.trim_ascii().is_empty(),
    };
    is_reserved && is_placeholder_word(name, word)
}

/// Checks for the placeholder if the tag of the word is unknown.
pub(super) fn is_placeholder_word(name: MarkerName, word: &[u8]) -> bool {
    let reserved: &[u8] = match name {
        MarkerName::Review => b"VERDICT",
        MarkerName::TaskStatus => b"STATUS",
        MarkerName::Question => b"QUESTION",
        MarkerName::Response => return false,
    };
    word.trim_ascii() == reserved
}

/// Returns the markers in `range` if it holds nothing else: each on its own line, bare, in bold or with a
/// full stop, beside response tags. Ignores cut text.
pub(super) fn collect_markers(
    text: &[u8],
    range: &Range<usize>,
    cuts: &[Range<usize>],
) -> Option<Vec<usize>> {
    let mut markers = Vec::new();
    let mut cuts = cuts.iter().peekable();
    let mut at = range.start;
    // Whether the line has a marker, and the sign that opened its bold text.
    let mut marked = false;
    let mut bold: Option<u8> = None;
    while at < range.end {
        while cuts.next_if(|cut| cut.end <= at).is_some() {}
        if let Some(cut) = cuts.peek().filter(|cut| cut.start <= at) {
            at = cut.end.min(range.end);
            continue;
        }
        match text[at] {
            b'\n' if bold.is_none() => {
                marked = false;
                at += 1;
            }
            // Parsers differ on whether a lone carriage return ends a line.
            b'\r' if !matches!(text.get(at + 1), None | Some(b'\n')) => return None,
            b' ' | b'\t' | b'\r' => at += 1,
            sign @ (b'*' | b'_') if text.get(at + 1) == Some(&sign) => {
                match (bold, marked) {
                    (None, false) if text.get(at + 2) == Some(&b'<') => bold = Some(sign),
                    (Some(open), true) if open == sign && matches!(text[at - 1], b'>' | b'.') => bold = None,
                    _ => return None,
                }
                at += 2;
            }
            b'.' if marked && text[at - 1] != b'.' && !is_line_whitespace(text[at - 1]) => at += 1,
            b'<' => {
                let tag = MarkerTag::parse_at(text, at)?;
                at = match tag.name {
                    MarkerName::Response => {
                        let end = skip_whitespace(text, tag.name_end);
                        (bold.is_none() && text.get(end) == Some(&b'>')).then_some(end + 1)?
                    }
                    MarkerName::Question => find_plain_question_end(text, &tag)?,
                    MarkerName::Review | MarkerName::TaskStatus if marked => return None,
                    MarkerName::Review | MarkerName::TaskStatus => {
                        let marker = Marker::parse(text, &tag)?;
                        marked = true;
                        markers.push(at);
                        marker.end
                    }
                };
            }
            _ => return None,
        }
    }
    (at == range.end && bold.is_none()).then_some(markers)
}

/// The maximum length of a question.
const LONGEST_QUESTION: usize = 16 * 1024;

/// Returns the end of the question that begins at `at`, with any words and on any number of lines.
pub(super) fn find_question_end(text: &[u8], at: usize) -> Option<usize> {
    let tag = MarkerTag::parse_at(text, at).filter(|tag| tag.name == MarkerName::Question && !tag.closing)?;
    let from = skip_whitespace(text, tag.name_end);
    if text.get(from) != Some(&b'>') {
        return None;
    }
    let near = &text[..text.len().min(from + LONGEST_QUESTION)];
    let tags = memchr::memchr_iter(b'<', &near[from..]).map(|open| from + open);
    let mut tags = tags
        .filter_map(|open| MarkerTag::parse_at(near, open))
        .filter(|tag| tag.name == MarkerName::Question);
    let closing = tags.next().filter(|tag| tag.closing)?;
    let end = skip_whitespace(text, closing.name_end);
    let is_asked = |end: usize| !question_words(&text[at..end]).trim_ascii().is_empty();
    (text.get(end) == Some(&b'>') && is_asked(end)).then_some(end + 1)
}

/// Returns the text between the tags of a question.
pub(super) fn question_words(question: &[u8]) -> &[u8] {
    let start = memchr::memchr(b'>', question).map_or(0, |end| end + 1);
    let end = memchr::memrchr(b'<', question).unwrap_or(question.len());
    question.get(start..end).unwrap_or_default()
}

/// Returns the end of a question that holds only words.
fn find_plain_question_end(text: &[u8], tag: &MarkerTag) -> Option<usize> {
    let open_end = skip_whitespace(text, tag.name_end);
    if tag.closing || text.get(open_end) != Some(&b'>') {
        return None;
    }
    let close = open_end + memchr::memchr(b'<', &text[open_end..])?;
    let closing =
        MarkerTag::parse_at(text, close).filter(|tag| tag.closing && tag.name == MarkerName::Question)?;
    let end = skip_whitespace(text, closing.name_end);
    (text.get(end) == Some(&b'>')).then_some(end + 1)
}
