//! Compares two recorded prompts, section by section, and finds the cause of each change.

use std::collections::BTreeMap;

use callsheet_core::record::{Composed, OriginNote, OriginRange, TextAssembly, locate_parts};
use callsheet_store::Ledger;
use similar::{ChangeTag, TextDiff};

use crate::error::Result;
use crate::project::Project;

/// A recorded prompt, reassembled.
#[derive(Debug)]
#[non_exhaustive]
pub struct DiffSide {
    /// The record of the prompt.
    pub composed: Composed,
    /// The text of the prompt.
    pub text: String,
    placed: Vec<OriginRange>,
    /// The versions of each origin in the prompt, by label.
    versions: BTreeMap<String, Vec<String>>,
}

impl DiffSide {
    /// Reads the prompt of a run.
    pub fn new(project: &Project, ledger: &mut Ledger, name: &str) -> Result<Self> {
        let run = project.find_run(ledger, name)?.run.id;
        let composed = ledger.prompt_record(&run)?;
        let (text, placed) = ledger.with_blobs(|blob| locate_parts(&composed, blob))?;
        let mut versions: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for origin in &composed.output.origins {
            versions.entry(origin.label()).or_default().push(origin.version.clone());
        }
        Ok(Self { composed, text, placed, versions })
    }

    fn output(&self) -> &TextAssembly {
        &self.composed.output
    }

    fn section(&self, name: &str) -> Option<(usize, &str)> {
        let (_, start, end) = self.output().sections.iter().find(|(known, ..)| known == name)?;
        Some((*start, self.text.get(*start..*end)?))
    }

    /// Returns the origins of the line from `start` to `end`: files first, without the engine's own text.
    fn origins(&self, start: usize, end: usize) -> Vec<&OriginNote> {
        let first = self.placed.partition_point(|span| span.end <= start);
        let touching = self.placed[first..].iter().take_while(|span| span.start < end.max(start + 1));
        let numbers = touching.filter_map(|span| span.origin);
        let mut origins: Vec<&OriginNote> =
            numbers.filter_map(|number| self.output().origins.get(number as usize)).collect();
        origins.sort_by_key(|origin| origin.source.is_none());
        origins
    }
}

/// A line that only one of the two prompts has.
#[derive(Debug)]
#[non_exhaustive]
pub struct LineChange {
    /// Whether only the second prompt has it.
    pub insert: bool,
    /// The line.
    pub line: String,
    /// The label of its origin.
    pub origin: Option<String>,
    /// The cause.
    pub cause: ChangeCause,
}

/// Why a line is in only one of two prompts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChangeCause {
    /// callsheet's own text changed.
    Engine,
    /// The origin has another version.
    Changed,
    /// The first prompt does not have the origin.
    New,
    /// The second prompt does not have the origin.
    Gone,
    /// The origin is the same; it is shown elsewhere.
    Moved,
}

impl ChangeCause {
    /// Returns the word for it in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Engine => "engine",
            Self::Changed => "changed",
            Self::New => "new",
            Self::Gone => "gone",
            Self::Moved => "moved",
        }
    }
}

impl LineChange {
    /// Says why the line changed.
    pub fn explain(&self) -> String {
        let label = self.origin.as_deref().unwrap_or_default();
        match self.cause {
            ChangeCause::Engine => "callsheet's own text around it changed".into(),
            ChangeCause::Changed => format!("because {label} changed"),
            ChangeCause::New => format!("because {label} is new"),
            ChangeCause::Gone => format!("because {label} is gone"),
            ChangeCause::Moved => {
                format!("{label} did not change, but it moved or another part of it is shown")
            }
        }
    }
}

/// A section, and the lines that differ in it.
pub type SectionChanges<'s> = (&'s str, Vec<LineChange>);

/// Returns the sections that differ.
pub fn compare_sections<'s>(from: &'s DiffSide, to: &'s DiffSide) -> Vec<SectionChanges<'s>> {
    let mut names: Vec<&String> = from.output().sections.iter().map(|(name, ..)| name).collect();
    let new = to.output().sections.iter().map(|(name, ..)| name).filter(|name| from.section(name).is_none());
    names.extend(new);
    let mut sections: Vec<SectionChanges<'_>> =
        names.into_iter().map(|name| (name.as_str(), compare_section(name, from, to))).collect();
    sections.retain(|(_, changes)| !changes.is_empty());
    if sections.is_empty() && from.text != to.text {
        let changes = diff_lines((0, &from.text, from), (0, &to.text, to));
        sections.extend((!changes.is_empty()).then_some(("between the sections", changes)));
    }
    sections
}

/// Returns the changed lines of a section; empty if it is the same.
fn compare_section(name: &str, from: &DiffSide, to: &DiffSide) -> Vec<LineChange> {
    let (old_start, old) = from.section(name).unwrap_or_default();
    let (new_start, new) = to.section(name).unwrap_or_default();
    diff_lines((old_start, old, from), (new_start, new, to))
}

/// The lines of a section without their ends: a last line without a line end is the same line as one with it.
struct SectionLines<'s> {
    lines: Vec<&'s str>,
    /// The offset of each line in the prompt.
    starts: Vec<usize>,
}

impl<'s> SectionLines<'s> {
    fn new(mut start: usize, text: &'s str) -> Self {
        let mut found = Self { lines: Vec::new(), starts: Vec::new() };
        for line in text.split_inclusive('\n') {
            found.lines.push(line.strip_suffix('\n').unwrap_or(line));
            found.starts.push(start);
            start += line.len();
        }
        found
    }
}

fn diff_lines(
    (old_start, old, from): (usize, &str, &DiffSide),
    (new_start, new, to): (usize, &str, &DiffSide),
) -> Vec<LineChange> {
    if old == new {
        return Vec::new();
    }
    let (old, new) = (SectionLines::new(old_start, old), SectionLines::new(new_start, new));
    let mut changes = Vec::new();
    for change in TextDiff::from_slices(&old.lines, &new.lines).iter_all_changes() {
        let (insert, side, other, at) = match (change.tag(), change.old_index(), change.new_index()) {
            (ChangeTag::Delete, Some(index), _) => (false, from, to, old.starts[index]),
            (ChangeTag::Insert, _, Some(index)) => (true, to, from, new.starts[index]),
            _ => continue,
        };
        let text = change.value();
        let cause = |origin: &OriginNote| {
            let label = origin.label();
            match (side.versions.get(&label), other.versions.get(&label)) {
                (_, None) if insert => (Some(label), ChangeCause::New),
                (_, None) => (Some(label), ChangeCause::Gone),
                (own, others) if own != others => (Some(label), ChangeCause::Changed),
                _ => (Some(label), ChangeCause::Moved),
            }
        };
        // A line may have several origins; an unchanged origin is blamed last.
        let causes: Vec<_> = side.origins(at, at + text.len()).into_iter().map(cause).collect();
        let first = causes.iter().find(|(_, cause)| *cause != ChangeCause::Moved).or(causes.first());
        let (origin, cause) = first.cloned().unwrap_or((None, ChangeCause::Engine));
        changes.push(LineChange { insert, line: text.to_owned(), origin, cause });
    }
    changes
}
