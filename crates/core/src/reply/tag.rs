//! Tags and markers: what stands at a `<`.
//!
//! Nothing here knows where in a text it stands, so nothing here says whether a marker counts. Every search ends at the
//! next `<` or at the end of a line, so that however many tags are left open, a text is read once.

use memchr::memchr2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Name {
    Thought,
    Review,
    TaskStatus,
    /// Elements that show text rather than say it.
    Pre,
    Code,
    Blockquote,
}

/// Models call their thoughts by other names too. Not to know one would let a thought pass for an answer.
const NAMES: [(&str, Name); 8] = [
    ("thought", Name::Thought),
    ("think", Name::Thought),
    ("thinking", Name::Thought),
    ("review", Name::Review),
    ("task_status", Name::TaskStatus),
    ("pre", Name::Pre),
    ("code", Name::Code),
    ("blockquote", Name::Blockquote),
];

const LONGEST: usize = "task_status".len();

#[derive(Clone, Copy, Debug)]
pub(super) struct Tag {
    pub(super) name: Name,
    pub(super) closing: bool,
    /// Where its name ends.
    pub(super) name_end: usize,
}

impl Tag {
    /// The tag that the `<` at `at` begins, if it has one of the names.
    pub(super) fn at(text: &[u8], at: usize) -> Option<Self> {
        let mut start = skip_blanks(text, at + 1);
        let closing = text.get(start) == Some(&b'/');
        if closing {
            start = skip_blanks(text, start + 1);
        }
        let rest = &text[start..];
        if !matches!(rest.first()?.to_ascii_lowercase(), b't' | b'r' | b'p' | b'c' | b'b') {
            return None;
        }
        let in_name =
            |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b':' | 0x80..);
        let length = rest.iter().take(LONGEST + 1).take_while(in_name).count();
        let named = |(name, _): &&(&str, Name)| name.as_bytes().eq_ignore_ascii_case(&rest[..length]);
        let name = NAMES.iter().find(named)?.1;
        Some(Self { name, closing, name_end: start + length })
    }

    /// Where the tag ends. Attributes do not matter here, so a `>` in one of them may end it.
    pub(super) fn end(&self, text: &[u8]) -> Option<usize> {
        if self.closing {
            let at =
                self.name_end + text[self.name_end..].iter().take_while(|b| b.is_ascii_whitespace()).count();
            return (text.get(at) == Some(&b'>')).then_some(at + 1);
        }
        let at = self.name_end + memchr2(b'<', b'>', &text[self.name_end..])?;
        (text[at] == b'>').then_some(at + 1)
    }
}

/// Blanks inside a line.
pub(super) const fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r')
}

pub(super) fn skip_blanks(text: &[u8], at: usize) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    at + rest.iter().take_while(|byte| is_blank(**byte)).count()
}

/// A complete marker: a tag, a word, a closing tag, on one line or on three.
#[derive(Clone, Copy, Debug)]
pub(super) struct Marker<'t> {
    pub(super) name: Name,
    attributes: &'t str,
    pub(super) word: &'t str,
    pub(super) end: usize,
    pub(super) lines: usize,
}

impl<'t> Marker<'t> {
    /// The marker that `tag` opens, or `None` if it is not complete.
    pub(super) fn of(bytes: &'t [u8], tag: &Tag) -> Option<Self> {
        let open_end = tag_end(bytes, tag.name_end)?;
        let (word, close, lines) = match memchr2(b'<', b'\n', &bytes[open_end..])? + open_end {
            at if bytes[at] == b'<' => (open_end..at, at, 1),
            first if skip_blanks(bytes, open_end) == first => {
                let second = memchr2(b'<', b'\n', &bytes[first + 1..])? + first + 1;
                (first + 1..second, skip_blanks(bytes, second + 1), 3)
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
        let closing = Tag::at(bytes, close)?;
        if !closing.closing || closing.name != tag.name || word.is_empty() {
            return None;
        }
        let close_end = skip_blanks(bytes, closing.name_end);
        if bytes.get(close_end) != Some(&b'>') {
            return None;
        }
        let attributes = str::from_utf8(&bytes[tag.name_end..open_end - 1]).ok()?;
        Some(Self { name: tag.name, attributes, word, end: close_end + 1, lines })
    }

    /// Names and values; a name without a value has an empty one.
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

/// Where a tag with attributes ends: a `>` outside quotes, on the same line.
fn tag_end(text: &[u8], from: usize) -> Option<usize> {
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

/// Whether `said` is `word`, whatever its case; what joins its parts may be a blank or a hyphen too.
pub(super) fn is_word(said: &str, word: &str) -> bool {
    let plain = |byte: u8| if matches!(byte, b' ' | b'-') { b'_' } else { byte.to_ascii_uppercase() };
    said.len() == word.len() && said.bytes().zip(word.bytes()).all(|(a, b)| plain(a) == plain(b))
}
