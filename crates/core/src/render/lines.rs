//! Lines: which lines of a supplied text a reader could take for structure.
//!
//! A line that the format itself uses counts wherever it is: a simple reader does not know of code blocks. All other
//! lines that matter to CommonMark raise a doubt, which [`outline`](super::outline) settles.

use core::ops::Range;

use memchr::{memchr2, memmem, memrchr2};

/// The structure that the prompt itself is made of.
pub(super) trait OwnStructure {
    /// Whether lines of dashes separate its pieces.
    fn rule(&self) -> bool;
    /// The lowest level of a heading in its own text; 0 if there is none.
    fn deepest_level(&self) -> u8;
}

/// What a supplied text could do to the structure around it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StructureRisk {
    /// It has a line that the format itself uses.
    Line(Range<usize>),
    /// It has a line that a parser has to judge: it opens something, or is structure inside of something else.
    Doubt(Range<usize>),
}

/// How far before and after a text its line is looked for. What lies further away does not begin structure; looking there
/// from each of many texts in one long line would take time.
pub(super) const REACH: usize = 4096;

/// Line ends that only some readers see.
const RARE_ENDS: [char; 8] =
    ['\u{b}', '\u{c}', '\u{1c}', '\u{1d}', '\u{1e}', '\u{85}', '\u{2028}', '\u{2029}'];

/// Whether a text has no line end of any kind, no tag, and nothing that needs a closer look for either.
pub(super) fn is_quiet(text: &str) -> bool {
    // Without a branch inside: the compiler makes one instruction of many bytes.
    let loud = |byte: u8| (byte.cast_signed() < 0x20) | (byte == b'<');
    text.as_bytes().chunks(256).all(|block| !block.iter().fold(false, |any, byte| any | loud(*byte)))
}

/// Whether the first line of a text cannot begin structure, whatever is before it in its line.
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

/// Whether a text has a line end that some reader sees.
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

/// The lines of `whole` that `range` has a part in, without their ends.
pub(super) struct LineRanges<'t> {
    whole: &'t str,
    /// Where the next line begins.
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

    /// Where the line that begins at `from` ends, and where the next one begins.
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

/// What a line could be by its look.
#[derive(Default)]
struct LineShape {
    /// The level of the heading that it is.
    heading: u8,
    /// The level of the heading that it makes of the line above.
    underline: u8,
    rule: bool,
    /// It begins with a code fence or with markup, which may hide what follows.
    opener: bool,
    /// It is inside of a quote or a list, or indented.
    inside: bool,
    /// Where its first mark is, and where the marks end.
    marks: Range<usize>,
}

/// The lowest level of a heading among the lines of a text of the prompt's own.
pub(super) fn deepest_heading(text: &str, range: &Range<usize>) -> u8 {
    let looks = LineRanges::new(text, range).map(|line| look(&text[line]));
    looks.map(|look| look.heading.max(look.underline)).max().unwrap_or(0)
}

fn look(line: &str) -> LineShape {
    let mut look = LineShape::default();
    let mut rest = line.trim_start_matches('\u{feff}');
    loop {
        let inner = rest.trim_start_matches([' ', '\t']);
        let indent = &rest[..rest.len() - inner.len()];
        look.inside |= indent.len() > 3 || indent.contains('\t');
        rest = inner;
        let start = line.len() - rest.len();
        let Some(first) = rest.bytes().next().filter(u8::is_ascii) else { return look };
        let marks = rest.bytes().take_while(|byte| *byte == first).count();
        look.marks = start..start + marks;
        let after = &rest[marks..];
        match first {
            b'#' if marks <= 6 && (after.is_empty() || after.starts_with([' ', '\t'])) => {
                look.heading = u8::try_from(marks).unwrap_or(6);
            }
            b'=' if after.trim().is_empty() => look.underline = 1,
            b'`' | b'~' => look.opener = marks >= 3,
            b'<' => look.opener = after.starts_with(|c: char| c.is_ascii_alphabetic() || "/!?".contains(c)),
            b'-' | b'*' | b'_' if is_rule(rest, first) => {
                look.rule = true;
                look.underline = if first == b'-' && after.trim().is_empty() { 2 } else { 0 };
            }
            b'-' if after.trim().is_empty() => look.underline = 2,
            _ => {
                let Some(inner) = inside(rest) else { return look };
                look.inside = true;
                rest = inner;
                continue;
            }
        }
        return look;
    }
}

/// Three marks or more, with nothing but blanks between.
fn is_rule(line: &str, mark: u8) -> bool {
    let mut marks = 0;
    line.bytes().all(|byte| {
        marks += usize::from(byte == mark);
        byte == mark || matches!(byte, b' ' | b'\t')
    }) && marks >= 3
}

/// What follows the mark of a quote or of a list's entry.
fn inside(line: &str) -> Option<&str> {
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

/// What the part `supplied` of `whole` could do, alone or together with what is around it. `fence_end` is where a
/// text ended that got tags: a closing tag is there by now.
pub(super) fn find_risk(
    whole: &str,
    supplied: &Range<usize>,
    fence_end: Option<usize>,
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
        let look = look(text);
        let marks = line.start + look.marks.start..line.start + look.marks.end;
        // A heading or an element of the prompt's own, with a text in it.
        let own = marks.end < supplied.start && !whole[marks.clone()].starts_with('`');
        if !own && (look.heading | look.underline > 0 || look.rule || look.opener) {
            let blank = |text: &str| text.trim().is_empty();
            let above = above.clone().unwrap_or_else(|| line_above(whole, line.start));
            let tagged = fence_end.is_some_and(|fence| (above.start..=line.start).contains(&fence));
            // Readers that do not see a rare line end see another line above.
            let is_blank_to_all = || !lines.rare || blank(&whole[usual_line_above(whole, line.start)]);
            let above_is_blank = !tagged && blank(&whole[above]) && is_blank_to_all();
            let below = || lines.next.map_or("", |next| &whole[next..lines.line_end(next).0]);
            let heading = (1..=6).contains(&look.heading) && look.heading <= uses.deepest_level();
            let underline = look.underline > 0 && !above_is_blank && look.underline <= uses.deepest_level();
            let rule = look.rule && uses.rule();
            let literal = rule && look.underline > 0 && marks.len() == 3 && above_is_blank && blank(below());
            let shown = line.start..line.start + text.trim_end().len();
            if !look.inside && (heading || underline || literal) {
                return Some(StructureRisk::Line(shown));
            }
            if heading || underline || rule || look.opener {
                doubt.get_or_insert(StructureRisk::Doubt(shown));
            }
        }
        above = Some(line);
    }
    doubt
}

/// The line above by line feeds and carriage returns alone, as far as it is [near](REACH).
fn usual_line_above(whole: &str, start: usize) -> Range<usize> {
    let near = whole.floor_char_boundary(start.saturating_sub(REACH));
    let above = line_above(&whole[near..], start - near);
    near + above.start..near + above.end
}

/// The line that ends where another begins; empty if there is none.
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
