//! Selects the lines that form the outline of a document.
//!
//! An outline is a selection of whole lines, so each line keeps its origin. The selection looks only at the
//! shape of the lines; it parses no language.

use alloc::vec::Vec;
use core::ops::Range;

use memchr::memchr;

/// Returns the lines of `text` that form its outline. Adjacent lines share a range; every line includes its
/// line end.
///
/// ```
/// let text = "# Guide\n\nWords.\n\n## Install\n\nMore words.\n";
/// let lines: Vec<&str> =
///     callsheet_core::outline("guide.md", text).into_iter().map(|range| &text[range]).collect();
/// assert_eq!(lines, ["# Guide\n", "## Install\n"]);
/// ```
pub fn outline(path: &str, text: &str) -> Vec<Range<usize>> {
    let mut kept = KeptLines::default();
    // A byte order mark is not part of the first line's shape.
    let from = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    if is_markdown(path) {
        keep_headings(text, from, &mut kept)
    } else {
        keep_outer_levels(text, from, &mut kept)
    }
    kept.0
}

fn is_markdown(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let known = ["md", "markdown", "mdown", "mkd", "mdx"];
    name.rsplit_once('.').is_some_and(|(_, end)| known.iter().any(|known| end.eq_ignore_ascii_case(known)))
}

#[derive(Default)]
struct KeptLines(Vec<Range<usize>>);

impl KeptLines {
    fn keep(&mut self, lines: Range<usize>) {
        match self.0.last_mut() {
            Some(last) if last.end == lines.start => last.end = lines.end,
            _ => self.0.push(lines),
        }
    }
}

/// Returns every line as its range with the line end and its text without it.
fn split_lines(text: &str, from: usize) -> impl Iterator<Item = (Range<usize>, &str)> {
    let mut start = from;
    core::iter::from_fn(move || {
        if start == text.len() {
            return None;
        }
        let end = memchr(b'\n', &text.as_bytes()[start..]).map_or(text.len(), |at| start + at + 1);
        let range = start..end;
        start = end;
        let line = &text[range.clone()];
        Some((range, line.strip_suffix('\n').unwrap_or(line).trim_end_matches('\r')))
    })
}

/// Keeps the lines at the margin, and the lines one level deeper than one of them.
///
/// The width of a level is decided from line to line: a file may use two columns here and four there. One
/// column more is alignment (` * ` in a comment, ` public:` in a class), never a level.
fn keep_outer_levels(text: &str, from: usize, kept: &mut KeptLines) {
    const LEAST_STEP: usize = 2;
    let (mut margin, mut inner) = (None, None);
    for (range, line) in split_lines(text, from) {
        if line.trim_start().is_empty() {
            continue;
        }
        let width = indent_width(line);
        let deeper_than = |level: usize| width >= level + LEAST_STEP;
        match (margin, inner) {
            (Some(margin), Some(inner)) if deeper_than(margin) && deeper_than(inner) => continue,
            // A line between two levels, such as the end of a wrapped call, belongs to the deeper one.
            (Some(margin), Some(known)) if deeper_than(margin) => inner = Some(width.min(known)),
            (Some(margin), None) if deeper_than(margin) => inner = Some(width),
            (known, _) => {
                margin = Some(known.map_or(width, |known: usize| known.min(width)));
                inner = None;
            }
        }
        kept.keep(range);
    }
}

/// Returns the columns of whitespace before the first other character.
fn indent_width(line: &str) -> usize {
    const TAB: usize = 4;
    let blanks = line.bytes().take_while(|byte| matches!(byte, b' ' | b'\t'));
    blanks.fold(0, |width, byte| if byte == b'\t' { (width / TAB + 1) * TAB } else { width + 1 })
}

/// The construct that the previous lines leave open.
enum OpenConstruct<'t> {
    Nothing,
    /// A paragraph, which a line of dashes or equals signs turns into a heading.
    Paragraph(Range<usize>),
    /// A paragraph inside a quote or a list item, which a line without a gap continues.
    Contained,
    /// A code block, with the marks that opened it.
    Fence(&'t str),
    Comment,
}

fn keep_headings(text: &str, from: usize, kept: &mut KeptLines) {
    let mut open = OpenConstruct::Nothing;
    for (range, line) in split_lines(text, skip_frontmatter(text, from)) {
        open = match open {
            OpenConstruct::Fence(marks) if !closes_fence(line, marks) => OpenConstruct::Fence(marks),
            OpenConstruct::Comment if !line.contains("-->") => OpenConstruct::Comment,
            OpenConstruct::Fence(_) | OpenConstruct::Comment => OpenConstruct::Nothing,
            _ if line.trim().is_empty() => OpenConstruct::Nothing,
            open => {
                let inside = indent_width(line);
                let bare = line.trim_start_matches([' ', '\t']);
                if inside > 3 {
                    // Indented code, unless it continues a paragraph.
                    match open {
                        OpenConstruct::Paragraph(paragraph) => {
                            OpenConstruct::Paragraph(paragraph.start..range.end)
                        }
                        other => other,
                    }
                } else if is_heading(bare) {
                    kept.keep(range);
                    OpenConstruct::Nothing
                } else if let Some(marks) = opening_fence(bare) {
                    OpenConstruct::Fence(marks)
                } else if bare.starts_with("<!--") {
                    if bare.contains("-->") { OpenConstruct::Nothing } else { OpenConstruct::Comment }
                } else if let (OpenConstruct::Paragraph(paragraph), true) = (&open, is_underline(bare)) {
                    kept.keep(paragraph.start..range.end);
                    OpenConstruct::Nothing
                } else if is_break(bare) {
                    OpenConstruct::Nothing
                } else if is_container(bare) {
                    OpenConstruct::Contained
                } else {
                    match open {
                        OpenConstruct::Paragraph(paragraph) => {
                            OpenConstruct::Paragraph(paragraph.start..range.end)
                        }
                        OpenConstruct::Contained => OpenConstruct::Contained,
                        _ => OpenConstruct::Paragraph(range),
                    }
                }
            }
        };
    }
}

/// Returns the offset after the frontmatter, which would pass for a paragraph above a line of dashes.
fn skip_frontmatter(text: &str, from: usize) -> usize {
    let mut lines = split_lines(text, from);
    if lines.next().is_none_or(|(_, line)| line.trim_end() != "---") {
        return from;
    }
    lines.find(|(_, line)| matches!(line.trim_end(), "---" | "...")).map_or(from, |(range, _)| range.end)
}

fn is_heading(line: &str) -> bool {
    let rest = line.trim_start_matches('#');
    matches!(line.len() - rest.len(), 1..=6) && (rest.is_empty() || rest.starts_with([' ', '\t']))
}

/// Returns the marks that open a code block.
fn opening_fence(line: &str) -> Option<&str> {
    let mark = line.chars().next().filter(|mark| matches!(mark, '`' | '~'))?;
    let rest = line.trim_start_matches(mark);
    let marks = &line[..line.len() - rest.len()];
    (marks.len() >= 3 && !(mark == '`' && rest.contains('`'))).then_some(marks)
}

fn closes_fence(line: &str, marks: &str) -> bool {
    let bare = line.trim_start_matches(' ');
    line.len() - bare.len() <= 3
        && bare.starts_with(marks)
        && bare.trim_end().chars().all(|c| marks.starts_with(c))
}

fn is_underline(line: &str) -> bool {
    let line = line.trim_end();
    ['-', '='].iter().any(|mark| line.chars().all(|c| c == *mark))
}

/// Matches a thematic break: three or more of one mark, with or without whitespace between.
fn is_break(line: &str) -> bool {
    ['-', '*', '_'].iter().any(|mark| {
        line.chars().all(|c| c == *mark || c == ' ' || c == '\t') && line.matches(*mark).count() >= 3
    })
}

/// Checks whether a line begins a quote or a list item.
fn is_container(line: &str) -> bool {
    let rest = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let digits = line.len() - rest.len();
    let mark = if digits == 0 { ['-', '*', '+'].as_slice() } else { &['.', ')'] };
    line.starts_with('>')
        || rest
            .strip_prefix(mark)
            .is_some_and(|rest| digits <= 9 && (rest.is_empty() || rest.starts_with([' ', '\t'])))
}
