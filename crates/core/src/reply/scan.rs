//! The scan: the thoughts of a text, and every marker with how it stands there.
//!
//! Only what is around a [hit](super::hits) is parsed, from an empty line before it to an empty line after it: there a block
//! begins at the top whatever came before, since nothing that can go on over empty lines begins without a hit. A CommonMark
//! parser says what is code, what is quoted, what is HTML and which paragraphs there are. A good marker counts only as
//! [all that a block holds](super::tag::only_markers); every other marker is [loose](super::loose).

use alloc::borrow::Cow;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::iter::Peekable;
use core::ops::Range;

use memchr::{memchr, memchr_iter, memmem, memrchr};
use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag as Block, TagEnd};

use super::hits::{SyntaxHit, SyntaxHits};
use super::judge::is_good;
use super::loose::{self, LooseTag, LooseWord};
use super::tag::{
    AnyTag, Marker, MarkerName, MarkerTag, html_tag_end, is_blank, is_placeholder, only_markers,
    question_end, question_words, skip_blanks,
};
use super::thoughts::ThoughtTags;

#[derive(Debug, Default)]
pub(super) struct ReplyScan {
    /// The thoughts, in order.
    pub(super) cuts: Vec<Range<usize>>,
    pub(super) found: Vec<FoundMarker>,
    /// How many markers stand in code and quotes.
    pub(super) quoted: usize,
    /// What is still open at the end, and since where.
    pub(super) open: Vec<(UnclosedBlock, usize)>,
    /// The end of the last thought that nothing opened: what is before it may have been one.
    pub(super) unopened: Option<usize>,
    /// Where something begins that is too large to be judged.
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
    /// The same where only what is not good counts.
    fn bad(self, text: &[u8]) -> Option<Self> {
        match self.standing {
            MarkerStanding::Loose(LooseWord::Verdict(_) | LooseWord::Failed) => Some(self),
            MarkerStanding::Alone | MarkerStanding::Enclosed => {
                let marker = MarkerTag::at(text, self.at).and_then(|tag| Marker::of(text, &tag))?;
                (!is_good(&marker)).then_some(Self { standing: MarkerStanding::Enclosed, ..self })
            }
            _ => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MarkerStanding {
    /// All that a paragraph, an entry of a list or an HTML block holds, beside others.
    Alone,
    /// The same inside of an element or between delimiters of thoughts.
    Enclosed,
    Loose(LooseWord),
    /// Indented as far as code is.
    Indented,
    /// A question to the person. It counts wherever it stands, since to ask is never wrong.
    Question,
}

/// How many lines and signs a block may have: what the parser keeps of each is a hundred bytes.
const MOST_NODES: usize = 500_000;
/// How many quotes and lists may be in each other on one line.
const DEEPEST: usize = 200;
/// How many markers are judged.
const MOST_FOUND: usize = 1_000_000;
/// How many names of elements are told apart.
const MOST_NAMES: usize = 10_000;

/// Tags of thoughts that are no HTML, as a pair of delimiters.
const TAG: usize = usize::MAX;
/// Tags of thoughts that a quote or a comment leaves open: nothing closes them.
const STRAY: usize = usize::MAX - 1;

pub(super) fn scan(text: &[u8]) -> ReplyScan {
    // Some editors put a byte order mark in front.
    let start = bom(text);
    let thoughts = ThoughtTags::shipped();
    let mut scan = scan_from(text, start, &thoughts, true);
    let thought = scan.open.iter().find(|(open, _)| *open == UnclosedBlock::Thought);
    if let Some((_, thought)) = thought.copied() {
        // Nobody knows where it was meant to end, so what is not good in it counts.
        let inside = scan_from(text, block_before(text, start, thought), &thoughts, false);
        scan.too_large = scan.too_large.or(inside.too_large);
        let bad = inside.found.into_iter().filter(|found| found.at > thought);
        scan.found.extend(bad.filter_map(|found| found.bad(text)));
        scan.found.sort_by_key(|found| found.at);
    }
    scan
}

/// The same from `start` on, with thoughts cut or not.
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
        let from = block_before(text, at, hit.at);
        let to = block_after(text, hit.at);
        match scanner.blocks(from..to, &mut hits) {
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

/// The last place up to `to` where a block begins at the top: after an empty line, at the margin.
fn block_before(text: &[u8], from: usize, to: usize) -> usize {
    let mut line = line_start(text, to);
    while line > from {
        let before = line_start(text, line - 1);
        let at_margin = !matches!(text.get(line), None | Some(b' ' | b'\t' | b'\r' | b'\n'));
        if at_margin
            && before >= from
            && before < line
            && text[before..line].iter().all(|byte| is_blank(*byte) || *byte == b'\n')
        {
            return line;
        }
        line = before;
    }
    from
}

/// The first place after `from` where a block begins at the top, or the end.
fn block_after(text: &[u8], from: usize) -> usize {
    let mut empty = false;
    for end in memchr_iter(b'\n', &text[from..]) {
        let line = from + end + 1;
        let next_empty = text.get(skip_blanks(text, line)) == Some(&b'\n');
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

/// Whether the line holds nothing but blanks before `at`.
fn is_blank_before(text: &[u8], at: usize) -> bool {
    text[..at].iter().rev().find(|byte| !is_blank(**byte)).is_none_or(|byte| *byte == b'\n')
}

/// Whether this may stand before the text of an entry of a list.
const fn is_lead(byte: &u8) -> bool {
    matches!(byte, b' ' | b'-' | b'+' | b'*' | b'.' | b')' | b'0'..=b'9')
}

/// Whether the line of `at` begins with the sign of a quote, in an entry of a list or not.
fn is_quoted(text: &[u8], at: usize) -> bool {
    let line = &text[line_start(text, at).max(bom(text)).min(at)..at];
    let sign = line.iter().position(|byte| !is_lead(byte) && *byte != b'\t');
    sign.is_some_and(|at| line[at] == b'>' && (at == 0 || is_blank(line[at - 1])))
}

/// Whether every parser begins a block with the line at `line`, behind blocks that begin at `region`.
///
/// Whether a quote or a list goes on without its sign, and whether a line under a text is a rule or makes a heading of it, is
/// read in more than one way.
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

/// Whether a line that is empty or begins with `#` ends what is before it.
fn is_heading(words: &[u8]) -> bool {
    let level = words.iter().take_while(|byte| **byte == b'#').count();
    words.is_empty() || level <= 6 && words.get(level).is_none_or(|byte| is_blank(*byte))
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
    /// How deep thoughts are nested here, and where the outermost begins.
    depth: usize,
    thought: usize,
    /// Where the last cut ends, and where its line begins if it holds nothing before but what is cut.
    clean: (usize, Option<usize>),
    /// The delimiters of thoughts that are open: which pair, and how often.
    between: Vec<(usize, usize)>,
    /// Elements by their name: those that are open.
    elements: BTreeMap<String, Vec<OpenElement>>,
    /// Which of what was found is known to be enclosed.
    enclosed: Range<usize>,
    /// The loose tag that may yet be closed, and whether it is in indented code.
    pending: Option<(LooseTag, bool)>,
    /// Where the first quote begins since an empty line.
    quote: usize,
    /// Where the last question ends.
    asked: usize,
}

#[derive(Clone, Copy)]
struct OpenElement {
    /// How much was found before it.
    found: usize,
    /// How many were opened since nothing else was found.
    count: usize,
    /// Whether nobody only speaks of it, so that it holds all that follows if it is not closed.
    encloses: bool,
}

/// What the parser says of a few blocks.
#[derive(Default)]
struct ParsedBlocks {
    /// In order; none in another.
    hidden: Vec<(Range<usize>, HiddenKind)>,
    html: Vec<Range<usize>>,
    units: Vec<TextUnit>,
    /// Fences that are not closed.
    open: Vec<usize>,
    /// The last block, if it may go on.
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

/// A paragraph, what an entry of a list holds, or an HTML block.
struct TextUnit {
    range: Range<usize>,
    /// Where it has anything but text, HTML and bold.
    decorated: Vec<usize>,
}

impl ReplyScanner<'_> {
    /// Reads the blocks in `range` and what goes on behind it; returns where to go on, or nothing if it is too large.
    fn blocks(&mut self, range: Range<usize>, hits: &mut Peekable<SyntaxHits<'_>>) -> Option<usize> {
        let text = self.text;
        let mut parsed = parse(text, &range)?;
        let mut end = range.end;
        let is_code = matches!(parsed.last, Some((_, LastBlock::Fence)));
        match parsed.last.clone() {
            Some((last, LastBlock::Fence)) if !is_closed_at_top(text, &last) => {
                let stop = fence_end(text, &last);
                if stop.is_none() {
                    self.scan.open.push((UnclosedBlock::Fence, last.start));
                }
                end = stop.unwrap_or(text.len());
                if let Some((hidden, _)) = parsed.hidden.last_mut() {
                    hidden.end = end;
                }
            }
            Some((last, LastBlock::Html)) => {
                let start = skip_blanks(text, last.start);
                if let Some(stop) = raw_end(text, start) {
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
        let strays = self.thoughts(&here, &parsed);
        self.markers(range.start, &here, &parsed, &strays);
        Some(end)
    }

    /// Finds the thoughts. Only tags that are HTML cut. In a quote or a comment they cut nothing; those that are not closed
    /// in it are returned.
    fn thoughts(&mut self, hits: &[SyntaxHit], parsed: &ParsedBlocks) -> Vec<usize> {
        if !self.cuts {
            return Vec::new();
        }
        let text = self.text;
        let mut walk = HtmlWalker::default();
        let mut hidden = parsed.hidden.iter().peekable();
        let mut html = parsed.html.iter().peekable();
        // Where the quote or the comment ends that this is in, and which thoughts began in it.
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
            let inside = if scope.is_none() { walk.to(text, piece, hit.at) } else { HtmlContext::Nothing };
            if scope.is_none()
                && inside == HtmlContext::Nothing
                && let Some(stop) = find_comment_end(&text[..piece.end], hit.at)
            {
                scope = Some((stop.unwrap_or(piece.end), Vec::new()));
                continue;
            }
            let Some(tag) =
                AnyTag::at(text, hit.at).filter(|tag| self.thoughts.is_thought_name(&text[tag.name.clone()]))
            else {
                continue;
            };
            let Some(end) = html_tag_end(&text[..piece.end], tag.name.end) else { continue };
            match inside {
                HtmlContext::Nothing => {}
                HtmlContext::Raw if tag.closing && self.depth > 0 => {}
                // This is no tag. But whoever takes it for one ends a thought here.
                _ if tag.closing => {
                    self.scan.unopened = Some(end);
                    continue;
                }
                _ => continue,
            }
            // CommonMark knows no tag with a blank before its name.
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
            self.thought(hit.at, end, tag.closing);
        }
        strays.extend(scope.into_iter().flat_map(|(_, began)| began));
        strays
    }

    fn thought(&mut self, at: usize, end: usize, closing: bool) {
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

    /// Cuts the thought that ends here; where it is all that its lines hold, the lines too.
    fn cut(&mut self, end: usize) {
        let text = self.text;
        let mut cut = self.thought..end;
        let blanks = text[..cut.start].iter().rev().take_while(|byte| is_blank(**byte)).count();
        let before = cut.start - blanks;
        // Where the line begins, if it holds nothing before but what is cut.
        let line = match self.clean {
            (end, line) if end == before && end > 0 => line,
            _ => (before == 0 || text[before - 1] == b'\n').then_some(before),
        };
        let rest = skip_blanks(text, end);
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

    /// What is cut in `range`, in order.
    fn cuts_in(&self, range: &Range<usize>) -> Vec<Range<usize>> {
        let first = self.scan.cuts.partition_point(|cut| cut.end <= range.start);
        let cuts = self.scan.cuts[first..].iter().take_while(|cut| cut.start < range.end).cloned();
        let open = (self.depth > 0).then_some(self.thought..usize::MAX);
        cuts.chain(open).collect()
    }

    fn is_cut(&self, at: usize) -> bool {
        let cut = self.scan.cuts.partition_point(|cut| cut.end <= at);
        self.scan.cuts.get(cut).is_some_and(|cut| cut.start <= at) || self.depth > 0 && at >= self.thought
    }

    /// Finds the markers, and what encloses them.
    fn markers(&mut self, region: usize, hits: &[SyntaxHit], parsed: &ParsedBlocks, strays: &[usize]) {
        let mut strays = strays.iter().peekable();
        let mut hidden = parsed.hidden.iter().peekable();
        let mut units = parsed.units.iter().peekable();
        let mut html = parsed.html.iter().peekable();
        let mut read = 0..0;
        // The last line in a quote, and whether it has no sign of its own.
        let (mut line, mut lazy) = (0..0, false);
        for hit in hits {
            while hidden.next_if(|(range, _)| range.end <= hit.at).is_some() {}
            while html.next_if(|range| range.end <= hit.at).is_some() {}
            while strays.next_if(|stray| **stray <= hit.at).is_some() {
                self.delimiter(STRAY, false, hit.at);
            }
            while let Some(unit) = units.next_if(|unit| unit.range.start <= hit.at) {
                if unit.range.end > hit.at
                    && let Some((from, markers)) = self.unit(unit, region)
                {
                    self.alone(&markers);
                    read = from..unit.range.end;
                }
            }
            if self.is_cut(hit.at) {
                continue;
            }
            let inside = hidden.peek().filter(|(range, _)| range.start <= hit.at).map(|(_, hidden)| *hidden);
            if inside.is_none() {
                self.question(hit.at);
            }
            // Whether a quote goes on without its sign is read in more than one way.
            if inside == Some(HiddenKind::Quote) && !line.contains(&hit.at) {
                line = line_start(self.text, hit.at)..line_end(self.text, hit.at);
                lazy = !is_quoted(self.text, hit.at);
            }
            let inside = inside.filter(|hidden| *hidden != HiddenKind::Quote || !lazy);
            if read.contains(&hit.at) {
                // A tag that is spelled with other brackets stands in the words of a question.
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
                self.around(hit, in_html);
            }
        }
    }

    /// Keeps the question that begins here, if one does.
    fn question(&mut self, at: usize) {
        if at < self.asked {
            return;
        }
        let Some(end) = question_end(self.text, at) else { return };
        self.asked = end;
        if !is_placeholder(MarkerName::Question, b"", question_words(&self.text[at..end])) {
            self.scan.found.push(FoundMarker { at, end, standing: MarkerStanding::Question });
        }
    }

    /// The markers of a unit that holds nothing else, and from where on it does so. Its blocks begin at `region`.
    fn unit(&mut self, unit: &TextUnit, region: usize) -> Option<(usize, Vec<usize>)> {
        let text = self.text;
        let mut cuts = self.cuts_in(&unit.range);
        let mut from = unit.range.start;
        // What is before the end of a thought may be all thought, so it is no reason why a marker behind it does not count.
        if let Some(end) = self
            .scan
            .unopened
            .filter(|end| unit.range.contains(end) && text.get(skip_blanks(text, *end)) == Some(&b'\n'))
        {
            cuts.retain(|cut| cut.start >= end);
            cuts.insert(0, unit.range.start..end);
            from = end;
        }
        let is_cut = |at: &usize| cuts.iter().any(|cut| cut.contains(at));
        if !unit.decorated.iter().all(is_cut) {
            return None;
        }
        // Whatever is before it on its line begins an entry of a list. A carriage return by itself begins no line, and how
        // far a tab indents is read in more than one way.
        let line = line_start(text, unit.range.start).max(bom(text));
        let indent = &text[unit.range.start..skip_blanks(text, unit.range.start)];
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
        Some((from, only_markers(text, &unit.range, &cuts)?))
    }

    fn alone(&mut self, markers: &[usize]) {
        let standing = if self.between.is_empty() { MarkerStanding::Alone } else { MarkerStanding::Enclosed };
        for at in markers {
            let Some((tag, marker)) =
                MarkerTag::at(self.text, *at).and_then(|tag| Some((tag, Marker::of(self.text, &tag)?)))
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
                self.say(&pending, indented, Some(&next));
            }
            if !is_placeholder(marker.name, marker.attributes.as_bytes(), marker.word.as_bytes()) {
                self.scan.found.push(FoundMarker { at: *at, end: marker.end, standing });
            }
        }
    }

    fn push_loose_tag(&mut self, tag: LooseTag, indented: bool) {
        let Some((pending, was_indented)) = self.pending.take() else {
            if tag.closing {
                self.say(&tag, indented, None);
            } else {
                self.pending = Some((tag, indented));
            }
            return;
        };
        if indented != was_indented {
            self.say(&pending, was_indented, None);
            return self.push_loose_tag(tag, indented);
        }
        let closed = self.say(&pending, indented, Some(&tag));
        if !tag.closing {
            self.pending = Some((tag, indented));
        } else if !closed {
            self.say(&tag, indented, None);
        }
    }

    /// Keeps what a loose tag says; tells whether it went up to the end of `next`.
    fn say(&mut self, tag: &LooseTag, indented: bool, next: Option<&LooseTag>) -> bool {
        let Some((word, end)) = loose::said(self.text, tag, next) else { return false };
        let standing = match word {
            LooseWord::Good if indented => MarkerStanding::Indented,
            LooseWord::Broken if indented => return false,
            word => MarkerStanding::Loose(word),
        };
        self.scan.found.push(FoundMarker { at: tag.start, end, standing });
        next.is_some_and(|next| next.closing && end == next.end)
    }

    /// What stands around others: elements, and delimiters of thoughts.
    fn around(&mut self, hit: &SyntaxHit, in_html: bool) {
        let text = self.text;
        let rest = &text[hit.at..];
        if hit.delimiter {
            for delimiter in self.thoughts.delimiters(rest) {
                self.delimiter(delimiter.pair, delimiter.closing, hit.at + delimiter.length);
            }
        }
        if !in_html {
            // Comments and their like are text where an empty line is in them.
            for (name, open, close) in
                [("!--", &b"<!--"[..], &b"-->"[..]), ("![", b"<![CDATA[", b"]]>"), ("?", b"<?", b"?>")]
            {
                if rest.starts_with(open) {
                    self.element(name, false, true);
                } else if rest[0] == b'>' && text[..=hit.at].ends_with(close) {
                    self.element(name, true, false);
                }
            }
        }
        let Some(tag) = AnyTag::at(text, hit.at) else { return };
        // An address in angle brackets is no tag.
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
            if let Some(end) = tag.end(text).filter(|_| !in_html) {
                self.delimiter(TAG, tag.closing, end);
            }
            return;
        }
        let name = String::from_utf8_lossy(name).to_ascii_lowercase();
        const EMPTY: [&str; 14] = [
            "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source",
            "track", "wbr",
        ];
        let end = tag.end(text).unwrap_or(tag.name.end);
        let bare = text.get(skip_blanks(text, tag.name.end)) == Some(&b'>');
        let is_empty = !tag.closing && text[end - 1] == b'>' && text[end - 2] == b'/';
        if EMPTY.contains(&name.as_str()) || is_empty || (name == "response" && bare && !tag.closing) {
            return;
        }
        let encloses = !tag.closing && can_enclose(text, &name, hit.at, end);
        self.element(&name, tag.closing, encloses);
    }

    fn delimiter(&mut self, pair: usize, closing: bool, end: usize) {
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
            // Several pairs end alike, so that only the end of a thought of no pair says that one was not opened.
            (None, true) => {
                if self.between.is_empty() {
                    self.scan.unopened = Some(end);
                }
            }
        }
    }

    fn element(&mut self, name: &str, closing: bool, encloses: bool) {
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

    /// Whatever was found from `before` on stands in something.
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
            self.say(&pending, indented, None);
        }
        // Ends that HTML lets be left out say nothing; a marker that is left open is broken anyway.
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

/// Elements whose names say that they hold what somebody else wrote.
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

/// Whether the element that is opened in `at..end` holds all that follows if it is never closed, or is only spoken of. It does
/// where it begins a block or an entry of a list, has a line of its own or ends its paragraph; an element of data also in any
/// place where no prose goes on behind it.
fn can_enclose(text: &[u8], name: &str, at: usize, end: usize) -> bool {
    let begins_line = is_blank_before(text, at);
    let after = &text[skip_blanks(text, end)..];
    if begins_line && after.first().is_none_or(|byte| *byte == b'\n') {
        return true;
    }
    // As far as anybody looks for what is before it and behind it.
    const NEAR: usize = 256;
    let is_word = |text: &[u8]| String::from_utf8_lossy(text).chars().any(char::is_alphabetic);
    let line =
        memrchr(b'\n', &text[at.saturating_sub(NEAR)..at]).map(|end| at.saturating_sub(NEAR) + end + 1);
    let line = line.or_else(|| (at <= NEAR).then_some(bom(text).min(at)));
    if let Some(line) = line.filter(|line| !is_word(&text[*line..at])) {
        let lead = text[line..at].trim_ascii();
        let signed = is_blank(text[at - usize::from(at > line)])
            && lead.first().is_some_and(|byte| is_lead(byte) || *byte == b'#');
        if signed || begins_block(text, line) {
            return true;
        }
    }
    let near = &after[..after.len().min(NEAR)];
    let is_data = DATA.contains(&name);
    if is_data {
        let blank = text.get(end).is_some_and(|byte| is_blank(*byte));
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
    let is_sign =
        |byte: &u8| is_blank(*byte) || matches!(byte, b':' | b'*' | b'_' | b'-' | b'=' | b'#' | b'|');
    rest.iter().all(is_sign) && (rest.len() == near.len() || ends_block(&near[rest.len() + 1..]))
}

/// Whether a block begins with the line at `line`, as far as the line before it shows.
fn begins_block(text: &[u8], line: usize) -> bool {
    if line <= bom(text) {
        return true;
    }
    let before = text[line_start(text, line - 1)..line].trim_ascii();
    match before {
        [] | [b'#' | b'`' | b'~' | b'=' | b'|', ..] => true,
        [sign @ (b'-' | b'*' | b'_'), rest @ ..] => rest.iter().all(|byte| byte == sign || is_blank(*byte)),
        _ => false,
    }
}

/// Whether the block before a line ends there, as far as the line shows.
fn ends_block(next: &[u8]) -> bool {
    match next[next.len() - next.trim_ascii_start().len()..] {
        _ if next[skip_blanks(next, 0)..].first().is_none_or(|byte| *byte == b'\n') => true,
        [b'-' | b'*' | b'+', b' ', ..] | [b'#' | b'>' | b'|', ..] | [b'`', b'`', b'`', ..] => true,
        [b'0'..=b'9', ref rest @ ..] => {
            let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            matches!(rest[digits..], [b'.' | b')', b' ', ..])
        }
        _ => false,
    }
}

/// What a `<` in HTML is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HtmlContext {
    /// It begins a tag or a comment.
    Nothing,
    /// An attribute, or an element whose text is no HTML.
    Other,
    /// Such an element that is not closed in its block.
    Raw,
}

/// Goes over the tags of HTML, piece by piece.
#[derive(Default)]
struct HtmlWalker {
    piece: Range<usize>,
    at: usize,
    /// Which element is open whose text is no HTML.
    raw: Option<usize>,
}

const RAW: [&str; 4] = ["pre", "script", "style", "textarea"];

impl HtmlWalker {
    /// What the `<` at `hit` in `piece` is in. Hits come in order.
    fn to(&mut self, text: &[u8], piece: &Range<usize>, hit: usize) -> HtmlContext {
        if self.piece != *piece {
            while let Some(open) = memchr(b'<', &text[self.at.min(self.piece.end)..self.piece.end]) {
                self.at = self.token(&text[..self.piece.end], self.at + open);
            }
            (self.piece, self.at) = (piece.clone(), piece.start);
        }
        let text = &text[..piece.end];
        while self.at < hit {
            let Some(open) = memchr(b'<', &text[self.at..hit]) else { break };
            self.at = self.token(text, self.at + open);
        }
        match self.raw {
            _ if self.at > hit => HtmlContext::Other,
            Some(raw) if !is_raw_close(text, hit, raw) => HtmlContext::Raw,
            _ => HtmlContext::Nothing,
        }
    }

    /// Where what begins at `at` ends. An element whose text is no HTML is gone over if it is closed in its block.
    fn token(&mut self, text: &[u8], at: usize) -> usize {
        if let Some(end) = find_comment_end(text, at) {
            return end.unwrap_or(text.len());
        }
        let Some(tag) = AnyTag::at(text, at) else { return at + 1 };
        let Some(end) = html_tag_end(text, tag.name.end) else { return at + 1 };
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

/// Whether the element is closed here.
fn is_raw_close(text: &[u8], at: usize, raw: usize) -> bool {
    let name = RAW[raw].as_bytes();
    let rest = &text[at..];
    rest.starts_with(b"</")
        && rest.get(2..2 + name.len()).is_some_and(|close| close.eq_ignore_ascii_case(name))
}

fn bom(text: &[u8]) -> usize {
    if text.starts_with("\u{feff}".as_bytes()) { 3 } else { 0 }
}

/// Whether a comment or its like begins here, and where it ends.
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

/// Where an HTML block that can go on over empty lines has its end, if it is one.
fn raw_end(text: &[u8], at: usize) -> Option<Option<usize>> {
    if let Some(end) = find_comment_end(text, at) {
        return Some(end);
    }
    let is_raw =
        |tag: &AnyTag| RAW.iter().any(|raw| raw.as_bytes().eq_ignore_ascii_case(&text[tag.name.clone()]));
    AnyTag::at(text, at).filter(is_raw)?;
    let mut ends = memmem::find_iter(&text[at..], b"</").map(|end| at + end);
    let end = ends.find(|end| {
        RAW.iter().any(|raw| {
            let rest = &text[*end + 2..];
            rest.get(raw.len()) == Some(&b'>') && rest[..raw.len()].eq_ignore_ascii_case(raw.as_bytes())
        })
    });
    Some(end.map(|end| end + 2))
}

/// Whether the code in `range`, which is in a list, ends with a fence.
fn is_closed(text: &[u8], range: &Range<usize>) -> bool {
    let code = text[range.clone()].trim_ascii();
    let fence = code.first().copied().unwrap_or_default();
    let length = code.iter().take_while(|byte| **byte == fence).count();
    let last = last_line(code).trim_ascii();
    last.len() < code.len() && last.len() >= length && last.iter().all(|byte| *byte == fence)
}

/// The same at the top, where the parser is asked.
fn is_closed_at_top(text: &[u8], range: &Range<usize>) -> bool {
    let code = text[range.clone()].trim_ascii_end();
    let opening = line_end(code, 0);
    opening < code.len() && is_closed(text, range) && is_closing_fence(&code[..opening], last_line(code))
}

fn last_line(code: &[u8]) -> &[u8] {
    &code[line_start(code, code.len())..]
}

/// Where the fence is closed that begins at the start of `block`: the parser is asked for every line that may do so.
fn fence_end(text: &[u8], block: &Range<usize>) -> Option<usize> {
    let opening = &text[block.start..line_end(text, block.start)];
    let start = opening.iter().take_while(|byte| is_blank(**byte)).count();
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

/// What the parser says of `range`, or nothing if it is too large for it.
fn parse(text: &[u8], range: &Range<usize>) -> Option<ParsedBlocks> {
    let slice = &text[range.clone()];
    if slice.len() > MOST_NODES / 4 && is_too_large(slice) {
        return None;
    }
    if is_too_deep(slice) {
        return None;
    }
    let source = as_text(slice);
    let mut reader = MarkdownCollector {
        text,
        parsed: ParsedBlocks::default(),
        inside: Vec::new(),
        quotes: 0,
        unit: None,
    };
    for (event, place) in Parser::new_ext(&source, Options::empty()).into_offset_iter() {
        reader.event(&event, range.start + place.start..range.start + place.end);
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

/// Whether a line begins with very many quotes and lists in each other.
fn is_too_deep(slice: &[u8]) -> bool {
    slice.split(|byte| matches!(byte, b'\n' | b'\r')).any(|line| {
        let lead = line.iter().take_while(|byte| {
            matches!(byte, b' ' | b'\t' | b'>' | b'-' | b'+' | b'*' | b'0'..=b'9' | b'.' | b')')
        });
        let lead = &line[..lead.count()];
        let begins = |pair: &&[u8]| pair[0] == b'>' || !is_blank(pair[0]) && is_blank(pair[1]);
        lead.len() > DEEPEST && lead.windows(2).filter(begins).count() > DEEPEST
    })
}

/// The same with every byte that is no text replaced by one that means nothing, so that all places stay.
fn as_text(slice: &[u8]) -> Cow<'_, str> {
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

/// Takes what matters out of the parser's events.
struct MarkdownCollector<'t> {
    text: &'t [u8],
    parsed: ParsedBlocks,
    /// What this is in: whether each is an entry of a list, whose text need not be a paragraph.
    inside: Vec<bool>,
    quotes: usize,
    unit: Option<TextUnit>,
}

impl MarkdownCollector<'_> {
    fn event(&mut self, event: &Event<'_>, place: Range<usize>) {
        match event {
            Event::Start(block) => self.start(block, place),
            Event::End(end) => self.end(*end),
            Event::Text(_) | Event::SoftBreak | Event::HardBreak => self.inline(&place, true),
            Event::InlineHtml(_) => {
                self.parsed.html.push(place.clone());
                self.inline(&place, true);
            }
            Event::Html(_) => {}
            Event::Code(_) => {
                if self.quotes == 0 {
                    self.parsed.hidden.push((place.clone(), HiddenKind::Code));
                }
                self.inline(&place, false);
            }
            _ => self.inline(&place, false),
        }
    }

    fn start(&mut self, block: &Block<'_>, place: Range<usize>) {
        let inline = matches!(
            block,
            Block::Strong | Block::Emphasis | Block::Link { .. } | Block::Image { .. } | Block::Strikethrough
        );
        if inline {
            self.inline(&place, matches!(block, Block::Strong));
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

    fn end(&mut self, end: TagEnd) {
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

    fn inline(&mut self, place: &Range<usize>, plain: bool) {
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
