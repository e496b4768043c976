//! Content that no text may hold: invisible characters, and markers that pass for a reply.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use crate::check::LintProblems;
use callsheet_core::diag::{Code, Diagnostic, is_invisible};
use callsheet_core::source::SourceId;
use callsheet_core::text::SharedText;

const VERDICTS: [&str; 5] = ["PASS", "NEEDS_REVISION", "NEEDS_CHANGES", "REJECTED", "MAJOR_ISSUES"];
const STATUSES: [&str; 2] = ["COMPLETED", "FAILED"];

/// The most code points of a run that a message lists.
const SHOWN: usize = 8;

pub(super) fn check(id: &SourceId, text: &SharedText, problems: &mut LintProblems) {
    for hidden in find_invisible_runs(text) {
        if !problems.has_capacity(id, Code::TextInvisible, hidden.start) {
            continue;
        }
        let points: Vec<String> =
            text[hidden.clone()].chars().map(|c| format!("U+{:04X}", u32::from(c))).collect();
        let rest =
            if points.len() > SHOWN { format!(" and {} more", points.len() - SHOWN) } else { String::new() };
        let message = format!("{}{rest} is invisible", points[..points.len().min(SHOWN)].join(" "));
        problems.add(id, Diagnostic::error(Code::TextInvisible, message).at(id, text, hidden));
    }
}

/// Returns runs of characters that a person does not see and a model does.
fn find_invisible_runs(text: &str) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    let mut before = None;
    let mut skip = 0;
    for (at, c) in text.char_indices() {
        if at < skip {
            continue;
        }
        let rest = &text[at + c.len_utf8()..];
        skip = at + c.len_utf8() + if c == BLACK_FLAG { flag_tag_bytes(rest) } else { 0 };
        let byte_order_mark = at == 0 && c == '\u{feff}';
        let line_end = c == '\r' && rest.starts_with('\n');
        if !byte_order_mark && !line_end && (is_invisible(c) || is_stray_joiner(before, c)) {
            match runs.last_mut() {
                Some(run) if run.end == at => run.end = skip,
                _ => runs.push(at..skip),
            }
        }
        before = Some(c);
    }
    runs
}

const BLACK_FLAG: char = '\u{1f3f4}';

/// Returns how many bytes of tags turn the black flag before them into another flag: the flag of Wales is
/// `gbwls`.
fn flag_tag_bytes(rest: &str) -> usize {
    let is_code = |c: &char| matches!(c, '\u{e0030}'..='\u{e0039}' | '\u{e0061}'..='\u{e007a}');
    let code: Vec<char> = rest.chars().take_while(is_code).collect();
    let closed = rest.chars().nth(code.len()) == Some('\u{e007f}');
    if (3..=6).contains(&code.len()) && closed { (code.len() + 1) * '\u{e007f}'.len_utf8() } else { 0 }
}

/// Checks for a joiner or variation selector without effect. They are visible through the characters that
/// they join or vary; after plain letters, whitespace or each other they only hide something.
fn is_stray_joiner(before: Option<char>, c: char) -> bool {
    let varies = |c: char| matches!(c, '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}');
    let joins = |c: char| matches!(c, '\u{200c}' | '\u{200d}');
    let Some(before) = before else { return varies(c) || joins(c) };
    if joins(c) {
        before.is_ascii() || before.is_whitespace() || joins(before)
    } else if varies(c) {
        let keycap = matches!(before, '0'..='9' | '#' | '*') && matches!(c, '\u{fe0e}' | '\u{fe0f}');
        !keycap && (before.is_ascii() || before.is_whitespace() || joins(before) || varies(before))
    } else {
        false
    }
}

pub(super) fn check_markers(id: &SourceId, text: &SharedText, problems: &mut LintProblems) {
    check_markers_in(id, text, 0..text.len(), problems);
}

/// Reports complete markers that are alone, on one line or spread over several.
pub(super) fn check_markers_in(
    id: &SourceId,
    text: &SharedText,
    range: Range<usize>,
    problems: &mut LintProblems,
) {
    let mut lines: Vec<Range<usize>> = Vec::new();
    let mut at = range.start;
    for line in text[range].split_inclusive('\n') {
        let bare = strip_decoration(line);
        let start = at + (bare.as_ptr() as usize - line.as_ptr() as usize);
        at += line.len();
        if !bare.is_empty() {
            lines.push(start..start + bare.len());
        }
    }
    let mut next = 0;
    while next < lines.len() {
        let Some((name, count)) = find_marker(text, &lines[next..]) else {
            next += 1;
            continue;
        };
        let place = lines[next].start..lines[next + count - 1].end;
        let error = Diagnostic::error(
            Code::MarkerAlone,
            format!("a complete `<{name}>` marker is alone on its line"),
        )
        .at(id, text, place)
        .hint("an agent that repeats this text would seem to answer: put the marker into a sentence");
        problems.add(id, error);
        next += count;
    }
}

/// Removes the decoration that a marker may have and still be alone on its line: the sign of a list item,
/// bold, a full stop, tags of a response.
fn strip_decoration(line: &str) -> &str {
    let mut bare = line.trim();
    loop {
        let before = bare.len();
        let entry = bare.trim_start_matches(|c: char| c.is_ascii_digit());
        for begin in ["- ", "* ", "+ ", ". ", ") "] {
            let rest = if begin.starts_with(['.', ')']) { entry } else { bare };
            if rest.len() < bare.len() || !begin.starts_with(['.', ')']) {
                bare = rest.strip_prefix(begin).unwrap_or(bare).trim_start();
            }
        }
        for bold in ["**", "__"] {
            bare = bare.strip_prefix(bold).unwrap_or(bare);
            bare = bare.strip_suffix(bold).unwrap_or(bare);
        }
        if bare.starts_with('<') {
            bare = bare.strip_suffix('.').unwrap_or(bare);
        }
        if bare.len() > "<response></response>".len() {
            bare = bare.strip_prefix("<response>").unwrap_or(bare).trim_start();
            bare = bare.strip_suffix("</response>").unwrap_or(bare).trim_end();
        }
        if bare.len() == before {
            return bare;
        }
    }
}

/// Returns the marker that begins with the first of `lines`, and the number of its lines.
fn find_marker(text: &str, lines: &[Range<usize>]) -> Option<(&'static str, usize)> {
    let first = lines.first()?.clone();
    if !text[first].starts_with('<') {
        return None;
    }
    let mut joined = String::new();
    for (at, line) in lines.iter().enumerate() {
        joined.push_str(&text[line.clone()]);
        let found = parse_marker(&joined);
        if found.is_some() {
            return found.map(|name| (name, at + 1));
        }
        // Only a thought may be longer than a tag, a word and a tag.
        if at >= 2 && opening_tag(&joined).is_none_or(|(name, _)| !name.eq_ignore_ascii_case("thought")) {
            return None;
        }
    }
    None
}

/// Returns the name of the tag at the start of `text`, and the text after it.
fn opening_tag(text: &str) -> Option<(&str, &str)> {
    let (inside, rest) = text.strip_prefix('<')?.split_once('>')?;
    Some((inside.split_whitespace().next()?, rest))
}

/// Returns the marker that `text` as a whole is.
fn parse_marker(text: &str) -> Option<&'static str> {
    let (name, rest) = opening_tag(text)?;
    let (body, closing) = rest.rsplit_once('<')?;
    let closing = closing.trim_end().strip_suffix('>')?.trim_start().strip_prefix('/')?.trim();
    let body = body.trim().to_ascii_uppercase();
    let marker =
        ["review", "task_status", "thought"].into_iter().find(|marker| name.eq_ignore_ascii_case(marker))?;
    let fits = match marker {
        "review" => VERDICTS.contains(&body.as_str()),
        "task_status" => STATUSES.contains(&body.as_str()),
        _ => true,
    };
    (fits && closing.eq_ignore_ascii_case(marker)).then_some(marker)
}
