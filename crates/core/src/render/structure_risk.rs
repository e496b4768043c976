//! Finds the lines of a supplied text that a reader could take for structure.
//!
//! A line that the format itself uses counts anywhere: a simple reader does not know code blocks. All other
//! lines that matter to CommonMark raise a doubt, which [`outline`](super::outline) settles.

use core::ops::Range;

use memchr::{memchr2, memmem, memrchr2};

/// The structure of the prompt itself.
pub(super) trait OwnStructure {
    /// Returns whether lines of dashes separate its pieces.
    fn has_rules(&self) -> bool;
    /// Returns the deepest level of a heading in the prompt's own text; 0 if it has none.
    fn deepest_level(&self) -> u8;
}

/// The risk that a supplied text poses to the structure around it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StructureRisk {
    /// It has a line that the format itself uses.
    Line(Range<usize>),
    /// It has a line that only a parser can judge: it opens a construct, or is structure inside another one.
    Doubt(Range<usize>),
}

/// How far before and after a text its line is searched. Text further away does not begin structure, and
/// searching it from each of many texts in one long line would be slow.
pub(super) const REACH: usize = 4096;

/// Line ends that only some readers recognize.
const RARE_ENDS: [char; 8] =
    ['\u{b}', '\u{c}', '\u{1c}', '\u{1d}', '\u{1e}', '\u{85}', '\u{2028}', '\u{2029}'];

/// Checks that a text has no line end of any kind, no tag, and no byte that needs a closer check for either.
pub(super) fn is_quiet(text: &str) -> bool {
    // Without a branch inside: the compiler then vectorizes the loop.
    let loud = |byte: u8| (byte.cast_signed() < 0x20) | (byte == b'<');
    text.as_bytes().chunks(256).all(|block| !block.iter().fold(false, |any, byte| any | loud(*byte)))
}

/// Checks that the first line of a text cannot begin structure, whatever precedes it in its line.
pub(super) fn begins_calmly(text: &str) -> bool {
    match text.as_bytes() {
        [] => true,
        [b'0'..=b'9', ..] => !text.trim_start_matches(|c: char| c.is_ascii_digit()).starts_with(['.', ')']),
        [first, ..] => !matches!(
            first,
            b' ' | b'#' | b'=' | b'-' | b'`' | b'~' | b'<' | b'>' | b'*' | b'_' | b'+' | 0..=0x1f | 0x7f..
        ),
    }
}

/// Checks whether a text has a line end that some reader recognizes.
pub(super) fn has_line_end(text: &str) -> bool {
    memchr2(b'\n', b'\r', text.as_bytes()).is_some() || has_rare_end(text)
}

fn has_rare_end(text: &str) -> bool {
    let bytes = text.as_bytes();
    let control = |byte: &u8| matches!(byte, 0xb | 0xc | 0x1c..=0x1e);
    memmem::find(bytes, "\u{85}".as_bytes()).is_some()
        || memmem::find(bytes, &"\u{2028}".as_bytes()[..2]).is_some()
            && text.contains(['\u{2028}', '\u{2029}'])
        || bytes.chunks(256).any(|block| block.iter().fold(false, |any, byte| any | control(byte)))
}

/// Iterates over the lines of `whole` that overlap `range`, without their line ends.
pub(super) struct LineRanges<'t> {
    whole: &'t str,
    /// The start of the next line.
    next: Option<usize>,
    end: usize,
    rare: bool,
}

impl<'t> LineRanges<'t> {
    pub(super) fn new(whole: &'t str, range: &Range<usize>) -> Self {
        let near = whole.floor_char_boundary(range.start.saturating_sub(REACH));
        let before = &whole[near..range.start];
        let mut start = memrchr2(b'\n', b'\r', before.as_bytes()).map(|end| near + end + 1);
        let rare = has_rare_end(&whole[start.unwrap_or(near)..range.end]);
        if rare && let Some(end) = whole[start.unwrap_or(near)..range.start].rfind(RARE_ENDS) {
            let end = start.unwrap_or(near) + end;
            start = Some(end + whole[end..].chars().next().map_or(1, char::len_utf8));
        }
        let start = start.unwrap_or(if near == 0 { 0 } else { range.start });
        Self { whole, next: Some(start), end: range.end, rare }
    }

    /// Returns the end of the line that begins at `from`, and the start of the next line.
    fn line_end(&self, from: usize) -> (usize, Option<usize>) {
        let reach = self.whole.ceil_char_boundary(self.end.saturating_add(REACH));
        let rest = &self.whole[from..reach];
        let usual = memchr2(b'\n', b'\r', rest.as_bytes());
        let rare = if self.rare { rest[..usual.unwrap_or(rest.len())].find(RARE_ENDS) } else { None };
        match rare.or(usual) {
            None => (reach, None),
            Some(at) if rest[at..].starts_with("\r\n") => (from + at, Some(from + at + 2)),
            Some(at) => (from + at, Some(from + at + rest[at..].chars().next().map_or(1, char::len_utf8))),
        }
    }
}

impl Iterator for LineRanges<'_> {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Range<usize>> {
        let start = self.next.filter(|start| *start < self.end)?;
        let (end, next) = self.line_end(start);
        self.next = next;
        Some(start..end)
    }
}

/// The possible roles of a line, judged by its shape.
#[derive(Default)]
struct LineShape {
    /// Its level as a heading.
    heading: u8,
    /// The heading level that it gives to the line above.
    underline: u8,
    rule: bool,
    /// It begins with a code fence or with markup, which may hide the text after it.
    opener: bool,
    /// It is inside a quote or a list, or indented.
    inside: bool,
    /// The range of its first marks.
    marks: Range<usize>,
}

/// Returns the deepest level of a heading among the lines of a text of the prompt's own.
pub(super) fn deepest_heading(text: &str, range: &Range<usize>) -> u8 {
    let shapes = LineRanges::new(text, range).map(|line| classify_line(&text[line]));
    shapes.map(|shape| shape.heading.max(shape.underline)).max().unwrap_or(0)
}

fn classify_line(line: &str) -> LineShape {
    let mut shape = LineShape::default();
    let mut rest = line.trim_start_matches('\u{feff}');
    loop {
        let inner = rest.trim_start_matches([' ', '\t']);
        let indent = &rest[..rest.len() - inner.len()];
        shape.inside |= indent.len() > 3 || indent.contains('\t');
        rest = inner;
        let start = line.len() - rest.len();
        let Some(first) = rest.bytes().next().filter(u8::is_ascii) else { return shape };
        let marks = rest.bytes().take_while(|byte| *byte == first).count();
        shape.marks = start..start + marks;
        let after = &rest[marks..];
        match first {
            b'#' if marks <= 6 && (after.is_empty() || after.starts_with([' ', '\t'])) => {
                shape.heading = u8::try_from(marks).unwrap_or(6);
            }
            b'=' if after.trim().is_empty() => shape.underline = 1,
            b'`' | b'~' => shape.opener = marks >= 3,
            b'<' => shape.opener = after.starts_with(|c: char| c.is_ascii_alphabetic() || "/!?".contains(c)),
            b'-' | b'*' | b'_' if is_rule(rest, first) => {
                shape.rule = true;
                shape.underline = if first == b'-' && after.trim().is_empty() { 2 } else { 0 };
            }
            b'-' if after.trim().is_empty() => shape.underline = 2,
            _ => {
                let Some(inner) = strip_container_mark(rest) else { return shape };
                shape.inside = true;
                rest = inner;
                continue;
            }
        }
        return shape;
    }
}

/// Checks for three marks or more, with only whitespace between them.
fn is_rule(line: &str, mark: u8) -> bool {
    let mut marks = 0;
    line.bytes().all(|byte| {
        marks += usize::from(byte == mark);
        byte == mark || matches!(byte, b' ' | b'\t')
    }) && marks >= 3
}

/// Returns the text after the mark of a quote or a list item.
fn strip_container_mark(line: &str) -> Option<&str> {
    if let Some(rest) = line.strip_prefix('>') {
        return Some(rest);
    }
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    let rest = match digits {
        0 => line.strip_prefix(['-', '+', '*'])?,
        1..=9 => line[digits..].strip_prefix(['.', ')'])?,
        _ => return None,
    };
    rest.starts_with([' ', '\t']).then_some(rest)
}

/// Returns the risk that the part `supplied` of `whole` poses, alone or together with the text around it.
/// `last_tagged` is the end of the last text that is put between tags. Its closing tag will stand there, so the line
/// below it does not follow a blank line.
pub(super) fn find_risk(
    whole: &str,
    supplied: &Range<usize>,
    last_tagged: Option<usize>,
    uses: &impl OwnStructure,
) -> Option<StructureRisk> {
    if supplied.is_empty() {
        return None;
    }
    let mut doubt = None;
    let mut lines = LineRanges::new(whole, supplied);
    let mut above: Option<Range<usize>> = None;
    while let Some(line) = lines.next() {
        let text = &whole[line.clone()];
        if begins_calmly(text) && !text.starts_with('\u{feff}') {
            above = Some(line);
            continue;
        }
        let shape = classify_line(text);
        let marks = line.start + shape.marks.start..line.start + shape.marks.end;
        // The marks belong to a heading or an element of the prompt's own, with a supplied text in it.
        let own = marks.end < supplied.start && !whole[marks.clone()].starts_with('`');
        if !own && (shape.heading | shape.underline > 0 || shape.rule || shape.opener) {
            let blank = |text: &str| text.trim().is_empty();
            let above = above.clone().unwrap_or_else(|| line_above(whole, line.start));
            let follows_tag = last_tagged.is_some_and(|end| (above.start..=line.start).contains(&end));
            // Readers that do not recognize a rare line end see another line above.
            let is_blank_to_all = || !lines.rare || blank(&whole[usual_line_above(whole, line.start)]);
            let above_is_blank = !follows_tag && blank(&whole[above]) && is_blank_to_all();
            let below = || lines.next.map_or("", |next| &whole[next..lines.line_end(next).0]);
            let heading = (1..=6).contains(&shape.heading) && shape.heading <= uses.deepest_level();
            let underline = shape.underline > 0 && !above_is_blank && shape.underline <= uses.deepest_level();
            let rule = shape.rule && uses.has_rules();
            // The very line that separates the pieces of the prompt.
            let separator =
                rule && shape.underline > 0 && marks.len() == 3 && above_is_blank && blank(below());
            let shown = line.start..line.start + text.trim_end().len();
            if !shape.inside && (heading || underline || separator) {
                return Some(StructureRisk::Line(shown));
            }
            if heading || underline || rule || shape.opener {
                doubt.get_or_insert(StructureRisk::Doubt(shown));
            }
        }
        above = Some(line);
    }
    doubt
}

/// Returns the line above by line feeds and carriage returns alone, as far as it is [near](REACH).
fn usual_line_above(whole: &str, start: usize) -> Range<usize> {
    let near = whole.floor_char_boundary(start.saturating_sub(REACH));
    let above = line_above(&whole[near..], start - near);
    near + above.start..near + above.end
}

/// Returns the line that ends at `start`, which is empty if there is none.
fn line_above(whole: &str, start: usize) -> Range<usize> {
    if start == 0 {
        return 0..0;
    }
    let end = whole[..start]
        .strip_suffix("\r\n")
        .map_or_else(|| start - whole[..start].chars().next_back().map_or(1, char::len_utf8), str::len);
    let from = memrchr2(b'\n', b'\r', &whole.as_bytes()[..end]).map_or(0, |at| at + 1);
    from..end
}
