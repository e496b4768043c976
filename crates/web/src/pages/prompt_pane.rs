//! The prompt of a run with the origin of every byte in its gutter, in sections that fold; and the text of one origin.

use std::collections::BTreeSet;

use askama::Template;
use axum::extract::{Path, Query, State};
use callsheet::Project;
use callsheet::error::Result;
use callsheet::run_prompt::{PromptSource, RunPrompt};
use callsheet_core::library::format::PromptFormat;
use callsheet_core::record::{Id, OriginNote, OriginRange};
use callsheet_core::source::origin::Trust;
use callsheet_store::Ledger;
use serde::Deserialize;

use super::layout::{PageLayout, PagePlace};
use super::words::size_words;
use crate::shown_text::ShownText;
use crate::site::{PageResult, SiteState};

/// The most lines of a prompt on one page.
const MOST_LINES: usize = 20_000;

/// The most pieces of a line.
const MOST_PIECES: usize = 200;

/// The prompt pane of a run.
#[derive(Debug)]
pub(crate) struct PromptPane {
    /// The size of the text.
    pub(crate) size: String,
    /// The format of the text.
    pub(crate) format: &'static str,
    /// The SHA-256 of the text.
    pub(crate) sha256: String,
    /// The sections in order.
    pub(crate) sections: Vec<PromptSection>,
    /// The origins, the largest first.
    pub(crate) origins: Vec<PromptOrigin>,
    /// The number of lines that are not shown.
    pub(crate) more_lines: usize,
    /// The inputs that it lacks.
    pub(crate) absent: Vec<AbsentInput>,
    /// Why the absent inputs cannot be named.
    pub(crate) absent_unknown: ShownText,
    /// The warnings about the prompt.
    pub(crate) warnings: Vec<(ShownText, ShownText)>,
}

/// A section of the prompt, or the lines between two.
#[derive(Debug, Default)]
pub(crate) struct PromptSection {
    /// The name; empty for lines between sections.
    pub(crate) name: ShownText,
    /// The size of its text.
    pub(crate) size: String,
    /// The lines.
    pub(crate) lines: Vec<PromptLine>,
}

/// A line of the prompt.
#[derive(Debug)]
pub(crate) struct PromptLine {
    /// The number of the line, from 1.
    pub(crate) number: usize,
    /// The gutter: the first origin of the line.
    pub(crate) origin: Option<LineOrigin>,
    /// Whether the line before has the same origin.
    pub(crate) is_same: bool,
    /// The pieces of the line.
    pub(crate) pieces: Vec<LinePiece>,
}

/// The origin of a line in the gutter.
#[derive(Debug)]
pub(crate) struct LineOrigin {
    /// The number of the origin.
    pub(crate) number: u32,
    /// The name, shortened.
    pub(crate) label: ShownText,
    /// The class of its trust.
    pub(crate) trust: &'static str,
    /// The line in the text of the origin; 0 if it is not known.
    pub(crate) line: usize,
}

/// Text of one origin.
#[derive(Debug)]
pub(crate) struct LinePiece {
    /// The number of the origin; `None` for text of callsheet itself.
    pub(crate) origin: Option<u32>,
    /// The text.
    pub(crate) text: ShownText,
}

/// An origin of the prompt.
#[derive(Debug)]
pub(crate) struct PromptOrigin {
    /// The number of the origin.
    pub(crate) number: u32,
    /// The name.
    pub(crate) label: ShownText,
    /// The class of its trust.
    pub(crate) trust: &'static str,
    /// The beginning of the SHA-256 of its text.
    pub(crate) version: ShownText,
    /// The size of its text in the prompt.
    pub(crate) size: String,
    /// The first line of the prompt with its text.
    pub(crate) first_line: usize,
    bytes: usize,
}

/// An input that the prompt lacks.
#[derive(Debug)]
pub(crate) struct AbsentInput {
    /// The input.
    pub(crate) what: ShownText,
    /// The reason.
    pub(crate) why: ShownText,
    /// More about the reason.
    pub(crate) detail: ShownText,
}

/// Returns the class of a trust.
const fn trust_class(trust: Trust) -> &'static str {
    match trust {
        Trust::Ours => "ours",
        Trust::Project => "project",
        Trust::Person => "person",
        Trust::Agent => "agent",
    }
}

/// Shortens the name of an origin for the gutter: the last part of a path.
fn short_label(origin: &OriginNote) -> ShownText {
    let label = origin.label();
    let short = match &origin.source {
        Some(source) => source.path().rsplit('/').next().unwrap_or(&label),
        None => &label,
    };
    ShownText::new(short)
}

impl PromptPane {
    /// Reads the prompt of a run.
    pub(crate) fn read(ledger: &mut Ledger, run: &Id) -> Result<Self> {
        Ok(Self::new(&RunPrompt::read(ledger, run)?))
    }

    fn new(prompt: &RunPrompt) -> Self {
        let output = &prompt.composed.output;
        let lines = split_lines(&prompt.text, &prompt.ranges, &output.origins);
        let absent = prompt.absent.as_ref();
        let describe = |omitted: &callsheet_core::library::omission::OmittedInput| AbsentInput {
            what: ShownText::new(&omitted.what),
            why: omitted.why.words().into(),
            detail: ShownText::new(&omitted.detail),
        };
        let warning = |warning: &callsheet_core::record::RecordedWarning| {
            (ShownText::new(&warning.code), ShownText::new(&warning.message))
        };
        Self {
            size: size_words(output.bytes as u64),
            format: match output.format {
                PromptFormat::Markdown => "Markdown",
                PromptFormat::Xml => "XML",
                PromptFormat::Json => "JSON",
            },
            sha256: output.sha256.to_string(),
            origins: list_origins(prompt, &lines),
            more_lines: prompt.text.lines().count().saturating_sub(lines.len()),
            sections: group_sections(lines, &output.sections),
            absent: absent.into_iter().flatten().map(describe).collect(),
            absent_unknown: absent.err().map(ShownText::from).unwrap_or_default(),
            warnings: prompt.composed.warnings.iter().map(warning).collect(),
        }
    }
}

/// A line with its first byte.
struct PlacedLine {
    start: usize,
    end: usize,
    line: PromptLine,
}

fn split_lines(text: &str, ranges: &[OriginRange], origins: &[OriginNote]) -> Vec<PlacedLine> {
    let mut lines: Vec<PlacedLine> = Vec::new();
    let (mut start, mut before) = (0, None);
    // The range of the gutter, and the number of its lines above.
    let mut above = (usize::MAX, 0);
    for (line, number) in text.split_inclusive('\n').zip(1..).take(MOST_LINES) {
        let end = start + line.len();
        let shown_end = start + line.strip_suffix('\n').unwrap_or(line).len();
        let first = ranges.partition_point(|range| range.end <= start);
        let touching = || ranges[first..].iter().take_while(|range| range.start < end);
        let mut pieces = Vec::new();
        for range in touching() {
            let from = range.start.max(start);
            let piece = &text[from..range.end.min(shown_end).max(from)];
            if pieces.len() == MOST_PIECES {
                let rest = format!("… {} more bytes", shown_end - from);
                pieces.push(LinePiece { origin: None, text: rest.into() });
                break;
            }
            if !piece.is_empty() {
                pieces.push(LinePiece { origin: range.origin, text: ShownText::from_line(piece) });
            }
        }
        // The gutter names the first origin that is not callsheet itself.
        let range = touching().find(|range| range.origin.is_some());
        let origin = range.and_then(|range| {
            let number = range.origin?;
            let note = origins.get(number as usize)?;
            above = match above {
                (same, count) if same == range.start => (same, count + 1),
                _ => (range.start, text.get(range.start..start).map_or(0, |text| text.matches('\n').count())),
            };
            Some(LineOrigin {
                number,
                label: short_label(note),
                trust: trust_class(note.trust),
                line: range.line.map_or(0, |line| line + above.1),
            })
        });
        let here = origin.as_ref().map(|origin| origin.number);
        let is_same = before == Some(here);
        before = Some(here);
        lines.push(PlacedLine { start, end, line: PromptLine { number, origin, is_same, pieces } });
        start = end;
    }
    lines
}

fn group_sections(lines: Vec<PlacedLine>, sections: &[(String, usize, usize)]) -> Vec<PromptSection> {
    let section_of = |line: &PlacedLine| {
        sections.iter().position(|(_, start, end)| line.end > *start && line.start < *end)
    };
    let mut groups: Vec<PromptSection> = Vec::new();
    let mut current = None;
    let mut seen = BTreeSet::new();
    for placed in lines {
        let section = section_of(&placed);
        if groups.is_empty() || current != section {
            current = section;
            let known = section.and_then(|at| sections.get(at));
            // A section that is interrupted is named once.
            let is_new = section.is_some_and(|at| seen.insert(at));
            groups.push(PromptSection {
                name: known.filter(|_| is_new).map(|(name, ..)| ShownText::new(name)).unwrap_or_default(),
                size: known.map(|(_, start, end)| size_words((end - start) as u64)).unwrap_or_default(),
                lines: Vec::new(),
            });
        }
        if let Some(group) = groups.last_mut() {
            group.lines.push(placed.line);
        }
    }
    groups
}

fn list_origins(prompt: &RunPrompt, lines: &[PlacedLine]) -> Vec<PromptOrigin> {
    let mut listed: Vec<PromptOrigin> = Vec::new();
    for (note, number) in prompt.composed.output.origins.iter().zip(0..) {
        let of_origin = || prompt.ranges.iter().filter(|range| range.origin == Some(number));
        let bytes: usize = of_origin().map(|range| range.end - range.start).sum();
        let first = of_origin().map(|range| range.start).next().unwrap_or(0);
        listed.push(PromptOrigin {
            number,
            label: ShownText::new(&note.label()),
            trust: trust_class(note.trust),
            version: ShownText::new(&note.version),
            size: size_words(bytes as u64),
            first_line: lines.partition_point(|line| line.end <= first) + 1,
            bytes,
        });
    }
    listed.sort_by_key(|origin| std::cmp::Reverse(origin.bytes));
    listed
}

/// The place of an origin that a person wants to see.
#[derive(Debug, Deserialize)]
pub(crate) struct SourceQuery {
    origin: u32,
    line: Option<usize>,
}

/// A line of an origin's text.
#[derive(Debug)]
struct SourceLine {
    number: usize,
    is_used: bool,
    is_wanted: bool,
    text: ShownText,
}

/// The text of an origin.
#[derive(Debug, Template)]
#[template(path = "source.html")]
struct SourcePage {
    layout: PageLayout,
    run: ShownText,
    label: ShownText,
    trust: &'static str,
    version: ShownText,
    sha256: String,
    is_stored: bool,
    lines: Vec<SourceLine>,
}

impl SourcePage {
    fn read(project: &Project, run: &str, query: &SourceQuery) -> Result<Self> {
        let mut ledger = project.read_ledger()?;
        let layout = PageLayout::read(project, &mut ledger, PagePlace::Other)?;
        let row = project.find_run(&mut ledger, run)?;
        let source = PromptSource::read(&mut ledger, &row.run.id, query.origin)?;
        let mut lines = Vec::new();
        let mut start = 0;
        for (line, number) in source.text.split_inclusive('\n').zip(1..) {
            let end = start + line.len();
            lines.push(SourceLine {
                number,
                is_used: source.used.iter().any(|used| used.start < end && used.end > start),
                is_wanted: query.line == Some(number),
                text: ShownText::from_line(line.strip_suffix('\n').unwrap_or(line)),
            });
            start = end;
        }
        Ok(Self {
            layout,
            run: row.name().into(),
            label: ShownText::new(&source.origin.label()),
            trust: trust_class(source.origin.trust),
            version: ShownText::new(&source.origin.version),
            sha256: source.sha256.map(|digest| digest.to_string()).unwrap_or_default(),
            is_stored: source.sha256.is_some(),
            lines,
        })
    }
}

/// Answers with the text of an origin.
pub(crate) async fn show_source(
    State(site): State<SiteState>,
    Path(run): Path<String>,
    Query(query): Query<SourceQuery>,
) -> PageResult {
    site.render(move |project| SourcePage::read(project, &run, &query)).await
}
