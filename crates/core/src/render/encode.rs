//! Encodes a text for a format, and decodes it again.

use alloc::borrow::Cow;
use alloc::collections::BTreeSet;
use alloc::string::String;

use memchr::{memchr, memchr_iter, memchr2, memmem};
use serde::{Deserialize, Serialize};

/// The encoding of a range of the rendered text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum TextEncoding {
    /// As it is.
    Plain,
    /// Inside a CDATA section.
    Cdata,
    /// Inside a CDATA section, with line feeds in place of CR LF; an attribute of the element says so.
    Crlf,
    /// Inside an attribute, or as XML text: special characters are references.
    Attr,
    /// Inside a JSON string.
    Json,
}

const OPEN: &str = "<![CDATA[";
const CLOSE: &str = "]]>";
const CARRIAGE_RETURN: &str = "&#13;";

impl TextEncoding {
    /// Encodes `text` on its own, without regard to the text before it.
    pub(crate) fn encode(self, text: &str) -> String {
        let mut out = String::with_capacity(text.len() + 16);
        match self {
            Self::Plain => out.push_str(text),
            Self::Cdata => write_cdata(text, &mut 0, &mut out),
            Self::Crlf => write_crlf(text, &mut 0, &mut out),
            Self::Attr => write_attribute(text, &mut out),
            Self::Json => write_json(text, &mut out),
        }
        out
    }

    /// Decodes `text`. Returns `None` if it is not valid in this encoding.
    pub fn decode(self, text: &str) -> Option<Cow<'_, str>> {
        match self {
            Self::Plain => Some(Cow::Borrowed(text)),
            Self::Cdata => decode_cdata(text),
            Self::Crlf => decode_cdata(text).map(|text| Cow::Owned(text.replace('\n', "\r\n"))),
            Self::Attr => decode_references(text),
            Self::Json => {
                let quoted = alloc::format!("\"{text}\"");
                serde_json::from_str::<String>(&quoted).ok().map(Cow::Owned)
            }
        }
    }
}

/// Decodes a CDATA section. Every `]]>` in it was inserted by the encoder, and the section reopens after it.
fn decode_cdata(mut text: &str) -> Option<Cow<'_, str>> {
    let Some(first) = text.find(CLOSE) else { return Some(Cow::Borrowed(text)) };
    let mut out = String::with_capacity(text.len());
    let mut next = Some(first);
    while let Some(at) = next {
        out.push_str(&text[..at]);
        text = &text[at + CLOSE.len()..];
        while let Some(rest) = text.strip_prefix(CARRIAGE_RETURN) {
            out.push('\r');
            text = rest;
        }
        text = text.strip_prefix(OPEN)?;
        next = text.find(CLOSE);
    }
    out.push_str(text);
    Some(Cow::Owned(out))
}

fn decode_references(mut text: &str) -> Option<Cow<'_, str>> {
    if !text.contains('&') {
        return Some(Cow::Borrowed(text));
    }
    let mut out = String::with_capacity(text.len());
    while let Some((before, after)) = text.split_once('&') {
        out.push_str(before);
        let (name, rest) = after.split_once(';')?;
        out.push(REFERENCES.iter().find(|(_, known)| &known[1..known.len() - 1] == name)?.0);
        text = rest;
    }
    out.push_str(text);
    Some(Cow::Owned(out))
}

const REFERENCES: [(char, &str); 16] = [
    ('&', "&amp;"),
    ('<', "&lt;"),
    ('>', "&gt;"),
    ('"', "&quot;"),
    ('\'', "&apos;"),
    ('\t', "&#9;"),
    ('\n', "&#10;"),
    ('\r', CARRIAGE_RETURN),
    // Line ends that only some readers recognize.
    ('\u{b}', "&#11;"),
    ('\u{c}', "&#12;"),
    ('\u{1c}', "&#28;"),
    ('\u{1d}', "&#29;"),
    ('\u{1e}', "&#30;"),
    ('\u{85}', "&#133;"),
    ('\u{2028}', "&#8232;"),
    ('\u{2029}', "&#8233;"),
];

pub(super) fn write_attribute(text: &str, out: &mut String) {
    let mut start = 0;
    for (at, byte) in text.bytes().enumerate() {
        // Few of these characters sort after `>`, and most characters of a path do.
        if byte > b'>' && !matches!(byte, 0xc2 | 0xe2) {
            continue;
        }
        let Some(c) = text[at..].chars().next() else { break };
        if let Some((_, reference)) = REFERENCES.iter().find(|(known, _)| *known == c) {
            out.push_str(&text[start..at]);
            out.push_str(reference);
            start = at + c.len_utf8();
        }
    }
    out.push_str(&text[start..]);
}

/// Writes text outside CDATA in which only carriage returns need an encoding.
pub(super) fn write_carriage_returns(text: &str, out: &mut String) {
    for (at, line) in text.split('\r').enumerate() {
        if at > 0 {
            out.push_str(CARRIAGE_RETURN);
        }
        out.push_str(line);
    }
}

/// The size of the parts in which a text is scanned and then written: a part that was just read is still in
/// the CPU cache.
pub(super) const BLOCK: usize = 16 << 10;

/// Splits a text into parts of about [`BLOCK`] bytes.
pub(super) fn split_blocks(mut text: &str) -> impl Iterator<Item = &str> {
    core::iter::from_fn(move || {
        let (block, rest) = text.split_at(text.floor_char_boundary(BLOCK));
        text = rest;
        (!block.is_empty()).then_some(block)
    })
}

/// Writes text inside a CDATA section. `brackets` counts the `]` (two at most) that were written last: a
/// `]]>` can begin in one piece and end in the next.
pub(super) fn write_cdata(text: &str, brackets: &mut usize, out: &mut String) {
    for block in split_blocks(text) {
        if memchr(b'\r', block.as_bytes()).is_some() || closes_cdata(block, *brackets) {
            write_cdata_block(block, brackets, out);
        } else {
            out.push_str(block);
            *brackets = count_trailing_brackets(block, *brackets);
        }
    }
}

/// Checks whether a text has line ends and all of them are CR LF.
pub(super) fn is_crlf(text: &str) -> bool {
    let bytes = text.as_bytes();
    let ends = |byte: u8| memchr_iter(byte, bytes).count();
    // Most texts have no carriage return at all.
    memchr(b'\r', bytes).is_some() && {
        let both = memmem::find_iter(bytes, "\r\n").count();
        both == ends(b'\r') && both == ends(b'\n')
    }
}

/// Writes a text whose line ends are all CR LF like [`cdata`], with line feeds instead.
pub(super) fn write_crlf(text: &str, brackets: &mut usize, out: &mut String) {
    for (at, line) in text.split("\r\n").enumerate() {
        if at > 0 {
            out.push('\n');
            *brackets = 0;
        }
        write_cdata(line, brackets, out);
    }
}

fn write_cdata_block(mut rest: &str, brackets: &mut usize, out: &mut String) {
    while let Some(at) = memchr2(b'>', b'\r', rest.as_bytes()) {
        let before = &rest[..at];
        out.push_str(before);
        *brackets = count_trailing_brackets(before, *brackets);
        if rest.as_bytes()[at] == b'\r' {
            out.push_str(CLOSE);
            out.push_str(CARRIAGE_RETURN);
            out.push_str(OPEN);
        } else {
            if *brackets >= 2 {
                out.push_str(CLOSE);
                out.push_str(OPEN);
            }
            out.push('>');
        }
        *brackets = 0;
        rest = &rest[at + 1..];
    }
    out.push_str(rest);
    *brackets = count_trailing_brackets(rest, *brackets);
}

fn count_trailing_brackets(text: &str, before: usize) -> usize {
    let count = text.bytes().rev().take(2).take_while(|byte| *byte == b']').count();
    if count == text.len() { (before + count).min(2) } else { count }
}

/// Checks whether a body needs CDATA, one text at a time. `brackets` carries over from text to text, as in
/// [`cdata`].
pub(super) fn needs_cdata(text: &str, brackets: &mut usize) -> bool {
    let special = memchr2(b'<', b'&', text.as_bytes()).is_some() || closes_cdata(text, *brackets);
    *brackets = count_trailing_brackets(text, *brackets);
    special
}

/// Checks whether a text holds `]]>`, or the rest of one that begins with the `brackets` before it.
fn closes_cdata(text: &str, brackets: usize) -> bool {
    let lead = || text.bytes().take_while(|byte| *byte == b']').count();
    let ends = |lead: usize| brackets + lead >= 2 && text.as_bytes().get(lead) == Some(&b'>');
    memmem::find(text.as_bytes(), CLOSE.as_bytes()).is_some() || brackets > 0 && ends(lead())
}

/// Returns the first character that XML 1.0 cannot carry, with its offset.
pub(super) fn find_xml_misfit(text: &str) -> Option<(usize, char)> {
    // A block of bytes at a time, without a branch: the compiler then vectorizes the loop.
    for (number, block) in text.as_bytes().chunks(256).enumerate() {
        let holds = |suspect: fn(u8) -> bool| block.iter().fold(false, |any, byte| any | suspect(*byte));
        if !holds(is_unusual) || !holds(may_be_misfit) {
            continue;
        }
        let start = number * 256;
        let suspects = block.iter().enumerate().filter(|(_, byte)| may_be_misfit(**byte));
        let mut found = suspects.filter_map(|(at, _)| Some((start + at, text[start + at..].chars().next()?)));
        if let Some(misfit) = found.find(|(_, c)| !matches!(c, '\u{f000}'..='\u{fffd}')) {
            return Some(misfit);
        }
    }
    None
}

/// Matches bytes that most blocks lack, in half as many instructions: all control characters except tab and
/// line feed, and every byte that is not ASCII.
fn is_unusual(byte: u8) -> bool {
    (byte.cast_signed() < 0x20) & (byte != b'\n') & (byte != b'\t')
}

/// Matches control characters except tab and line ends, and the first byte of U+F000 to U+FFFF.
fn may_be_misfit(byte: u8) -> bool {
    (byte < 0x20) & (byte != b'\t') & (byte != b'\n') & (byte != b'\r') | (byte == 0xEF)
}

/// Writes text inside a JSON string.
pub(super) fn write_json(text: &str, out: &mut String) {
    let bytes = text.as_bytes();
    let mut start = 0;
    for (at, byte) in bytes.iter().enumerate() {
        let escape = match byte {
            b'"' => "\\\"",
            b'\\' => "\\\\",
            b'\n' => "\\n",
            b'\r' => "\\r",
            b'\t' => "\\t",
            0..=0x1f => "",
            _ => continue,
        };
        out.push_str(&text[start..at]);
        if escape.is_empty() {
            out.push_str("\\u00");
            for nibble in [byte >> 4, byte & 15] {
                out.push(char::from_digit(u32::from(nibble), 16).unwrap_or('0'));
            }
        } else {
            out.push_str(escape);
        }
        start = at + 1;
    }
    out.push_str(&text[start..]);
}

/// Returns the text after `<name` or `</name` at an offset.
fn after_tag_name<'t>(text: &'t str, at: usize, name: &str) -> Option<&'t str> {
    let rest = &text[at + 1..];
    rest.strip_prefix('/').unwrap_or(rest).strip_prefix(name)
}

fn ends_tag_name(after: &str) -> bool {
    !after.starts_with(|c: char| c.is_alphanumeric() || "-_.:".contains(c))
}

/// Returns the numbers of all tags `name-2`, `name-3` and so on in a text, opening or closing.
pub(super) fn find_tag_numbers(text: &str, name: &str) -> BTreeSet<usize> {
    let number = |at: usize| {
        let rest = after_tag_name(text, at, name)?.strip_prefix('-')?;
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, after) = rest.split_at(digits);
        number.parse().ok().filter(|_| ends_tag_name(after) && !number.starts_with('0'))
    };
    memchr_iter(b'<', text.as_bytes()).filter_map(number).collect()
}

/// Checks whether a text holds a tag with this name, opening or closing.
pub(super) fn holds_tag(text: &str, name: &str) -> bool {
    memchr_iter(b'<', text.as_bytes()).any(|at| after_tag_name(text, at, name).is_some_and(ends_tag_name))
}
