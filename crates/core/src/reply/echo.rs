//! Echoes: three or more consecutive lines of a reply that are consecutive lines of its prompt.

use alloc::vec::Vec;
use core::ops::Range;

use memchr::{memchr, memrchr};

/// The prompt by every three lines of it that hold a tag, in order. Blanks around a line do not matter.
pub(super) struct Echo<'p>(Vec<[&'p str; 3]>);

impl<'p> Echo<'p> {
    pub(super) fn new(prompt: &'p str) -> Self {
        let lines: Vec<&str> = prompt.lines().map(str::trim).collect();
        let with_tag = |three: &[&'p str; 3]| three.iter().any(|line| line.contains('<'));
        let mut all: Vec<[&str; 3]> =
            lines.windows(3).map(|three| [three[0], three[1], three[2]]).filter(with_tag).collect();
        all.sort_unstable();
        all.dedup();
        Self(all)
    }

    /// Whether a line of `range` in `text` is in an echo.
    pub(super) fn holds(&self, text: &str, range: &Range<usize>) -> bool {
        let around = &text[back(text, range.start)..forth(text, range.end)];
        let lines: Vec<&str> = around.lines().map(str::trim).collect();
        lines.windows(3).any(|three| self.0.binary_search(&[three[0], three[1], three[2]]).is_ok())
    }
}

/// The start of the line that is two before the one of `at`, or of the first.
fn back(text: &str, mut at: usize) -> usize {
    for _ in 0..3 {
        match memrchr(b'\n', &text.as_bytes()[..at]) {
            Some(end) => at = end,
            None => return 0,
        }
    }
    at + 1
}

/// The end of the line that is two after the one of `at`, or of the last.
fn forth(text: &str, mut at: usize) -> usize {
    for _ in 0..3 {
        match memchr(b'\n', &text.as_bytes()[at..]) {
            Some(length) => at += length + 1,
            None => return text.len(),
        }
    }
    at
}
