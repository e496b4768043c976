//! Counts tokens on all cores: splits a text where no token can span the cut, so the counts of its parts add
//! up exactly.
//!
//! This module knows no vocabulary, only the patterns by which both vocabularies first split a text into
//! words: no token spans more than one word.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Minimum bytes of a part: large enough to be worth a turn, small enough to keep all threads busy until the
/// end.
const PART: usize = 64 * 1024;

/// Function that counts the tokens of a text.
pub(crate) type CountFunction<'c> = &'c (dyn Fn(&str) -> usize + Sync);

/// The consecutive parts of a text, each with its number of tokens.
pub(crate) struct CountedParts(Vec<(Range<usize>, usize)>);

impl CountedParts {
    pub(crate) fn new(text: &str, count: CountFunction<'_>) -> Self {
        Self::from_parts(text, &split_text(text, PART), count)
    }

    fn from_parts(text: &str, parts: &[Range<usize>], count: CountFunction<'_>) -> Self {
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
            // If no more threads can be spawned, fewer threads do the same work.
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

    /// Returns the number of tokens of the whole text.
    pub(crate) fn total(&self) -> usize {
        self.0.iter().map(|(_, tokens)| tokens).sum()
    }

    /// Returns the number of tokens of a range of `text`, as if the range were a text of its own. Parts
    /// inside the range are not counted again: the characters next to a cut alone determine where words end
    /// and begin around it.
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

/// Splits the text into parts of `least` bytes or more; the last one may be shorter.
fn split_text(text: &str, least: usize) -> Vec<Range<usize>> {
    let mut parts = Vec::with_capacity(text.len() / least + 1);
    let mut start = 0;
    while let Some(end) = find_cut(text.as_bytes(), start + least) {
        parts.push(start..end);
        start = end;
    }
    parts.push(start..text.len());
    parts
}

/// Returns the first word boundary at or after `from` that does not depend on text further away.
///
/// Such a boundary follows line feeds between two visible ASCII characters, the second of which is not `/`.
/// Either the word with the first character excludes the line feeds, which then form their own word, or that
/// word is punctuation and ends with them. The next character is not whitespace, not a line end and not a
/// slash, which `o200k_base` also adds to such a word.
fn find_cut(text: &[u8], mut from: usize) -> Option<usize> {
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

    /// Counts the text in as many parts as possible.
    pub(in crate::compose::tokens) fn count_smallest_parts(
        text: &str,
        count: CountFunction<'_>,
    ) -> CountedParts {
        CountedParts::from_parts(text, &split_text(text, 1), count)
    }

    #[test]
    fn text_splits_between_visible_lines() {
        let text = "one\ntwo;\n\nthree \nfour\n  five\n/six\r\nseven\néight\nnine";
        let cut: Vec<&str> = split_text(text, 1).into_iter().map(|part| &text[part]).collect();
        assert_eq!(cut, ["one\n", "two;\n\n", "three \nfour\n  five\n/six\r\nseven\néight\n", "nine"]);
        assert_eq!(split_text("", 1).len(), 1);
        assert_eq!(split_text("a\nb", 2).len(), 1);
    }
}
