//! Echoes: three or more consecutive lines of a reply that are consecutive lines of its prompt.

use alloc::vec::Vec;
use core::ops::Range;

use memchr::{memchr, memrchr};

/// The prompt by every three lines of it that hold a tag, in order. Blanks around a line do not matter.
pub(super) struct Echo<'p>(Vec<[&'p [u8]; 3]>);

impl<'p> Echo<'p> {
    pub(super) fn new(prompt: &'p [u8]) -> Self {
        let lines: Vec<&[u8]> = lines(prompt).collect();
        let with_tag = |three: &[&'p [u8]; 3]| three.iter().any(|line| memchr(b'<', line).is_some());
        let mut all: Vec<[&[u8]; 3]> =
            lines.windows(3).map(|three| [three[0], three[1], three[2]]).filter(with_tag).collect();
        all.sort_unstable();
        all.dedup();
        Self(all)
    }

    /// Whether a line of `range` in `text` is in an echo.
    pub(super) fn holds(&self, text: &[u8], range: &Range<usize>) -> bool {
        let around = &text[back(text, range.start)..forth(text, range.end)];
        let lines: Vec<&[u8]> = lines(around).collect();
        lines.windows(3).any(|three| self.0.binary_search(&[three[0], three[1], three[2]]).is_ok())
    }
}

fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii)
}

/// The start of the line that is two before the one of `at`, or of the first.
fn back(text: &[u8], mut at: usize) -> usize {
    for _ in 0..3 {
        match memrchr(b'\n', &text[..at]) {
            Some(end) => at = end,
            None => return 0,
        }
    }
    at + 1
}

/// The end of the line that is two after the one of `at`, or of the last.
fn forth(text: &[u8], mut at: usize) -> usize {
    for _ in 0..3 {
        match memchr(b'\n', &text[at..]) {
            Some(length) => at += length + 1,
            None => return text.len(),
        }
    }
    at
}
