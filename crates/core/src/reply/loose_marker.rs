//! Finds loose markers: text that looks like a marker, but lacks the form that a marker requires.
//!
//! A loose marker is never good. A bad word counts in any place and any spelling, so the tags are searched in
//! the text as [`fold`](super::fold) shows it, and the text between them is searched for bad words.

use alloc::vec::Vec;
use core::ops::Range;

use memchr::{memchr, memmem};

use super::Verdict;
use super::fold::{FoldedChar, FoldedChars, fold_letters, fold_lookalike};
use super::judge::is_good;
use super::syntax_hits::SyntaxHits;
use super::tag::{Marker, MarkerName, MarkerTag, is_placeholder, is_placeholder_word, is_plain};
use super::thought_tags::ThoughtTags;

/// The maximum distance between the tags of one marker. Tags that are further apart are two separate tags.
const LONGEST: usize = 1024;

/// The distance from an unpaired tag within which a word is searched.
const WINDOW: usize = 256;

/// A marker tag in any spelling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LooseTag {
    pub(super) name: MarkerName,
    pub(super) closing: bool,
    pub(super) start: usize,
    pub(super) name_end: usize,
    /// The end of the tag, or the end of its name if the tag does not end.
    pub(super) end: usize,
}

const NAMES: [(&[u8], MarkerName); 2] =
    [(b"review", MarkerName::Review), (b"taskstatus", MarkerName::TaskStatus)];

impl LooseTag {
    /// Parses the tag that begins or ends with the bracket at `at`.
    pub(super) fn parse_at(text: &[u8], at: usize) -> Option<Self> {
        let mut seen = FoldedChars::new(text, at);
        match seen.next()?.0 {
            FoldedChar::Open => Self::parse_opened(text, at, seen),
            FoldedChar::Close => Self::parse_unopened(text, at),
            _ => None,
        }
    }

    /// Parses the tag with which the loose marker at `at` begins.
    pub(super) fn parse_near(text: &[u8], at: usize) -> Option<Self> {
        let ends = |name: &str| Some(at + name.len()).filter(|end| text.get(*end) == Some(&b'>'));
        Self::parse_at(text, at).or_else(|| {
            ["review", "task_status"].iter().find_map(|name| Self::parse_unopened(text, ends(name)?))
        })
    }

    fn parse_opened(text: &[u8], start: usize, seen: FoldedChars<'_>) -> Option<Self> {
        let mut seen = seen.take(80).peekable();
        let mut closing = false;
        while let Some((other, _)) = seen.next_if(|(seen, _)| !matches!(seen, FoldedChar::Letter(_))) {
            match other {
                FoldedChar::Open | FoldedChar::Close => return None,
                FoldedChar::Slash => closing = true,
                _ => {}
            }
        }
        // A tag has up to two names, since the first may be a prefix.
        for _ in 0..2 {
            let mut possible = NAMES.map(|(name, kind)| (Some(name), kind));
            let mut after = None;
            while let Some((now, now_end)) = seen.next() {
                match now {
                    FoldedChar::Letter(letter) => {
                        for (name, _) in &mut possible {
                            *name = name.and_then(|rest| {
                                rest.split_first()
                                    .filter(|(first, _)| fold_lookalike(**first) == letter)
                                    .map(|(_, rest)| rest)
                            });
                        }
                        let complete = possible.iter().any(|(rest, _)| rest.is_some_and(<[u8]>::is_empty));
                        let continues = |next: &(FoldedChar, usize)| match next.0 {
                            FoldedChar::Letter(_) => true,
                            FoldedChar::Other(c) => matches!(c, '-' | '_'),
                            _ => false,
                        };
                        if complete && !seen.peek().is_some_and(continues) {
                            let kind =
                                possible.iter().find(|(rest, _)| rest.is_some_and(<[u8]>::is_empty))?.1;
                            return Some(Self {
                                name: kind,
                                closing,
                                start,
                                name_end: now_end,
                                end: find_tag_end(text, now_end),
                            });
                        }
                        if complete {
                            possible.iter_mut().for_each(|(name, _)| *name = None);
                        }
                    }
                    FoldedChar::Other(':') => {
                        after = Some(());
                        break;
                    }
                    FoldedChar::Open | FoldedChar::Close | FoldedChar::Slash => return None,
                    FoldedChar::Blank | FoldedChar::Other(_)
                        if possible.iter().all(|(name, _)| name.is_none()) =>
                    {
                        return None;
                    }
                    FoldedChar::Blank | FoldedChar::Other(_) => {}
                }
            }
            after?;
        }
        None
    }

    /// Parses a tag without an opening bracket: `review>`.
    fn parse_unopened(text: &[u8], at: usize) -> Option<Self> {
        for (name, kind) in [("review", MarkerName::Review), ("task_status", MarkerName::TaskStatus)] {
            let Some(start) = at.checked_sub(name.len()) else { continue };
            let named = text[start..at].eq_ignore_ascii_case(name.as_bytes());
            let begins = start.checked_sub(1).is_none_or(|before| {
                let before = text[before];
                before.is_ascii_whitespace() || matches!(before, b'*' | b'(' | b'"' | b'\'' | b'.' | b',')
            });
            if named && begins {
                return Some(Self { name: kind, closing: false, start, name_end: at, end: at + 1 });
            }
        }
        None
    }
}

/// Returns the end of the tag whose name ends at `from`, or `from` if the tag does not end.
fn find_tag_end(text: &[u8], from: usize) -> usize {
    for (seen, end) in FoldedChars::new(text, from).take(LONGEST) {
        match seen {
            FoldedChar::Close => return end,
            FoldedChar::Open => break,
            _ => {}
        }
    }
    from
}

/// The meaning of a loose marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LooseWord {
    Good,
    Verdict(Verdict),
    Failed,
    Unreadable,
    /// The marker begins a line, and its intended word is unknown.
    Broken,
}

/// Returns the meaning of the marker that begins with `tag`, and the end of the marker. `next` is the
/// following tag, if there is one.
pub(super) fn find_meaning(
    text: &[u8],
    tag: &LooseTag,
    next: Option<&LooseTag>,
) -> Option<(LooseWord, usize)> {
    let near = next.filter(|next| next.start.saturating_sub(tag.end) <= LONGEST && next.start >= tag.end);
    if tag.closing {
        let words = &text[tag.start.saturating_sub(WINDOW)..tag.start];
        let after = &text[tag.end..text.len().min(tag.end + WINDOW)];
        let glued = text[tag.start] == b'<'
            && words.last().is_some_and(|byte| byte.is_ascii_alphanumeric() || !byte.is_ascii());
        let own = memchr::memrchr(b'>', words).map_or(words, |at| &words[at + 1..]);
        let word = find_bad_word(tag.name, words, WordPosition::AtEnd)
            .or_else(|| find_bad_word(tag.name, after, WordPosition::AtStart))
            .or_else(|| (glued && !is_placeholder_word(tag.name, own)).then_some(LooseWord::Broken));
        return word.map(|word| (word, tag.end));
    }
    let attributes = &text[tag.name_end..tag.end];
    if let Some(close) = near.filter(|next| next.closing) {
        return read_closed(text, tag, close);
    }
    let stop = near.map_or(usize::MAX, |next| next.start).min(tag.end + LONGEST / 2).min(text.len());
    let after = &text[tag.end..stop];
    if let Some(word) = find_bad_word(tag.name, attributes, WordPosition::Anywhere)
        .or_else(|| find_bad_word(tag.name, &after[..after.len().min(WINDOW)], WordPosition::AtStart))
        .or_else(|| find_capital_word(tag.name, after))
    {
        return Some((word, tag.end));
    }
    // A tag begins its line if only signs precede it.
    let near_line = tag.start.saturating_sub(64);
    let line = memchr::memrchr(b'\n', &text[near_line..tag.start]).map(|end| near_line + end + 1);
    let line = line.or_else(|| (near_line == 0).then_some(0));
    let is_sign = |(seen, _)| matches!(seen, FoldedChar::Blank | FoldedChar::Other(_));
    let begins = line.is_some_and(|line| FoldedChars::new(&text[..tag.start], line).all(is_sign));
    let glued = after.first().is_some_and(|byte| byte.is_ascii_alphanumeric() || !byte.is_ascii());
    // Text in other brackets may be a link or a log line.
    let is_tag = text[tag.start] == b'<';
    let is_square = text[tag.start] == b'[';
    if is_square && is_link(after) {
        return None;
    }
    let begins = begins && (!is_square || has_extra_attributes(tag.name, attributes) || has_own_word(after));
    let is_broken =
        begins || glued || is_tag && (has_extra_attributes(tag.name, attributes) || has_own_word(after));
    is_broken.then_some((LooseWord::Broken, tag.end))
}

/// Checks whether square brackets belong to a link, by the text after them: `(address)`, `[name]` or
/// `: address`.
fn is_link(after: &[u8]) -> bool {
    let target = match after {
        [b'(', rest @ ..] => memchr(b')', rest).map(|end| &rest[..end]),
        [b':', b' ', rest @ ..] => rest.split(u8::is_ascii_whitespace).next(),
        [b'[', rest @ ..] => {
            let name = memchr(b']', rest).map(|end| &rest[..end]);
            return name
                .is_some_and(|name| !name.iter().any(|byte| byte.is_ascii_uppercase() || *byte == b'\n'));
        }
        _ => None,
    };
    let is_address = |byte: &u8| matches!(byte, b'/' | b'.' | b'#');
    target.is_some_and(|target| !target.contains(&b'\n') && target.iter().any(is_address))
}

/// Checks whether a tag has more than its name and, for a task, its id: `<review verdict="NO"/>`,
/// `<review: NO>`.
fn has_extra_attributes(name: MarkerName, attributes: &[u8]) -> bool {
    let attributes =
        str::from_utf8(attributes).unwrap_or("?").trim_end_matches('>').trim_end_matches('/').trim();
    let marker = Marker { name, attributes, word: "", end: 0 };
    match name {
        MarkerName::Review => !attributes.trim_end_matches(']').is_empty(),
        _ => marker.attributes().any(|(name, _)| !name.eq_ignore_ascii_case("id")),
    }
}

/// Checks whether a word in capitals follows that ends its line or its clause: `<review> BLOCK`.
fn has_own_word(after: &[u8]) -> bool {
    let after = after.trim_ascii_start();
    let length = after.iter().take_while(|byte| byte.is_ascii_uppercase() || **byte == b'_').count();
    length > 1
        && after
            .get(length)
            .is_none_or(|byte| matches!(byte, b'\n' | b'\r' | b'.' | b',' | b';' | b':' | b'!' | b'?'))
}

fn read_closed(text: &[u8], tag: &LooseTag, close: &LooseTag) -> Option<(LooseWord, usize)> {
    let attributes = &text[tag.name_end..tag.end];
    let between = &text[tag.end..close.start];
    let bad = find_bad_word(tag.name, attributes, WordPosition::Anywhere)
        .or_else(|| find_bad_word(tag.name, between, WordPosition::Anywhere));
    if let Some(word) = bad {
        return Some((word, close.end));
    }
    let own = attributes.strip_suffix(b">").unwrap_or(attributes);
    if is_placeholder(tag.name, own, between) {
        return None;
    }
    let exact = MarkerTag::parse_at(text, tag.start).and_then(|tag| Marker::parse(text, &tag));
    let good = exact.is_some_and(|marker| is_good(&marker) && is_plain(marker.name, marker.attributes));
    // Two distant tags without a known word are only mentioned, and so are two tags around sentences in two
    // paragraphs.
    let is_prose = || {
        let words = between.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).count();
        words >= 4 && memmem::find(between, b"\n\n").is_some()
    };
    if !good && (between.len() > 200 || is_prose()) {
        return None;
    }
    Some((if good { LooseWord::Good } else { LooseWord::Unreadable }, close.end))
}

/// Returns a text without the tags in angle brackets: `MAJOR<wbr>_ISSUES`.
fn strip_tags(text: &[u8]) -> Vec<u8> {
    let mut left = Vec::new();
    let mut rest = text;
    while let Some(open) = memchr(b'<', rest) {
        let Some(close) = memchr(b'>', &rest[open..]) else { break };
        left.extend_from_slice(&rest[..open]);
        rest = &rest[open + close + 1..];
    }
    left.extend_from_slice(rest);
    left
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum WordPosition {
    AtStart,
    AtEnd,
    Anywhere,
}

/// The significant part of each bad word, as [`fold_lookalike`] folds it, the most severe first.
const VERDICTS: [(&[u8], Verdict); 5] = [
    (b"majorissue", Verdict::MajorIssues),
    (b"reject", Verdict::Rejected),
    (b"needschange", Verdict::NeedsChanges),
    (b"needchange", Verdict::NeedsChanges),
    (b"needsrevision", Verdict::NeedsRevision),
];

/// Searches a text for a bad word, both as it is spelled and without the tags in it.
fn find_bad_word(name: MarkerName, text: &[u8], place: WordPosition) -> Option<LooseWord> {
    find_bad_letters(name, &fold_letters(text), place).or_else(|| {
        let untagged = memchr(b'<', text).map(|_| strip_tags(text))?;
        find_bad_letters(name, &fold_letters(&untagged), place)
    })
}

fn find_bad_letters(name: MarkerName, letters: &[u8], place: WordPosition) -> Option<LooseWord> {
    // `m` may be spelled `rn`.
    let mut joined = Vec::new();
    if memmem::find(letters, b"rn").is_some() {
        for letter in letters {
            if *letter == b'n' && joined.last() == Some(&b'r') {
                joined.pop();
                joined.push(b'm');
            } else {
                joined.push(*letter);
            }
        }
    }
    if letters.len() < 4 {
        return None;
    }
    let holds = |word: &[u8]| {
        [letters, &joined].iter().any(|letters| match place {
            WordPosition::AtStart => letters.starts_with(word),
            // Up to two letters may follow: `issues`, `changes`, `rejected`, `failed`.
            WordPosition::AtEnd => {
                (0..=2).any(|more| letters.len() >= more && letters[..letters.len() - more].ends_with(word))
            }
            WordPosition::Anywhere => memmem::find(letters, word).is_some(),
        })
    };
    match name {
        MarkerName::TaskStatus => holds(b"faii").then_some(LooseWord::Failed),
        _ => VERDICTS.iter().find(|(word, _)| holds(word)).map(|(_, verdict)| LooseWord::Verdict(*verdict)),
    }
}

/// Finds a bad word in capitals, as contracts write it, in the rest of the paragraph.
fn find_capital_word(name: MarkerName, after: &[u8]) -> Option<LooseWord> {
    let end = memmem::find(after, b"\n\n").or_else(|| memmem::find(after, b"\n\r\n")).unwrap_or(after.len());
    let after = strip_tags(&after[..end]);
    let words: &[&str] = match name {
        MarkerName::TaskStatus => &["FAILED"],
        _ => &["MAJOR_ISSUES", "REJECTED", "NEEDS_CHANGES", "NEEDS_REVISION"],
    };
    if !after.iter().any(u8::is_ascii_uppercase) {
        return None;
    }
    let found = words.iter().find(|word| memmem::find(&after, word.as_bytes()).is_some())?;
    find_bad_letters(name, &fold_letters(found.as_bytes()), WordPosition::Anywhere)
}

/// Finds a verdict or a status in attributes that contradicts a good word.
pub(super) fn find_bad_attribute(name: MarkerName, attributes: &str) -> Option<LooseWord> {
    find_bad_word(name, attributes.as_bytes(), WordPosition::Anywhere)
}

/// Checks whether a text contains a marker tag in any spelling.
pub(super) fn has_tag(text: &[u8], thoughts: &ThoughtTags) -> bool {
    let is_question = |at| MarkerTag::parse_at(text, at).is_some_and(|tag| tag.name == MarkerName::Question);
    SyntaxHits::new(text, 0, thoughts).any(|hit| hit.tag.is_some() || is_question(hit.at))
}

/// Checks whether a text ends with the possible start of a marker tag.
pub(super) fn has_tag_start_at_end(text: &[u8]) -> bool {
    const TAGS: [&str; 6] =
        ["<review", "</review", "<task_status", "</task_status", "<question", "</question"];
    let near = &text[text.len().saturating_sub(16)..];
    let tail = memchr::memrchr(b'<', near).map(|at| &near[at..]);
    let begins = |tail: &[u8]| {
        TAGS.iter()
            .any(|tag| tag.as_bytes().get(..tail.len()).is_some_and(|tag| tag.eq_ignore_ascii_case(tail)))
    };
    tail.is_some_and(begins)
}

/// Checks whether a line of the prompt holds more than markers: a letter outside of tags and their words.
pub(super) fn has_more_than_markers(line: &[u8]) -> bool {
    let mut rest = line;
    let mut outside: Vec<Range<usize>> = Vec::new();
    let mut at = 0;
    while let Some(open) = memchr(b'<', rest) {
        outside.push(at..at + open);
        let start = at + open;
        let end = MarkerTag::parse_at(line, start)
            .and_then(|tag| Marker::parse(line, &tag))
            .map(|marker| marker.end);
        let end =
            end.or_else(|| memchr(b'>', &line[start..]).map(|end| start + end + 1)).unwrap_or(start + 1);
        at = end;
        rest = &line[end..];
    }
    outside.push(at..line.len());
    outside
        .iter()
        .any(|range| line[range.clone()].iter().any(|byte| byte.is_ascii_alphabetic() || !byte.is_ascii()))
}
