//! Parses plans in Markdown: the sections of `plan.md` and `plan_<N>.md`, no matter who wrote them.
//!
//! Coders and people read these files, so these files are checked before anything is implemented.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ops::Range;

use super::rules::{ConflictRow, OwnedEntry, ParsedSubplan};
use crate::diag::{Code, Diagnostic};
use crate::library::contract::normalize_project_glob;
use crate::text::SharedText;

/// Sections of a sub-plan: the title, and the accepted spellings.
const SCOPE: SectionTitle = SectionTitle("Scope", &["scope"]);
const OWNED: SectionTitle =
    SectionTitle("Owned files", &["owned files", "owned files/modules", "owned files and modules"]);
const DEPENDENCIES: SectionTitle = SectionTitle("Dependencies", &["dependencies"]);
const ISOLATION: SectionTitle = SectionTitle("Isolation", &["isolation", "isolation rationale"]);

/// Sections of the overview; more words may follow the title.
const PHASES: [SectionTitle; 3] = [
    SectionTitle("Phase 1", &["phase 1"]),
    SectionTitle("Phase 2", &["phase 2"]),
    SectionTitle("Phase 3", &["phase 3"]),
];
const CONFLICTS: SectionTitle = SectionTitle("Conflict map", &["conflict map"]);
const DEFERRED: SectionTitle = SectionTitle("Deferred refactors", &["deferred refactors"]);

/// Columns of the conflict map.
const COLUMNS: [&str; 3] = ["file", "lanes", "owner"];

/// Wanted section: its title, and its accepted titles in lower case.
#[derive(Clone, Copy)]
struct SectionTitle(&'static str, &'static [&'static str]);

/// Parses a sub-plan from its file.
pub(crate) fn parse_subplan(file: &str, text: &SharedText, wrong: &mut Vec<Diagnostic>) -> ParsedSubplan {
    let page = PlanPage::new(file, text);
    let mut lane = ParsedSubplan { at: file.to_string(), owned: Vec::new(), lacks: Vec::new() };
    for wanted in [SCOPE, DEPENDENCIES, ISOLATION] {
        lane.lacks.extend(page.find_section(wanted).err());
    }
    match page.find_section(OWNED) {
        Ok(section) => page.read_owned(section, &mut lane.owned, wrong),
        Err(lack) => lane.lacks.insert(lane.lacks.len().min(1), lack),
    }
    lane
}

/// Parses the conflict map of the overview: the files that more than one sub-plan touches. Returns `None` if
/// it is missing or invalid.
pub(crate) fn parse_overview(
    file: &str,
    text: &SharedText,
    wrong: &mut Vec<Diagnostic>,
) -> Option<Vec<ConflictRow>> {
    let page = PlanPage::new(file, text);
    wrong.extend(PHASES.into_iter().filter_map(|phase| page.find_section(phase).err()));
    if let Some(section) = page.find_sections(DEFERRED).next() {
        page.check_deferred(section, wrong);
    }
    match page.find_section(CONFLICTS) {
        Ok(section) => page.read_conflicts(section, wrong),
        Err(lack) => {
            wrong.push(lack);
            None
        }
    }
}

/// Checks that the checklist of a sub-plan has at least one task.
pub(crate) fn check_checklist(file: &str, text: &SharedText, wrong: &mut Vec<Diagnostic>) {
    let is_task = |line: &PlanLine<'_>| {
        let entry = parse_bullet(line.text).and_then(|entry| entry.strip_prefix('['));
        let entry = entry.and_then(|entry| entry.strip_prefix([' ', 'x', 'X'])?.strip_prefix(']'));
        !line.is_hidden && entry.is_some_and(|words| !words.trim().is_empty())
    };
    if !split_lines(text, 0..text.len()).any(|line| is_task(&line)) {
        let first = split_lines(text, 0..text.len()).find(|line| !line.text.trim().is_empty());
        let range = first.map_or(0..0, |line| line.start..line.start + line.text.trim_end().len());
        let message = "the checklist has no task; expected at least one `- [ ] TASK`";
        wrong.push(Diagnostic::error(Code::SubmissionBad, message).at(file, text, range));
    }
}

struct PlanPage<'p> {
    file: &'p str,
    text: &'p SharedText,
    sections: Vec<PlanSection>,
}

struct PlanSection {
    level: usize,
    title: String,
    heading: Range<usize>,
    body: Range<usize>,
}

impl<'p> PlanPage<'p> {
    fn new(file: &'p str, text: &'p SharedText) -> Self {
        let mut sections: Vec<PlanSection> = Vec::new();
        for line in split_lines(text, 0..text.len()).filter(|line| !line.is_hidden) {
            let Some((level, title)) = parse_heading(line.text) else { continue };
            let open = sections.iter_mut().filter(|section| section.body.end == text.len());
            open.filter(|section| section.level >= level).for_each(|section| section.body.end = line.start);
            let end = line.start + line.text.len();
            sections.push(PlanSection {
                level,
                title: title.to_ascii_lowercase(),
                heading: line.start..end,
                body: end..text.len(),
            });
        }
        Self { file, text, sections }
    }

    /// Returns the second-level sections with this title.
    fn find_sections(&self, wanted: SectionTitle) -> impl Iterator<Item = &PlanSection> {
        self.sections.iter().filter(move |section| section.level == 2 && wanted.is_title_of(section))
    }

    /// Returns the only section with this title. Fails if the section is empty.
    fn find_section(&self, wanted: SectionTitle) -> Result<&PlanSection, Diagnostic> {
        let title = wanted.0;
        let mut all = self.find_sections(wanted);
        let Some(section) = all.next() else {
            return Err(match self.sections.iter().find(|section| wanted.is_title_of(section)) {
                Some(other) => {
                    let message = format!("the heading has {} signs; expected `## {title}`", other.level);
                    self.error_at(message, other.heading.clone())
                }
                None => {
                    let message = format!("`{}` has no section `## {title}`", self.file);
                    Diagnostic::error(Code::SubmissionBad, message)
                }
            });
        };
        if let Some(second) = all.next() {
            let message = format!("duplicate section `## {title}`");
            return Err(self.error_at(message, second.heading.clone()));
        }
        if self.text[section.body.clone()].trim().is_empty() {
            return Err(self.error_at(format!("section `## {title}` is empty"), section.heading.clone()));
        }
        Ok(section)
    }

    fn error_at(&self, message: String, range: Range<usize>) -> Diagnostic {
        Diagnostic::error(Code::SubmissionBad, message).at(self.file, self.text, range)
    }

    fn error_at_line(&self, message: String, line: &PlanLine<'_>) -> Diagnostic {
        let lead = line.text.len() - line.text.trim_start().len();
        self.error_at(message, line.start + lead..line.start + line.text.trim_end().len())
    }

    /// Formats the place of a line, for the middle of a message.
    fn format_place(&self, line: &PlanLine<'_>) -> String {
        format!("{}:{}", self.file, self.text[..line.start].matches('\n').count() + 1)
    }

    fn section_lines(&self, section: &PlanSection) -> impl Iterator<Item = PlanLine<'p>> {
        split_lines(self.text, section.body.clone()).filter(|line| !line.text.trim().is_empty())
    }

    /// Reads one path or glob from each bullet. Any other line is an error.
    fn read_owned(&self, section: &PlanSection, owned: &mut Vec<OwnedEntry>, wrong: &mut Vec<Diagnostic>) {
        for line in self.section_lines(section) {
            let read = match parse_bullet(line.text).filter(|_| !line.is_hidden) {
                Some(entry) => parse_path(entry),
                None => Err("the line is not a bullet; expected one path or glob per bullet".to_string()),
            };
            match read {
                Ok(glob) => owned.push(OwnedEntry { at: self.format_place(&line), glob }),
                Err(why) => wrong.push(self.error_at_line(why, &line)),
            }
        }
    }

    /// Checks that each deferred refactor has a rationale, in an entry or in its own paragraph.
    fn check_deferred(&self, section: &PlanSection, wrong: &mut Vec<Diagnostic>) {
        let mut end = 0;
        for line in self.section_lines(section).filter(|line| !line.is_hidden) {
            let goes_on = self.text[end..line.start].matches('\n').count() == 1 && end > 0;
            end = line.start + line.text.len();
            let entry = parse_bullet(line.text);
            let words = entry.unwrap_or_else(|| line.text.trim());
            // A paragraph or an entry may have several lines, and a line may announce the entries.
            let is_about =
                entry.is_none() && (goes_on || line.text.starts_with("  ") || words.ends_with(':'));
            let has_rationale = words.split_once(": ").is_some_and(|(_, why)| !why.trim().is_empty());
            if !is_about && !has_rationale && !is_none(words) && parse_heading(line.text).is_none() {
                let message = "the deferred refactor has no rationale; expected `- REFACTOR: RATIONALE`";
                wrong.push(self.error_at_line(message.to_string(), &line));
            }
        }
    }

    /// Reads the rows of the table; other lines are comments on it.
    fn read_conflicts(&self, section: &PlanSection, wrong: &mut Vec<Diagnostic>) -> Option<Vec<ConflictRow>> {
        let before = wrong.len();
        let mut conflicts = Vec::new();
        // A list can also say who touches a file, but the map is read only from the table.
        let is_entry = |line: &PlanLine<'_>| {
            let words = parse_bullet(line.text).unwrap_or_else(|| line.text.trim());
            let named = words.split_once(':').map_or("", |(file, _)| file.trim());
            let is_path = named.contains(['/', '.']) && parse_path(named).is_ok();
            !line.is_hidden && !is_none(words) && (is_path || parse_bullet(line.text).is_some())
        };
        for line in self.section_lines(section).filter(|line| !line.text.contains('|') && is_entry(line)) {
            let message =
                format!("the conflict map must be a table with the columns `{}`", COLUMNS.join(" | "));
            wrong.push(self.error_at_line(message, &line));
        }
        let rows = self.section_lines(section).filter(|line| !line.is_hidden && line.text.contains('|'));
        for (nth, line) in rows.enumerate() {
            let cells = split_cells(line.text);
            let message = match nth {
                0 if cells.iter().map(|cell| cell.to_ascii_lowercase()).eq(COLUMNS) => continue,
                0 => format!("the columns of the conflict map are `{}`", COLUMNS.join(" | ")),
                1 if cells
                    .iter()
                    .all(|cell| !cell.is_empty() && cell.trim_matches([':', '-']).is_empty()) =>
                {
                    continue;
                }
                1 => "expected `|---|---|---|` below the columns".to_string(),
                _ => match self.parse_conflict(&line, &cells) {
                    Ok(conflict) => {
                        conflicts.push(conflict);
                        continue;
                    }
                    Err(why) => why,
                },
            };
            wrong.push(self.error_at_line(message, &line));
        }
        (wrong.len() == before).then_some(conflicts)
    }

    fn parse_conflict(&self, line: &PlanLine<'_>, cells: &[String]) -> Result<ConflictRow, String> {
        let [file, lanes, owner] = cells else {
            return Err(format!("the row has {} cells; expected {}", cells.len(), COLUMNS.len()));
        };
        let number = |word: &str| {
            let bare = word.trim_matches('`');
            let bare = bare.strip_prefix("plan_").and_then(|bare| bare.strip_suffix(".md")).unwrap_or(bare);
            bare.parse().map_err(|_| format!("`{word}` is not the number of a sub-plan"))
        };
        let words = lanes.split([',', ' ', ';']).filter(|word| !word.is_empty() && *word != "and");
        let lanes = words.map(number).collect::<Result<Vec<u64>, String>>()?;
        if lanes.is_empty() {
            return Err("the row names no sub-plan that touches the file".to_string());
        }
        Ok(ConflictRow { at: self.format_place(line), file: parse_path(file)?, lanes, owner: number(owner)? })
    }
}

impl SectionTitle {
    /// Checks whether a section has this title, perhaps with more words behind a colon or similar.
    fn is_title_of(self, section: &PlanSection) -> bool {
        self.1.iter().any(|title| {
            let rest = section.title.strip_prefix(title);
            rest.is_some_and(|rest| {
                rest.is_empty() || rest.trim_start().starts_with([':', '(', '-', '–', '—', ','])
            })
        })
    }
}

/// Line without its line break. Lines in a code fence or in a comment are hidden.
struct PlanLine<'t> {
    start: usize,
    text: &'t str,
    is_hidden: bool,
}

fn split_lines(text: &str, range: Range<usize>) -> impl Iterator<Item = PlanLine<'_>> {
    let mut at = range.start;
    let mut fence: Option<&str> = None;
    let mut is_comment = false;
    text[range].split_inclusive('\n').map(move |line| {
        let start = at;
        at += line.len();
        let line = line.trim_end_matches(['\n', '\r']);
        let bare = line.trim_start_matches(' ');
        let is_block = line.len() - bare.len() < 4;
        let mut is_hidden = fence.is_some() || is_comment;
        match fence {
            Some(open) => {
                let length = bare.len() - bare.trim_start_matches(&open[..1]).len();
                if is_block && length >= open.len() && bare[length..].trim().is_empty() {
                    fence = None;
                }
            }
            None if is_comment => is_comment = !line.contains("-->"),
            None if is_block && bare.starts_with("<!--") => {
                is_hidden = true;
                is_comment = !bare.contains("-->");
            }
            None => {
                fence = parse_fence(bare).filter(|_| is_block);
                is_hidden = fence.is_some();
            }
        }
        PlanLine { start, text: line, is_hidden }
    })
}

/// Returns the fence that a line opens. A run of backticks that is closed on the same line is not a fence.
fn parse_fence(bare: &str) -> Option<&str> {
    let mark = bare.chars().next().filter(|mark| matches!(mark, '`' | '~'))?;
    let length = bare.len() - bare.trim_start_matches(mark).len();
    let is_fence = length >= 3 && (mark == '~' || !bare[length..].contains('`'));
    is_fence.then(|| &bare[..length])
}

/// Returns the level and the words of a heading.
fn parse_heading(line: &str) -> Option<(usize, &str)> {
    let bare = line.trim_start_matches(' ');
    let level = bare.len() - bare.trim_start_matches('#').len();
    let rest = &bare[level..];
    let is_heading = line.len() - bare.len() < 4
        && (1..=6).contains(&level)
        && (rest.is_empty() || rest.starts_with([' ', '\t']));
    is_heading.then(|| (level, rest.trim().trim_end_matches('#').trim()))
}

fn parse_bullet(line: &str) -> Option<&str> {
    let rest = line.trim().strip_prefix(['-', '*', '+'])?;
    rest.starts_with([' ', '\t']).then(|| rest.trim())
}

/// Checks whether the words say that there is nothing.
fn is_none(words: &str) -> bool {
    let words = words.trim_matches(['*', '_', '.', ' ']).to_ascii_lowercase();
    matches!(words.as_str(), "none" | "nothing" | "n/a" | "-")
        || words.starts_with("no ")
        || words.starts_with("none ")
}

const ONE_PATH: &str = "expected one path or glob and nothing else; put one with spaces in backticks";

/// Parses a path or glob, bare or in backticks.
fn parse_path(entry: &str) -> Result<String, String> {
    let quoted = entry.strip_prefix('`').and_then(|entry| entry.strip_suffix('`'));
    let path = match quoted {
        Some(path) => path,
        None if entry.is_empty() || entry.contains(char::is_whitespace) => return Err(ONE_PATH.into()),
        None => entry,
    };
    if path.contains('`') {
        return Err(ONE_PATH.into());
    }
    normalize_project_glob(path).map_err(|why| format!("this is {why}"))
}

/// Splits a row of a table into cells.
fn split_cells(line: &str) -> Vec<String> {
    let row = line.trim();
    let row = row.strip_prefix('|').unwrap_or(row);
    let row = row.strip_suffix('|').filter(|row| !row.ends_with('\\')).unwrap_or(row);
    let mut cells = alloc::vec![String::new()];
    let mut escaped = false;
    for c in row.chars() {
        match c {
            '|' if !escaped => cells.push(String::new()),
            c => {
                if let Some(cell) = cells.last_mut() {
                    if c == '|' {
                        cell.pop();
                    }
                    cell.push(c);
                }
            }
        }
        escaped = c == '\\' && !escaped;
    }
    cells.iter().map(|cell| cell.trim().to_string()).collect()
}
