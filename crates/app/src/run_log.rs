//! The log of a run by ranges of lines: a log of a million lines is never read as a whole.

use std::collections::BTreeMap;

use callsheet_core::library::agent::Agent;
use callsheet_core::record::{Event, Id, LogStream, Output};
use callsheet_core::{Library, find_agent};
use callsheet_store::{Ledger, left_out_bytes};
use serde_json::Value;

use crate::error::Result;
use crate::output::{LogLineOutput, RunLogOutput};
use crate::project::Project;
use crate::run::progress::describe_call;

/// The places of the lines in a stream of a run. It grows with the log.
#[derive(Debug)]
pub struct LogIndex {
    run: Id,
    stream: LogStream,
    agent: Option<(Agent, String)>,
    chunks: Vec<LogChunk>,
    /// The last record that was read.
    seq: u64,
    total: u64,
    calls: BTreeMap<u64, String>,
    first_error: Option<u64>,
    left_out_bytes: u64,
    cut_lines: u64,
}

/// Lines of one record.
#[derive(Clone, Copy, Debug)]
struct LogChunk {
    seq: u64,
    last: u64,
}

/// Most records that are read at once.
const AT_ONCE: usize = 64;

/// Most tool calls that are kept of one log.
const MOST_CALLS: usize = 20_000;

/// Words that stand in a line about an error.
const ERROR_WORDS: [&str; 6] = ["error", "fatal", "panicked", "traceback", "failed", "exception"];

impl LogIndex {
    /// Creates the index of a stream, which is empty until it is updated.
    pub fn new(project: &Project, ledger: &mut Ledger, run: &Id, stream: LogStream) -> Result<Self> {
        let summary = ledger.run_summary(run)?;
        let (disk, layout) = (project.disk(None), project.config.layout());
        let agent = summary.run.agent.as_deref();
        let agent = agent.and_then(|name| find_agent(&Library::new(&disk), name, &layout).ok());
        let agent = agent.map(|(_, agent)| agent).filter(|agent| agent.output.stream.is_some());
        let place = summary.launch.map(|launch| launch.worktree).unwrap_or_default();
        Ok(Self {
            run: run.clone(),
            stream,
            agent: agent.map(|agent| (agent, place)),
            chunks: Vec::new(),
            seq: 0,
            total: 0,
            calls: BTreeMap::new(),
            first_error: None,
            left_out_bytes: 0,
            cut_lines: 0,
        })
    }

    /// Reads the records that were appended since the last update.
    pub fn update(&mut self, ledger: &mut Ledger) -> Result<()> {
        loop {
            let records = ledger.outputs_after(&self.run, self.seq, AT_ONCE)?;
            let Some(last) = records.last() else { return Ok(()) };
            let seq = last.seq;
            for record in &records {
                if let Some(Event::Output(output)) = record.event()?
                    && output.stream == self.stream
                {
                    self.add_output(record.seq, &output);
                }
            }
            self.seq = seq;
        }
    }

    fn add_output(&mut self, seq: u64, output: &Output) {
        let first = output.line;
        let mut last = first;
        for (line, number) in split_lines(&output.text).zip(first..) {
            last = number;
            self.note_line(number, line);
        }
        self.total = self.total.max(last);
        self.chunks.push(LogChunk { seq, last });
        match left_out_bytes(output).filter(|_| output.cut) {
            Some(bytes) => self.left_out_bytes += bytes,
            None => self.cut_lines += u64::from(output.cut),
        }
    }

    /// Remembers a line that begins a tool call, and the first that is about an error.
    fn note_line(&mut self, number: u64, line: &str) {
        let mut is_error = false;
        match &self.agent {
            Some((agent, place)) if self.stream == LogStream::Stdout => {
                let Ok(event) = serde_json::from_str::<Value>(line) else { return };
                let mut calls = agent.events.tools.iter().flat_map(|pattern| pattern.find_calls(&event));
                if let Some(call) = calls.next()
                    && self.calls.len() < MOST_CALLS
                {
                    self.calls.insert(number, describe_call(agent, place, &call));
                }
                is_error |= agent.events.faults.iter().any(|fault| fault.find_in_event(&event).is_some());
            }
            _ => is_error |= self.first_error.is_none() && has_error_word(line),
        }
        if is_error {
            self.first_error.get_or_insert(number);
        }
    }

    /// Returns the number of lines of the stream.
    pub const fn total_lines(&self) -> u64 {
        self.total
    }

    /// Returns the tool calls between two lines, each with the line that begins it.
    pub fn calls(&self, from: u64, to: u64) -> impl Iterator<Item = (u64, &str)> {
        self.calls.range(from..to.max(from)).map(|(line, words)| (*line, words.as_str()))
    }

    /// Returns the first line that is about an error.
    pub const fn first_error(&self) -> Option<u64> {
        self.first_error
    }

    /// Reads at most `count` lines from the line `from` on.
    pub fn read_lines(&self, ledger: &mut Ledger, from: u64, count: usize) -> Result<RunLogOutput> {
        let mut items = Vec::new();
        self.for_each_line(ledger, from, |at, number, line| {
            items.push(LogLineOutput { line: number, at: at.to_owned(), text: line.to_owned() });
            items.len() < count
        })?;
        items.truncate(count);
        Ok(RunLogOutput {
            run: self.run.clone(),
            stream: self.stream,
            has_more: items.last().map_or(from, |line| line.line + 1) <= self.total,
            items,
            total_lines: self.total,
            cut: self.left_out_bytes > 0 || self.cut_lines > 0,
            left_out_bytes: self.left_out_bytes,
            cut_lines: self.cut_lines,
        })
    }

    /// Returns the numbers of the lines with a text, at most `limit`, from the line `from` on. Upper and lower case are the same.
    pub fn find_text(&self, ledger: &mut Ledger, text: &str, from: u64, limit: usize) -> Result<Vec<u64>> {
        let wanted = text.to_lowercase();
        let mut found = Vec::new();
        if wanted.is_empty() || limit == 0 {
            return Ok(found);
        }
        self.for_each_line(ledger, from, |_, number, line| {
            if line.to_lowercase().contains(&wanted) {
                found.push(number);
            }
            found.len() < limit
        })?;
        Ok(found)
    }

    /// Passes lines to `take` until it returns false.
    fn for_each_line(
        &self,
        ledger: &mut Ledger,
        from: u64,
        mut take: impl FnMut(&str, u64, &str) -> bool,
    ) -> Result<()> {
        let start = self.chunks.partition_point(|chunk| chunk.last < from);
        let Some(chunk) = self.chunks.get(start) else { return Ok(()) };
        let mut seq = chunk.seq.saturating_sub(1);
        loop {
            let records = ledger.outputs_after(&self.run, seq, AT_ONCE / 8)?;
            let Some(last) = records.last() else { return Ok(()) };
            seq = last.seq;
            for record in &records {
                let Some(Event::Output(output)) = record.event()? else { continue };
                if output.stream != self.stream || record.seq > self.seq {
                    continue;
                }
                for (line, number) in split_lines(&output.text).zip(output.line..) {
                    if number >= from && !take(&record.at, number, line) {
                        return Ok(());
                    }
                }
            }
        }
    }
}

fn has_error_word(line: &str) -> bool {
    let line = line.to_lowercase();
    line.split(|char: char| !char.is_alphanumeric()).any(|word| ERROR_WORDS.contains(&word))
}

/// Returns the lines of a record without their ends.
fn split_lines(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive('\n').map(|line| line.strip_suffix('\n').unwrap_or(line))
}
