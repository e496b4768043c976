//! Owns the shipped list of the tags and delimiters that models put around their thoughts.

use alloc::vec::Vec;

const LIST: &str = include_str!("../../builtin/replies/thoughts.txt");

#[derive(Debug, Default)]
pub(super) struct ThoughtTags {
    names: Vec<&'static [u8]>,
    /// Delimiters that are not HTML, each with the pair that it belongs to; the first of a pair opens.
    delimiters: Vec<(&'static [u8], ThoughtDelimiter)>,
}

/// A thought delimiter that is not HTML.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ThoughtDelimiter {
    pub(super) pair: usize,
    pub(super) closing: bool,
    pub(super) length: usize,
}

impl ThoughtTags {
    pub(super) fn load_shipped() -> Self {
        let names = LIST.lines().filter_map(|line| line.strip_prefix("name ")).map(str::as_bytes).collect();
        let pairs = LIST.lines().filter_map(|line| line.strip_prefix("between ")).enumerate();
        let delimiters = pairs.flat_map(|(pair, ends)| {
            ends.split(' ').enumerate().map(move |(at, end)| {
                (end.as_bytes(), ThoughtDelimiter { pair, closing: at > 0, length: end.len() })
            })
        });
        Self { names, delimiters: delimiters.collect() }
    }

    /// Checks whether a tag of this name holds a thought.
    pub(super) fn is_thought_name(&self, name: &[u8]) -> bool {
        let ends = |end: &&[u8]| {
            let start = name.len().checked_sub(end.len());
            start.is_some_and(|start| name[start..].eq_ignore_ascii_case(end))
        };
        self.names.iter().any(ends)
    }

    /// Returns the delimiters that `text` begins with; one text can end several pairs.
    pub(super) fn match_delimiters(&self, text: &[u8]) -> impl Iterator<Item = ThoughtDelimiter> {
        let starts = |end: &[u8]| text.get(..end.len()).is_some_and(|start| start.eq_ignore_ascii_case(end));
        self.delimiters.iter().filter(move |(end, _)| starts(end)).map(|(_, delimiter)| *delimiter)
    }
}
