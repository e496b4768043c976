//! Facts: observations of a run, never claims of an agent.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::text::word_enum::word_enum;

/// The observations of an earlier run; the material of a digest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct RunFacts {
    /// The id of the earlier run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// The reason why the run ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<EndReason>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The number of runs of the task so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(max = 4_294_967_295_u32)))]
    pub attempts: Option<u32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<CheckSummary>,
    /// Paths of the files that the run changed, relative to the worktree.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub violations: Vec<Violation>,
    /// Places that were visible before the run, and not after it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unseen: Vec<String>,
    /// The agent's claims about the run. They are kept beside the facts, and no prompt shows them.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<serde_json::Value>"))]
    pub reply: Option<serde_json::Value>,
}

word_enum! {
    /// The reason why a run ended.
    EndReason {
        /// The process could not be started.
        Unstarted "unstarted",
        /// The process ended by itself.
        Exited "exited",
        /// A signal ended the process.
        Signaled "signaled",
        /// The run exceeded its time limit.
        Timeout "timeout",
        /// The run exceeded its cost limit.
        Cost "cost",
        /// A person stopped the run.
        Stopped "stopped",
        /// The agent's quota is used up until a known time.
        Parked "parked",
        /// The agent could not authenticate itself, so callsheet ended it.
        Unauthenticated "unauthenticated",
        /// The end of the run was not observed.
        Lost "lost",
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CheckSummary {
    pub name: String,
    pub result: CheckResult,
    /// The last lines of output of a failed check.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
}

impl CheckSummary {
    /// Summarizes a check that was run. Only a failed check keeps its last lines of output.
    pub fn from_run(check: &CheckRun) -> Self {
        let lines: Vec<&str> = check.output.trim_end().lines().collect();
        let last = lines[lines.len().saturating_sub(OUTPUT_LINES)..].join("\n");
        let output = Some(last).filter(|last| check.result == CheckResult::Failed && !last.trim().is_empty());
        Self { name: check.name.clone(), result: check.result, output }
    }
}

/// The lines of a failed check's output that are enough to show the cause.
const OUTPUT_LINES: usize = 20;

word_enum! {
    CheckResult {
        Passed "passed",
        Failed "failed",
        /// The check was not run, or did not finish. It never counts as a pass.
        Pending "pending",
    }
}

/// A file that a run changed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ChangedFile {
    /// The path, relative to the worktree.
    pub path: String,
    pub change: ChangeKind,
    /// The path before the change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
}

word_enum! {
    ChangeKind {
        Added "added",
        Modified "modified",
        Deleted "deleted",
        Renamed "renamed",
        /// A new file that git does not track.
        Untracked "untracked",
        /// A change of the mode only: executable, or a link.
        Mode "mode",
        Submodule "submodule",
        /// A file that git ignores. It is noted, and violates a scope only if the scope excludes it.
        Ignored "ignored",
        /// A file, setting, flag or reference of the repository itself, such as a hook. A flag of the index is shown as
        /// `.git/index:FLAG:PATH`, contents that exist only in the index as `.git/index:staged:PATH`.
        Repository "repository",
    }
}

/// A configured check: a name, and a command as words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CheckSpec {
    pub name: String,
    /// The program and its arguments. They do not pass through a shell.
    pub argv: Vec<String>,
    /// The time limit in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

/// A check that was run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CheckRun {
    pub name: String,
    pub argv: Vec<String>,
    pub result: CheckResult,
    pub ended: Option<EndReason>,
    pub exit_code: Option<i32>,
    pub duration_ms: u64,
    /// The output of the check; only its end if it is long.
    pub output: String,
}

/// The observations of a worktree before and after a run: its files by their bytes, the commits by git.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct WorktreeObservation {
    pub head_before: Option<String>,
    pub head_after: Option<String>,
    /// Whether there was uncommitted work before the run.
    pub dirty_before: bool,
    pub dirty_after: bool,
    /// The changed files, in byte order of the paths.
    pub changed: Vec<ChangedFile>,
    pub violations: Vec<Violation>,
    /// The places that could not be observed, and the reasons. They may hide changes.
    pub unseen: Vec<UnseenPath>,
    /// References that the run moved, and the new commits there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub commits: Vec<MovedRef>,
    /// Changes made meanwhile in the main checkout of the repository, if the run had a worktree of its own. They are not
    /// violations.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub elsewhere: Vec<ChangedFile>,
}

impl WorktreeObservation {
    /// Returns the places that could be seen before the run, and not after it.
    pub fn newly_unseen(&self) -> impl Iterator<Item = &UnseenPath> {
        self.unseen.iter().filter(|unseen| !unseen.before)
    }
}

/// A place that could not be observed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(from = "UnseenRecord")]
pub struct UnseenPath {
    /// The path, relative to the worktree; `.` is all of it.
    pub path: String,
    pub why: String,
    /// Whether the place was not visible before the run either.
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    pub before: bool,
}

impl UnseenPath {
    /// Creates an entry for a place that could be seen before the run.
    pub fn new(path: impl Into<String>, why: impl Into<String>) -> Self {
        Self { path: path.into(), why: why.into(), before: false }
    }
}

/// An unseen place as recorded. Earlier versions recorded only a sentence.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
enum UnseenRecord {
    Sentence(String),
    Place(UnseenPlace),
}

#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
struct UnseenPlace {
    path: String,
    why: String,
    #[serde(default)]
    before: bool,
}

impl From<UnseenRecord> for UnseenPath {
    fn from(record: UnseenRecord) -> Self {
        match record {
            UnseenRecord::Sentence(why) => Self::new(".", why),
            UnseenRecord::Place(UnseenPlace { path, why, before }) => Self { path, why, before },
        }
    }
}

/// A branch, a tag, the stash or another local reference that the run moved, created or removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct MovedRef {
    /// The full name, such as `refs/heads/main`; `HEAD` if no branch is checked out.
    #[serde(rename = "ref")]
    pub name: String,
    /// The commit before the run; empty if the reference is new.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The commit after the run; empty if the reference is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// The number of new commits: no reference had them before, and no remote has them.
    pub new: u64,
    /// The paths that the new commits touch, relative to the worktree, in byte order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// Whether another worktree has this branch checked out: its new commits are not judged.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub elsewhere: bool,
}

/// A changed file that the scope did not allow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Violation {
    pub path: String,
    pub reason: ViolationReason,
    /// A person's decision about the violation.
    #[serde(default)]
    pub decision: ViolationDecision,
}

word_enum! {
    ViolationReason {
        OutsideWrite "outside_write",
        Excluded "excluded",
        /// The file is a link to a place outside of the worktree, or was reached through such a link.
        LeadsOutside "leads_outside",
    }
}

word_enum! {
    #[derive(Default)]
    ViolationDecision {
        #[default]
        Pending "pending",
        Approved "approved",
        Rejected "rejected",
        /// The person made the change, not the agent.
        Mine "mine",
    }
}

impl ViolationDecision {
    /// Returns the state after a person's decision, which a record names by a verb.
    pub(crate) fn from_word(decision: &str) -> Self {
        match decision {
            "approve" => Self::Approved,
            "reject" => Self::Rejected,
            "mine" => Self::Mine,
            _ => Self::Pending,
        }
    }

    /// Returns whether the change no longer counts against the run.
    pub const fn is_accepted(self) -> bool {
        matches!(self, Self::Approved | Self::Mine)
    }
}
