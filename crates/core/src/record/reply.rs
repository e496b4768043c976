//! The record of an agent's reply.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::SubmissionRecord;
use crate::library::contract::{Status, Verdict};
use crate::reply::{Outcome, ProblemCode, ReplyProblem};

/// Record of the agent's reply.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Replied {
    /// Verdict of the reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<String>,
    /// The claims of the reply.
    pub reply: RecordedReply,
}

/// The claims of a reply as they are recorded: without secrets, and with the end of the text if it is long.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RecordedReply {
    /// The verdict that counts.
    pub verdict: Option<Verdict>,
    /// The result of the reply as a whole.
    pub outcome: Outcome,
    /// The claimed status of each task.
    pub tasks: BTreeMap<String, Status>,
    /// Questions to the person.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub questions: Vec<String>,
    /// The agent's text, without its thoughts.
    pub text: String,
    /// Whether the beginning of the text is missing.
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    pub text_cut: bool,
    /// How many lines at the end of the text are the agent's last message, if its output has messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_lines: Option<usize>,
    /// The problems of the reply in order of place.
    pub problems: Vec<ReplyProblem>,
    /// Submissions that the agent made during the run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub submitted: Vec<SubmissionRecord>,
}

impl RecordedReply {
    /// Checks whether the agent's own stream reports a failure.
    pub fn has_failed_stream(&self) -> bool {
        self.problems.iter().any(|problem| problem.code == ProblemCode::StreamFailed)
    }
}
