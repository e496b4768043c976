//! What a person can type next after a run, and what its page shows besides the summary.

use callsheet_core::record::{Id, LogStream, RunOutcome, RunSummary};
use callsheet_core::request::fact::ViolationDecision;
use schemars::JsonSchema;
use serde::Serialize;

use crate::error::Result;
use crate::paths::path_words;
use crate::project::Project;
use crate::run::changes::{FileDiff, diff_files};
use crate::run::denials::missing_flags;

/// A command that a person can type next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct NextStep {
    /// The command line.
    pub command: String,
    /// What it does.
    pub purpose: String,
}

/// The most violations for which commands are shown.
const MOST_VIOLATIONS: usize = 5;

/// Returns the commands that a person can type next, the most useful first.
pub fn next_steps(summary: &RunSummary) -> Vec<NextStep> {
    let run = summary.name();
    let mut steps = Vec::new();
    let mut add = |command: String, purpose: &str| {
        steps.push(NextStep { command: format!("callsheet {command}"), purpose: purpose.to_owned() });
    };
    let outcome = summary.outcome();
    let has_changes = summary.changed.as_ref().is_some_and(|changed| !changed.files.is_empty());
    let session = summary.exit.as_ref().and_then(|exit| exit.report.session.as_ref());
    if outcome == RunOutcome::Running {
        add(format!("show {run} --stream stdout --tail 20"), "see the agent's output");
        add(format!("stop {run}"), "end it");
        return steps;
    }
    if outcome == RunOutcome::AgentFailed {
        add(format!("show {run} --stream stderr"), "see the agent's error output");
    }
    let pending = summary.violations().into_iter().filter(|it| it.decision == ViolationDecision::Pending);
    for violation in pending.take(MOST_VIOLATIONS) {
        let path = path_words(&violation.path);
        add(approve_command(run, &violation.path), "accept the change");
        if summary.changed.iter().flat_map(|changed| &changed.files).any(|file| file.path == violation.path) {
            add(format!("revert {run} {path}"), "take the change back");
        }
    }
    if has_changes {
        add(format!("show {run} --diff"), "see the changes");
    }
    let is_done = matches!(outcome, RunOutcome::Succeeded | RunOutcome::Composed);
    if let Some(flow) = summary.launch.as_ref().and_then(|launch| Id::parse(launch.flow.get("flow")?)) {
        add(format!("flow resume {flow}"), "continue the flow");
        return steps;
    }
    if let Some(flags) = missing_flags(summary).filter(|_| !is_done && !summary.imported) {
        add(format!("retry {run} {flags}"), "run it again and allow the denied commands");
    }
    if !is_done && summary.launch.is_some() && !summary.imported {
        add(format!("retry {run}"), "run it again with these facts");
    }
    if session.is_some() && !summary.imported {
        add(format!("continue {run} \"…\""), "tell the agent more in the same session");
    }
    steps
}

/// Returns the arguments with which a person approves a change of a run.
pub(crate) fn approve_command(run: &str, path: &str) -> String {
    let path = path_words(path);
    // After `--` every word is a path.
    if path.starts_with("--") {
        format!("decide {run} --approve {path}")
    } else {
        format!("decide {run} {path} --approve")
    }
}

/// What a page about a run shows besides its summary.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct ResultDetails {
    /// The changes of the files, as far as they are kept.
    pub diffs: Vec<FileDiff>,
    /// The last lines of standard error, if the agent failed.
    pub errors: Vec<String>,
}

/// The lines of standard error that are enough to show a cause.
const MOST_ERRORS: usize = 10;

impl Project {
    /// Reads what a page about a run shows besides its summary.
    pub fn result_details(&self, summary: &RunSummary) -> Result<ResultDetails> {
        let mut ledger = self.read_ledger()?;
        let run = &summary.run.id;
        let mut details = ResultDetails::default();
        if summary.changed.is_some() {
            details.diffs = diff_files(&self.run_changes(&mut ledger, run.as_str())?.kept);
        }
        if matches!(summary.outcome(), RunOutcome::AgentFailed | RunOutcome::TimedOut | RunOutcome::Lost) {
            let log = ledger.log(run, LogStream::Stderr, 1, Some(MOST_ERRORS))?;
            details.errors = log.lines.into_iter().map(|line| line.data.to_string()).collect();
        }
        Ok(details)
    }
}
