//! Counting on all cores: a text is cut where no token can reach across, so that its parts add up exactly.
//!
//! This module knows no vocabulary, only the patterns by which both of them first cut a text into words: no token
//! takes in more than one word.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Bytes of a part at least: enough to be worth a turn, few enough to keep everybody busy until the end.
const PART: usize = 64 * 1024;

/// Somebody who counts the tokens of a text.
pub(crate) type CountFunction<'c> = &'c (dyn Fn(&str) -> usize + Sync);

/// The parts of a text, one after the other, and how many tokens each of them has.
pub(crate) struct CountedParts(Vec<(Range<usize>, usize)>);

impl CountedParts {
    pub(crate) fn new(text: &str, count: CountFunction<'_>) -> Self {
        Self::of_parts(text, &parts(text, PART), count)
    }

    fn of_parts(text: &str, parts: &[Range<usize>], count: CountFunction<'_>) -> Self {
        let next = AtomicUsize::new(0);
        let work = || {
            let mut counted = Vec::new();
            while let Some(part) = parts.get(next.fetch_add(1, Ordering::Relaxed)) {
                counted.push((part.clone(), count(&text[part.clone()])));
            }
            counted
        };
        let most = thread::available_parallelism().map_or(1, usize::from);
        let mut all = thread::scope(|scope| {
            let spawn = |_| thread::Builder::new().spawn_scoped(scope, work);
            // Where no more threads are to be had, fewer do the same.
            let others: Vec<_> = (1..most.min(parts.len())).map_while(|at| spawn(at).ok()).collect();
            let mut all = work();
            for other in others {
                match other.join() {
                    Ok(counted) => all.extend(counted),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            all
        });
        all.sort_unstable_by_key(|(part, _)| part.start);
        Self(all)
    }

    /// The tokens of the whole text.
    pub(crate) fn all(&self) -> usize {
        self.0.iter().map(|(_, tokens)| tokens).sum()
    }

    /// The tokens of a range of `text` as if it stood alone. Parts that lie in it are not counted again: where words
    /// end and begin around a cut is told by what stands next to it.
    pub(crate) fn count_within(&self, text: &str, range: Range<usize>, count: CountFunction<'_>) -> usize {
        let first = self.0.partition_point(|(part, _)| part.start < range.start);
        let end = self.0.partition_point(|(part, _)| part.end <= range.end);
        let inside = self.0.get(first..end).unwrap_or_default();
        let (Some((head, _)), Some((tail, _))) = (inside.first(), inside.last()) else {
            return count(&text[range]);
        };
        let inner: usize = inside.iter().map(|(_, tokens)| tokens).sum();
        count(&text[range.start..head.start]) + inner + count(&text[tail.end..range.end])
    }
}

/// The text in parts of `least` bytes or more, but for the last.
fn parts(text: &str, least: usize) -> Vec<Range<usize>> {
    let mut parts = Vec::with_capacity(text.len() / least + 1);
    let mut start = 0;
    while let Some(end) = cut(text.as_bytes(), start + least) {
        parts.push(start..end);
        start = end;
    }
    parts.push(start..text.len());
    parts
}

/// The first place from `from` on where a word ends and another begins, whatever stands further off.
///
/// That is after line feeds which stand between two visible ASCII characters, of which the second is no `/`. A word
/// that holds the first one does not hold the line feeds, and then they are a word of their own; or it is of
/// punctuation, and ends with them. What follows is neither blank nor a line end nor, which `o200k_base` takes in as
/// well, a slash.
fn cut(text: &[u8], mut from: usize) -> Option<usize> {
    while let Some(found) = text.get(from..)?.iter().position(|byte| *byte == b'\n') {
        let first = from + found;
        let after = first + text[first..].iter().take_while(|byte| **byte == b'\n').count();
        let begins = text.get(after).is_some_and(|next| next.is_ascii_graphic() && *next != b'/');
        if begins && text[..first].last().is_some_and(u8::is_ascii_graphic) {
            return Some(after);
        }
        from = after;
    }
    None
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The text in as many parts as can be.
    pub(in crate::tokens) fn smallest(text: &str, count: CountFunction<'_>) -> CountedParts {
        CountedParts::of_parts(text, &parts(text, 1), count)
    }

    #[test]
    fn a_text_is_cut_between_lines_that_begin_and_end_with_something_visible() {
        let text = "one\ntwo;\n\nthree \nfour\n  five\n/six\r\nseven\néight\nnine";
        let cut: Vec<&str> = parts(text, 1).into_iter().map(|part| &text[part]).collect();
        assert_eq!(cut, ["one\n", "two;\n\n", "three \nfour\n  five\n/six\r\nseven\néight\n", "nine"]);
        assert_eq!(parts("", 1).len(), 1);
        assert_eq!(parts("a\nb", 2).len(), 1);
    }
}
