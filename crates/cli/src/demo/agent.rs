//! The scripted agent of the demo: reads a prompt from stdin, acts on it in the current directory, and answers.
//!
//! It keeps no state. A later attempt differs from the first one only if its prompt does: the agent corrects the
//! lines that a failed check names, avoids the file that a scope violation names, and adds the lines that a review misses.

use std::env;
use std::io;
use std::process::ExitCode;

use callsheet::Result;
use callsheet_core::diag::{Code, Diagnostic};
use callsheet_run::WritableFolder;
use serde::Deserialize;

use crate::print::OutputPrinter;

/// First argument of the process that is the agent.
const MODE: &str = "__demo-agent";

const REPLIES: &str = include_str!("../../demo/replies.toml");

/// File that the agent writes outside of its scope.
const NOTES: &str = "NOTES.md";

/// Most bytes of a file that the agent reads.
const MOST_BYTES: u64 = 1 << 20;

/// The texts that the agent writes and answers.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AgentReplies {
    task: String,
    notes: String,
    page: String,
    written: String,
    heading: String,
    finding: String,
    reject: String,
    pass: String,
}

/// One call of the agent.
#[derive(Debug)]
struct AgentCall {
    prompt: String,
    replies: AgentReplies,
    folder: WritableFolder,
}

/// Acts as the scripted agent if this process was started as one.
pub(crate) fn act_if_asked() -> Option<ExitCode> {
    if env::args_os().nth(1)? != MODE {
        return None;
    }
    let print = OutputPrinter::plain();
    let done = AgentCall::read().and_then(|call| print.print_page(&call.act()?));
    Some(ExitCode::from(done.unwrap_or_else(|failure| print.print_failure(&failure))))
}

impl AgentCall {
    fn read() -> Result<Self> {
        let fail = |error: io::Error| Diagnostic::error(Code::InputUnreadable, error.to_string());
        let replies = toml::from_str(REPLIES).map_err(|error| fail(io::Error::other(error)))?;
        let prompt = io::read_to_string(io::stdin()).map_err(fail)?;
        let here = env::current_dir().and_then(|here| here.canonicalize()).map_err(fail)?;
        Ok(Self { prompt, replies, folder: WritableFolder::open(&here).map_err(fail)? })
    }

    /// Carries out the request of the prompt, which names two things in backticks, and returns the answer.
    fn act(&self) -> Result<String> {
        let mut named = find_request(&self.prompt).split('`').skip(1).step_by(2);
        let (Some(first), Some(second)) = (named.next(), named.next()) else {
            return Err(Diagnostic::error(Code::RequestBad, "the prompt names no two things").into());
        };
        match env::var("CALLSHEET_PHASE").as_deref() {
            Ok("write") => self.write_page(first, second),
            Ok("review") => self.review_page(first, second),
            _ => self.add_line(first, second),
        }
    }

    /// Adds a line to a file, with whitespace at its end unless the prompt names it, and writes a file of notes
    /// unless the prompt says that it is outside of the scope.
    fn add_line(&self, line: &str, path: &str) -> Result<String> {
        let mut lines: Vec<String> = self.read_text(path)?.lines().map(String::from).collect();
        if !lines.iter().any(|known| known.trim_end() == line) {
            lines.push(format!("{line}  "));
        }
        for number in find_whitespace(&self.prompt, path) {
            if let Some(line) = lines.get_mut(number.wrapping_sub(1)) {
                line.truncate(line.trim_end().len());
            }
        }
        self.folder.replace(path, (lines.join("\n") + "\n").as_bytes())?;
        let violation = format!("- `{NOTES}`: outside");
        if !self.prompt.lines().any(|line| line.starts_with(&violation)) {
            self.folder.replace(NOTES, format!("{}\n", self.replies.notes).as_bytes())?;
        }
        Ok(format!("{}\n", self.replies.task))
    }

    /// Writes a page with the first line of a file, or adds the lines that the review in the prompt misses.
    fn write_page(&self, source: &str, page: &str) -> Result<String> {
        let finding = self.replies.finding.replace("{page}", page);
        let (before, after) = finding.split_once("{line}").unwrap_or((&finding, ""));
        let found = |line| str::strip_suffix(str::strip_prefix(line, before)?, after);
        let mut text = self.read_text(page)?;
        if text.is_empty() {
            let first = self.read_text(source)?.lines().next().unwrap_or_default().to_owned();
            text = format!("{}\n\n- {first}\n", self.replies.page);
        }
        text.extend(self.prompt.lines().filter_map(found).map(|line| format!("- {line}\n")));
        self.folder.replace(page, text.as_bytes())?;
        Ok(format!("{}\n", self.replies.written))
    }

    /// Compares a page with its source, and answers with a verdict.
    fn review_page(&self, source: &str, page: &str) -> Result<String> {
        let (source, text) = (self.read_text(source)?, self.read_text(page)?);
        let is_missing = |line: &&str| !text.lines().any(|entry| entry.strip_prefix("- ") == Some(*line));
        let fill = |line: &str| self.replies.finding.replace("{page}", page).replace("{line}", line);
        let findings: Vec<String> = source.lines().filter(is_missing).map(fill).collect();
        let AgentReplies { heading, reject, pass, .. } = &self.replies;
        Ok(if findings.is_empty() {
            format!("{pass}\n")
        } else {
            format!("{heading}\n\n{}\n\n{reject}\n", findings.join("\n"))
        })
    }

    /// Returns the text of a file; an empty text if it does not exist.
    fn read_text(&self, path: &str) -> Result<String> {
        let text = self.folder.read(path, MOST_BYTES);
        let text =
            text.map_err(|error| Diagnostic::error(Code::InputUnreadable, format!("{path}: {error}")))?;
        Ok(text.unwrap_or_default())
    }
}

/// Returns the part of a prompt that holds the request, in either of the two forms of prompts.
fn find_request(prompt: &str) -> &str {
    let forms = [("## Task\n", "\n## "), ("<instructions>", "</instructions>")];
    let part = |(start, end)| Some(prompt.rsplit_once(start)?.1.split(end).next().unwrap_or_default());
    forms.into_iter().find_map(part).unwrap_or_default()
}

/// Returns the numbers of the lines of a file at whose ends a check of git found whitespace.
fn find_whitespace(prompt: &str, path: &str) -> Vec<usize> {
    let number = |line: &str| {
        let rest = line.strip_prefix(path)?.strip_prefix(':')?;
        rest.split_once(": trailing whitespace")?.0.parse().ok()
    };
    prompt.lines().filter_map(number).collect()
}
