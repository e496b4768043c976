//! An independent reader of the engine's Markdown. It knows the rule between pieces and the possible names of
//! tags, but nothing else of the engine: it must find exactly the contents of the model.

/// A part of a text: between tags or outside of tags.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Bit {
    Text(String),
    /// A supplied text between tags.
    Fenced(String),
    Document {
        kind: String,
        name: String,
        content: String,
    },
}

const KINDS: [(&str, &str); 3] = [("file", "path"), ("artifact", "name"), ("thought", "name")];

/// Marks a place next to a tag at which a newline may have been added.
const SEAM: char = '\u{f8fe}';

/// Precedes a newline that may have been added around a code block.
const ADDED: char = '\u{f8ff}';

/// Replaces an element that the reader does not parse.
pub(crate) const OPAQUE: char = '\u{fffc}';

/// The reader's own marks. A text that contains one of them cannot be read.
pub(crate) const MARKS: [char; 3] = [SEAM, ADDED, OPAQUE];

/// Splits a text at its tags. `names` are the possible names of tags around supplied texts.
pub(crate) fn split_tags(text: &str, names: &[String]) -> Vec<Bit> {
    let mut bits = Vec::new();
    let mut outside = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        assert!(!closes_nothing(&rest[at..], names), "a closing tag without an opening one: {text:?}");
        outside.push_str(&rest[..at]);
        rest = &rest[at..];
        let before = &text[..text.len() - rest.len()];
        let line_start = before.is_empty() || before.ends_with('\n');
        match parse_document(rest).or_else(|| parse_fenced(rest, names, line_start)) {
            Some((bit, after)) => {
                let (before, next, after) = strip_code_fence(&outside, after);
                bits.push(Bit::Text(before));
                bits.push(bit);
                outside = next.to_owned();
                rest = after;
            }
            None => {
                outside.push('<');
                rest = &rest[1..];
            }
        }
    }
    outside.push_str(rest);
    bits.push(Bit::Text(outside));
    bits.retain(|bit| *bit != Bit::Text(String::new()));
    bits
}

/// Returns the text before and after an element, without the fence of a code block around it.
fn strip_code_fence<'t>(before: &str, after: &'t str) -> (String, &'static str, &'t str) {
    let none = (before.to_owned(), "", after);
    let Some(lines) = before.strip_suffix('\n') else { return none };
    let outside = lines.trim_end_matches('`');
    let fence = &lines[outside.len()..];
    let closing = after.strip_prefix('\n').and_then(|after| after.strip_prefix(fence));
    let Some(rest) = closing.filter(|rest| fence.len() >= 3 && !rest.starts_with('`')) else { return none };
    assert!(
        outside.is_empty() || outside.ends_with('\n'),
        "a code block begins inside of a line: {before:?}"
    );
    let text = outside.trim_end_matches('\n');
    let newlines = outside.len() - text.len();
    let kept = newlines.saturating_sub(2);
    let mut before = format!("{text}{}", "\n".repeat(kept));
    (kept..newlines).for_each(|_| before.extend([ADDED, '\n']));
    match rest.strip_prefix('\n').filter(|rest| !rest.starts_with('\n')) {
        Some(rest) => (before, "\u{f8ff}\n", rest),
        None => (before, "", rest),
    }
}

/// Parses `name`, `name-2` and so on at the start of `text`; prefers the longest of `names`.
fn parse_tag_name<'t>(
    text: &'t str,
    names: impl Iterator<Item = &'t str>,
) -> Option<(&'t str, &'t str, &'t str)> {
    let name = names.filter(|name| text.starts_with(name)).max_by_key(|name| name.len())?;
    let rest = &text[name.len()..];
    let number = rest
        .strip_prefix('-')
        .map_or(0, |digits| digits.len() - digits.trim_start_matches(|c: char| c.is_ascii_digit()).len() + 1);
    Some((name, &text[..name.len() + number], &rest[number..]))
}

fn parse_document(text: &str) -> Option<(Bit, &str)> {
    let (kind, tag, rest) = parse_tag_name(&text[1..], KINDS.iter().map(|(kind, _)| *kind))?;
    let attribute = KINDS.iter().find(|(known, _)| *known == kind)?.1;
    let rest = rest.strip_prefix(' ')?.strip_prefix(attribute)?.strip_prefix("=\"")?;
    let (name, rest) = rest.split_once("\">\n")?;
    let (content, after) = rest.split_once(&format!("</{tag}>"))?;
    let bit = Bit::Document { kind: kind.into(), name: unescape(name), content: content.into() };
    Some((bit, after))
}

fn parse_fenced<'t>(text: &'t str, names: &'t [String], line_start: bool) -> Option<(Bit, &'t str)> {
    let (_, tag, rest) = parse_tag_name(&text[1..], names.iter().map(String::as_str))?;
    let (inner, after) = rest.strip_prefix('>')?.split_once(&format!("</{tag}>"))?;
    let mut inner = inner.to_owned();
    if line_start {
        let first = inner.strip_prefix('\n').unwrap_or(&inner);
        let both = first.strip_suffix('\n').unwrap_or(first);
        inner = format!("{SEAM}{both}{SEAM}");
    }
    Some((Bit::Fenced(inner), after))
}

/// Checks for a closing tag, which is an error outside of all tags.
fn closes_nothing(text: &str, names: &[String]) -> bool {
    let known = names.iter().map(String::as_str).chain(KINDS.iter().map(|(kind, _)| *kind));
    let tag = text.strip_prefix("</").and_then(|inside| parse_tag_name(inside, known));
    tag.is_some_and(|(_, _, rest)| rest.starts_with('>'))
}

fn unescape(name: &str) -> String {
    let mut parts = name.split('&');
    let mut out = parts.next().unwrap().to_owned();
    for part in parts {
        let (reference, after) = part.split_once(';').unwrap();
        out.push(match reference {
            "amp" => '&',
            "lt" => '<',
            "gt" => '>',
            "quot" => '"',
            "apos" => '\'',
            number => char::from_u32(number.trim_start_matches('#').parse().unwrap()).unwrap(),
        });
        out.push_str(after);
    }
    out
}

/// Splits at the rule between pieces; only text outside of tags can contain one.
pub(crate) fn split_pieces(bits: Vec<Bit>) -> Vec<Vec<Bit>> {
    let mut pieces = vec![Vec::new()];
    for bit in bits {
        let Bit::Text(text) = &bit else {
            pieces.last_mut().unwrap().push(bit);
            continue;
        };
        // The engine adds no newlines between pieces.
        let text = text.replace("\n\n---\u{f8ff}\n\u{f8ff}\n", "\n\n---\n\n");
        for (at, part) in text.split("\n\n---\n\n").enumerate() {
            if at > 0 {
                pieces.push(Vec::new());
            }
            if !part.is_empty() {
                pieces.last_mut().unwrap().push(Bit::Text(part.into()));
            }
        }
    }
    pieces
}

/// Returns the text outside of tags, with a mark for each pair of tags.
fn text_outside_tags(bits: &[Bit]) -> String {
    let text = bits.iter().map(|bit| match bit {
        Bit::Text(text) => text.clone(),
        Bit::Fenced(_) | Bit::Document { .. } => OPAQUE.to_string(),
    });
    text.collect()
}

/// Splits at headings of the first two levels, including underlined ones.
pub(crate) fn split_sections(bits: Vec<Bit>) -> Vec<(Option<String>, Vec<Bit>)> {
    let skeleton = text_outside_tags(&bits);
    let mut inside = bits.into_iter().filter(|bit| !matches!(bit, Bit::Text(_)));
    let mut sections: Vec<(Option<String>, String)> = vec![(None, String::new())];
    for line in lines(&skeleton) {
        if let Some(heading) = parse_heading(line) {
            sections.push((Some(heading), String::new()));
            continue;
        }
        let above = &sections.last().unwrap().1;
        let above = lines(above).last().unwrap_or_default();
        // The line above ends with the fence of a code block, which cannot be underlined.
        let is_code = above.ends_with(&format!("{OPAQUE}{ADDED}\n"));
        if is_underline(line) && !is_code && !above.replace(ADDED, "").trim().is_empty() {
            let heading = above.trim().to_owned();
            let length = above.len();
            let kept = &mut sections.last_mut().unwrap().1;
            kept.truncate(kept.len() - length);
            sections.push((Some(heading), String::new()));
            continue;
        }
        sections.last_mut().unwrap().1.push_str(line);
    }
    let sections = sections.into_iter().map(|(heading, text)| {
        let mut bits = Vec::new();
        for (at, part) in text.split(OPAQUE).enumerate() {
            if at > 0 {
                bits.extend(inside.next());
            }
            bits.push(Bit::Text(part.into()));
        }
        bits.retain(|bit| *bit != Bit::Text(String::new()));
        (heading, bits)
    });
    sections.collect()
}

/// Returns the lines with their ends; a lone carriage return also ends a line.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let end = rest.find(['\n', '\r'])?;
        let end = if rest[end..].starts_with("\r\n") { end + 2 } else { end + 1 };
        let (line, after) = rest.split_at(end);
        rest = after;
        Some(line)
    })
    .chain(text.rsplit(['\n', '\r']).next().filter(|last| !last.is_empty()))
}

fn parse_heading(line: &str) -> Option<String> {
    let line = &line.replace(ADDED, "");
    let text = line.trim_start_matches(' ');
    let hashes = text.len() - text.trim_start_matches('#').len();
    let rest = &text[hashes..];
    let fits = line.len() - text.len() <= 3 && (1..=2).contains(&hashes);
    (fits && (rest.is_empty() || rest.starts_with([' ', '\t', '\n', '\r']))).then(|| rest.trim().to_owned())
}

fn is_underline(line: &str) -> bool {
    let line = &line.replace(ADDED, "");
    let text = line.trim_end_matches([' ', '\t', '\n', '\r']);
    let marks = text.trim_start_matches(' ');
    let same = |c: char| !marks.is_empty() && marks.chars().all(|mark| mark == c);
    text.len() - marks.len() <= 3 && (same('-') || same('='))
}

/// Checks for a line of three dashes between empty lines, which no text outside of tags may contain.
pub(crate) fn has_rule(bits: &[Bit]) -> bool {
    let text = text_outside_tags(bits).replace(ADDED, "");
    let lines: Vec<&str> = lines(&text).map(|line| line.trim_end_matches([' ', '\t', '\n', '\r'])).collect();
    let blank = |at: Option<usize>| at.and_then(|at| lines.get(at)).is_none_or(|line| line.is_empty());
    let rule = |line: &str| line.trim_start_matches(' ') == "---" && line.len() <= 6;
    (0..lines.len()).any(|at| rule(lines[at]) && blank(at.checked_sub(1)) && blank(at.checked_add(1)))
}

/// Joins the bits into one text, with a mark for each document and with seams where a newline may have been
/// added.
pub(crate) fn join_bits(bits: &[Bit]) -> String {
    let flat = bits.iter().map(|bit| match bit {
        Bit::Text(text) | Bit::Fenced(text) => text.clone(),
        Bit::Document { .. } => OPAQUE.to_string(),
    });
    flat.collect()
}

/// Checks whether the text that was read equals the model's, except for newlines at seams.
pub(crate) fn matches_model(read: &str, model: &str) -> bool {
    let Some(at) = read.find([SEAM, ADDED]) else { return read == model };
    let (before, after) = read.split_at(at);
    let Some(rest) = model.strip_prefix(before) else { return false };
    match after.strip_prefix(SEAM) {
        Some(after) => {
            matches_model(after, rest)
                || rest.strip_prefix('\n').is_some_and(|rest| matches_model(after, rest))
        }
        None => {
            let after = &after[ADDED.len_utf8()..];
            matches_model(after, rest)
                || after.strip_prefix('\n').is_some_and(|after| matches_model(after, rest))
        }
    }
}
