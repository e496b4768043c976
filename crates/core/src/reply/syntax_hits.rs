//! Finds hits: the offsets at which a tag, a delimiter or a fence can begin.
//!
//! Plain text is searched only for a few bytes, block by block, so that a block is in the cache when it is
//! searched again for other bytes.

use memchr::{memchr, memchr3};

use super::loose_marker::LooseTag;
use super::thought_tags::ThoughtTags;

const BLOCK: usize = 64 * 1024;

/// The start of a possible tag, delimiter or fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SyntaxHit {
    pub(super) at: usize,
    /// Whether three or more backticks or tildes begin here.
    pub(super) fence: bool,
    pub(super) tag: Option<LooseTag>,
    /// Whether a thought delimiter begins here.
    pub(super) delimiter: bool,
}

/// Bytes that are searched together. The bytes that are not ASCII are first bytes of characters that can be
/// brackets.
const GROUPS: [[u8; 3]; 5] =
    [[b'<', b'`', b'~'], [b'[', b'{', b'&'], [b'\\', b'%', b'>'], [0xe2, 0xe3, 0xef], [0xc2, 0xcb, 0xe1]];

/// The replacement for bytes that are not text.
const REPLACED: &[u8] = "\u{fffd}".as_bytes();

pub(super) struct SyntaxHits<'t> {
    text: &'t [u8],
    thoughts: &'t ThoughtTags,
    /// The end of the block that is being searched.
    block: usize,
    ascii: bool,
    /// The next byte of each group in the block.
    next: [Option<usize>; GROUPS.len()],
}

impl<'t> SyntaxHits<'t> {
    pub(super) const fn new(text: &'t [u8], start: usize, thoughts: &'t ThoughtTags) -> Self {
        Self { text, thoughts, block: start, ascii: true, next: [None; GROUPS.len()] }
    }

    fn search_group(&mut self, group: usize, from: usize) {
        let [a, b, c] = GROUPS[group];
        self.next[group] = memchr3(a, b, c, &self.text[from..self.block]).map(|at| from + at);
    }

    fn has_delimiter(&self, rest: &[u8]) -> bool {
        self.thoughts.match_delimiters(rest).next().is_some()
    }

    /// Returns the offset of the next byte of any group.
    fn next_byte(&mut self) -> Option<usize> {
        loop {
            let first = self.next.iter().enumerate().filter_map(|(group, at)| Some((((*at)?), group))).min();
            if let Some((at, group)) = first {
                self.search_group(group, at + 1);
                return Some(at);
            }
            if self.block >= self.text.len() {
                return None;
            }
            let start = self.block;
            self.block = (start + BLOCK).min(self.text.len());
            self.ascii = self.text[start..self.block].is_ascii();
            for group in 0..if self.ascii { 3 } else { GROUPS.len() } {
                self.search_group(group, start);
            }
        }
    }
}

impl Iterator for SyntaxHits<'_> {
    type Item = SyntaxHit;

    fn next(&mut self) -> Option<SyntaxHit> {
        loop {
            let at = self.next_byte()?;
            let rest = &self.text[at..];
            let next = rest.get(1).copied();
            match rest[0] {
                byte @ (b'`' | b'~') => {
                    if rest.starts_with(&[byte; 3]) {
                        let length = rest.iter().take_while(|other| **other == byte).count();
                        // A run can be longer than the block.
                        self.block = self.block.max((at + length).min(self.text.len()));
                        self.search_group(0, at + length);
                        return Some(SyntaxHit { at, fence: true, tag: None, delimiter: false });
                    }
                    continue;
                }
                // In a run of the same sign, only the last can begin something.
                b'<' | b'[' | b'{' | b'\\' | b'&' | b'%' if next == Some(rest[0]) => continue,
                b'<' => {
                    let tag = LooseTag::parse_at(self.text, at);
                    let delimiter =
                        next.is_some_and(|byte| byte == b'|' || !byte.is_ascii()) && self.has_delimiter(rest);
                    let begins = |byte: u8| {
                        byte.is_ascii_alphabetic() || matches!(byte, b'/' | b'!' | b'?' | b'|' | 0x80..)
                    };
                    let spaced = || super::tag::AnyTag::parse_at(self.text, at).is_some();
                    if tag.is_some() || next.is_some_and(begins) || spaced() {
                        return Some(SyntaxHit { at, fence: false, tag, delimiter });
                    }
                    continue;
                }
                b'>' => {
                    let before = &self.text[..at];
                    if before.ends_with(b"--") || before.ends_with(b"]]") || before.ends_with(b"?") {
                        return Some(SyntaxHit { at, fence: false, tag: None, delimiter: false });
                    }
                    // Everything else that ends with `>` was found at its start, except for a tag without an
                    // opening bracket.
                    if !before.last().is_some_and(|byte| matches!(byte, b'w' | b'W' | b's' | b'S')) {
                        continue;
                    }
                }
                // Bytes that are not text were replaced, perhaps all of the text; the replacement begins
                // nothing.
                0xef if rest.starts_with(REPLACED) => {
                    let length = rest.chunks(REPLACED.len()).take_while(|piece| *piece == REPLACED).count()
                        * REPLACED.len();
                    self.block = self.block.max(at + length);
                    (0..GROUPS.len()).for_each(|group| self.search_group(group, at + length));
                    continue;
                }
                b'[' | b'{' if next.is_some_and(|next| !can_begin_name(next)) => continue,
                b'%' if next.is_none_or(|next| !next.is_ascii_hexdigit()) => continue,
                b'&' if next.is_none_or(|next| !next.is_ascii_alphanumeric() && next != b'#') => continue,
                _ => {}
            }
            let tag = LooseTag::parse_at(self.text, at);
            let named = next.is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'/');
            let delimiter =
                (matches!(rest[0], b'[' | b'{') && named || !rest[0].is_ascii()) && self.has_delimiter(rest);
            if tag.is_some() || delimiter {
                return Some(SyntaxHit { at, fence: false, tag, delimiter });
            }
        }
    }
}

/// Checks whether a name can begin with `byte` after a bracket.
fn can_begin_name(byte: u8) -> bool {
    !byte.is_ascii_alphabetic() || memchr(byte.to_ascii_lowercase(), b"rst").is_some() || !byte.is_ascii()
}
