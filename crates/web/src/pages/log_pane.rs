//! The log of a run by ranges of lines, grouped by tool call, with search and the first error. It is never read as a whole.

use std::sync::{Arc, Mutex, PoisonError};

use askama::Template;
use axum::extract::{Path, Query, State};
use axum::http::header;
use axum::response::{Html, IntoResponse, Response};
use callsheet::Project;
use callsheet::error::Result;
use callsheet::run_log::LogIndex;
use callsheet_core::diag::counted;
use callsheet_core::record::{Id, LogStream};
use callsheet_store::Ledger;
use serde::{Deserialize, Serialize};

use super::words::size_words;
use crate::shown_text::ShownText;
use crate::site::{PageResult, SiteState, render_page};

/// The lines that a page shows at first.
const FIRST_LINES: usize = 200;

/// The most lines of one range.
const MOST_LINES: usize = 1000;

/// The most lines that one search finds.
const MOST_FOUND: usize = 500;

/// The most logs whose index is kept.
const MOST_KEPT: usize = 16;

/// A line of a log.
#[derive(Debug)]
pub(crate) struct LogRow {
    /// The number of the line, from 1.
    pub(crate) number: u64,
    /// When it was recorded.
    pub(crate) at: ShownText,
    /// The text.
    pub(crate) text: ShownText,
    /// Whether it is the first line about an error.
    pub(crate) is_error: bool,
}

/// Lines that belong to one tool call, or to none.
#[derive(Debug, Default)]
pub(crate) struct LogGroup {
    /// The tool call in words; empty before the first one.
    pub(crate) call: ShownText,
    /// The line that begins the call; 0 before the first one.
    pub(crate) line: u64,
    /// Whether the call began before the first line of the range.
    pub(crate) is_continued: bool,
    /// The lines.
    pub(crate) rows: Vec<LogRow>,
}

/// A range of a log.
#[derive(Debug)]
pub(crate) struct LogRange {
    /// The stream.
    pub(crate) stream: &'static str,
    /// The number of lines of the stream.
    pub(crate) total: u64,
    /// The first line of the range.
    pub(crate) first: u64,
    /// The last line of the range; 0 if it has none.
    pub(crate) last: u64,
    /// The first line about an error.
    pub(crate) first_error: Option<u64>,
    /// Output that is not kept, in words.
    pub(crate) left_out: String,
    /// The lines.
    pub(crate) groups: Vec<LogGroup>,
    /// Whether lines in the middle are left out, in words: for a page that is one file.
    pub(crate) middle: String,
}

/// A range of a log as a part of a page.
#[derive(Debug, Template)]
#[template(path = "log_lines.html")]
struct LogPart {
    range: LogRange,
}

impl LogRange {
    /// Reads a range of lines.
    pub(crate) fn read(index: &LogIndex, ledger: &mut Ledger, from: u64, count: usize) -> Result<Self> {
        let from = from.max(1);
        let log = index.read_lines(ledger, from, count.min(MOST_LINES))?;
        let first_error = index.first_error();
        let last = log.items.last().map_or(0, |line| line.line);
        let rows = log.items.iter().map(|line| LogRow {
            number: line.line,
            at: ShownText::new(&line.at),
            text: ShownText::from_line(&line.text),
            is_error: first_error == Some(line.line),
        });
        let before = index.calls(1, from).last();
        let calls: Vec<(u64, &str)> = index.calls(from, last + 1).collect();
        let left_out = match (log.left_out_bytes, log.cut_lines) {
            (0, 0) => String::new(),
            (bytes, 0) => format!("not kept: {}", size_words(bytes)),
            (0, lines) => format!("not kept: the end of {}", counted(lines as usize, "line")),
            (bytes, lines) => {
                let lines = counted(lines as usize, "line");
                format!("not kept: {}, and the end of {lines}", size_words(bytes))
            }
        };
        Ok(Self {
            stream: log.stream.name(),
            total: log.total_lines,
            first: log.items.first().map_or(from, |line| line.line),
            last,
            first_error,
            left_out,
            groups: group_rows(rows, before, &calls),
            middle: String::new(),
        })
    }
}

impl LogRange {
    /// Keeps the first lines, or the last ones, that fit into this many bytes.
    fn keep_bytes(&mut self, most: usize, is_end: bool) {
        let mut sizes: Vec<(u64, usize)> = self
            .groups
            .iter()
            .flat_map(|group| &group.rows)
            .map(|row| (row.number, row.text.as_str().len()))
            .collect();
        if is_end {
            sizes.reverse();
        }
        let mut bytes = 0;
        let kept = sizes.iter().take_while(|(_, size)| {
            bytes += size;
            bytes <= most
        });
        let kept: Vec<u64> = kept.map(|(number, _)| *number).collect();
        let (first, last) = (kept.iter().min().copied(), kept.iter().max().copied());
        let (first, last) = (first.unwrap_or(self.first), last.unwrap_or(0));
        self.groups
            .iter_mut()
            .for_each(|group| group.rows.retain(|row| (first..=last).contains(&row.number)));
        self.groups.retain(|group| !group.rows.is_empty());
        (self.first, self.last) = (first, last);
    }
}

fn group_rows(
    rows: impl Iterator<Item = LogRow>,
    before: Option<(u64, &str)>,
    calls: &[(u64, &str)],
) -> Vec<LogGroup> {
    let start = |(line, words): (u64, &str), is_continued| LogGroup {
        call: words.into(),
        line,
        is_continued,
        rows: Vec::new(),
    };
    let mut groups: Vec<LogGroup> = Vec::new();
    let mut calls = calls.iter().peekable();
    for row in rows {
        if let Some(call) = calls.next_if(|(line, _)| *line == row.number) {
            groups.push(start(*call, false));
        } else if groups.is_empty() {
            groups.push(before.map(|call| start(call, true)).unwrap_or_default());
        }
        if let Some(group) = groups.last_mut() {
            group.rows.push(row);
        }
    }
    groups
}

/// The log pane of a run.
#[derive(Debug)]
pub(crate) struct LogPane {
    /// The number of lines on standard error.
    pub(crate) error_lines: u64,
    /// The tool calls, each with its line.
    pub(crate) calls: Vec<(u64, ShownText)>,
    /// The range that is shown at first.
    pub(crate) range: LogRange,
    /// The end of the log, if the middle is left out.
    pub(crate) tail: Option<LogRange>,
}

/// The most tool calls that the timeline names.
const MOST_CALLS: usize = 300;

impl LogPane {
    /// Reads the first range of a log: its end while the run is in progress.
    pub(crate) fn read(
        (out, err): (&LogIndex, &LogIndex),
        ledger: &mut Ledger,
        is_running: bool,
    ) -> Result<Self> {
        // A program that prints to standard error only has its log there.
        let index = if out.total_lines() == 0 && err.total_lines() > 0 { err } else { out };
        let tail = index.total_lines().saturating_sub(FIRST_LINES as u64) + 1;
        let from = if is_running { tail } else { 1 };
        let calls = out.calls(1, out.total_lines() + 1).take(MOST_CALLS);
        Ok(Self {
            error_lines: err.total_lines(),
            calls: calls.map(|(line, words)| (line, words.into())).collect(),
            range: LogRange::read(index, ledger, from, FIRST_LINES)?,
            tail: None,
        })
    }

    /// Reads a log for a page that cannot fetch more: its beginning and its end.
    pub(crate) fn read_ends(out: &LogIndex, err: &LogIndex, ledger: &mut Ledger) -> Result<Self> {
        let pane = Self::read((out, err), ledger, false)?;
        let index = if pane.range.stream == LogStream::Stderr.name() { err } else { out };
        let total = index.total_lines();
        let mut range = LogRange::read(index, ledger, 1, MOST_LINES)?;
        range.keep_bytes(END_BYTES, false);
        if range.last >= total {
            return Ok(Self { range, ..pane });
        }
        let from = (total + 1).saturating_sub(MOST_LINES as u64).max(range.last + 1);
        let mut tail = LogRange::read(index, ledger, from, MOST_LINES)?;
        tail.keep_bytes(END_BYTES, true);
        range.middle = format!("{} lines are left out here", tail.first.saturating_sub(range.last + 1));
        Ok(Self { range, tail: Some(tail), ..pane })
    }
}

/// The most bytes of the beginning and of the end of a log in a page that is one file.
const END_BYTES: usize = 250_000;

type KeptIndex = Arc<Mutex<LogIndex>>;

/// The indexes of the logs that were shown last.
#[derive(Debug, Default)]
pub(crate) struct LogIndexes {
    kept: Mutex<Vec<((Id, LogStream), KeptIndex)>>,
}

impl LogIndexes {
    /// Lets `work` use the index of a log, which is brought up to date before.
    pub(crate) fn with_index<T>(
        &self,
        project: &Project,
        ledger: &mut Ledger,
        run: &Id,
        stream: LogStream,
        work: impl FnOnce(&LogIndex, &mut Ledger) -> Result<T>,
    ) -> Result<T> {
        let index = self.find_index(project, ledger, run, stream)?;
        let mut index = index.lock().unwrap_or_else(PoisonError::into_inner);
        index.update(ledger)?;
        work(&index, ledger)
    }

    fn find_index(
        &self,
        project: &Project,
        ledger: &mut Ledger,
        run: &Id,
        stream: LogStream,
    ) -> Result<KeptIndex> {
        let key = (run.clone(), stream);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let found = kept.iter().position(|(known, _)| *known == key).map(|at| kept.remove(at));
        let entry = match found {
            Some(entry) => entry,
            None => (key, Arc::new(Mutex::new(LogIndex::new(project, ledger, run, stream)?))),
        };
        let index = Arc::clone(&entry.1);
        // The one that was used last is the last of the list.
        kept.push(entry);
        if kept.len() > MOST_KEPT {
            kept.remove(0);
        }
        Ok(index)
    }
}

/// The range of a log that a page asks for.
#[derive(Debug, Deserialize)]
#[serde(default)]
pub(crate) struct LogQuery {
    stream: String,
    from: u64,
    count: usize,
    /// The text that a search looks for.
    text: String,
}

impl Default for LogQuery {
    fn default() -> Self {
        Self { stream: "stdout".into(), from: 1, count: FIRST_LINES, text: String::new() }
    }
}

impl LogQuery {
    fn stream(&self) -> LogStream {
        if self.stream == "stderr" { LogStream::Stderr } else { LogStream::Stdout }
    }
}

/// Answers with lines of a log, as a part of a page.
pub(crate) async fn show_log(
    State(site): State<SiteState>,
    Path(run): Path<String>,
    Query(query): Query<LogQuery>,
) -> PageResult {
    let logs = Arc::clone(&site.logs);
    site.call(move |project| -> PageResult<Html<String>> {
        let mut ledger = project.read_ledger()?;
        let run = project.find_run(&mut ledger, &run)?.run.id;
        let range = logs.with_index(project, &mut ledger, &run, query.stream(), |index, ledger| {
            LogRange::read(index, ledger, query.from, query.count)
        })?;
        render_page(&LogPart { range })
    })
    .await
}

/// The lines that a search found.
#[derive(Debug, Serialize)]
pub(crate) struct FoundLines {
    lines: Vec<u64>,
    has_more: bool,
}

/// Answers with the numbers of the lines that have a text.
pub(crate) async fn find_lines(
    State(site): State<SiteState>,
    Path(run): Path<String>,
    Query(query): Query<LogQuery>,
) -> PageResult<Response> {
    let logs = Arc::clone(&site.logs);
    site.call(move |project| {
        let mut ledger = project.read_ledger()?;
        let run = project.find_run(&mut ledger, &run)?.run.id;
        let lines = logs.with_index(project, &mut ledger, &run, query.stream(), |index, ledger| {
            index.find_text(ledger, &query.text, query.from, MOST_FOUND)
        })?;
        // Numbers are all that it holds.
        let found = serde_json::to_string(&FoundLines { has_more: lines.len() == MOST_FOUND, lines });
        let json = [(header::CONTENT_TYPE, "application/json")];
        Ok((json, found.unwrap_or_default()).into_response())
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_grouped_by_call() {
        let row = |number| LogRow { number, at: "".into(), text: "".into(), is_error: false };
        let shape = |groups: Vec<LogGroup>| -> Vec<(u64, bool, Vec<u64>)> {
            let numbers = |group: &LogGroup| group.rows.iter().map(|row| row.number).collect();
            groups.iter().map(|group| (group.line, group.is_continued, numbers(group))).collect()
        };
        let groups = group_rows((5..9).map(row), Some((2, "a")), &[(6, "b"), (8, "c")]);
        assert_eq!(shape(groups), [(2, true, vec![5]), (6, false, vec![6, 7]), (8, false, vec![8])]);
        assert_eq!(shape(group_rows((1..3).map(row), None, &[])), [(0, false, vec![1, 2])]);
    }
}
