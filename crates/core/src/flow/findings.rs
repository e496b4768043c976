//! Findings: what a review wants changed. Each has an id, `R<round>.<n>`, by which the next round answers.
//!
//! A finding begins with a heading of the third level in a section `Findings`. What looks like a heading in a code block
//! is none.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::{Map, Value};

use crate::submission::as_yaml;

/// What a review wants changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub id: String,
    /// What its heading says besides.
    pub title: String,
}

const SECTION: &str = "## Findings";

/// Gives ids to the findings of one round.
#[derive(Clone, Copy, Debug)]
pub struct Numbering {
    round: u32,
    next: u32,
}

impl Numbering {
    pub const fn new(round: u32) -> Self {
        Self { round, next: 1 }
    }

    fn id(&mut self) -> String {
        let id = format!("R{}.{}", self.round, self.next);
        self.next += 1;
        id
    }

    /// The same text with an id at each finding. A review that asks for changes has at least one: where it names none by
    /// a heading, all that it says is one.
    pub fn number(&mut self, text: &str, asks_for_changes: bool) -> String {
        let headings = headings(text);
        let mut numbered = String::with_capacity(text.len());
        let mut from = 0;
        for heading in headings.iter().filter(|heading| heading.is_finding) {
            let id = self.id();
            let title = title(heading.title, &id);
            numbered.push_str(&text[from..heading.start]);
            numbered.push_str(format!("### {id} {title}").trim_end());
            from = heading.end;
        }
        if from == 0 && asks_for_changes && !text.trim().is_empty() {
            let id = self.id();
            match headings.iter().find(|heading| heading.is_section()) {
                Some(section) => {
                    numbered.push_str(&text[..section.end]);
                    numbered.push_str(&format!("\n\n### {id}"));
                    from = section.end;
                }
                None => numbered.push_str(&format!("{SECTION}\n\n### {id}\n\n")),
            }
        }
        numbered.push_str(&text[from..]);
        numbered
    }
}

/// The findings of a text that has their ids, in order.
pub fn findings(text: &str) -> Vec<Finding> {
    let found = headings(text).into_iter().filter(|heading| heading.is_finding).filter_map(|heading| {
        let (id, title) = heading.title.split_once(' ').unwrap_or((heading.title, ""));
        is_id(id).then(|| Finding { id: id.to_string(), title: title.trim().to_string() })
    });
    found.collect()
}

/// What was reported on each of the tasks `ids`, in YAML: findings with their titles in `text`, and the files that changed.
pub fn fixes_of<'r>(
    text: &str,
    ids: &[String],
    reported: &dyn Fn(&str) -> Option<&'r str>,
    changed: Vec<String>,
) -> String {
    let known = findings(text);
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
    let mut told = Map::new();
    told.insert("findings".into(), ids.iter().map(fix).collect());
    told.insert("changed_files".into(), changed.into());
    as_yaml(&told)
}

/// Whether a finding is rated so that nothing passes with it.
pub fn has_severe(text: &str) -> bool {
    let is_severe = |heading: &Heading<'_>| {
        let words = heading.title.split(|c: char| !c.is_ascii_alphanumeric() && c != '.');
        let mut words = words.filter(|word| !word.is_empty());
        // The rating is the first word that is no number.
        let first = words.find(|word| !is_id(word) && !word.starts_with(|c: char| c.is_ascii_digit()));
        let first = if first == Some("Finding") { words.find(|word| !is_number(word)) } else { first };
        first.is_some_and(|word| matches!(word, "CRITICAL" | "HIGH"))
    };
    headings(text).iter().any(|heading| heading.is_finding && is_severe(heading))
}

fn is_number(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_digit())
}

fn is_id(word: &str) -> bool {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let parts = word.strip_prefix('R').and_then(|rest| rest.split_once('.'));
    parts.is_some_and(|(round, number)| is_number(round) && is_number(number))
}

/// What a heading says besides its number: `1.`, `Finding 1`, or the id that it has already.
fn title<'t>(words: &'t str, id: &str) -> &'t str {
    let words =
        words.strip_prefix(id).filter(|rest| rest.is_empty() || rest.starts_with(' ')).unwrap_or(words);
    let words = words.trim_start();
    let named = words.strip_prefix("Finding ").map_or(words, str::trim_start);
    let digits = named.len() - named.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let rest = &named[digits..];
    let is_number =
        digits > 0 && (rest.is_empty() || rest.starts_with([':', '.', ')']) || named.len() < words.len());
    if is_number { rest.trim_start_matches([':', '.', ')']).trim() } else { words }
}

struct Heading<'t> {
    start: usize,
    /// Where its line ends.
    end: usize,
    level: usize,
    title: &'t str,
    is_finding: bool,
}

impl Heading<'_> {
    fn is_section(&self) -> bool {
        self.level == 2 && self.title.eq_ignore_ascii_case("findings")
    }
}

fn headings(text: &str) -> Vec<Heading<'_>> {
    let mut headings: Vec<Heading<'_>> = Vec::new();
    let mut fence: Option<&str> = None;
    let mut in_section = false;
    let mut at = 0;
    for whole in text.split_inclusive('\n') {
        let line = whole.trim_end();
        let words = line.trim_start_matches(' ');
        let start = at + (line.len() - words.len());
        let end = at + line.len();
        at += whole.len();
        if line.len() - words.len() > 3 {
            continue;
        }
        let run = |sign: char| words.len() - words.trim_start_matches(sign).len();
        if let Some(open) = fence {
            let sign = open.chars().next().unwrap_or('`');
            if run(sign) >= open.len() && words.trim_start_matches(sign).is_empty() {
                fence = None;
            }
            continue;
        }
        if run('`') >= 3 || run('~') >= 3 {
            fence = Some(&words[..run('`').max(run('~'))]);
            continue;
        }
        let level = run('#');
        let rest = &words[level..];
        if !(1..=6).contains(&level) || !(rest.is_empty() || rest.starts_with([' ', '\t'])) {
            continue;
        }
        let title = rest.trim();
        let mut heading = Heading { start, end, level, title, is_finding: level == 3 && in_section };
        if level <= 2 {
            in_section = heading.is_section();
            heading.is_finding = false;
        }
        headings.push(heading);
    }
    headings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(text: &str) -> String {
        Numbering::new(2).number(text, true)
    }

    #[test]
    fn findings_get_ids_in_their_order() {
        let review = "# Review\n\n## Findings\n\n### 1. HIGH No label\n\nText.\n\n```\n### 2. In code\n```\n\n\
                      ### Finding 7\n\n### (LOW) A name\n\n## Questions\n\n### Not one\n";
        let expected = "# Review\n\n## Findings\n\n### R2.1 HIGH No label\n\nText.\n\n```\n### 2. In code\n```\n\n\
                        ### R2.2\n\n### R2.3 (LOW) A name\n\n## Questions\n\n### Not one\n";
        assert_eq!(numbered(review), expected);
        assert_eq!(numbered(expected), expected);
        let ids: Vec<(String, String)> =
            findings(expected).into_iter().map(|finding| (finding.id, finding.title)).collect();
        let pair = |id: &str, title: &str| (id.to_string(), title.to_string());
        assert_eq!(ids, [pair("R2.1", "HIGH No label"), pair("R2.2", ""), pair("R2.3", "(LOW) A name")]);
        // What an earlier round called so stays as the words of this one.
        assert_eq!(numbered("## Findings\n\n### R1.1 Still open"), "## Findings\n\n### R2.1 R1.1 Still open");
        assert_eq!(
            numbered("## Findings\n\n### 3 files are gone"),
            "## Findings\n\n### R2.1 3 files are gone"
        );
    }

    #[test]
    fn a_review_that_asks_for_changes_has_a_finding() {
        assert_eq!(numbered("No label.\n"), "## Findings\n\n### R2.1\n\nNo label.\n");
        let list = "Seen.\n\n## Findings\n\n- No label.\n";
        assert_eq!(numbered(list), "Seen.\n\n## Findings\n\n### R2.1\n\n- No label.\n");
        assert_eq!(numbered(&numbered(list)), numbered(list));
        assert_eq!(Numbering::new(2).number("Fine.\n", false), "Fine.\n");
        assert_eq!(numbered(" \n"), " \n");
    }

    #[test]
    fn nothing_passes_with_a_severe_finding() {
        let severe = |heading: &str| has_severe(&alloc::format!("## Findings\n\n### {heading}\n"));
        for heading in [
            "1. HIGH No label",
            "(HIGH) x",
            "R1.1 CRITICAL: x",
            "**HIGH** x",
            "Finding 1: HIGH",
            "1. (CRITICAL) x",
        ] {
            assert!(severe(heading), "{heading}");
        }
        for heading in ["1. LOW The HIGH bit", "MEDIUM x", "Highlight", "x HIGH", ""] {
            assert!(!severe(heading), "{heading}");
        }
        assert!(!has_severe("## Earlier findings\n\n### 1. HIGH Settled\n"));
    }
}
