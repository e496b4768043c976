//! Records: the data that the ledger stores about runs.
//!
//! A record is never changed. The `composed` record holds everything about a prompt: the request, the
//! snapshot, and the finished text as ranges of texts ([`TextAssembly`]). Long texts are stored once, by
//! their digests. `callsheet-store` decides where records are stored and when they were made.

pub mod task_status;

mod bundle;
mod chain;
mod changed;
mod context;
mod cost;
mod digest;
mod flow_record;
mod lack_reason;
mod launch;
mod output;
mod project;
mod replay;
mod reply;
mod run;
mod summary;
mod task_text;
mod watch_events;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use bundle::{RecordBundle, SnapshotManifest, build_record};
pub use chain::ChainLink;
pub use changed::{ChangedContents, FileChange, FileMode, FileVersion, OmittedContents};
pub use context::ContextRecord;
pub use cost::{CostEstimate, RunCost};
pub use digest::{Digest, sha256};
pub use flow_record::FlowRecord;
pub use lack_reason::{LackCode, LackContext, LackReason, explain_lacks};
pub use launch::{LaunchRecord, RunOptions};
pub use project::{MOST_PROJECT_NAME, is_project_name, project_from_url};
pub use replay::{
    OriginRange, ReplayError, ReplayOutcome, list_blobs, locate_parts, restore_request, restore_snapshot,
    restore_text, verify, verify_sealed,
};
pub use reply::{RecordedReply, Replied};
pub use run::is_record_time;
pub use summary::{ChecksOutcome, RunOutcome, RunStatus, RunSummary, TaskDecision};
pub use task_text::MOST_TASK_TEXT;
pub use watch_events::{ChangedFileData, EventData, EventName, StartStage, watch_events};

use crate::delivery::receipt::{AgentReport, DeliveryReceipt};
use crate::diag::Diagnostics;
use crate::library::format::ModelApi;
use crate::library::format::PromptFormat;
use crate::render::TextEncoding;
use crate::request::fact::{self, CheckRun, EndReason};
use crate::request::profile::Profile;
use crate::secrets::GateReport;
use crate::source::SourceId;
use crate::source::origin::Trust;
use crate::text::SharedText;
use crate::text::string_schema::string_schema;
use crate::text::word_enum::word_enum;

/// Identifies a run or a flow: a UUID in its usual spelling.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct Id(String);

impl Id {
    /// Parses a UUID with lower-case digits.
    pub fn parse(text: &str) -> Option<Self> {
        let dash = |at: usize| matches!(at, 8 | 13 | 18 | 23);
        let fits = |(at, byte): (usize, u8)| match dash(at) {
            true => byte == b'-',
            false => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
        };
        (text.len() == 36 && text.bytes().enumerate().all(fits)).then(|| Self(text.into()))
    }

    /// Returns the id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

string_schema!(Id);

impl TryFrom<String> for Id {
    type Error = RecordError;

    fn try_from(text: String) -> Result<Self, RecordError> {
        Self::parse(&text).ok_or(RecordError::Id(text))
    }
}

/// Why a record cannot be built, written or read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// A text is not an [`Id`].
    #[error("`{0}` is not an id")]
    Id(String),
    /// No event has this kind.
    #[error("unknown record kind `{0}`")]
    Kind(String),
    /// The JSON is malformed, or not of this kind of record.
    #[error("{0}")]
    Json(String),
    /// The detail of a decision is not an event of a flow.
    #[error("not a flow event: {0}")]
    FlowEvent(String),
    /// A ledger cannot keep the run, or the run contradicts its request.
    #[error(transparent)]
    Run(#[from] Diagnostics),
    /// The run names another recipe than the prompt.
    #[error("the recipe of the run is not that of the prompt")]
    Recipe,
    /// The rendered text has other parts than the prompt.
    #[error("the rendered text is not of this prompt")]
    Text,
}

impl From<serde_json::Error> for RecordError {
    fn from(error: serde_json::Error) -> Self {
        Self::Json(error.to_string())
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One attempt, described briefly so that runs can be listed and found. [`Run::new`] makes only runs that a
/// verification accepts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Run {
    /// Id of the run.
    pub id: Id,
    /// The run that this one retries or continues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Id>,
    /// Id of the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// Name of the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Name of the phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// Name of the role.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// Name of the recipe.
    pub recipe: String,
    /// Start time in UTC, as in `2026-01-31T12:00:00.000000Z`.
    pub started: String,
    /// The project that it belongs to; runs of older versions do not name it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
}

macro_rules! events {
    ($($variant:ident $kind:literal $meaning:literal,)*) => {
        /// Contents of a record.
        #[derive(Clone, Debug, PartialEq)]
        #[expect(clippy::large_enum_variant, reason = "an event is made once and written at once")]
        pub enum Event { $(#[doc = $meaning] $variant($variant),)* }

        impl Event {
            /// Every kind with its description.
            pub const KINDS: &[(&'static str, &'static str)] = &[$(($kind, $meaning),)*];

            /// Returns the kind of the record.
            pub const fn kind(&self) -> &'static str {
                match self { $(Self::$variant(_) => $kind,)* }
            }

            /// Serializes the record as JSON. This text is hashed and stored.
            pub fn payload(&self) -> Result<String, RecordError> {
                let json = match self { $(Self::$variant(event) => serde_json::to_string(event),)* };
                Ok(json?)
            }

            /// Parses the payload of a record of this kind.
            pub fn read(kind: &str, payload: &str) -> Result<Self, RecordError> {
                match kind {
                    $($kind => Ok(Self::$variant(serde_json::from_str(payload)?)),)*
                    kind => Err(RecordError::Kind(kind.to_string())),
                }
            }
        }
    };
}

events! {
    Composed "composed" "A prompt was composed, with its inputs and its text.",
    Delivered "delivered" "The prompt was delivered to the agent, with the evidence for it.",
    Output "output" "Lines that the agent printed.",
    Exit "exit" "The run ended.",
    ChangedContents "changed" "The contents of the changed files, before and after.",
    Observed "observed" "The checks, changed files and scope violations of the run.",
    Replied "replied" "The agent's reply: its verdict or the status of its tasks.",
    SubmissionRecord "submitted" "A submission of the agent through a tool, accepted or refused.",
    Decided "decided" "A decision of a person.",
    ContextRecord "context" "The request that the agent's CLI would send to its model, from a probe.",
    FlowRecord "flow" "An event of a flow.",
    Removed "removed" "The data that retention removed.",
    Imported "imported" "The run or flow came from an export of another ledger.",
}

impl Event {
    /// Returns the digests of the texts that the record refers to.
    pub fn texts(&self) -> Result<BTreeSet<Digest>, ReplayError> {
        match self {
            Self::Composed(composed) => list_blobs(composed),
            Self::ChangedContents(changed) => Ok(changed.texts()),
            Self::ContextRecord(context) => Ok(context.texts()),
            _ => Ok(BTreeSet::new()),
        }
    }
}

/// Record of a composed prompt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Composed {
    /// The run that the prompt was composed for.
    pub run: Run,
    /// [`ENGINE_VERSION`](crate::ENGINE_VERSION) of the engine that composed it.
    pub engine: u32,
    /// The request, with digests instead of long strings: see [`restore_request`].
    pub request: Value,
    /// Every source that was read.
    pub snapshot: SnapshotManifest,
    /// The model API whose request body was rendered, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api: Option<ModelApi>,
    /// The finished text.
    pub output: TextAssembly,
    /// Diagnostics above the severity of a note.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<RecordedWarning>,
    /// Report on the secrets that were found and how they were handled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secrets: Option<GateReport>,
    /// The delivered text, if the output contains HMACs instead of values that are marked as secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealed: Option<SealedText>,
    /// How the agent is about to be started; `None` if the prompt was only composed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launch: Option<LaunchRecord>,
    /// Machine and user that composed it; prompts of older versions do not name them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made_by: Option<MadeBy>,
    /// The profile that it was composed for, with its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<Profile>,
}

/// Machine and user that composed a prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MadeBy {
    /// Name of the machine.
    pub host: String,
    /// Name of the user.
    pub user: String,
}

/// HMAC of the delivered text, which itself is not stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SealedText {
    /// Key that is unique to this record, so that equal values have different HMACs in different records.
    pub key: Digest,
    /// HMAC-SHA-256 of the text.
    pub text: String,
}

/// Diagnostic as it was recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedWarning {
    /// Code of the diagnostic.
    pub code: String,
    /// Message of the diagnostic.
    pub message: String,
}

/// Finished text as a list of parts. Concatenating them restores the text without composing it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TextAssembly {
    /// Digest of the text.
    pub sha256: Digest,
    /// Length of the text in bytes.
    pub bytes: usize,
    /// Format of the text.
    pub format: PromptFormat,
    /// Origins that the parts refer to.
    pub origins: Vec<OriginNote>,
    /// Parts in their order.
    pub parts: Vec<AssemblyPart>,
    /// Name, start and end of each section in the text.
    pub sections: Vec<(String, usize, usize)>,
}

/// Origin of a text. The text of a file is found through the snapshot, and a long text of another kind by its
/// own digest. The parts themselves contain short texts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OriginNote {
    /// Source, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<SourceId>,
    /// Human-readable name, if it is not a source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Trust in the origin.
    pub trust: Trust,
    /// Digest of the text, if it is stored by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<Digest>,
    /// Beginning of the SHA-256 of the text: it identifies the version of a file or value.
    pub version: String,
}

impl OriginNote {
    /// Returns the source id, or else the human-readable name.
    pub fn label(&self) -> String {
        match (&self.source, &self.label) {
            (Some(source), _) => source.to_string(),
            (None, label) => label.clone().unwrap_or_default(),
        }
    }
}

/// Part of a finished text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum AssemblyPart {
    /// Separators, tags and notices of the engine.
    Engine(String),
    /// Bytes `start..end` of an origin's text.
    Slice(u32, usize, usize),
    /// Bytes `start..end` of an origin's text, written in an encoding.
    Encoded(u32, usize, usize, TextEncoding),
    /// A short text of an origin, as it was written.
    Literal(u32, String),
}

impl AssemblyPart {
    /// Returns the number of its origin; `None` for the engine's own text.
    pub const fn origin(&self) -> Option<u32> {
        match self {
            Self::Engine(_) => None,
            Self::Slice(origin, ..) | Self::Encoded(origin, ..) | Self::Literal(origin, _) => Some(*origin),
        }
    }
}

/// Record of a delivered prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Delivered {
    /// How far the delivery is proven.
    pub receipt: DeliveryReceipt,
    /// Proof of the delivery. There is no receipt without evidence.
    pub evidence: SharedText,
}

word_enum! {
    /// Stream that a line of the run's log belongs to. The prompt is `meta`.
    LogStream {
        /// Text of callsheet, such as the prompt.
        Meta "meta",
        /// Standard output of the agent.
        Stdout "stdout",
        /// Standard error of the agent.
        Stderr "stderr",
    }
}

/// Maximum number of bytes of text in one output record.
pub const OUTPUT_BYTES: usize = 64 << 10;

/// Record of lines that the agent printed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Output {
    /// Stream of the lines.
    pub stream: LogStream,
    /// Number of the first line in its stream, from 1.
    pub line: u64,
    /// Whole lines, unless the agent stopped in the middle of one.
    pub text: SharedText,
    /// Whether the line was truncated.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub cut: bool,
}

/// Record of the end of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exit {
    /// Reason of the end.
    pub ended: EndReason,
    /// Exit code of the process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
    /// Signal that ended the process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// Explanation for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Duration in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// The agent's report on itself: its session, tokens and cost.
    #[serde(default, rename = "told")]
    pub report: AgentReport,
    /// Estimated cost, if the agent reported tokens and no cost, and a price was known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimate: Option<CostEstimate>,
    /// When the quota of a parked run is available again, in UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parked_until: Option<String>,
    /// Version of the agent's program, as its events or the program itself report it. Older versions did not record it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_version: Option<String>,
}

impl Exit {
    /// Creates a record from the reason and the exit code alone.
    pub fn new(ended: EndReason, code: Option<i32>) -> Self {
        Self {
            ended,
            code,
            signal: None,
            why: None,
            duration_ms: None,
            report: AgentReport::default(),
            estimate: None,
            parked_until: None,
            agent_version: None,
        }
    }
}

/// Record of the observations after a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Observed {
    /// Observation of the worktree by git; `None` if there is no repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktree: Option<fact::WorktreeObservation>,
    /// Results of the checks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<CheckRun>,
    /// Runs that worked in the same checkout at the same time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shared_with: Vec<String>,
    /// Changed paths that this run may not write but one of those runs may. Nothing shows which run changed
    /// them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uncertain: Vec<String>,
    /// Contents of the changed files as git would store them, by path; `None` for a removed file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contents: Option<ContentIds>,
}

/// Contents of files as git stores them, by path relative to the top of the repository: the mode, a space and
/// the id of the contents. `None` if the file does not exist. Only the id if the mode is unknown, as in
/// records of older versions.
pub type ContentIds = BTreeMap<String, Option<String>>;

/// Record of a submission by a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubmissionRecord {
    /// Contract that it was checked against.
    pub tool: String,
    /// Digest of the submission as JSON.
    pub sha256: String,
    /// Verdict of the submission.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub verdict: Value,
    /// Files that were written and removed, and preferences that were new.
    pub done: Value,
    /// Reasons why it was refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<String>,
}

word_enum! {
    /// Author of a decision.
    DecidedBy {
        /// A person, in records of older versions.
        Person "person",
        /// A flow, by its own rules.
        Flow "flow",
        /// A person at a terminal.
        Terminal "terminal",
        /// A command line with `--yes`.
        Yes "yes",
        /// A person on a page of the web view.
        Page "page",
        /// Another program, without a terminal and without `--yes`.
        Api "api",
    }
}

impl DecidedBy {
    /// Checks whether it is a person's decision.
    pub const fn is_person(self) -> bool {
        !matches!(self, Self::Flow)
    }
}

/// Record of a decision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decided {
    /// Author of the decision.
    pub by: DecidedBy,
    /// Subject of the decision, such as a path or a phase.
    pub what: String,
    /// The decision, such as `approve` or `reject`.
    pub decision: String,
    /// Further data about the decision.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub detail: Value,
}

/// Record of a removal by retention.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Removed {
    /// Rule that caused the removal.
    pub why: String,
    /// Runs that were removed. Their records stay as links of the chain; the contents of the records are
    /// removed.
    pub runs: Vec<Id>,
    /// Number of records.
    pub records: u64,
    /// Number of blobs.
    pub blobs: u64,
    /// Size of the blobs on disk.
    pub bytes: u64,
}

/// Record of an import that added the records of this run or flow. The names in them are data: nothing is
/// started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Imported {
    /// Number of the head that the export names.
    pub seq: u64,
    /// Link of that head.
    pub chain: Digest,
}
