//! Recognizes echoes: lines of a reply that repeat lines of its prompt.
//!
//! Three or more consecutive lines are an echo, and so is one line that holds more than markers. Case and
//! whitespace do not matter, and empty lines are ignored.

use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use memchr::{memchr, memrchr};

use super::loose_marker::has_more_than_markers;
use super::syntax_hits::{SyntaxHit, SyntaxHits};
use super::tag::find_question_end;
use super::thought_tags::ThoughtTags;

/// The lines of a prompt that hold a tag, folded and sorted, each with the two lines before it and the two
/// after it.
pub(super) struct PromptEcho<'p> {
    lines: Vec<(String, [&'p [u8]; 4])>,
    /// The line that was checked last, and whether it is an echo.
    last: Option<(Range<usize>, bool)>,
}

impl<'p> PromptEcho<'p> {
    pub(super) fn new(prompt: &'p [u8]) -> Self {
        let thoughts = ThoughtTags::load_shipped();
        let mut all = Vec::new();
        let mut end = 0;
        let is_marker = |hit: &SyntaxHit| hit.tag.is_some() || find_question_end(prompt, hit.at).is_some();
        for hit in SyntaxHits::new(prompt, 0, &thoughts).filter(is_marker) {
            if hit.at >= end {
                let line = find_line(prompt, hit.at);
                end = line.end;
                all.push((fold_line(&prompt[line.clone()]), find_neighbors(prompt, &line)));
            }
        }
        all.sort_unstable();
        all.dedup();
        Self { lines: all, last: None }
    }

    /// Checks whether the first or the last line of `range` in `text` is part of an echo.
    pub(super) fn contains(&mut self, text: &[u8], range: &Range<usize>) -> bool {
        let end = range.end.saturating_sub(1).max(range.start);
        [range.start, end].into_iter().any(|at| {
            if let Some((_, is_echo)) = self.last.as_ref().filter(|(line, _)| line.contains(&at)) {
                return *is_echo;
            }
            let line = find_line(text, at);
            let is_echo = self.contains_line(text, &line);
            self.last = Some((line, is_echo));
            is_echo
        })
    }

    fn contains_line(&self, text: &[u8], line: &Range<usize>) -> bool {
        let said = fold_line(&text[line.clone()]);
        let from = self.lines.partition_point(|(known, _)| *known < said);
        let mut same = self.lines[from..].iter().take_while(|(known, _)| *known == said).peekable();
        if same.peek().is_none() {
            return false;
        }
        if has_more_than_markers(&text[line.clone()]) {
            return true;
        }
        let [second, first, next, after] = find_neighbors(text, line);
        let alike = |one: &[u8], other: &[u8]| !one.is_empty() && fold_line(one) == fold_line(other);
        same.any(|(_, known)| {
            let (before, behind) = (alike(first, known[1]), alike(next, known[2]));
            before && (behind || alike(second, known[0])) || behind && alike(after, known[3])
        })
    }
}

/// Returns the line that contains `at`, without its line end.
fn find_line(text: &[u8], at: usize) -> Range<usize> {
    let start = memrchr(b'\n', &text[..at]).map_or(0, |end| end + 1);
    start..memchr(b'\n', &text[at..]).map_or(text.len(), |end| at + end)
}

/// Returns the two lines before `line` and the two after it, without counting empty lines. A missing line is
/// empty.
fn find_neighbors<'t>(text: &'t [u8], line: &Range<usize>) -> [&'t [u8]; 4] {
    let full = |line: &&[u8]| !line.trim_ascii().is_empty();
    let mut before = text[..line.start].rsplit(|byte| *byte == b'\n').filter(full);
    let mut after = text[line.end..].split(|byte| *byte == b'\n').filter(full);
    let (first, next) = (before.next(), after.next());
    [before.next(), first, next, after.next()].map(Option::unwrap_or_default)
}

/// Returns a line in lower case, with one space for each run of whitespace.
fn fold_line(line: &[u8]) -> String {
    let mut folded = String::with_capacity(line.len());
    for word in String::from_utf8_lossy(line).split_whitespace() {
        if !folded.is_empty() {
            folded.push(' ');
        }
        folded.extend(word.chars().flat_map(char::to_lowercase));
    }
    folded
}
