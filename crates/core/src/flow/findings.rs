//! Findings: the changes that a review asks for. Each has an id, `R<round>.<n>`, which the next round refers
//! to.
//!
//! Findings are in a section `Findings`. Each one is a heading, else an entry of a list, else a row of a
//! table, else a paragraph that begins with a severity or with `Finding`. If there is no such section, each
//! finding begins with a severity or with `Finding`. Code, quotes and comments hold no findings.

mod blocks;
mod rating;

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ops::Range;

use serde_json::{Map, Value};

use self::blocks::{ReviewBlock, ReviewBlockKind, parse_blocks, split_cells};
use self::rating::{
    FindingRating, RatingContext, is_id, is_named, is_none, is_rating_alone, parse_cell, parse_label,
    parse_rating,
};
use crate::library::yaml;

/// Change that a review asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReviewFinding {
    /// Id, `R<round>.<n>`.
    pub id: String,
    /// Subject in one line.
    pub title: String,
}

const SECTION: &str = "## Findings";

/// Labels of details of a finding, in lower case.
const LABELS: [&str; 20] = [
    "where",
    "problem",
    "evidence",
    "consequence",
    "resolved when",
    "file",
    "files",
    "location",
    "place",
    "line",
    "severity",
    "recommendation",
    "fix",
    "suggestion",
    "impact",
    "why",
    "how",
    "issue",
    "steps",
    "expected",
];

/// Titles of sections that hold no findings, in lower case.
const OTHERS: [&str; 12] = [
    "questions",
    "open questions",
    "summary",
    "verdict",
    "conclusion",
    "notes",
    "tests",
    "security",
    "requirements",
    "next steps",
    "what was checked",
    "not checked",
];

/// Assigns ids to the findings of one round.
#[derive(Clone, Copy, Debug)]
pub struct FindingNumbering {
    round: u32,
    next: u32,
}

impl FindingNumbering {
    /// Starts the numbering of a round.
    pub const fn new(round: u32) -> Self {
        Self { round, next: 1 }
    }

    fn next_id(&mut self) -> String {
        let id = format!("R{}.{}", self.round, self.next);
        self.next += 1;
        id
    }

    /// Returns the text with an id at each finding. A review that asks for changes has at least one finding:
    /// if it names none, its whole text is one finding.
    pub fn number(&mut self, text: &str, asks_for_changes: bool) -> String {
        let blocks = parse_blocks(text);
        let review = ReviewOutline::new(&blocks);
        let mut numbered = String::with_capacity(text.len());
        let mut from = 0;
        let found = review.find_findings(asks_for_changes);
        for unit in &found {
            let id = self.next_id();
            let block = &blocks[*unit];
            let words = match block.kind {
                ReviewBlockKind::Row(_) => {
                    let (at, first) = split_cells(block.text).first().copied().unwrap_or((0, ""));
                    numbered.push_str(&text[from..block.start + at]);
                    from = block.start + at + first.len();
                    first
                }
                _ => {
                    numbered.push_str(&text[from..block.start]);
                    // An empty heading has no space after its `#`.
                    if numbered.ends_with('#') {
                        numbered.push(' ');
                    }
                    from = block.end();
                    block.text
                }
            };
            let rest = match block.kind {
                ReviewBlockKind::Heading(_) => strip_number(words, &id),
                ReviewBlockKind::Row(_) if words.bytes().all(|byte| byte.is_ascii_digit()) => "",
                _ => strip_id(words, &id),
            };
            numbered.push_str(format!("{id} {rest}").trim_end());
        }
        if found.is_empty() && asks_for_changes && !text.trim().is_empty() {
            let id = self.next_id();
            match review.sections.first().map(|section| &blocks[section.start]) {
                Some(section) => {
                    numbered.push_str(&text[..section.end()]);
                    numbered.push_str(&format!("\n\n### {id}"));
                    from = section.end();
                }
                None => numbered.push_str(&format!("{SECTION}\n\n### {id}\n\n")),
            }
        }
        numbered.push_str(&text[from..]);
        numbered
    }
}

/// Parses the findings of a text that has their ids. Returns them in order.
pub fn parse_findings(text: &str) -> Vec<ReviewFinding> {
    let blocks = parse_blocks(text);
    let review = ReviewOutline::new(&blocks);
    let mut found = review.find_findings(true);
    found.retain(|at| split_id(&blocks[*at]).is_some());
    // In a text of several reviews, one review may have a section for its findings and another one may not.
    let round =
        |at: &usize| split_id(&blocks[*at]).and_then(|(id, _)| id.split_once('.')).map(|(round, _)| round);
    let last = found.last().and_then(round).filter(|_| !review.sections.is_empty());
    let begins = |at: &usize| {
        !matches!(blocks[*at].kind, ReviewBlockKind::Text { begins: false } | ReviewBlockKind::Columns)
    };
    let others = (0..blocks.len()).filter(|at| last.is_some() && !review.is_in_section(*at));
    found.extend(others.filter(begins).filter(|at| round(at) == last));
    found.sort_unstable();
    let named = found.into_iter().filter_map(|at| {
        let (id, words) = split_id(&blocks[at])?;
        Some(ReviewFinding { id: id.to_string(), title: finding_title(&blocks, at, words) })
    });
    named.collect()
}

/// Formats the reports on the tasks `ids` as YAML: each finding with its title in `text`, and the changed
/// files.
pub fn format_fixes<'r>(
    text: &str,
    ids: &[String],
    reported: &dyn Fn(&str) -> Option<&'r str>,
    changed: Vec<String>,
) -> String {
    let known = parse_findings(text);
    let fix = |id: &String| {
        let title =
            known.iter().find(|finding| finding.id == *id).map_or("", |finding| finding.title.as_str());
        let mut fix = Map::new();
        fix.insert("id".into(), id.as_str().into());
        if !title.is_empty() {
            fix.insert("finding".into(), title.into());
        }
        fix.insert("reported".into(), reported(id).into());
        Value::Object(fix)
    };
    let mut report = Map::new();
    report.insert("findings".into(), ids.iter().map(fix).collect());
    report.insert("changed_files".into(), changed.into());
    yaml::write_yaml(&report)
}

/// Checks whether a finding has a severity with which no review passes.
pub fn has_severe(text: &str) -> bool {
    let blocks = parse_blocks(text);
    let review = ReviewOutline::new(&blocks);
    let mut earlier: Option<usize> = None;
    for (at, block) in blocks.iter().enumerate() {
        if let Some(level) = block.level() {
            if earlier.is_some_and(|open| level <= open) {
                earlier = None;
            }
            if earlier.is_none() && !review.is_in_section(at) && is_about_earlier_findings(block.text) {
                earlier = Some(level);
            }
        }
        if earlier.is_none() && review.is_severe(at) && !is_settled(block) {
            return true;
        }
    }
    false
}

/// Splits the text of a finding into its id and its other words.
fn split_id<'t>(block: &ReviewBlock<'t>) -> Option<(&'t str, &'t str)> {
    let words = match block.kind {
        ReviewBlockKind::Row(_) => split_cells(block.text).first()?.1,
        _ => block.text,
    };
    let (id, rest) = words.split_once(' ').unwrap_or((words, ""));
    is_id(id).then_some((id, rest.trim()))
}

/// Returns the title of a finding: its own words, else the first text below it that is more than a place and
/// a severity.
fn finding_title(blocks: &[ReviewBlock<'_>], at: usize, words: &str) -> String {
    if let ReviewBlockKind::Row(_) = blocks[at].kind {
        let others = split_cells(blocks[at].text).into_iter().skip(1).map(|(_, cell)| cell);
        let all = core::iter::once(words).chain(others).filter(|cell| !cell.is_empty());
        return all.collect::<Vec<_>>().join(" – ");
    }
    let own = match blocks[at].kind {
        ReviewBlockKind::Heading(_) => words,
        _ => strip_number(words, ""),
    };
    if !own.is_empty() {
        return own.to_string();
    }
    let below = blocks[at + 1..].iter().take_while(|block| block.level().is_none());
    let said: Vec<&str> = below
        .filter(|block| {
            matches!(block.kind, ReviewBlockKind::Text { begins: true } | ReviewBlockKind::Item(_))
        })
        .map(|block| block.text)
        // A marker is not part of the finding.
        .filter(|text| !text.starts_with('<'))
        .collect();
    let first = said.iter().find(|text| !is_detail(text)).or(said.first());
    first.map(ToString::to_string).unwrap_or_default()
}

/// Checks whether the block reports an earlier finding, by its id, as settled.
fn is_settled(block: &ReviewBlock<'_>) -> bool {
    let Some((_, words)) = split_id(block) else { return false };
    let words = words.to_ascii_lowercase();
    let mut words = words.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    let mut is_settled = false;
    let is_denial = |word: &str| {
        ["not", "never", "still", "partly", "partially", "unresolved", "t", "open", "wrongly"].contains(&word)
    };
    for word in words.by_ref() {
        if is_denial(word) {
            return false;
        }
        is_settled |= ["resolved", "fixed", "closed", "addressed"].contains(&word);
    }
    is_settled
}

/// Checks whether a section is about earlier findings.
fn is_about_earlier_findings(title: &str) -> bool {
    let lower = title.to_ascii_lowercase();
    let mut words = lower.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    let first = words.find(|word| !word.bytes().all(|byte| byte.is_ascii_digit())).unwrap_or_default();
    let of =
        ["finding", "findings", "issue", "issues", "problems", "review", "reviews", "round", "challenge"];
    ["earlier", "previous", "prior", "last", "old", "resolved", "fixed", "addressed", "closed"]
        .contains(&first)
        && words.clone().next().is_none_or(|_| words.any(|word| of.contains(&word)))
}

/// Checks whether the words are a detail of a finding, and not a finding of their own.
fn is_detail(words: &str) -> bool {
    let bare = words.trim_start_matches(['*', '_', ' ']);
    let Some((label, _)) = bare.split_once(':') else { return false };
    LABELS.contains(&label.trim_end_matches(['*', '_', ' ']).to_ascii_lowercase().as_str())
}

/// Checks whether a heading, or a line of its own, announces the findings.
fn is_section(block: &ReviewBlock<'_>) -> bool {
    let words = block.text.trim_matches(['*', '_', ' ']);
    match block.kind {
        ReviewBlockKind::Heading(_) => {
            let words = words.trim_end_matches([':', '#', ' ']);
            let words =
                words.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | ')' | ' '));
            let counted = words
                .strip_suffix(')')
                .and_then(|words| words.rsplit_once('('))
                .map_or(words, |(words, _)| words);
            ["findings", "new findings", "open findings"]
                .contains(&counted.trim().to_ascii_lowercase().as_str())
        }
        ReviewBlockKind::Text { begins: true } => {
            let bare = words.strip_suffix(':').map(|words| words.trim_end_matches(['*', '_']));
            bare.is_some_and(|words| words.eq_ignore_ascii_case("findings"))
        }
        _ => false,
    }
}

/// Returns the words of a heading without its number: `1.`, `Finding 1`, `Finding:`, or the id that it
/// already has.
fn strip_number<'t>(words: &'t str, id: &str) -> &'t str {
    let words = strip_id(words, id);
    let named = words.strip_prefix("Finding").filter(|rest| rest.starts_with([' ', ':']));
    let named = named.map_or(words, str::trim_start);
    if let Some(rest) = named.strip_prefix(':') {
        return rest.trim();
    }
    let digits = named.len() - named.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let rest = &named[digits..];
    let is_number =
        digits > 0 && (rest.is_empty() || rest.starts_with([':', '.', ')']) || named.len() < words.len());
    if is_number { rest.trim_start_matches([':', '.', ')']).trim() } else { words }
}

/// Returns the words without the id that they already have.
fn strip_id<'t>(words: &'t str, id: &str) -> &'t str {
    let bare = words.strip_prefix(id).filter(|rest| rest.is_empty() || rest.starts_with(' '));
    bare.unwrap_or(words).trim()
}

/// Review as a list of blocks.
struct ReviewOutline<'b, 't> {
    blocks: &'b [ReviewBlock<'t>],
    /// Block ranges of the sections that hold the findings, including their headings.
    sections: Vec<Range<usize>>,
}

impl<'b, 't> ReviewOutline<'b, 't> {
    fn new(blocks: &'b [ReviewBlock<'t>]) -> Self {
        let mut sections: Vec<Range<usize>> = Vec::new();
        let has_heading = blocks.iter().any(|block| block.level().is_some() && is_section(block));
        for (start, block) in blocks.iter().enumerate().filter(|(_, block)| is_section(block)) {
            let is_open = sections.last().is_some_and(|last| start < last.end);
            if is_open || (has_heading && block.level().is_none()) {
                continue;
            }
            let level = block.level().unwrap_or(6);
            let ends = |block: &ReviewBlock<'_>| {
                let is_other = |words: &str| OTHERS.contains(&words.to_ascii_lowercase().as_str());
                block.level().is_some_and(|own| {
                    is_other(block.text.trim_end_matches([':', '#', ' ']))
                        || (own <= level && !is_rated(block))
                })
            };
            let length = blocks[start + 1..].iter().position(ends);
            sections.push(start..length.map_or(blocks.len(), |length| start + 1 + length));
        }
        Self { blocks, sections }
    }

    fn is_in_section(&self, at: usize) -> bool {
        self.sections.iter().any(|section| section.contains(&at))
    }

    /// Returns the blocks that begin a finding.
    fn find_findings(&self, asks_for_changes: bool) -> Vec<usize> {
        let in_section = |section: &Range<usize>| {
            let mut found = self.find_in_section(section.start + 1..section.end);
            // The whole review was numbered as one finding: blocks below its heading are not findings.
            let id = |at: &usize| split_id(&self.blocks[*at]);
            let is_all = found.first().and_then(id).is_some_and(|(_, rest)| rest.is_empty());
            if is_all && !found[1..].iter().any(|at| id(at).is_some()) {
                found.truncate(1);
            }
            found
        };
        match self.sections.is_empty() {
            false => self.sections.iter().flat_map(in_section).collect(),
            true if asks_for_changes => self.find_anywhere(),
            true => Vec::new(),
        }
    }

    /// Returns headings, else entries of lists, else rows of tables, else paragraphs that begin like
    /// findings.
    fn find_in_section(&self, range: Range<usize>) -> Vec<usize> {
        let headings = self.find_headings(range.clone());
        if !headings.is_empty() {
            return headings;
        }
        let is_said = |at: &usize| !is_none(self.blocks[*at].text);
        let items: Vec<usize> = self
            .find_items(range.clone())
            .filter(is_said)
            .filter(|at| !is_detail(self.blocks[*at].text))
            .collect();
        if !items.is_empty() {
            return items;
        }
        let rows: Vec<usize> = range.clone().filter(|at| self.is_finding_row(*at)).collect();
        if !rows.is_empty() {
            return rows;
        }
        range.filter(|at| self.is_paragraph(*at)).collect()
    }

    /// Does the same for a review without a findings section. Each finding must be marked as one.
    fn find_anywhere(&self) -> Vec<usize> {
        let all = 0..self.blocks.len();
        let is = |at: &usize| is_rated(&self.blocks[*at]) || is_named(self.blocks[*at].text);
        let headings: Vec<usize> =
            all.clone().filter(|at| self.blocks[*at].level().is_some() && is(at)).collect();
        if !headings.is_empty() {
            return headings;
        }
        let items: Vec<usize> = self.find_items(all.clone()).collect();
        let rated: Vec<usize> = items.iter().copied().filter(is).collect();
        if !rated.is_empty() {
            return rated;
        }
        let rows: Vec<usize> = all.clone().filter(|at| self.row_rating(*at).is_some()).collect();
        if !rows.is_empty() {
            return rows;
        }
        let paragraphs: Vec<usize> = all.clone().filter(|at| self.is_paragraph(*at)).collect();
        let is_list = |at: usize| {
            !matches!(self.blocks[at].kind, ReviewBlockKind::Heading(_) | ReviewBlockKind::Row(_))
        };
        match paragraphs.is_empty() && all.into_iter().all(is_list) {
            true => items
                .into_iter()
                .filter(|at| !is_detail(self.blocks[*at].text) && !is_none(self.blocks[*at].text))
                .collect(),
            false => paragraphs,
        }
    }

    /// Returns the top-level headings. If a heading is only a severity, the findings are below it.
    fn find_headings(&self, range: Range<usize>) -> Vec<usize> {
        let mut found = Vec::new();
        let mut open: Option<usize> = None;
        for at in range.clone() {
            let Some(level) = self.blocks[at].level() else { continue };
            if open.is_some_and(|open| level > open) {
                continue;
            }
            open = Some(level);
            let text = self.blocks[at].text;
            let has_id = split_id(&self.blocks[at]).is_some();
            if !has_id && is_none(text) {
                continue;
            }
            if !has_id && is_rating_alone(text) && !is_named(text) {
                let below = self.range_below(at, level, range.end);
                let units = self.find_in_section(below.clone());
                match units.is_empty() {
                    false => found.extend(units),
                    true if below.clone().next().is_some_and(|next| is_none(self.blocks[next].text)) => {}
                    true => found.push(at),
                }
                continue;
            }
            found.push(at);
        }
        found
    }

    fn range_below(&self, at: usize, level: usize, end: usize) -> Range<usize> {
        let next = (at + 1..end).find(|next| self.blocks[*next].level().is_some_and(|own| own <= level));
        at + 1..next.unwrap_or(end)
    }

    /// Returns the top-level entries of lists.
    fn find_items(&self, range: Range<usize>) -> impl Iterator<Item = usize> {
        let indent = |at: usize| match self.blocks[at].kind {
            ReviewBlockKind::Item(indent) => Some(indent),
            _ => None,
        };
        let least = range.clone().filter_map(indent).min();
        range.filter(move |at| least.is_some_and(|least| indent(*at).is_some_and(|own| own <= least + 1)))
    }

    fn is_finding_row(&self, at: usize) -> bool {
        let ReviewBlockKind::Row(_) = self.blocks[at].kind else { return false };
        let says = |text: &str| {
            !text.is_empty()
                && parse_cell(text).is_none()
                && !text.bytes().all(|byte| byte.is_ascii_digit())
                && !is_none(text)
        };
        split_cells(self.blocks[at].text).into_iter().any(|(_, text)| says(text) && !is_id(text))
    }

    fn is_paragraph(&self, at: usize) -> bool {
        let block = &self.blocks[at];
        matches!(block.kind, ReviewBlockKind::Text { begins: true })
            && (is_named(block.text) || is_rated(block))
    }

    /// Returns the rating of a row. If the review has a findings section, a table outside of it must name the
    /// column `severity`.
    fn row_rating(&self, at: usize) -> Option<FindingRating> {
        let ReviewBlockKind::Row(columns) = self.blocks[at].kind else { return None };
        if !self.is_finding_row(at) && !self.is_counted_row(at) {
            return None;
        }
        let counts = self.sections.is_empty() || self.is_in_section(at);
        let columns: Vec<(usize, &str)> =
            columns.map(|at| split_cells(self.blocks[at].text)).unwrap_or_default();
        let is_severity = |nth: usize| {
            columns
                .get(nth)
                .is_some_and(|(_, name)| name.trim_matches(['*', '_']).eq_ignore_ascii_case("severity"))
        };
        let row = split_cells(self.blocks[at].text);
        let ratings = row.iter().enumerate().filter(|(nth, _)| counts || is_severity(*nth));
        let ratings: Vec<FindingRating> = ratings.filter_map(|(_, (_, text))| parse_cell(text)).collect();
        ratings.iter().copied().find(|rating| *rating == FindingRating::Severe).or(ratings.first().copied())
    }

    /// Checks whether a row contains a count above zero.
    fn is_counted_row(&self, at: usize) -> bool {
        let is_count = |text: &str| {
            text.bytes().all(|byte| byte.is_ascii_digit()) && text.bytes().any(|byte| byte != b'0')
        };
        split_cells(self.blocks[at].text).into_iter().skip(1).any(|(_, text)| is_count(text))
    }

    fn is_severe(&self, at: usize) -> bool {
        let block = &self.blocks[at];
        if parse_label(block.text) == Some(FindingRating::Severe) {
            return true;
        }
        if let ReviewBlockKind::Row(_) = block.kind {
            return self.row_rating(at) == Some(FindingRating::Severe);
        }
        // The block below a severity alone may say that there are no findings.
        let is_empty =
            is_rating_alone(block.text) && self.blocks.get(at + 1).is_some_and(|next| is_none(next.text));
        rating(block) == Some(FindingRating::Severe) && !is_empty
    }
}

fn is_rated(block: &ReviewBlock<'_>) -> bool {
    rating(block).is_some()
}

fn rating(block: &ReviewBlock<'_>) -> Option<FindingRating> {
    match block.kind {
        ReviewBlockKind::Heading(_) | ReviewBlockKind::Item(_) => {
            parse_rating(block.text, RatingContext::Title)
        }
        ReviewBlockKind::Text { begins } => {
            parse_rating(block.text, RatingContext::Text).filter(|_| begins || block.text.contains(':'))
        }
        ReviewBlockKind::Columns | ReviewBlockKind::Row(_) => None,
    }
}
