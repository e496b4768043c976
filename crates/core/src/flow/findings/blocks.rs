//! Splits a review into lines of content: headings, entries of lists, rows of tables and paragraphs. Code,
//! quotes and comments are skipped.

use alloc::vec::Vec;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReviewBlockKind {
    Heading(usize),
    /// An entry of a list, with its indentation.
    Item(usize),
    /// The column names of a table.
    Columns,
    /// A row of a table, with the index of the block that names its columns.
    Row(Option<usize>),
    /// A line of a paragraph: the first one, or another.
    Text {
        begins: bool,
    },
}

/// Line without the Markdown sign of its kind.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReviewBlock<'t> {
    pub(super) kind: ReviewBlockKind,
    /// Offset of its words.
    pub(super) start: usize,
    pub(super) text: &'t str,
}

impl ReviewBlock<'_> {
    pub(super) const fn end(&self) -> usize {
        self.start + self.text.len()
    }

    pub(super) const fn level(&self) -> Option<usize> {
        match self.kind {
            ReviewBlockKind::Heading(level) => Some(level),
            _ => None,
        }
    }
}

pub(super) fn parse_blocks(text: &str) -> Vec<ReviewBlock<'_>> {
    let mut reader = ReviewBlockReader::default();
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        reader.read_line(at, line.trim_end());
        at += line.len();
    }
    reader.blocks
}

#[derive(Default)]
struct ReviewBlockReader<'t> {
    blocks: Vec<ReviewBlock<'t>>,
    fence: Option<&'t str>,
    is_comment: bool,
    /// The lines before belong to a quote, which continues until a block begins.
    is_quote: bool,
    /// Indented lines belong to a list.
    in_list: bool,
    /// A paragraph is open.
    in_text: bool,
    /// The table that is open, with the index of its column names.
    table: Option<Option<usize>>,
}

impl<'t> ReviewBlockReader<'t> {
    fn read_line(&mut self, at: usize, line: &'t str) {
        let words = line.trim_start_matches([' ', '\t']);
        let indent = line.len() - words.len();
        let start = at + indent;
        if let Some(open) = self.fence {
            let sign = open.chars().next().unwrap_or('`');
            let length = count_leading(words, sign);
            if length >= open.len() && words[length..].is_empty() {
                self.fence = None;
            }
            return;
        }
        if self.is_comment {
            self.is_comment = !words.contains("-->");
            return;
        }
        if words.is_empty() {
            (self.is_quote, self.in_text, self.table) = (false, false, None);
            return;
        }
        if indent >= 4 && !self.in_list && !self.in_text {
            return;
        }
        let (marker, rest) = split_marker(words);
        if let Some(fence) = parse_fence(rest) {
            self.fence = Some(fence);
            self.end_text();
            return;
        }
        if words.starts_with("<!--") {
            self.is_comment = !words.contains("-->");
            return;
        }
        if rest.starts_with('>') {
            self.end_text();
            self.is_quote = true;
            return;
        }
        let level = count_leading(words, '#');
        let title = &words[level..];
        if (1..=6).contains(&level) && (title.is_empty() || title.starts_with([' ', '\t'])) {
            self.end_text();
            self.in_list = false;
            self.add(ReviewBlockKind::Heading(level), start + level, title);
        } else if marker > 0 {
            self.end_text();
            (self.in_list, self.in_text) = (true, true);
            self.add(ReviewBlockKind::Item(indent), start + marker, rest);
        } else if self.is_quote {
            // The paragraph of a quote may continue without its sign.
        } else if is_table_rule(words) {
            let columns = self.blocks.len().checked_sub(1).filter(|_| self.in_text || self.table.is_some());
            if let Some(columns) = columns {
                self.blocks[columns].kind = ReviewBlockKind::Columns;
            }
            self.table = Some(columns);
        } else if words.starts_with('|') || (self.table.is_some() && words.contains('|')) {
            let columns = *self.table.get_or_insert(None);
            self.add(ReviewBlockKind::Row(columns), start, words);
        } else {
            if indent == 0 && !self.in_text {
                self.in_list = false;
            }
            let begins = !self.in_text;
            self.in_text = true;
            self.add(ReviewBlockKind::Text { begins }, start, words);
        }
    }

    fn end_text(&mut self) {
        (self.is_quote, self.in_text, self.table) = (false, false, None);
    }

    fn add(&mut self, kind: ReviewBlockKind, start: usize, words: &'t str) {
        let text = words.trim_start();
        let start = start + (words.len() - text.len());
        self.blocks.push(ReviewBlock { kind, start, text });
    }
}

fn count_leading(words: &str, sign: char) -> usize {
    words.len() - words.trim_start_matches(sign).len()
}

/// Returns the fence of a code block that begins here.
fn parse_fence(words: &str) -> Option<&str> {
    let sign = words.chars().next().filter(|sign| matches!(sign, '`' | '~'))?;
    let length = count_leading(words, sign);
    (length >= 3 && (sign == '~' || !words[length..].contains('`'))).then(|| &words[..length])
}

/// Returns the length of a list marker, including its checkbox, and the text behind it.
fn split_marker(words: &str) -> (usize, &str) {
    let digits = words.len() - words.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let after = match digits {
        0 => words.strip_prefix(['-', '*', '+']),
        1..10 => words[digits..].strip_prefix(['.', ')']),
        _ => None,
    };
    let Some(after) = after.filter(|after| after.starts_with([' ', '\t'])) else { return (0, words) };
    let mut rest = after.trim_start();
    for open in ["[ ] ", "[x] ", "[X] "] {
        rest = rest.strip_prefix(open).unwrap_or(rest);
    }
    (words.len() - rest.len(), rest)
}

fn is_table_rule(words: &str) -> bool {
    words.contains('|')
        && words.contains('-')
        && words.trim_matches(['|', '-', ':', ' ', '\t']).is_empty()
        && { words.chars().all(|c| matches!(c, '|' | '-' | ':' | ' ' | '\t')) }
}

/// Splits a row into cells, each with its offset.
pub(super) fn split_cells(row: &str) -> Vec<(usize, &str)> {
    let mut cells = Vec::new();
    let mut from = usize::from(row.starts_with('|'));
    let mut escaped = false;
    for (at, c) in row.char_indices().skip(from) {
        if c == '|' && !escaped {
            cells.push((from, &row[from..at]));
            from = at + 1;
        }
        escaped = c == '\\' && !escaped;
    }
    if !row[from..].trim().is_empty() {
        cells.push((from, &row[from..]));
    }
    let trimmed = cells.into_iter().map(|(at, cell)| {
        let text = cell.trim_start();
        (at + (cell.len() - text.len()), text.trim_end())
    });
    trimmed.collect()
}
