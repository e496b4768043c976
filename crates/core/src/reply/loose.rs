//! Loose markers: whatever looks like a marker and does not stand as one must.
//!
//! None of them is ever good. A word that is not good counts wherever it stands and however it is spelled, so the tags are
//! found in the text as it is seen ([`fold`](super::fold)), and what is between them is searched for such words.

use alloc::vec::Vec;
use core::ops::Range;

use memchr::{memchr, memmem};

use super::Verdict;
use super::fold::{Folding, Seen, alike, letters};
use super::judge::is_good;
use super::tag::{Marker, Name, Tag, is_placeholder};

/// How far apart the tags of one marker can be. Whatever is further apart is two tags.
const LONGEST: usize = 1024;

/// A tag of a marker, however it is spelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LooseTag {
    pub(super) name: Name,
    pub(super) closing: bool,
    pub(super) start: usize,
    pub(super) name_end: usize,
    /// Where the tag ends, or its name if it does not end.
    pub(super) end: usize,
}

const NAMES: [(&[u8], Name); 2] = [(b"review", Name::Review), (b"taskstatus", Name::TaskStatus)];

impl LooseTag {
    /// The tag that begins or ends with the bracket at `at`.
    pub(super) fn at(text: &[u8], at: usize) -> Option<Self> {
        let mut seen = Folding::new(text, at);
        match seen.next()?.0 {
            Seen::Open => Self::opened(text, at, seen),
            Seen::Close => Self::unopened(text, at),
            _ => None,
        }
    }

    /// The tag that a loose marker at `at` began with.
    pub(super) fn near(text: &[u8], at: usize) -> Option<Self> {
        let ends = |name: &str| Some(at + name.len()).filter(|end| text.get(*end) == Some(&b'>'));
        Self::at(text, at)
            .or_else(|| ["review", "task_status"].iter().find_map(|name| Self::unopened(text, ends(name)?)))
    }

    fn opened(text: &[u8], start: usize, seen: Folding<'_>) -> Option<Self> {
        let mut seen = seen.take(80).peekable();
        let mut closing = false;
        while let Some((other, _)) = seen.next_if(|(seen, _)| !matches!(seen, Seen::Letter(_))) {
            match other {
                Seen::Open | Seen::Close => return None,
                Seen::Slash => closing = true,
                _ => {}
            }
        }
        // Up to two names: the first may be a prefix.
        for _ in 0..2 {
            let mut possible = NAMES.map(|(name, kind)| (Some(name), kind));
            let mut after = None;
            while let Some((now, now_end)) = seen.next() {
                match now {
                    Seen::Letter(letter) => {
                        for (name, _) in &mut possible {
                            *name = name.and_then(|rest| {
                                rest.split_first()
                                    .filter(|(first, _)| alike(**first) == letter)
                                    .map(|(_, rest)| rest)
                            });
                        }
                        let complete = possible.iter().any(|(rest, _)| rest.is_some_and(<[u8]>::is_empty));
                        let goes_on = |next: &(Seen, usize)| match next.0 {
                            Seen::Letter(_) => true,
                            Seen::Other(c) => matches!(c, '-' | '_'),
                            _ => false,
                        };
                        if complete && !seen.peek().is_some_and(goes_on) {
                            let kind =
                                possible.iter().find(|(rest, _)| rest.is_some_and(<[u8]>::is_empty))?.1;
                            return Some(Self {
                                name: kind,
                                closing,
                                start,
                                name_end: now_end,
                                end: tag_end(text, now_end),
                            });
                        }
                        if complete {
                            possible.iter_mut().for_each(|(name, _)| *name = None);
                        }
                    }
                    Seen::Other(':') => {
                        after = Some(());
                        break;
                    }
                    Seen::Open | Seen::Close | Seen::Slash => return None,
                    Seen::Blank | Seen::Other(_) if possible.iter().all(|(name, _)| name.is_none()) => {
                        return None;
                    }
                    Seen::Blank | Seen::Other(_) => {}
                }
            }
            after?;
        }
        None
    }

    /// `review>`: a tag that nothing opened.
    fn unopened(text: &[u8], at: usize) -> Option<Self> {
        for (name, kind) in [("review", Name::Review), ("task_status", Name::TaskStatus)] {
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

/// Where the tag ends whose name ends at `from`.
fn tag_end(text: &[u8], from: usize) -> usize {
    for (seen, end) in Folding::new(text, from).take(LONGEST) {
        match seen {
            Seen::Close => return end,
            Seen::Open => break,
            _ => {}
        }
    }
    from
}

/// What a loose marker says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LooseWord {
    Good,
    Verdict(Verdict),
    Failed,
    Unreadable,
    /// It begins a line, and nobody knows what it was going to say.
    Broken,
}

/// What is said from `tag` on, up to where it ends; `next` is the tag that follows, if one does.
pub(super) fn said(text: &[u8], tag: &LooseTag, next: Option<&LooseTag>) -> Option<(LooseWord, usize)> {
    let near = next.filter(|next| next.start.saturating_sub(tag.end) <= LONGEST && next.start >= tag.end);
    if tag.closing {
        let from = tag.start.saturating_sub(64);
        let from = memchr::memrchr(b'>', &text[from..tag.start]).map_or(from, |at| from + at + 1);
        let words = &text[from..tag.start];
        let before = letters(words);
        let after = letters(&text[tag.end..text.len().min(tag.end + 64)]);
        let glued = text[tag.start] == b'<'
            && words.last().is_some_and(|byte| byte.is_ascii_alphanumeric() || !byte.is_ascii());
        let word = bad_word(tag.name, &before, Where::AtEnd)
            .or_else(|| bad_word(tag.name, &after, Where::AtStart))
            .or_else(|| (glued && !is_placeholder(tag.name, words)).then_some(LooseWord::Broken));
        return word.map(|word| (word, tag.end));
    }
    let attributes = &text[tag.name_end..tag.end];
    if let Some(close) = near.filter(|next| next.closing) {
        return closed(text, tag, close);
    }
    let stop = near.map_or(usize::MAX, |next| next.start).min(tag.end + LONGEST / 2).min(text.len());
    let after = &text[tag.end..stop];
    if let Some(word) = bad_word(tag.name, &letters(attributes), Where::Anywhere)
        .or_else(|| bad_word(tag.name, &letters(&after[..after.len().min(64)]), Where::AtStart))
        .or_else(|| capitals(tag.name, after))
    {
        return Some((word, tag.end));
    }
    // Whatever begins a line: nothing but signs is before it.
    let near_line = tag.start.saturating_sub(64);
    let line = memchr::memrchr(b'\n', &text[near_line..tag.start]).map(|end| near_line + end + 1);
    let line = line.or_else(|| (near_line == 0).then_some(0));
    let is_sign = |(seen, _)| matches!(seen, Seen::Blank | Seen::Other(_));
    let begins = line.is_some_and(|line| Folding::new(&text[..tag.start], line).all(is_sign));
    let glued = after.first().is_some_and(|byte| byte.is_ascii_alphanumeric() || !byte.is_ascii());
    // What stands in other brackets may be a link or a line of a log.
    let is_tag = text[tag.start] == b'<';
    let is_broken = begins || glued || is_tag && (says_more(tag.name, attributes) || has_own_word(after));
    is_broken.then_some((LooseWord::Broken, tag.end))
}

/// Whether a tag says more than its name, and for a task more than its id: `<review verdict="NO"/>`, `<review: NO>`.
fn says_more(name: Name, attributes: &[u8]) -> bool {
    let attributes =
        str::from_utf8(attributes).unwrap_or("?").trim_end_matches('>').trim_end_matches('/').trim();
    let marker = Marker { name, attributes, word: "", end: 0 };
    match name {
        Name::Review => !attributes.is_empty(),
        _ => marker.attributes().any(|(name, _)| !name.eq_ignore_ascii_case("id")),
    }
}

/// Whether a word in capitals follows that ends its line or its clause: `<review> BLOCK`.
fn has_own_word(after: &[u8]) -> bool {
    let after = after.trim_ascii_start();
    let length = after.iter().take_while(|byte| byte.is_ascii_uppercase() || **byte == b'_').count();
    length > 1
        && after
            .get(length)
            .is_none_or(|byte| matches!(byte, b'\n' | b'\r' | b'.' | b',' | b';' | b':' | b'!' | b'?'))
}

fn closed(text: &[u8], tag: &LooseTag, close: &LooseTag) -> Option<(LooseWord, usize)> {
    let attributes = &text[tag.name_end..tag.end];
    let between = &text[tag.end..close.start];
    let bad = bad_word(tag.name, &letters(attributes), Where::Anywhere)
        .or_else(|| bad_word(tag.name, &letters(between), Where::Anywhere))
        .or_else(|| bad_word(tag.name, &letters(&untagged(between)), Where::Anywhere));
    if let Some(word) = bad {
        return Some((word, close.end));
    }
    if is_placeholder(tag.name, between) {
        return None;
    }
    let exact = Tag::at(text, tag.start).and_then(|tag| Marker::of(text, &tag));
    let good = exact.is_some_and(|marker| is_good(&marker));
    // Far apart and without a word that anything knows, two tags are spoken of; also with sentences in two paragraphs.
    let is_prose = || {
        let words = between.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).count();
        words >= 4 && memmem::find(between, b"\n\n").is_some()
    };
    if !good && (between.len() > 200 || is_prose()) {
        return None;
    }
    Some((if good { LooseWord::Good } else { LooseWord::Unreadable }, close.end))
}

/// A text without what stands between angle brackets in it: `MAJOR<wbr>_ISSUES`.
fn untagged(text: &[u8]) -> Vec<u8> {
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
enum Where {
    AtStart,
    AtEnd,
    Anywhere,
}

/// Words that are not good, as far as they matter and as they are [alike], the most severe first.
const VERDICTS: [(&[u8], Verdict); 5] = [
    (b"majorissue", Verdict::MajorIssues),
    (b"reject", Verdict::Rejected),
    (b"needschange", Verdict::NeedsChanges),
    (b"needchange", Verdict::NeedsChanges),
    (b"needsrevision", Verdict::NeedsRevision),
];

fn bad_word(name: Name, letters: &[u8], place: Where) -> Option<LooseWord> {
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
            Where::AtStart => letters.starts_with(word),
            // Up to two letters may follow: `issues`, `changes`, `rejected`, `failed`.
            Where::AtEnd => {
                (0..=2).any(|more| letters.len() >= more && letters[..letters.len() - more].ends_with(word))
            }
            Where::Anywhere => memmem::find(letters, word).is_some(),
        })
    };
    match name {
        Name::TaskStatus => holds(b"faii").then_some(LooseWord::Failed),
        _ => VERDICTS.iter().find(|(word, _)| holds(word)).map(|(_, verdict)| LooseWord::Verdict(*verdict)),
    }
}

/// A word in capitals, as contracts write it, in the rest of the paragraph.
fn capitals(name: Name, after: &[u8]) -> Option<LooseWord> {
    let end = memmem::find(after, b"\n\n").or_else(|| memmem::find(after, b"\n\r\n")).unwrap_or(after.len());
    let after = &after[..end];
    let words: &[&str] = match name {
        Name::TaskStatus => &["FAILED"],
        _ => &["MAJOR_ISSUES", "REJECTED", "NEEDS_CHANGES", "NEEDS_REVISION"],
    };
    if !after.iter().any(u8::is_ascii_uppercase) {
        return None;
    }
    let found = words.iter().find(|word| memmem::find(after, word.as_bytes()).is_some())?;
    bad_word(name, &letters(found.as_bytes()), Where::Anywhere)
}

/// A verdict or a status in attributes that says something else than a good word does.
pub(super) fn in_attributes(name: Name, attributes: &str) -> Option<LooseWord> {
    bad_word(name, &letters(attributes.as_bytes()), Where::Anywhere)
}

/// Whether a line of the prompt says more than its markers: a letter besides tags and their words.
pub(super) fn is_more_than_markers(line: &[u8]) -> bool {
    let mut rest = line;
    let mut outside: Vec<Range<usize>> = Vec::new();
    let mut at = 0;
    while let Some(open) = memchr(b'<', rest) {
        outside.push(at..at + open);
        let start = at + open;
        let end = Tag::at(line, start).and_then(|tag| Marker::of(line, &tag)).map(|marker| marker.end);
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
