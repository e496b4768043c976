//! Records: what the ledger keeps of a run, as data.
//!
//! A record is never changed. What belongs to a prompt is in its `composed` record: the request, the snapshot, and the
//! finished text as ranges of texts ([`TextAssembly`]). Long texts are kept once, by their digests. Where records are kept,
//! and when one was made, is the business of `callsheet-store`.

mod account;
mod chain;
mod digest;
mod keep;
mod launch;
mod output;
mod project;
mod replay;
mod told;

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use account::{ChecksOutcome, RunStatus, RunSummary};
pub use chain::ChainLink;
pub use digest::{Digest, sha256};
pub use keep::{RecordBundle, SnapshotManifest, keep};
pub use launch::LaunchRecord;
pub use project::{MOST_PROJECT_NAME, is_project_name, project_of_url};
pub use replay::{
    OriginRange, ReplayError, ReplayOutcome, list_blobs, locate_parts, restore_request, restore_snapshot,
    restore_text, verify, verify_sealed,
};
pub use told::told;

use crate::agent::Profile;
use crate::fact::{self, CheckRun, EndReason};
use crate::origin::Trust;
use crate::prompt::PromptFormat;
use crate::receipt::{AgentReport, DeliveryReceipt};
use crate::render::{ModelApi, TextEncoding};
use crate::secrets::GateReport;
use crate::source::SourceId;
use crate::text::SharedText;

/// Which run or flow: a UUID in its usual spelling.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct Id(String);

impl Id {
    pub fn parse(text: &str) -> Option<Self> {
        let dash = |at: usize| matches!(at, 8 | 13 | 18 | 23);
        let fits = |(at, byte): (usize, u8)| match dash(at) {
            true => byte == b'-',
            false => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
        };
        (text.len() == 36 && text.bytes().enumerate().all(fits)).then(|| Self(text.into()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Id {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text).ok_or_else(|| alloc::format!("`{text}` is not an id"))
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One attempt. What a prompt was made for in few words, so that runs can be listed and found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    pub id: Id,
    /// The run that this one retries or continues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Id>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    pub recipe: String,
    /// UTC, as in `2026-01-31T12:00:00.000000Z`.
    pub started: String,
    /// The project that it belongs to; runs of older versions do not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
}

macro_rules! events {
    ($($variant:ident $kind:literal $meaning:literal,)*) => {
        /// What a record says.
        #[derive(Clone, Debug, PartialEq)]
        #[expect(clippy::large_enum_variant, reason = "an event is made once and written at once")]
        pub enum Event { $(#[doc = $meaning] $variant($variant),)* }

        impl Event {
            /// Every kind, with what a record of it says.
            pub const KINDS: &[(&'static str, &'static str)] = &[$(($kind, $meaning),)*];

            pub const fn kind(&self) -> &'static str {
                match self { $(Self::$variant(_) => $kind,)* }
            }

            /// As JSON: what is hashed and kept.
            pub fn payload(&self) -> Result<String, String> {
                match self { $(Self::$variant(event) => json(event),)* }
            }

            pub fn read(kind: &str, payload: &str) -> Result<Self, String> {
                match kind {
                    $($kind => read(payload).map(Self::$variant),)*
                    kind => Err(alloc::format!("`{kind}` is no kind of record")),
                }
            }
        }
    };
}

events! {
    Composed "composed" "A prompt was composed: what of, and what came out.",
    Delivered "delivered" "The prompt went to the agent, and how far that is known.",
    Output "output" "Lines that the agent printed.",
    Exit "exit" "The run is over.",
    Observed "observed" "What was found afterwards: checks, changed files, violations.",
    Replied "replied" "What the agent says of its work.",
    SubmissionRecord "submitted" "The agent submitted something by a tool, and it was accepted or refused.",
    Decided "decided" "A person or a flow decided something.",
    Removed "removed" "What retention took away.",
    Imported "imported" "The run or flow came from an export of another ledger.",
}

pub(crate) fn json(value: &impl Serialize) -> Result<String, String> {
    serde_json::to_string(value).map_err(|error| error.to_string())
}

fn read<T: DeserializeOwned>(payload: &str) -> Result<T, String> {
    serde_json::from_str(payload).map_err(|error| error.to_string())
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Composed {
    pub run: Run,
    /// [`ENGINE_VERSION`](crate::ENGINE_VERSION) of the engine that composed it.
    pub engine: u32,
    /// With digests in the place of long strings: see [`restore_request`].
    pub request: Value,
    pub snapshot: SnapshotManifest,
    /// The body of a request to this API was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api: Option<ModelApi>,
    pub output: TextAssembly,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<RecordedWarning>,
    /// Which secrets were found, and what became of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secrets: Option<GateReport>,
    /// What was delivered, where the output has seals in the place of values that are marked as secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealed: Option<SealedText>,
    /// How the agent is about to be started; nothing where the prompt was composed only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launch: Option<LaunchRecord>,
    /// Who composed it; prompts of older versions do not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made_by: Option<MadeBy>,
    /// The profile that it was composed for, with its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<Profile>,
}

/// The machine and the user that composed a prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MadeBy {
    pub host: String,
    pub user: String,
}

/// The text that was delivered, known by its keyed hash alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SealedText {
    /// Made for this record, so that equal values look equal nowhere.
    pub key: Digest,
    /// HMAC-SHA-256 of the text.
    pub text: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedWarning {
    pub code: String,
    pub message: String,
}

/// A finished text as a list of parts: put one after the other they are the text, and nothing has to be composed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TextAssembly {
    pub sha256: Digest,
    pub bytes: usize,
    pub format: PromptFormat,
    /// What the parts are taken from.
    pub origins: Vec<OriginNote>,
    pub parts: Vec<AssemblyPart>,
    /// Each section's name and where it stands in the text.
    pub sections: Vec<(String, usize, usize)>,
}

/// An origin of a text. A file's text is found through the snapshot, a long text of another kind by its own digest;
/// of a short one the parts hold all that is needed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OriginNote {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<SourceId>,
    /// What people call it, where it is no source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    pub trust: Trust,
    /// The text, where it is kept by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<Digest>,
    /// How the SHA-256 of the text begins: which version of a file or value it was.
    pub version: String,
}

impl OriginNote {
    pub fn label(&self) -> String {
        match (&self.source, &self.label) {
            (Some(source), _) => source.to_string(),
            (None, label) => label.clone().unwrap_or_default(),
        }
    }
}

/// A part of a finished text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum AssemblyPart {
    /// Separators, tags and notices of the engine.
    Engine(String),
    /// Bytes `start..end` of an origin's text.
    Slice(u32, usize, usize),
    /// The same, written in an encoding.
    Encoded(u32, usize, usize, TextEncoding),
    /// A short text of an origin, as it is written.
    Literal(u32, String),
}

impl AssemblyPart {
    pub const fn origin(&self) -> Option<u32> {
        match self {
            Self::Engine(_) => None,
            Self::Slice(origin, ..) | Self::Encoded(origin, ..) | Self::Literal(origin, _) => Some(*origin),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Delivered {
    pub receipt: DeliveryReceipt,
    /// What shows it. There is no receipt without evidence.
    pub evidence: SharedText,
}

/// What a line of the run's log belongs to. The prompt is `meta`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogStream {
    Meta,
    Stdout,
    Stderr,
}

impl LogStream {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Meta => "meta",
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

/// The most bytes of text that one record of output holds.
pub const OUTPUT_BYTES: usize = 64 << 10;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Output {
    pub stream: LogStream,
    /// The number of the first line in its stream, from 1.
    pub line: u64,
    /// Whole lines, except where the agent stopped in the middle of one.
    pub text: SharedText,
    /// The line was longer than what is kept of it.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub cut: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exit {
    pub ended: EndReason,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// More about it, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// What the agent told of itself: its session, tokens and cost.
    #[serde(default)]
    pub told: AgentReport,
}

impl Exit {
    /// An end of which nothing more is known.
    pub fn of(ended: EndReason, code: Option<i32>) -> Self {
        Self { ended, code, signal: None, why: None, duration_ms: None, told: AgentReport::default() }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Observed {
    /// What git tells of the worktree; nothing where there is no repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktree: Option<fact::WorktreeObservation>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<CheckRun>,
    /// The runs that worked in the same checkout at the same time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shared_with: Vec<String>,
    /// Changed paths that this run may not write and one of those may: nothing shows which of them did.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uncertain: Vec<String>,
    /// The contents of the changed files as git would keep them, by path; nothing for a file that is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contents: Option<ContentIds>,
}

/// What git keeps of files, by path relative to the top of the repository: the mode, a space and the id of the contents. `None`
/// if there is no file. The id alone if no mode is known, as in records of older versions.
pub type ContentIds = BTreeMap<String, Option<String>>;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Replied {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<String>,
    /// The whole reply as it was read.
    pub reply: Value,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubmissionRecord {
    /// The contract that it was judged by.
    pub tool: String,
    /// Of the submission, as JSON.
    pub sha256: String,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub verdict: Value,
    /// Which files were written and removed, and which preferences were new.
    pub done: Value,
    /// Why it was not accepted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<String>,
}

/// Who decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DecidedBy {
    /// A person, in records of older versions.
    Person,
    /// A flow, by its own rules.
    Flow,
    /// A person at a terminal.
    Terminal,
    /// A command line with `--yes`.
    Yes,
    /// A person on a page of the web view.
    Page,
    /// Another program, without a terminal and without `--yes`.
    Api,
}

impl DecidedBy {
    pub const ALL: &[Self] = &[Self::Person, Self::Flow, Self::Terminal, Self::Yes, Self::Page, Self::Api];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Person => "person",
            Self::Flow => "flow",
            Self::Terminal => "terminal",
            Self::Yes => "yes",
            Self::Page => "page",
            Self::Api => "api",
        }
    }

    /// Whether it is a person's decision.
    pub const fn is_person(self) -> bool {
        !matches!(self, Self::Flow)
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decided {
    pub by: DecidedBy,
    /// What was decided about, such as a path or a phase.
    pub what: String,
    pub decision: String,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub detail: Value,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Removed {
    /// The rule that took them.
    pub why: String,
    /// Their records stay as links of the chain; what the records said is gone.
    pub runs: Vec<Id>,
    pub records: u64,
    pub blobs: u64,
    /// What the blobs took on disk.
    pub bytes: u64,
}

/// An import added the records of this run or flow. What they name is data: nothing of it is started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Imported {
    /// The head that the export names.
    pub seq: u64,
    pub chain: Digest,
}
