//! Scans a text for thoughts and markers, and determines the place of every marker.
//!
//! Only the text around a [hit](super::hits) is parsed, from an empty line before it to an empty line after
//! it. A top-level block begins there whatever precedes it, since nothing that can continue over empty lines
//! begins without a hit. A CommonMark parser identifies code, quotes, HTML and paragraphs. A good marker
//! counts only as [all that a block holds](super::tag::only_markers); every other marker is
//! [loose](super::loose).

use alloc::borrow::Cow;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::iter::Peekable;
use core::ops::Range;

use memchr::{memchr, memchr_iter, memmem, memrchr};
use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag as Block, TagEnd};

use super::judge::is_good;
use super::loose_marker::{self, LooseTag, LooseWord};
use super::syntax_hits::{SyntaxHit, SyntaxHits};
use super::tag::{
    AnyTag, Marker, MarkerName, MarkerTag, collect_markers, find_html_tag_end, find_question_end,
    is_line_whitespace, is_placeholder, question_words, skip_whitespace,
};
use super::thought_tags::ThoughtTags;

#[derive(Debug, Default)]
pub(super) struct ReplyScan {
    /// The thoughts, in order.
    pub(super) cuts: Vec<Range<usize>>,
    pub(super) found: Vec<FoundMarker>,
    /// The number of markers in code and quotes.
    pub(super) quoted: usize,
    /// Blocks that are still open at the end, with their starts.
    pub(super) open: Vec<(UnclosedBlock, usize)>,
    /// The end of the last thought that was not opened: the text before it may have been a thought.
    pub(super) unopened: Option<usize>,
    /// The start of a part that is too large to be judged.
    pub(super) too_large: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UnclosedBlock {
    Thought,
    Fence,
    Comment,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct FoundMarker {
    pub(super) at: usize,
    pub(super) end: usize,
    pub(super) standing: MarkerStanding,
}

impl FoundMarker {
    /// Returns the marker as it counts in text where only bad markers count, or `None` if it is not bad.
    fn into_bad(self, text: &[u8]) -> Option<Self> {
        match self.standing {
            MarkerStanding::Loose(LooseWord::Verdict(_) | LooseWord::Failed) => Some(self),
            MarkerStanding::Alone | MarkerStanding::Enclosed => {
                let marker = MarkerTag::parse_at(text, self.at).and_then(|tag| Marker::parse(text, &tag))?;
                (!is_good(&marker)).then_some(Self { standing: MarkerStanding::Enclosed, ..self })
            }
            _ => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MarkerStanding {
    /// All that a paragraph, a list item or an HTML block holds, beside other markers.
    Alone,
    /// The same inside an element or between thought delimiters.
    Enclosed,
    Loose(LooseWord),
    /// Indented as far as code.
    Indented,
    /// A question to the person. It counts in any place, since asking is never wrong.
    Question,
}

/// The maximum number of lines and signs in a block: the parser keeps a hundred bytes for each of them.
const MOST_NODES: usize = 500_000;
/// The maximum nesting of quotes and lists on one line.
const DEEPEST: usize = 200;
/// The maximum number of markers that are judged.
const MOST_FOUND: usize = 1_000_000;
/// The maximum number of distinct element names.
const MOST_NAMES: usize = 10_000;

/// The delimiter pair of thought tags that are not HTML.
const TAG: usize = usize::MAX;
/// The delimiter pair of thought tags that a quote or a comment leaves open: nothing closes them.
const STRAY: usize = usize::MAX - 1;

pub(super) fn scan(text: &[u8]) -> ReplyScan {
    // Some editors write a byte order mark first.
    let start = bom_len(text);
    let thoughts = ThoughtTags::load_shipped();
    let mut scan = scan_from(text, start, &thoughts, true);
    let thought = scan.open.iter().find(|(open, _)| *open == UnclosedBlock::Thought);
    if let Some((_, thought)) = thought.copied() {
        // The intended end of the thought is unknown, so bad markers in it count.
        let inside = scan_from(text, find_block_before(text, start, thought), &thoughts, false);
        scan.too_large = scan.too_large.or(inside.too_large);
        let bad = inside.found.into_iter().filter(|found| found.at > thought);
        scan.found.extend(bad.filter_map(|found| found.into_bad(text)));
        scan.found.sort_by_key(|found| found.at);
    }
    scan
}

/// Scans from `start` on, and cuts thoughts if `cuts` is set.
fn scan_from(text: &[u8], start: usize, thoughts: &ThoughtTags, cuts: bool) -> ReplyScan {
    let mut scanner = ReplyScanner {
        text,
        thoughts,
        cuts,
        scan: ReplyScan::default(),
        depth: 0,
        thought: 0,
        clean: (0, None),
        between: Vec::new(),
        elements: BTreeMap::new(),
        enclosed: 0..0,
        pending: None,
        quote: usize::MAX,
        asked: 0,
    };
    let mut hits = SyntaxHits::new(text, start, thoughts).peekable();
    let mut at = start;
    while let Some(hit) = hits.peek().copied() {
        if hit.at < at {
            hits.next();
            continue;
        }
        let from = find_block_before(text, at, hit.at);
        let to = find_block_after(text, hit.at);
        match scanner.read_blocks(from..to, &mut hits) {
            Some(end) => at = end,
            None => {
                scanner.scan.too_large = Some(from);
                break;
            }
        }
        if scanner.scan.found.len() > MOST_FOUND || scanner.elements.len() > MOST_NAMES {
            scanner.scan.too_large = Some(hit.at);
            break;
        }
    }
    scanner.finish()
}

/// Returns the last offset up to `to` at which a top-level block begins: after an empty line, at the margin.
fn find_block_before(text: &[u8], from: usize, to: usize) -> usize {
    let mut line = line_start(text, to);
    while line > from {
        let before = line_start(text, line - 1);
        let at_margin = !matches!(text.get(line), None | Some(b' ' | b'\t' | b'\r' | b'\n'));
        if at_margin
            && before >= from
            && before < line
            && text[before..line].iter().all(|byte| is_line_whitespace(*byte) || *byte == b'\n')
        {
            return line;
        }
        line = before;
    }
    from
}

/// Returns the first offset after `from` at which a top-level block begins, or the end of the text.
fn find_block_after(text: &[u8], from: usize) -> usize {
    let mut empty = false;
    for end in memchr_iter(b'\n', &text[from..]) {
        let line = from + end + 1;
        let next_empty = text.get(skip_whitespace(text, line)) == Some(&b'\n');
        let at_margin = !matches!(text.get(line), None | Some(b' ' | b'\t' | b'\r' | b'\n'));
        if empty && at_margin {
            return line;
        }
        empty = next_empty;
    }
    text.len()
}

fn line_start(text: &[u8], at: usize) -> usize {
    memrchr(b'\n', &text[..at]).map_or(0, |end| end + 1)
}

/// Checks whether the line holds only whitespace before `at`.
fn is_whitespace_before(text: &[u8], at: usize) -> bool {
    text[..at].iter().rev().find(|byte| !is_line_whitespace(**byte)).is_none_or(|byte| *byte == b'\n')
}

/// Checks whether a byte may precede the text of a list item.
const fn is_lead(byte: &u8) -> bool {
    matches!(byte, b' ' | b'-' | b'+' | b'*' | b'.' | b')' | b'0'..=b'9')
}

/// Checks whether the line of `at` begins with a quote sign, inside a list item or not.
fn is_quoted(text: &[u8], at: usize) -> bool {
    let line = &text[line_start(text, at).max(bom_len(text)).min(at)..at];
    let sign = line.iter().position(|byte| !is_lead(byte) && *byte != b'\t');
    sign.is_some_and(|at| line[at] == b'>' && (at == 0 || is_line_whitespace(line[at - 1])))
}

/// Checks whether every parser begins a block with the line at `line`, after blocks that begin at `region`.
///
/// Parsers differ on whether a quote or a list continues without its sign, and on whether a line under a text
/// is a rule or turns the text into a heading.
fn is_clear_before(text: &[u8], region: usize, line: usize, is_item: bool, is_quoted: bool) -> bool {
    let before = |line: usize| (line > region).then(|| line_start(text, line - 1).max(region));
    let words = |line: usize| text[line..line_end(text, line)].trim_ascii();
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || !byte.is_ascii();
    let Some(last) = before(line) else { return !is_quoted };
    match words(last) {
        [] | [b'#', ..] if is_heading(words(last)) => true,
        _ if is_quoted => false,
        [b'`', b'`', b'`', ..] | [b'~', b'~', b'~', ..] | [.., b'-', b'-', b'>'] => true,
        [sign @ (b'-' | b'=' | b'*' | b'_'), rest @ ..] if rest.iter().all(|byte| byte == sign) => {
            before(last).is_none_or(|line| words(line).first().is_none_or(is_plain))
        }
        _ => is_item,
    }
}

/// Checks whether a line that is empty or begins with `#` ends the block before it.
fn is_heading(words: &[u8]) -> bool {
    let level = words.iter().take_while(|byte| **byte == b'#').count();
    words.is_empty() || level <= 6 && words.get(level).is_none_or(|byte| is_line_whitespace(*byte))
}

fn line_end(text: &[u8], at: usize) -> usize {
    memchr(b'\n', &text[at..]).map_or(text.len(), |end| at + end + 1)
}

struct ReplyScanner<'t> {
    text: &'t [u8],
    thoughts: &'t ThoughtTags,
    /// Whether thoughts are cut.
    cuts: bool,
    scan: ReplyScan,
    /// The nesting depth of thoughts here, and the start of the outermost one.
    depth: usize,
    thought: usize,
    /// The end of the last cut, and the start of its line if only cut text precedes the cut there.
    clean: (usize, Option<usize>),
    /// The open thought delimiters: the pair, and how often it is open.
    between: Vec<(usize, usize)>,
    /// The open elements by name.
    elements: BTreeMap<String, Vec<OpenElement>>,
    /// The range of found markers that are known to be enclosed.
    enclosed: Range<usize>,
    /// The loose tag that may still be closed, and whether it is in indented code.
    pending: Option<(LooseTag, bool)>,
    /// The start of the first quote since an empty line.
    quote: usize,
    /// The end of the last question.
    asked: usize,
}

#[derive(Clone, Copy)]
struct OpenElement {
    /// The number of markers found before the element.
    found: usize,
    /// The number of such elements that were opened without a marker between them.
    count: usize,
    /// Whether the element is more than a mention of its name, so that it holds all that follows if it is not
    /// closed.
    encloses: bool,
}

/// The parser's findings about a few blocks.
#[derive(Default)]
struct ParsedBlocks {
    /// In order, none inside another.
    hidden: Vec<(Range<usize>, HiddenKind)>,
    html: Vec<Range<usize>>,
    units: Vec<TextUnit>,
    /// The starts of fences that are not closed.
    open: Vec<usize>,
    /// The last block, which may continue.
    last: Option<(Range<usize>, LastBlock)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum HiddenKind {
    Code,
    Indented,
    Quote,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum LastBlock {
    Fence,
    Html,
    Other,
}

/// A paragraph, the text of a list item, or an HTML block.
struct TextUnit {
    range: Range<usize>,
    /// Offsets of everything except text, HTML and bold.
    decorated: Vec<usize>,
}

impl ReplyScanner<'_> {
    /// Reads the blocks in `range` and their continuation after it. Returns the offset to continue from, or
    /// `None` if the blocks are too large.
    fn read_blocks(&mut self, range: Range<usize>, hits: &mut Peekable<SyntaxHits<'_>>) -> Option<usize> {
        let text = self.text;
        let mut parsed = parse_blocks(text, &range)?;
        let mut end = range.end;
        let is_code = matches!(parsed.last, Some((_, LastBlock::Fence)));
        match parsed.last.clone() {
            Some((last, LastBlock::Fence)) if !is_closed_at_top(text, &last) => {
                let stop = find_fence_end(text, &last);
                if stop.is_none() {
                    self.scan.open.push((UnclosedBlock::Fence, last.start));
                }
                end = stop.unwrap_or(text.len());
                if let Some((hidden, _)) = parsed.hidden.last_mut() {
                    hidden.end = end;
                }
            }
            Some((last, LastBlock::Html)) => {
                let start = skip_whitespace(text, last.start);
                if let Some(stop) = find_raw_end(text, start) {
                    if stop.is_none() && text[start..].starts_with(b"<!--") {
                        self.scan.open.push((UnclosedBlock::Comment, start));
                    }
                    end = stop.map_or(text.len(), |stop| line_end(text, stop - 1)).max(end);
                    if let Some(html) = parsed.html.last_mut().filter(|_| end > range.end) {
                        html.end = end;
                    }
                }
            }
            _ => {}
        }
        self.scan.open.extend(parsed.open.iter().map(|at| (UnclosedBlock::Fence, *at)));
        let mut here = Vec::new();
        while let Some(hit) = hits.next_if(|hit| hit.at < end) {
            if hit.at >= range.end && is_code {
                self.scan.quoted += usize::from(hit.tag.is_some_and(|tag| !tag.closing));
            } else if hit.at >= range.start && !hit.fence {
                here.push(hit);
            }
            if here.len() > MOST_NODES {
                return None;
            }
        }
        let line = range.start.checked_sub(1).map_or(0, |end| line_start(text, end));
        if text[line..range.start].trim_ascii().is_empty() {
            self.quote = usize::MAX;
        }
        let quote = parsed.hidden.iter().find(|(_, hidden)| *hidden == HiddenKind::Quote);
        self.quote = self.quote.min(quote.map_or(usize::MAX, |(range, _)| range.start));
        let strays = self.find_thoughts(&here, &parsed);
        self.find_markers(range.start, &here, &parsed, &strays);
        Some(end)
    }

    /// Finds the thoughts. Only tags that are HTML cut. In a quote or a comment they cut nothing; those that
    /// are not closed in it are returned.
    fn find_thoughts(&mut self, hits: &[SyntaxHit], parsed: &ParsedBlocks) -> Vec<usize> {
        if !self.cuts {
            return Vec::new();
        }
        let text = self.text;
        let mut walk = HtmlWalker::default();
        let mut hidden = parsed.hidden.iter().peekable();
        let mut html = parsed.html.iter().peekable();
        // The end of the surrounding quote or comment, and the thoughts that began in it.
        let mut scope: Option<(usize, Vec<usize>)> = None;
        let mut strays = Vec::new();
        for hit in hits {
            while hidden.next_if(|(range, _)| range.end <= hit.at).is_some() {}
            while html.next_if(|range| range.end <= hit.at).is_some() {}
            if let Some((_, began)) = scope.take_if(|(end, _)| *end <= hit.at) {
                strays.extend(began);
            }
            let inside = hidden.peek().filter(|(range, _)| range.start <= hit.at);
            match inside {
                Some((range, HiddenKind::Quote)) if scope.is_none() => scope = Some((range.end, Vec::new())),
                Some((_, HiddenKind::Code | HiddenKind::Indented)) => continue,
                _ => {}
            }
            let Some(piece) = html.peek().filter(|piece| piece.start <= hit.at) else { continue };
            let inside =
                if scope.is_none() { walk.find_context(text, piece, hit.at) } else { HtmlContext::Nothing };
            if scope.is_none()
                && inside == HtmlContext::Nothing
                && let Some(stop) = find_comment_end(&text[..piece.end], hit.at)
            {
                scope = Some((stop.unwrap_or(piece.end), Vec::new()));
                continue;
            }
            let Some(tag) = AnyTag::parse_at(text, hit.at)
                .filter(|tag| self.thoughts.is_thought_name(&text[tag.name.clone()]))
            else {
                continue;
            };
            let Some(end) = find_html_tag_end(&text[..piece.end], tag.name.end) else { continue };
            match inside {
                HtmlContext::Nothing => {}
                HtmlContext::Raw if tag.closing && self.depth > 0 => {}
                // This is not a tag, but a reader that takes it for one ends a thought here.
                _ if tag.closing => {
                    self.scan.unopened = Some(end);
                    continue;
                }
                _ => continue,
            }
            // CommonMark does not allow whitespace before the name of a tag.
            if tag.name.start != hit.at + 1 + usize::from(tag.closing) {
                continue;
            }
            if let Some((_, began)) = &mut scope {
                match (tag.closing, text[end - 2] == b'/') {
                    (true, _) => drop(began.pop()),
                    (false, false) => began.push(hit.at),
                    (false, true) => {}
                }
                continue;
            }
            self.track_thought(hit.at, end, tag.closing);
        }
        strays.extend(scope.into_iter().flat_map(|(_, began)| began));
        strays
    }

    fn track_thought(&mut self, at: usize, end: usize, closing: bool) {
        if closing {
            match self.depth {
                0 => self.scan.unopened = Some(end),
                1 => self.cut(end),
                _ => {}
            }
            self.depth = self.depth.saturating_sub(1);
            return;
        }
        if self.depth == 0 {
            self.thought = at;
        }
        if self.text[end - 2] != b'/' {
            self.depth += 1;
        } else if self.depth == 0 {
            self.cut(end);
        }
    }

    /// Cuts the thought that ends at `end`, together with its lines if they hold nothing else.
    fn cut(&mut self, end: usize) {
        let text = self.text;
        let mut cut = self.thought..end;
        let blanks = text[..cut.start].iter().rev().take_while(|byte| is_line_whitespace(**byte)).count();
        let before = cut.start - blanks;
        // The start of the line, if only cut text precedes the thought on it.
        let line = match self.clean {
            (end, line) if end == before && end > 0 => line,
            _ => (before == 0 || text[before - 1] == b'\n').then_some(before),
        };
        let rest = skip_whitespace(text, end);
        if let Some(line) = line.filter(|_| text.get(rest).is_none_or(|byte| *byte == b'\n')) {
            cut = line..(rest + 1).min(text.len());
        }
        self.clean = (cut.end, line);
        while self.scan.cuts.last().is_some_and(|last| last.start >= cut.start) {
            self.scan.cuts.pop();
        }
        match self.scan.cuts.last_mut() {
            Some(last) if last.end >= cut.start => last.end = cut.end,
            _ => self.scan.cuts.push(cut),
        }
    }

    /// Returns the cuts in `range`, in order.
    fn find_cuts(&self, range: &Range<usize>) -> Vec<Range<usize>> {
        let first = self.scan.cuts.partition_point(|cut| cut.end <= range.start);
        let cuts = self.scan.cuts[first..].iter().take_while(|cut| cut.start < range.end).cloned();
        let open = (self.depth > 0).then_some(self.thought..usize::MAX);
        cuts.chain(open).collect()
    }

    fn is_cut(&self, at: usize) -> bool {
        let cut = self.scan.cuts.partition_point(|cut| cut.end <= at);
        self.scan.cuts.get(cut).is_some_and(|cut| cut.start <= at) || self.depth > 0 && at >= self.thought
    }

    /// Finds the markers and the elements around them.
    fn find_markers(&mut self, region: usize, hits: &[SyntaxHit], parsed: &ParsedBlocks, strays: &[usize]) {
        let mut strays = strays.iter().peekable();
        let mut hidden = parsed.hidden.iter().peekable();
        let mut units = parsed.units.iter().peekable();
        let mut html = parsed.html.iter().peekable();
        let mut read = 0..0;
        // The last line in a quote, and whether it lacks a quote sign.
        let (mut line, mut lazy) = (0..0, false);
        for hit in hits {
            while hidden.next_if(|(range, _)| range.end <= hit.at).is_some() {}
            while html.next_if(|range| range.end <= hit.at).is_some() {}
            while strays.next_if(|stray| **stray <= hit.at).is_some() {
                self.track_delimiter(STRAY, false, hit.at);
            }
            while let Some(unit) = units.next_if(|unit| unit.range.start <= hit.at) {
                if unit.range.end > hit.at
                    && let Some((from, markers)) = self.read_unit(unit, region)
                {
                    self.push_alone(&markers);
                    read = from..unit.range.end;
                }
            }
            if self.is_cut(hit.at) {
                continue;
            }
            let inside = hidden.peek().filter(|(range, _)| range.start <= hit.at).map(|(_, hidden)| *hidden);
            if inside.is_none() {
                self.keep_question(hit.at);
            }
            // Parsers differ on whether a quote continues without its sign.
            if inside == Some(HiddenKind::Quote) && !line.contains(&hit.at) {
                line = line_start(self.text, hit.at)..line_end(self.text, hit.at);
                lazy = !is_quoted(self.text, hit.at);
            }
            let inside = inside.filter(|hidden| *hidden != HiddenKind::Quote || !lazy);
            if read.contains(&hit.at) {
                // A tag that is spelled with other brackets is part of the words of a question.
                if let Some(tag) = hit.tag.filter(|_| self.text[hit.at] != b'<') {
                    self.push_loose_tag(tag, false);
                }
                continue;
            }
            if matches!(inside, Some(HiddenKind::Code | HiddenKind::Quote)) {
                self.scan.quoted += usize::from(hit.tag.is_some_and(|tag| !tag.closing));
                continue;
            }
            if let Some(tag) = hit.tag {
                self.push_loose_tag(tag, inside == Some(HiddenKind::Indented));
            }
            if inside.is_none() {
                let in_html = html.peek().is_some_and(|piece| piece.start <= hit.at);
                self.track_surroundings(hit, in_html);
            }
        }
    }

    /// Keeps the question that begins at `at`, if there is one.
    fn keep_question(&mut self, at: usize) {
        if at < self.asked {
            return;
        }
        let Some(end) = find_question_end(self.text, at) else { return };
        self.asked = end;
        if !is_placeholder(MarkerName::Question, b"", question_words(&self.text[at..end])) {
            self.scan.found.push(FoundMarker { at, end, standing: MarkerStanding::Question });
        }
    }

    /// Returns the markers of a unit that holds nothing else, and the offset from which this is true. The
    /// blocks of the unit begin at `region`.
    fn read_unit(&mut self, unit: &TextUnit, region: usize) -> Option<(usize, Vec<usize>)> {
        let text = self.text;
        let mut cuts = self.find_cuts(&unit.range);
        let mut from = unit.range.start;
        // All text before the end of a thought may be part of it, so that text does not prevent a marker
        // after it from counting.
        if let Some(end) = self
            .scan
            .unopened
            .filter(|end| unit.range.contains(end) && text.get(skip_whitespace(text, *end)) == Some(&b'\n'))
        {
            cuts.retain(|cut| cut.start >= end);
            cuts.insert(0, unit.range.start..end);
            from = end;
        }
        let is_cut = |at: &usize| cuts.iter().any(|cut| cut.contains(at));
        if !unit.decorated.iter().all(is_cut) {
            return None;
        }
        // Only the start of a list item may precede the unit on its line. A lone carriage return does not
        // begin a line, and parsers differ on how far a tab indents.
        let line = line_start(text, unit.range.start).max(bom_len(text));
        let indent = &text[unit.range.start..skip_whitespace(text, unit.range.start)];
        if !text[line..unit.range.start].iter().all(is_lead) || indent.contains(&b'\t') {
            return None;
        }
        let is_item = !text[line..unit.range.start].trim_ascii().is_empty();
        if !is_clear_before(text, region, line, is_item, self.quote < unit.range.start) {
            return None;
        }
        if text.get(unit.range.end) == Some(&b'\r')
            && !matches!(text.get(unit.range.end + 1), None | Some(b'\n'))
        {
            return None;
        }
        Some((from, collect_markers(text, &unit.range, &cuts)?))
    }

    fn push_alone(&mut self, markers: &[usize]) {
        let standing = if self.between.is_empty() { MarkerStanding::Alone } else { MarkerStanding::Enclosed };
        for at in markers {
            let Some((tag, marker)) = MarkerTag::parse_at(self.text, *at)
                .and_then(|tag| Some((tag, Marker::parse(self.text, &tag)?)))
            else {
                continue;
            };
            if let Some((pending, indented)) = self.pending.take() {
                let next = LooseTag {
                    name: tag.name,
                    closing: false,
                    start: *at,
                    name_end: tag.name_end,
                    end: tag.name_end,
                };
                self.push_loose(&pending, indented, Some(&next));
            }
            if !is_placeholder(marker.name, marker.attributes.as_bytes(), marker.word.as_bytes()) {
                self.scan.found.push(FoundMarker { at: *at, end: marker.end, standing });
            }
        }
    }

    fn push_loose_tag(&mut self, tag: LooseTag, indented: bool) {
        let Some((pending, was_indented)) = self.pending.take() else {
            if tag.closing {
                self.push_loose(&tag, indented, None);
            } else {
                self.pending = Some((tag, indented));
            }
            return;
        };
        if indented != was_indented {
            self.push_loose(&pending, was_indented, None);
            return self.push_loose_tag(tag, indented);
        }
        let closed = self.push_loose(&pending, indented, Some(&tag));
        if !tag.closing {
            self.pending = Some((tag, indented));
        } else if !closed {
            self.push_loose(&tag, indented, None);
        }
    }

    /// Keeps the meaning of a loose tag. Returns whether its marker extends to the end of `next`.
    fn push_loose(&mut self, tag: &LooseTag, indented: bool, next: Option<&LooseTag>) -> bool {
        let Some((word, end)) = loose_marker::find_meaning(self.text, tag, next) else { return false };
        let standing = match word {
            LooseWord::Good if indented => MarkerStanding::Indented,
            LooseWord::Broken if indented => return false,
            word => MarkerStanding::Loose(word),
        };
        self.scan.found.push(FoundMarker { at: tag.start, end, standing });
        next.is_some_and(|next| next.closing && end == next.end)
    }

    /// Tracks the surroundings of markers: elements and thought delimiters.
    fn track_surroundings(&mut self, hit: &SyntaxHit, in_html: bool) {
        let text = self.text;
        let rest = &text[hit.at..];
        if hit.delimiter {
            for delimiter in self.thoughts.match_delimiters(rest) {
                self.track_delimiter(delimiter.pair, delimiter.closing, hit.at + delimiter.length);
            }
        }
        if !in_html {
            // Comments, CDATA sections and processing instructions are text if they contain an empty line.
            for (name, open, close) in
                [("!--", &b"<!--"[..], &b"-->"[..]), ("![", b"<![CDATA[", b"]]>"), ("?", b"<?", b"?>")]
            {
                if rest.starts_with(open) {
                    self.track_element(name, false, true);
                } else if rest[0] == b'>' && text[..=hit.at].ends_with(close) {
                    self.track_element(name, true, false);
                }
            }
        }
        let Some(tag) = AnyTag::parse_at(text, hit.at) else { return };
        // An address in angle brackets is not a tag.
        let after = &text[tag.name.end..];
        let is_tag = match after.first() {
            Some(b'/') => after.get(1) == Some(&b'>'),
            Some(byte) => byte.is_ascii_whitespace() || *byte == b'>',
            None => true,
        };
        if !is_tag {
            return;
        }
        let name = &text[tag.name.clone()];
        if self.thoughts.is_thought_name(name) {
            if let Some(end) = tag.find_end(text).filter(|_| !in_html) {
                self.track_delimiter(TAG, tag.closing, end);
            }
            return;
        }
        let name = String::from_utf8_lossy(name).to_ascii_lowercase();
        const EMPTY: [&str; 14] = [
            "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source",
            "track", "wbr",
        ];
        let end = tag.find_end(text).unwrap_or(tag.name.end);
        let bare = text.get(skip_whitespace(text, tag.name.end)) == Some(&b'>');
        let is_empty = !tag.closing && text[end - 1] == b'>' && text[end - 2] == b'/';
        if EMPTY.contains(&name.as_str()) || is_empty || (name == "response" && bare && !tag.closing) {
            return;
        }
        let encloses = !tag.closing && can_enclose(text, &name, hit.at, end);
        self.track_element(&name, tag.closing, encloses);
    }

    fn track_delimiter(&mut self, pair: usize, closing: bool, end: usize) {
        let open = self.between.iter().position(|(open, _)| *open == pair);
        match (open, closing) {
            (Some(at), false) => self.between[at].1 += 1,
            (None, false) => self.between.push((pair, 1)),
            (Some(at), true) => {
                self.between[at].1 -= 1;
                if self.between[at].1 == 0 {
                    self.between.remove(at);
                }
            }
            // Several pairs end alike, so an end shows that a thought was not opened only if no pair is open.
            (None, true) => {
                if self.between.is_empty() {
                    self.scan.unopened = Some(end);
                }
            }
        }
    }

    fn track_element(&mut self, name: &str, closing: bool, encloses: bool) {
        let found = self.scan.found.len();
        if !closing {
            let open = match self.elements.get_mut(name) {
                Some(open) => open,
                None => self.elements.entry(name.into()).or_default(),
            };
            match open.last_mut() {
                Some(last) if last.found == found && last.encloses == encloses => last.count += 1,
                _ => open.push(OpenElement { found, count: 1, encloses }),
            }
            return;
        }
        let Some(open) = self.elements.get_mut(name) else { return };
        let Some(last) = open.last_mut() else { return };
        let before = last.found;
        last.count -= 1;
        if last.count == 0 {
            open.pop();
        }
        self.enclose(before);
    }

    /// Marks the markers from index `before` on as enclosed.
    fn enclose(&mut self, before: usize) {
        let end = self.scan.found.len();
        let Range { start: low, end: high } = self.enclosed.clone();
        let parts = if before > high || low == high {
            self.enclosed = before..end;
            [before..end, 0..0]
        } else {
            self.enclosed = low.min(before)..end;
            [before..low.max(before), high..end]
        };
        for part in parts {
            for found in &mut self.scan.found[part] {
                if found.standing == MarkerStanding::Alone {
                    found.standing = MarkerStanding::Enclosed;
                }
            }
        }
    }

    fn finish(mut self) -> ReplyScan {
        if let Some((pending, indented)) = self.pending.take() {
            self.push_loose(&pending, indented, None);
        }
        // HTML allows these end tags to be omitted, so a missing one means nothing; an unclosed marker is
        // broken anyway.
        const ENDLESS: [&str; 15] = [
            "p",
            "li",
            "dt",
            "dd",
            "tr",
            "td",
            "th",
            "thead",
            "tbody",
            "tfoot",
            "option",
            "rt",
            "rp",
            "review",
            "task_status",
        ];
        let open = self.elements.iter().filter(|(name, _)| !ENDLESS.contains(&name.as_str()));
        let first = open.flat_map(|(_, open)| open).filter(|open| open.encloses).map(|open| open.found).min();
        if let Some(first) = first {
            self.enclose(first);
        }
        if self.depth > 0 {
            self.scan.open.push((UnclosedBlock::Thought, self.thought));
            self.cut(self.text.len());
        }
        self.scan.found.sort_by_key(|found| found.at);
        self.scan
    }
}

/// Names of elements that hold text of other authors.
const DATA: [&str; 40] = [
    "pre",
    "script",
    "style",
    "textarea",
    "xmp",
    "listing",
    "plaintext",
    "template",
    "iframe",
    "svg",
    "file",
    "files",
    "artifact",
    "artifacts",
    "tool_result",
    "tool_results",
    "tool_use",
    "tool_call",
    "tool_output",
    "function_results",
    "function_calls",
    "result",
    "results",
    "output",
    "stdout",
    "stderr",
    "document",
    "documents",
    "document_content",
    "content",
    "context",
    "example",
    "examples",
    "quote",
    "blockquote",
    "log",
    "logs",
    "attachment",
    "input",
    "prompt",
];

/// Checks whether the element that is opened in `at..end` holds all that follows if it is never closed, or is
/// only mentioned. It does so if it begins a block or a list item, has its own line or ends its paragraph; a
/// data element does so in any place, unless prose continues after it.
fn can_enclose(text: &[u8], name: &str, at: usize, end: usize) -> bool {
    let begins_line = is_whitespace_before(text, at);
    let after = &text[skip_whitespace(text, end)..];
    if begins_line && after.first().is_none_or(|byte| *byte == b'\n') {
        return true;
    }
    // The distance within which the text before and after the element is examined.
    const NEAR: usize = 256;
    let is_word = |text: &[u8]| String::from_utf8_lossy(text).chars().any(char::is_alphabetic);
    let line =
        memrchr(b'\n', &text[at.saturating_sub(NEAR)..at]).map(|end| at.saturating_sub(NEAR) + end + 1);
    let line = line.or_else(|| (at <= NEAR).then_some(bom_len(text).min(at)));
    if let Some(line) = line.filter(|line| !is_word(&text[*line..at])) {
        let lead = text[line..at].trim_ascii();
        let signed = is_line_whitespace(text[at - usize::from(at > line)])
            && lead.first().is_some_and(|byte| is_lead(byte) || *byte == b'#');
        if signed || is_block_start(text, line) {
            return true;
        }
    }
    let near = &after[..after.len().min(NEAR)];
    let is_data = DATA.contains(&name);
    if is_data {
        let blank = text.get(end).is_some_and(|byte| is_line_whitespace(*byte));
        let word = near.iter().take_while(|byte| byte.is_ascii_alphabetic() || !byte.is_ascii()).count();
        let is_prose = blank && word > 0 && near.get(word).is_none_or(|byte| byte.is_ascii_whitespace())
            || word > 0
                && matches!(&near[word..], [b'.' | b',' | b';' | b'!' | b'?' | b':', next, ..] if next.is_ascii_whitespace());
        if !is_prose && !near.starts_with(b"\n") {
            return true;
        }
    }
    // `Vec<T>` and `parse::<T>` are types.
    let before = &text[..at];
    let is_type = before.last().is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
        || before.ends_with(b"::");
    if is_type && !is_data {
        return false;
    }
    let rest = near.iter().position(|byte| *byte == b'\n').map_or(near, |end| &near[..end]);
    let is_sign = |byte: &u8| {
        is_line_whitespace(*byte) || matches!(byte, b':' | b'*' | b'_' | b'-' | b'=' | b'#' | b'|')
    };
    rest.iter().all(is_sign) && (rest.len() == near.len() || is_block_end(&near[rest.len() + 1..]))
}

/// Checks whether a block begins with the line at `line`, as far as the line before it shows.
fn is_block_start(text: &[u8], line: usize) -> bool {
    if line <= bom_len(text) {
        return true;
    }
    let before = text[line_start(text, line - 1)..line].trim_ascii();
    match before {
        [] | [b'#' | b'`' | b'~' | b'=' | b'|', ..] => true,
        [sign @ (b'-' | b'*' | b'_'), rest @ ..] => {
            rest.iter().all(|byte| byte == sign || is_line_whitespace(*byte))
        }
        _ => false,
    }
}

/// Checks whether the block before a line ends there, as far as the line shows.
fn is_block_end(next: &[u8]) -> bool {
    match next[next.len() - next.trim_ascii_start().len()..] {
        _ if next[skip_whitespace(next, 0)..].first().is_none_or(|byte| *byte == b'\n') => true,
        [b'-' | b'*' | b'+', b' ', ..] | [b'#' | b'>' | b'|', ..] | [b'`', b'`', b'`', ..] => true,
        [b'0'..=b'9', ref rest @ ..] => {
            let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            matches!(rest[digits..], [b'.' | b')', b' ', ..])
        }
        _ => false,
    }
}

/// The context of a `<` in HTML.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HtmlContext {
    /// It begins a tag or a comment.
    Nothing,
    /// An attribute, or an element whose text is not HTML.
    Other,
    /// An element whose text is not HTML and that is not closed in its block.
    Raw,
}

/// A walker over the tags of HTML, piece by piece.
#[derive(Default)]
struct HtmlWalker {
    piece: Range<usize>,
    at: usize,
    /// The index of the open element whose text is not HTML.
    raw: Option<usize>,
}

const RAW: [&str; 4] = ["pre", "script", "style", "textarea"];

impl HtmlWalker {
    /// Returns the context of the `<` at `hit` in `piece`. Hits must come in order.
    fn find_context(&mut self, text: &[u8], piece: &Range<usize>, hit: usize) -> HtmlContext {
        if self.piece != *piece {
            while let Some(open) = memchr(b'<', &text[self.at.min(self.piece.end)..self.piece.end]) {
                self.at = self.skip_token(&text[..self.piece.end], self.at + open);
            }
            (self.piece, self.at) = (piece.clone(), piece.start);
        }
        let text = &text[..piece.end];
        while self.at < hit {
            let Some(open) = memchr(b'<', &text[self.at..hit]) else { break };
            self.at = self.skip_token(text, self.at + open);
        }
        match self.raw {
            _ if self.at > hit => HtmlContext::Other,
            Some(raw) if !is_raw_close(text, hit, raw) => HtmlContext::Raw,
            _ => HtmlContext::Nothing,
        }
    }

    /// Returns the end of the token that begins at `at`. Skips an element whose text is not HTML if it is
    /// closed in its block.
    fn skip_token(&mut self, text: &[u8], at: usize) -> usize {
        if let Some(end) = find_comment_end(text, at) {
            return end.unwrap_or(text.len());
        }
        let Some(tag) = AnyTag::parse_at(text, at) else { return at + 1 };
        let Some(end) = find_html_tag_end(text, tag.name.end) else { return at + 1 };
        let raw = RAW.iter().position(|raw| raw.as_bytes().eq_ignore_ascii_case(&text[tag.name.clone()]));
        match (raw, self.raw, tag.closing) {
            (Some(raw), Some(open), true) if raw == open => self.raw = None,
            (Some(raw), None, false) => {
                let mut ends = memmem::find_iter(&text[end..], b"</").map(|close| end + close);
                match ends.find(|close| is_raw_close(text, *close, raw)) {
                    Some(close) => return close,
                    None => self.raw = Some(raw),
                }
            }
            _ => {}
        }
        end
    }
}

/// Checks whether the element is closed at `at`.
fn is_raw_close(text: &[u8], at: usize, raw: usize) -> bool {
    let name = RAW[raw].as_bytes();
    let rest = &text[at..];
    rest.starts_with(b"</")
        && rest.get(2..2 + name.len()).is_some_and(|close| close.eq_ignore_ascii_case(name))
}

fn bom_len(text: &[u8]) -> usize {
    if text.starts_with("\u{feff}".as_bytes()) { 3 } else { 0 }
}

/// Returns the end of the comment, declaration or similar text that begins at `at`. The inner value is `None`
/// if it has no end, the outer one if none begins there.
fn find_comment_end(text: &[u8], at: usize) -> Option<Option<usize>> {
    let rest = &text[at..];
    let close: &[u8] = match rest {
        [b'<', b'!', b'-', b'-', ..] => b"-->",
        [b'<', b'!', b'[', ..] => b"]]>",
        [b'<', b'?', ..] => b"?>",
        [b'<', b'!', ..] => b">",
        _ => return None,
    };
    Some(memmem::find(rest, close).map(|end| at + end + close.len()))
}

/// Returns the end of an HTML block that can continue over empty lines. The inner value is `None` if it has
/// no end, the outer one if it is not such a block.
fn find_raw_end(text: &[u8], at: usize) -> Option<Option<usize>> {
    if let Some(end) = find_comment_end(text, at) {
        return Some(end);
    }
    let is_raw =
        |tag: &AnyTag| RAW.iter().any(|raw| raw.as_bytes().eq_ignore_ascii_case(&text[tag.name.clone()]));
    AnyTag::parse_at(text, at).filter(is_raw)?;
    let mut ends = memmem::find_iter(&text[at..], b"</").map(|end| at + end);
    let end = ends.find(|end| {
        RAW.iter().any(|raw| {
            let rest = &text[*end + 2..];
            rest.get(raw.len()) == Some(&b'>') && rest[..raw.len()].eq_ignore_ascii_case(raw.as_bytes())
        })
    });
    Some(end.map(|end| end + 2))
}

/// Checks whether the code in `range`, which is in a list, ends with a fence.
fn is_closed(text: &[u8], range: &Range<usize>) -> bool {
    let code = text[range.clone()].trim_ascii();
    let fence = code.first().copied().unwrap_or_default();
    let length = code.iter().take_while(|byte| **byte == fence).count();
    let last = last_line(code).trim_ascii();
    last.len() < code.len() && last.len() >= length && last.iter().all(|byte| *byte == fence)
}

/// Checks the same for code at the top level, by asking the parser.
fn is_closed_at_top(text: &[u8], range: &Range<usize>) -> bool {
    let code = text[range.clone()].trim_ascii_end();
    let opening = line_end(code, 0);
    opening < code.len() && is_closed(text, range) && is_closing_fence(&code[..opening], last_line(code))
}

fn last_line(code: &[u8]) -> &[u8] {
    &code[line_start(code, code.len())..]
}

/// Returns the end of the fence that begins at the start of `block`. Asks the parser about every line that
/// may close it.
fn find_fence_end(text: &[u8], block: &Range<usize>) -> Option<usize> {
    let opening = &text[block.start..line_end(text, block.start)];
    let start = opening.iter().take_while(|byte| is_line_whitespace(**byte)).count();
    let fence = *opening.get(start)?;
    let mut at = block.start + opening.len();
    while at < text.len() {
        let hit = memmem::find(&text[at..], &[fence; 3])?;
        let line = line_start(text, at + hit).max(at);
        let end = line_end(text, line);
        let bare =
            text[line..end].iter().all(|byte| *byte == fence || matches!(byte, b' ' | b'\t' | b'\r' | b'\n'));
        if bare && is_closing_fence(opening, &text[line..end]) {
            return Some(end);
        }
        at = end;
    }
    None
}

fn is_closing_fence(opening: &[u8], line: &[u8]) -> bool {
    let text = [opening, line, b"\n\nx\n"].concat();
    let text = String::from_utf8_lossy(&text);
    Parser::new_ext(&text, Options::empty()).any(|event| matches!(event, Event::Start(Block::Paragraph)))
}

/// Parses `range`. Returns `None` if it is too large for the parser.
fn parse_blocks(text: &[u8], range: &Range<usize>) -> Option<ParsedBlocks> {
    let slice = &text[range.clone()];
    if slice.len() > MOST_NODES / 4 && is_too_large(slice) {
        return None;
    }
    if is_too_deep(slice) {
        return None;
    }
    let source = replace_invalid_bytes(slice);
    let mut reader = MarkdownCollector {
        text,
        parsed: ParsedBlocks::default(),
        inside: Vec::new(),
        quotes: 0,
        unit: None,
    };
    for (event, place) in Parser::new_ext(&source, Options::empty()).into_offset_iter() {
        reader.handle_event(&event, range.start + place.start..range.start + place.end);
    }
    Some(reader.parsed)
}

fn is_too_large(slice: &[u8]) -> bool {
    let is_sign = |byte: &&u8| {
        matches!(
            byte,
            b'\n'
                | b'\r'
                | b'<'
                | b'>'
                | b'`'
                | b'*'
                | b'_'
                | b'['
                | b']'
                | b'('
                | b')'
                | b'!'
                | b'&'
                | b'\\'
                | b'~'
        )
    };
    slice.iter().filter(is_sign).count() > MOST_NODES
}

/// Checks whether a line begins with too many nested quotes and lists.
fn is_too_deep(slice: &[u8]) -> bool {
    slice.split(|byte| matches!(byte, b'\n' | b'\r')).any(|line| {
        let lead = line.iter().take_while(|byte| {
            matches!(byte, b' ' | b'\t' | b'>' | b'-' | b'+' | b'*' | b'0'..=b'9' | b'.' | b')')
        });
        let lead = &line[..lead.count()];
        let begins =
            |pair: &&[u8]| pair[0] == b'>' || !is_line_whitespace(pair[0]) && is_line_whitespace(pair[1]);
        lead.len() > DEEPEST && lead.windows(2).filter(begins).count() > DEEPEST
    })
}

/// Replaces every byte that is not text by one without a meaning, so that all offsets stay.
fn replace_invalid_bytes(slice: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = str::from_utf8(slice) {
        return Cow::Borrowed(text);
    }
    let mut text = String::with_capacity(slice.len());
    for chunk in slice.utf8_chunks() {
        text.push_str(chunk.valid());
        chunk.invalid().iter().for_each(|_| text.push('\u{1a}'));
    }
    Cow::Owned(text)
}

/// A collector of the relevant parts of the parser's events.
struct MarkdownCollector<'t> {
    text: &'t [u8],
    parsed: ParsedBlocks,
    /// The enclosing blocks: whether each is a list item, whose text need not be a paragraph.
    inside: Vec<bool>,
    quotes: usize,
    unit: Option<TextUnit>,
}

impl MarkdownCollector<'_> {
    fn handle_event(&mut self, event: &Event<'_>, place: Range<usize>) {
        match event {
            Event::Start(block) => self.start_block(block, place),
            Event::End(end) => self.end_block(*end),
            Event::Text(_) | Event::SoftBreak | Event::HardBreak => self.extend_unit(&place, true),
            Event::InlineHtml(_) => {
                self.parsed.html.push(place.clone());
                self.extend_unit(&place, true);
            }
            Event::Html(_) => {}
            Event::Code(_) => {
                if self.quotes == 0 {
                    self.parsed.hidden.push((place.clone(), HiddenKind::Code));
                }
                self.extend_unit(&place, false);
            }
            _ => self.extend_unit(&place, false),
        }
    }

    fn start_block(&mut self, block: &Block<'_>, place: Range<usize>) {
        let inline = matches!(
            block,
            Block::Strong | Block::Emphasis | Block::Link { .. } | Block::Image { .. } | Block::Strikethrough
        );
        if inline {
            self.extend_unit(&place, matches!(block, Block::Strong));
            return;
        }
        self.finish_unit();
        if self.inside.is_empty() {
            let kind = match block {
                Block::CodeBlock(CodeBlockKind::Fenced(_)) => LastBlock::Fence,
                Block::HtmlBlock => LastBlock::Html,
                _ => LastBlock::Other,
            };
            self.parsed.last = Some((place.clone(), kind));
        }
        self.inside.push(matches!(block, Block::Item));
        match block {
            Block::BlockQuote(_) => {
                if self.quotes == 0 {
                    self.parsed.hidden.push((place, HiddenKind::Quote));
                }
                self.quotes += 1;
            }
            _ if self.quotes > 0 => {
                if matches!(block, Block::HtmlBlock) {
                    self.parsed.html.push(place);
                }
            }
            Block::CodeBlock(CodeBlockKind::Fenced(_)) => {
                if self.inside.len() > 1 && !is_closed(self.text, &place) {
                    self.parsed.open.push(place.start);
                }
                self.parsed.hidden.push((place, HiddenKind::Code));
            }
            Block::CodeBlock(CodeBlockKind::Indented) => {
                self.parsed.hidden.push((place, HiddenKind::Indented))
            }
            Block::HtmlBlock => {
                self.parsed.html.push(place.clone());
                self.parsed.units.push(TextUnit { range: place, decorated: Vec::new() });
            }
            Block::Paragraph => self.unit = Some(TextUnit { range: place, decorated: Vec::new() }),
            _ => {}
        }
    }

    fn end_block(&mut self, end: TagEnd) {
        match end {
            TagEnd::Strong | TagEnd::Emphasis | TagEnd::Link | TagEnd::Image | TagEnd::Strikethrough => {
                return;
            }
            TagEnd::BlockQuote(_) => self.quotes -= 1,
            _ => {}
        }
        self.finish_unit();
        self.inside.pop();
    }

    fn extend_unit(&mut self, place: &Range<usize>, plain: bool) {
        if self.inside.last() == Some(&true) && self.unit.is_none() && self.quotes == 0 {
            self.unit = Some(TextUnit { range: place.clone(), decorated: Vec::new() });
        }
        if let Some(unit) = &mut self.unit {
            unit.range.end = unit.range.end.max(place.end);
            if !plain {
                unit.decorated.push(place.start);
            }
        }
    }

    fn finish_unit(&mut self) {
        self.parsed.units.extend(self.unit.take());
    }
}
