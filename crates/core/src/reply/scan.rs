//! The scan: one pass over a text that finds its thoughts, and every marker with how it stands there.
//!
//! The pass stops only at `<`, `` ` `` and `~`, and looks at lines only where it found something. A thought is cut wherever
//! it begins, inside code too; of the rest, what first opens (a fence, a comment) hides what is in it.

use alloc::vec::Vec;
use core::ops::Range;

use memchr::{memchr, memchr_iter, memchr2, memchr3, memmem, memrchr};

use super::tag::{Marker, Name, Tag, is_blank, skip_blanks};

#[derive(Debug, Default)]
pub(super) struct Scan {
    /// The thoughts, in order.
    pub(super) cuts: Vec<Range<usize>>,
    pub(super) found: Vec<Found>,
    /// How many markers stand in code, quotes and comments.
    pub(super) quoted: usize,
    /// What is still open at the end, and since where.
    pub(super) open: Vec<(Open, usize)>,
    /// The end of the last thought that nothing opened: what is before it may have been one.
    pub(super) unopened: Option<usize>,
    pub(super) lines: Lines,
}

/// How many lines end before each block. Counted while a block is read anyway: to count them later would be a second
/// pass.
#[derive(Debug)]
pub(super) struct Lines(Vec<usize>);

const BLOCK: usize = 64 * 1024;

impl Default for Lines {
    fn default() -> Self {
        Self(alloc::vec![0])
    }
}

impl Lines {
    fn count(&mut self, text: &[u8], block: usize) {
        while self.0.len() <= block + 1 {
            let start = (self.0.len() - 1) * BLOCK;
            let ends = memchr_iter(b'\n', &text[start..(start + BLOCK).min(text.len())]).count();
            self.0.push(self.0.last().map_or(0, |before| before + ends));
        }
    }

    /// How many lines of `text` end before `at`.
    pub(super) fn before(&self, text: &[u8], at: usize) -> usize {
        let block = (at / BLOCK).min(self.0.len() - 1);
        self.0[block] + memchr_iter(b'\n', &text[block * BLOCK..at]).count()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Open {
    Thought,
    Fence,
    Comment,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub(super) at: usize,
    pub(super) standing: Standing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    Alone,
    /// Something else stands on its line.
    Inline,
    /// Indented as far as code is.
    Indented,
    /// It begins its line, and is not complete.
    Broken,
}

pub(super) fn scan(text: &[u8]) -> Scan {
    // Some editors put a byte order mark in front.
    let start = if text.starts_with("\u{feff}".as_bytes()) { 3 } else { 0 };
    let mut scanner = Scanner {
        bytes: text,
        scan: Scan::default(),
        seen: start,
        line: Line::new(start),
        trailing: None,
        depth: 0,
        thought: 0,
        fence: None,
        comment: None,
        shown: [(0, 0); 3],
        paragraph: (start, false),
    };
    let mut at = start;
    while let Some(hit) = scanner.next(at) {
        at = if text[hit] == b'<' { scanner.tag(hit) } else { scanner.fence(hit) };
    }
    scanner.finish()
}

struct Scanner<'t> {
    bytes: &'t [u8],
    scan: Scan,
    /// Up to where `line` is known. What is cut is not part of any line.
    seen: usize,
    line: Line,
    /// The marker whose line may yet go on.
    trailing: Option<usize>,
    /// How deep thoughts are nested here, and where the outermost begins.
    depth: usize,
    thought: usize,
    fence: Option<Fence>,
    /// Where the comment begins and where it ends.
    comment: Option<(usize, usize)>,
    /// Of `pre`, `code` and `blockquote`: how many are open, and how much was found before the first.
    shown: [(usize, usize); 3],
    /// A line start, and whether its paragraph is a quote.
    paragraph: (usize, bool),
}

/// What is known of the line up to here.
struct Line {
    start: usize,
    lead: Lead,
    quote: bool,
    columns: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Lead {
    Blank,
    /// Nothing but what begins an entry of a list.
    List,
    Text,
}

impl Line {
    const fn new(start: usize) -> Self {
        Self { start, lead: Lead::Blank, quote: false, columns: 0 }
    }

    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            match byte {
                _ if self.lead == Lead::Text => return,
                b'\t' => self.columns += 4 - self.columns % 4,
                byte if is_blank(*byte) => self.columns += 1,
                b'-' | b'*' | b'+' | b'0'..=b'9' | b'.' | b')' => {
                    self.lead = Lead::List;
                    self.columns += 1;
                }
                byte => {
                    self.quote = *byte == b'>' && self.lead == Lead::Blank;
                    self.lead = Lead::Text;
                }
            }
        }
    }
}

/// An open code fence.
struct Fence {
    at: usize,
    byte: u8,
    length: usize,
    columns: usize,
}

impl Scanner<'_> {
    fn next(&mut self, mut at: usize) -> Option<usize> {
        while at < self.bytes.len() {
            let block = at / BLOCK;
            self.scan.lines.count(self.bytes, block);
            let end = ((block + 1) * BLOCK).min(self.bytes.len());
            let rest = &self.bytes[at..end];
            let hit = if self.depth > 0 { memchr(b'<', rest) } else { memchr3(b'<', b'`', b'~', rest) };
            if let Some(hit) = hit {
                return Some(at + hit);
            }
            at = end;
        }
        None
    }

    /// Looks at what stands between the last place that mattered and `to`.
    fn advance(&mut self, to: usize) {
        let segment = &self.bytes[self.seen..to];
        if let Some(marker) = self.trailing
            && let Some(byte) = segment.iter().find(|byte| !is_blank(**byte))
        {
            if *byte != b'\n' {
                self.scan.found[marker].standing = Standing::Inline;
            }
            self.trailing = None;
        }
        let in_line = match memrchr(b'\n', segment) {
            Some(end) => {
                self.line = Line::new(self.seen + end + 1);
                &segment[end + 1..]
            }
            None => segment,
        };
        self.line.add(in_line);
        self.seen = to;
    }

    /// What `<` at `at` begins; returns where to go on.
    fn tag(&mut self, at: usize) -> usize {
        self.leave_comment(at);
        let visible = self.depth == 0 && self.fence.is_none() && self.comment.is_none();
        if visible && self.bytes[at..].starts_with(b"<!--") {
            self.advance(at);
            self.comment = Some((at, self.comment_end(at + 4)));
            return at + 4;
        }
        let Some(tag) = Tag::at(self.bytes, at) else { return at + 1 };
        match tag.name {
            Name::Thought => self.thought(at, &tag),
            _ if self.depth > 0 => {}
            Name::Review | Name::TaskStatus if !tag.closing => {
                if visible {
                    return self.marker(at, &tag);
                }
                self.scan.quoted += 1;
            }
            Name::Pre if visible => self.show(0, tag.closing),
            Name::Code if visible => self.show(1, tag.closing),
            Name::Blockquote if visible => self.show(2, tag.closing),
            _ => {}
        }
        tag.name_end
    }

    fn thought(&mut self, at: usize, tag: &Tag) {
        let Some(end) = tag.end(self.bytes) else { return };
        if tag.closing {
            match self.depth {
                0 => self.scan.unopened = Some(end),
                1 => self.cut(end),
                _ => {}
            }
            self.depth = self.depth.saturating_sub(1);
            return;
        }
        if self.depth == 0 {
            if self.comment.is_none() {
                self.advance(at);
            }
            self.thought = at;
        }
        if self.bytes[end - 2] != b'/' {
            self.depth += 1;
        } else if self.depth == 0 {
            self.cut(end);
        }
    }

    /// Cuts the thought that ends here; where it is all that its lines hold, the lines too.
    fn cut(&mut self, end: usize) {
        let mut cut = self.thought..end;
        if let Some((start, comment_end)) = self.comment {
            if comment_end > cut.start {
                self.comment =
                    Some((start, if comment_end < end { self.comment_end(end) } else { comment_end }));
            }
        } else {
            let line_end = skip_blanks(self.bytes, end);
            let ends_line = self.bytes.get(line_end).is_none_or(|byte| *byte == b'\n');
            if self.line.lead == Lead::Blank && ends_line && self.trailing.is_none() {
                cut = self.line.start..(line_end + 1).min(self.bytes.len());
                self.line = Line::new(cut.end);
            }
            self.seen = cut.end;
        }
        while self.scan.cuts.last().is_some_and(|last| last.start >= cut.start) {
            self.scan.cuts.pop();
        }
        self.scan.cuts.push(cut);
    }

    fn comment_end(&self, from: usize) -> usize {
        memmem::find(&self.bytes[from..], b"-->").map_or(usize::MAX, |at| from + at + 3)
    }

    fn leave_comment(&mut self, at: usize) {
        if let Some((_, end)) = self.comment.filter(|(_, end)| *end <= at && self.depth == 0) {
            self.comment = None;
            self.seen = self.seen.max(end);
        }
    }

    /// An element that shows text opens or closes. One that is never closed is only spoken of.
    fn show(&mut self, element: usize, closing: bool) {
        let found = self.scan.found.len();
        let (open, before) = &mut self.shown[element];
        if !closing {
            if *open == 0 {
                *before = found;
            }
            *open += 1;
        } else if *open > 0 {
            *open -= 1;
            let before = (*before).min(found);
            self.scan.quoted += found - before;
            self.scan.found.truncate(before);
            self.trailing = self.trailing.filter(|marker| *marker < before);
        }
    }

    fn marker(&mut self, at: usize, tag: &Tag) -> usize {
        self.advance(at);
        let Some(marker) = Marker::of(self.bytes, tag) else {
            if self.line.lead == Lead::Blank {
                self.scan.found.push(Found { at, standing: Standing::Broken });
            }
            return tag.name_end;
        };
        if let Some(before) = self.trailing.take() {
            self.scan.found[before].standing = Standing::Inline;
        }
        let quoted = self.line.quote || (self.line.lead == Lead::Blank && self.continues_quote());
        if quoted {
            self.scan.quoted += 1;
        } else {
            let standing = match self.line.lead {
                Lead::Blank if self.line.columns < 4 => Standing::Alone,
                Lead::Blank => Standing::Indented,
                Lead::List | Lead::Text => Standing::Inline,
            };
            self.scan.found.push(Found { at, standing });
            self.trailing = (standing == Standing::Alone).then(|| self.scan.found.len() - 1);
        }
        if marker.lines > 1 {
            let start = memrchr(b'\n', &self.bytes[..marker.end]).map_or(0, |end| end + 1);
            self.line = Line::new(start);
        }
        self.line.lead = Lead::Text;
        self.seen = marker.end;
        marker.end
    }

    /// Whether this line goes on with a paragraph that began as a quote, as Markdown allows without a `>`.
    fn continues_quote(&mut self) -> bool {
        let (known, known_quote) = self.paragraph;
        let mut start = self.line.start;
        let quote = loop {
            if start <= known {
                break known_quote && start == known;
            }
            let end = start - 1;
            start = memrchr(b'\n', &self.bytes[..end]).map_or(0, |end| end + 1);
            let line = self.bytes[start..end].trim_ascii();
            match line {
                [] | [b'#', ..] => break false,
                [b'>', ..] => break true,
                line if line.starts_with(b"```") || line.starts_with(b"~~~") => break false,
                _ => {}
            }
        };
        self.paragraph = (self.line.start, quote);
        quote
    }

    /// What a run of backticks or tildes does; returns where to go on.
    fn fence(&mut self, at: usize) -> usize {
        self.leave_comment(at);
        let byte = self.bytes[at];
        let length = self.bytes[at..].iter().take_while(|other| **other == byte).count();
        let end = at + length;
        if self.comment.is_some() || (length < 3 && byte == b'~') {
            return end;
        }
        let rest = skip_blanks(self.bytes, end);
        let alone = self.bytes.get(rest).is_none_or(|byte| *byte == b'\n');
        if length < 3 && !alone {
            return end;
        }
        self.advance(at);
        let Line { lead, columns, .. } = self.line;
        match &self.fence {
            Some(fence) => {
                let long_enough =
                    if fence.length < 3 { length == fence.length } else { length >= fence.length };
                let here = lead == Lead::Blank && columns <= fence.columns + 3;
                if byte == fence.byte && long_enough && alone && here {
                    self.fence = None;
                }
            }
            // Fewer than three on a line of their own begin code that goes over lines.
            None if lead == Lead::Blank || (lead == Lead::List && length >= 3) => {
                let code_in_line = || {
                    let stop = memchr2(b'\n', b'`', &self.bytes[end..]);
                    stop.is_some_and(|stop| self.bytes[end + stop] == b'`')
                };
                if byte == b'~' || !code_in_line() {
                    self.fence = Some(Fence { at, byte, length, columns });
                }
            }
            None => {}
        }
        end
    }

    fn finish(mut self) -> Scan {
        let end = self.bytes.len();
        if self.depth > 0 {
            self.scan.open.push((Open::Thought, self.thought));
            self.cut(end);
        } else {
            self.leave_comment(end);
            if self.comment.is_none() {
                self.advance(end);
            }
        }
        self.scan.open.extend(self.fence.map(|fence| (Open::Fence, fence.at)));
        let unclosed = self.comment.filter(|(_, end)| *end == usize::MAX);
        self.scan.open.extend(unclosed.map(|(start, _)| (Open::Comment, start)));
        self.scan
    }
}
