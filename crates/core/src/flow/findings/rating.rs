//! Ratings: recognizes words that rate a severity, as opposed to words that merely contain one.

/// Severity that a text states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FindingRating {
    /// No review passes with it.
    Severe,
    Other,
}

/// Position of words in a review.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RatingContext {
    /// A heading or the beginning of an entry: `HIGH No label` is a rating there.
    Title,
    Text,
}

/// Words between a rating and its subject.
const FILLERS: [&str; 22] = [
    "severity",
    "priority",
    "risk",
    "impact",
    "rated",
    "level",
    "findings",
    "finding",
    "issues",
    "issue",
    "problems",
    "problem",
    "or",
    "and",
    "critical",
    "high",
    "medium",
    "low",
    "open",
    "remaining",
    "count",
    "total",
];
/// Words that may follow `none`.
const AFTER_NONE: [&str; 12] = [
    "found",
    "remain",
    "remains",
    "remaining",
    "left",
    "open",
    "identified",
    "seen",
    "known",
    "noted",
    "detected",
    "observed",
];

pub(super) fn is_id(word: &str) -> bool {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let parts = word.strip_prefix('R').and_then(|rest| rest.split_once('.'));
    parts.is_some_and(|(round, number)| is_number(round) && is_number(number))
}

fn parse_level(word: &str) -> Option<FindingRating> {
    let is = |name: &&&str| word.eq_ignore_ascii_case(name);
    let others = ["medium", "moderate", "low", "info", "informational", "minor", "major", "trivial", "nit"];
    match ["critical", "high"].iter().find(is) {
        Some(_) => Some(FindingRating::Severe),
        None => others.iter().find(is).map(|_| FindingRating::Other),
    }
}

/// Splits off the first word.
fn split_word(words: &str) -> (&str, &str) {
    let end = words.find(|c: char| !c.is_alphanumeric()).unwrap_or(words.len());
    words.split_at(end)
}

/// Checks whether a character may precede a rating.
fn is_leading_sign(c: char) -> bool {
    !c.is_alphanumeric() && !matches!(c, '`' | '<' | '>' | '|')
}

/// Returns the offset behind numbers, ids and the word `Finding`.
fn skip_lead(words: &str) -> usize {
    let mut rest = words;
    loop {
        rest = rest.trim_start_matches(is_leading_sign);
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '.').unwrap_or(rest.len());
        let token = rest[..end].trim_end_matches('.');
        let is_number = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        if (is_number && token != "0") || is_id(token) {
            rest = &rest[token.len()..];
            continue;
        }
        let (first, after) = split_word(rest);
        if first.eq_ignore_ascii_case("finding") || first.eq_ignore_ascii_case("issue") {
            let next = after.trim_start_matches([' ', '#', '*', '_']);
            let is_id = is_id(next.split([' ', ':']).next().unwrap_or_default());
            if is_id || next.starts_with(|c: char| c.is_ascii_digit() || c == ':') {
                rest = next;
                continue;
            }
        }
        return words.len() - rest.len();
    }
}

/// Checks whether words begin like a finding: `Finding 1`, `Finding: …`.
pub(super) fn is_named(words: &str) -> bool {
    let rest = words.trim_start_matches(is_leading_sign);
    let rest = match rest.split_once(' ') {
        Some((id, rest)) if is_id(id) => rest.trim_start_matches(is_leading_sign),
        _ => rest,
    };
    let (first, after) = split_word(rest);
    let after = after.trim_start_matches([' ', '#', '*', '_']);
    first.eq_ignore_ascii_case("finding") && after.starts_with(|c: char| c.is_ascii_digit() || c == ':')
}

/// Parses the rating that the words begin with.
pub(super) fn parse_rating(words: &str, form: RatingContext) -> Option<FindingRating> {
    let at = skip_lead(words);
    let (first, after) = split_word(&words[at..]);
    let rating = parse_level(first)?;
    let (filler, beyond) = split_word(after.trim_start_matches(' '));
    let is_filler =
        ["severity", "priority", "risk", "impact"].iter().any(|it| filler.eq_ignore_ascii_case(it));
    let after = if is_filler { beyond } else { after };
    if is_part_of_word(after) || is_legend(after) || is_none(after) {
        return None;
    }
    let is_enclosed = words[..at].ends_with(['(', '[', '*', '_']) && after.starts_with([')', ']', '*', '_']);
    let rest = after.trim_start_matches([')', ']', '*', '_']);
    let is_counted = rest.trim_start().strip_prefix('(').is_some_and(|rest| {
        rest.split_once(')').is_some_and(|(count, rest)| {
            count.bytes().all(|byte| byte.is_ascii_digit()) && rest.trim().is_empty()
        })
    });
    let is_separated = is_enclosed
        || is_counted
        || (rest.trim().is_empty() && (form == RatingContext::Title || is_upper(first)))
        || rest.starts_with([':', '–', '—'])
        || [" -", " –", " —", " :"].iter().any(|sign| rest.starts_with(sign));
    let is_title =
        form == RatingContext::Title && is_upper(first) && !rest.starts_with(char::is_alphanumeric);
    (is_separated || is_title).then_some(rating)
}

/// Checks whether the words are only a rating, so that the rated findings follow.
pub(super) fn is_rating_alone(words: &str) -> bool {
    let (first, after) = split_word(&words[skip_lead(words)..]);
    let mut rest = after;
    loop {
        rest = rest.trim_start_matches(|c: char| !c.is_alphanumeric());
        let (next, beyond) = split_word(rest);
        let is_filler = FILLERS.contains(&next.to_ascii_lowercase().as_str());
        let is_count = !next.is_empty() && next.bytes().all(|byte| byte.is_ascii_digit());
        if next.is_empty() || !(is_filler || is_count) {
            return parse_level(first).is_some() && next.is_empty();
        }
        rest = beyond;
    }
}

/// Parses the rating of a label `severity`, anywhere in a line.
pub(super) fn parse_label(line: &str) -> Option<FindingRating> {
    const LABEL: &str = "severity";
    let lower = line.to_ascii_lowercase();
    let mut found = None;
    for (at, _) in lower.match_indices(LABEL) {
        let before = &lower[..at];
        if before.ends_with(char::is_alphanumeric) {
            continue;
        }
        let after = &line[at + LABEL.len()..];
        let rest = after.trim_start_matches(|c: char| !c.is_alphanumeric());
        let gap = &after[..after.len() - rest.len()];
        let (given, rest) = split_word(rest);
        let Some(rating) = parse_level(given) else { continue };
        let is_first = before.chars().all(|c| !c.is_alphanumeric());
        let is_label = match gap.contains([':', '=', '-', '–', '—']) {
            true => gap.len() <= 12,
            false => is_first && !rest.contains(char::is_alphanumeric),
        };
        let clause = before.rsplit(['.', ';', '!', '?']).next().unwrap_or_default();
        let is_denied = clause
            .split(|c: char| !c.is_alphanumeric())
            .any(|word| ["no", "none", "not", "nothing", "without", "any", "if"].contains(&word));
        if is_label && !is_denied && !is_part_of_word(rest) && !is_legend(rest) && !is_none(rest) {
            found = if rating == FindingRating::Severe { return Some(rating) } else { Some(rating) };
        }
    }
    found
}

/// Parses the rating of a cell that contains nothing else.
pub(super) fn parse_cell(cell: &str) -> Option<FindingRating> {
    let is_sign = |c: char| !c.is_alphanumeric();
    let bare = cell.trim_matches(is_sign);
    let bare = ["severity", "priority"]
        .iter()
        .find_map(|filler| {
            let at = bare.len().checked_sub(filler.len())?;
            bare.get(at..)?.eq_ignore_ascii_case(filler).then(|| bare[..at].trim())
        })
        .unwrap_or(bare);
    parse_level(bare)
}

/// Checks whether the words deny that there are findings: `none`, `0`, `no findings`.
pub(super) fn is_none(words: &str) -> bool {
    let mut rest = words;
    let (mut is_denied, mut is_stated) = (false, false);
    loop {
        if is_stated && rest.trim_start().starts_with(['.', ';', '!', ',']) {
            return true;
        }
        rest = rest.trim_start_matches(|c: char| !c.is_alphanumeric() && !matches!(c, '✓' | '✅'));
        if rest.starts_with(['✓', '✅']) {
            return true;
        }
        let (next, beyond) = split_word(rest);
        let lower = next.to_ascii_lowercase();
        if FILLERS.contains(&lower.as_str()) {
            is_stated = is_denied;
            rest = beyond;
            continue;
        }
        return match lower.as_str() {
            "none" | "nothing" | "nil" => is_end(beyond),
            "0" | "zero" => is_end(beyond) || FILLERS.contains(&split_word(beyond.trim_start()).0),
            "n" => beyond.to_ascii_lowercase().starts_with("/a"),
            "no" if !is_denied => {
                is_denied = true;
                rest = beyond;
                continue;
            }
            "" => is_stated,
            last => is_stated && AFTER_NONE.contains(&last),
        };
    }
}

/// Checks whether nothing follows, or only a word such as `found`.
fn is_end(after: &str) -> bool {
    let is_part =
        after.strip_prefix(['.', '-', '/', '%']).is_some_and(|rest| rest.starts_with(char::is_alphanumeric));
    let rest = after.trim_start_matches([' ', '*', '_']);
    let is_last = !rest.starts_with(char::is_alphanumeric);
    (is_last && !is_part) || AFTER_NONE.contains(&split_word(rest).0.to_ascii_lowercase().as_str())
}

fn is_upper(word: &str) -> bool {
    word.chars().all(char::is_uppercase)
}

/// Checks whether a word continues behind a hyphen: `High-level`.
fn is_part_of_word(after: &str) -> bool {
    after.strip_prefix(['-', '‑']).is_some_and(|rest| rest.starts_with(char::is_alphanumeric))
}

/// Checks whether several ratings to choose from follow: `HIGH, MEDIUM or LOW`.
fn is_legend(after: &str) -> bool {
    let rest = after.trim_start();
    rest.strip_prefix([',', '|']).is_some_and(|rest| parse_level(split_word(rest.trim_start()).0).is_some())
}
