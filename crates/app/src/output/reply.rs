//! Replies and submissions of agents.

use std::collections::BTreeMap;

use callsheet_core::library::contract::{Status, Verdict};
use callsheet_core::record::{RecordedReply, SubmissionRecord};
use callsheet_core::reply::{Outcome, ProblemCode, Reply, ReplyProblem, ReplyText};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::project::PreferenceOutput;
use crate::diagnostics::{PlaceOutput, ReasonOutput};
use crate::session::SubmissionResult;

/// The claims of a reply.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct ReplyOutput<'r> {
    /// The verdict that counts.
    pub verdict: Option<Verdict>,
    /// The result of the reply as a whole.
    pub outcome: Outcome,
    /// The claimed status of each task.
    pub tasks: &'r BTreeMap<String, Status>,
    /// Questions to the person.
    pub questions: &'r [String],
    /// The agent's text, without its thoughts.
    #[schemars(with = "String")]
    pub text: &'r ReplyText<'r>,
    /// The problems of the reply in order of place.
    pub problems: Vec<ReplyProblemOutput>,
}

/// A fault of a reply.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct ReplyProblemOutput {
    /// The kind of the problem.
    pub code: ProblemCode,
    /// The description of the problem.
    pub message: String,
    /// The place in the agent's text.
    pub place: Option<PlaceOutput>,
    /// The number of further problems of this kind, which are not listed.
    pub more: usize,
}

impl From<&ReplyProblem> for ReplyProblemOutput {
    fn from(problem: &ReplyProblem) -> Self {
        let place = problem.place.map(|place| PlaceOutput {
            file: "reply".into(),
            line: place.line,
            column: place.column,
        });
        Self { code: problem.code, message: problem.message.clone(), place, more: problem.more }
    }
}

impl<'r> From<&'r Reply<'r>> for ReplyOutput<'r> {
    fn from(reply: &'r Reply<'r>) -> Self {
        Self {
            verdict: reply.verdict,
            outcome: reply.outcome,
            tasks: &reply.tasks,
            questions: &reply.questions,
            text: &reply.text,
            problems: reply.problems.iter().map(ReplyProblemOutput::from).collect(),
        }
    }
}

/// The claims of a recorded reply.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct RecordedReplyOutput {
    /// The verdict that counts.
    pub verdict: Option<Verdict>,
    /// The result of the reply as a whole.
    pub outcome: Outcome,
    /// The claimed status of each task.
    pub tasks: BTreeMap<String, Status>,
    /// Questions to the person.
    pub questions: Vec<String>,
    /// The agent's text, without its thoughts.
    pub text: String,
    /// Whether the beginning of the text is missing.
    pub text_cut: bool,
    /// The problems of the reply in order of place.
    pub problems: Vec<ReplyProblemOutput>,
    /// The submissions of the agent by tools.
    pub submitted: Vec<SubmittedOutput>,
}

impl From<&RecordedReply> for RecordedReplyOutput {
    fn from(reply: &RecordedReply) -> Self {
        Self {
            verdict: reply.verdict,
            outcome: reply.outcome,
            tasks: reply.tasks.clone(),
            questions: reply.questions.clone(),
            text: reply.text.clone(),
            text_cut: reply.text_cut,
            problems: reply.problems.iter().map(ReplyProblemOutput::from).collect(),
            submitted: reply.submitted.iter().map(SubmittedOutput::from).collect(),
        }
    }
}

/// A submission by a tool, as it was recorded.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct SubmittedOutput {
    /// The tool.
    pub tool: String,
    /// The SHA-256 of the submission as JSON.
    pub sha256: String,
    /// The verdict of the submission.
    pub verdict: Value,
    /// Its effects: files that were written and removed, preferences that were new.
    pub done: Value,
    /// Why it was refused.
    pub refused: Vec<ReasonOutput>,
}

impl From<&SubmissionRecord> for SubmittedOutput {
    fn from(record: &SubmissionRecord) -> Self {
        Self {
            tool: record.tool.clone(),
            sha256: record.sha256.clone(),
            verdict: record.verdict.clone(),
            done: record.done.clone(),
            refused: refusals(&record.refused),
        }
    }
}

/// Converts the reasons of a refusal.
pub(super) fn refusals(refused: &[String]) -> Vec<ReasonOutput> {
    refused.iter().map(|message| ReasonOutput::new("refused", message)).collect()
}

/// The effects of a submission.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct SubmissionOutput {
    /// Files that were written.
    pub written: Vec<String>,
    /// Files that were removed.
    pub removed: Vec<String>,
    /// Preferences that were new.
    pub preferences: Vec<PreferenceOutput>,
    /// Preferences that a person must still approve.
    pub proposed: Vec<PreferenceOutput>,
    /// Questions that only a person can answer.
    pub questions: Vec<String>,
}

impl From<&SubmissionResult> for SubmissionOutput {
    fn from(done: &SubmissionResult) -> Self {
        Self {
            written: done.written.clone(),
            removed: done.removed.clone(),
            preferences: PreferenceOutput::list(&done.preferences),
            proposed: done.proposed.iter().cloned().map(PreferenceOutput::from).collect(),
            questions: done.questions.clone(),
        }
    }
}
