//! Flows: data files that say which phase follows which, and the state machine that runs all of them.
//!
//! A flow file defines the request, inputs and outputs of every phase, and which evidence leads where.
//! [`step`] takes a state and an event, and returns the next state and the actions to perform. This module
//! never starts an agent, writes a file or asks a person: the driver of a flow performs the actions. Folding
//! the recorded events again results in the same state.

mod changes;
mod disjoint;
mod documents;
mod evidence;
mod findings;
mod graph;
mod judge;
mod lanes;
mod read;
mod request;
mod session;
mod state;
mod step;
mod weaker;

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use changes::add_changes;
pub use documents::{DocumentChanges, DocumentDigests, DocumentFilter, document_changes};
pub use evidence::{Evidence, LaneObservation, evidence, needs_changelog, plan_errors};
pub use findings::{FindingNumbering, ReviewFinding, findings, format_fixes, has_severe};
pub use graph::graph;
pub use judge::has_submitted;
pub use lanes::{PreparedPhase, prepare};
pub use read::{EvidenceNeed, find_flow, need, read_flow};
pub use request::{aside, existing_outputs, request, writable_globs};
pub use session::{CONTEXT, SessionLabels, collect, session_context, session_state};
pub use state::{
    DriverPresence, FinishedPhase, FlowAction, FlowDecision, FlowEvent, FlowSettings, FlowState, FlowStatus,
    Lane, LaneGroup, LaneGroupState, LaneStage, LaneState, WaitReason,
};
pub use step::{fold, step};

/// The contents of `flows/NAME.toml`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Flow")]
pub struct Flow {
    pub description: String,
    /// Where its documents are: `.callsheet/FOLDER/ID/`.
    pub folder: FolderKind,
    /// The file of that folder which holds what a person asks for, where phases read it there.
    #[serde(default)]
    pub request: Option<String>,
    /// The file of that folder which holds what a person wants changed.
    pub changes: String,
    /// Whether the folder is moved to `.callsheet/FOLDER/archive/` when the flow is done.
    #[serde(default)]
    pub archive: bool,
    /// The first one comes first.
    pub phase: Vec<Phase>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FolderKind {
    #[default]
    Changes,
    Sessions,
}

impl FolderKind {
    /// Returns the name of the folder inside `.callsheet/`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Changes => "changes",
            Self::Sessions => "sessions",
        }
    }
}

/// A phase: what is asked, and where its evidence leads. All paths are relative to the flow's folder.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    pub name: String,
    pub recipe: String,
    /// What a reply must contain, or what is handed in.
    #[serde(default)]
    pub contract: Option<String>,
    /// Who is asked unless somebody says otherwise.
    #[serde(default)]
    pub agent: Option<String>,
    /// The role that its agents are told to have where `ask` names none.
    #[serde(default)]
    pub role: Option<String>,
    pub ask: PhaseRequest,
    /// What is asked once there is something to go on from.
    #[serde(default)]
    pub again: Option<PhaseRetry>,
    /// It is left out unless somebody wants it.
    #[serde(default)]
    pub optional: bool,
    /// Paths and globs of the files that travel as artifacts. They are read before anything is set aside, so that a
    /// phase is given what it is about to replace.
    #[serde(default)]
    pub inputs: Vec<String>,
    /// Paths and globs of the files that the phase writes; what names `{lane}` is written by that lane. Those of an
    /// earlier round are set aside first, so that nothing counts because it happens to be there.
    #[serde(default)]
    pub outputs: Vec<String>,
    /// The file that the answer itself becomes. It is set aside as outputs are.
    #[serde(default)]
    pub report: Option<String>,
    /// Paths and globs of other documents that the phase may change. A document that some phase writes or owns is
    /// changed by no other.
    #[serde(default)]
    pub owns: Vec<String>,
    /// The findings that it answers once they are there.
    #[serde(default)]
    pub findings: Option<FindingFiles>,
    /// How reviews of several lanes become one, by the time that another phase is entered.
    #[serde(default)]
    pub collect: Option<ReviewCollection>,
    /// What may be written.
    #[serde(default)]
    pub writes: WriteAccess,
    /// The reviewers that there are, where the phase has one lane for each.
    #[serde(default)]
    pub reviewer: Vec<ReviewerSpec>,
    /// How many times it is entered before a person is asked.
    #[serde(default)]
    pub limit: Option<u32>,
    /// Where it goes on when a person accepts the work as it is [default: where the first transition leads].
    #[serde(default)]
    pub approve: Option<String>,
    /// Where it goes on when a person wants something changed [default: the phase itself].
    #[serde(default)]
    pub changes: Option<String>,
    /// From the best to the worst. A lane takes the first that it has all evidence for, the phase goes where its worst
    /// lane leads, and a lane that takes none needs a person.
    pub on: Vec<PhaseTransition>,
}

/// What fills the request: one of `phase`, `role` and `command`. In texts `{request}` stands for the person's words,
/// `{lane}` for the lane, `{findings}` for the findings that are answered, and a topic has `{type}` and `{topic}`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PhaseRequest {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// Values of the request. One that names `{lane}` is left out where one lane stands for all.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, String>,
    /// One lane for each of these.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub each: Option<LaneSource>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PhaseRetry {
    /// The file that has to be there when the phase is entered.
    pub file: String,
    pub ask: PhaseRequest,
    /// Instead of those of the phase.
    #[serde(default)]
    pub inputs: Option<Vec<String>>,
}

/// Findings of a review. callsheet gives each an id in `file`, and writes what was reported on each to `fixes`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FindingFiles {
    /// The file that they stand in.
    pub file: String,
    /// The file, in YAML, that says of each what was reported, and what changed.
    pub fixes: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LaneSource {
    /// The tasks of `tasks.md`, one after the other.
    Tasks,
    /// The sub-plans of the execution plan, group by group.
    Plans,
    /// The reviewers that the execution plan's review strategy calls for, at once.
    Reviewers,
    /// The research that was asked for and is not done, at once.
    Topics,
}

/// What a phase may write besides the flow's folder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WriteAccess {
    /// Nothing.
    #[default]
    Folder,
    /// The project: where a lane owns files, those.
    Project,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReviewerSpec {
    pub name: String,
    /// The severities of a review strategy that call for it.
    pub severity: Vec<ReviewSeverity>,
    #[serde(default)]
    pub instructions: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ReviewSeverity {
    Low,
    #[default]
    Medium,
    High,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReviewCollection {
    /// The review of a lane.
    pub from: String,
    /// The file that holds all of them.
    pub all: String,
    /// The file that holds those that failed.
    pub failed: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PhaseTransition {
    /// All of this evidence.
    pub needs: Vec<String>,
    /// A phase; `person` who decides, `done`, or `back` to the phase that led here.
    pub to: String,
}

/// Target of a transition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TransitionTarget<'f> {
    Phase(&'f str),
    Person,
    Done,
    Back,
}

impl<'f> TransitionTarget<'f> {
    pub(crate) const RESERVED: [&'static str; 3] = ["person", "done", "back"];

    pub fn new(name: &'f str) -> Self {
        match name {
            "person" => Self::Person,
            "done" => Self::Done,
            "back" => Self::Back,
            name => Self::Phase(name),
        }
    }
}

impl Flow {
    /// Returns the phase with this name.
    pub fn phase(&self, name: &str) -> Option<&Phase> {
        self.phase.iter().find(|phase| phase.name == name)
    }

    /// Checks whether the file holds findings that a phase answers.
    pub fn holds_findings(&self, file: &str) -> bool {
        self.phase.iter().filter_map(|phase| phase.findings.as_ref()).any(|findings| findings.file == file)
    }
}

impl Phase {
    /// Returns the request: the one for a retry if `again` is set and the phase has one, else the first one.
    pub fn asked(&self, again: bool) -> &PhaseRequest {
        match &self.again {
            Some(instead) if again => &instead.ask,
            _ => &self.ask,
        }
    }

    /// Returns the paths and globs of the files that travel as artifacts.
    pub fn inputs(&self, again: bool) -> &[String] {
        let instead = self.again.as_ref().filter(|_| again).and_then(|again| again.inputs.as_ref());
        instead.unwrap_or(&self.inputs)
    }

    /// Returns the paths and globs of the files that are set aside when the phase is entered.
    pub fn stale_files(&self) -> impl Iterator<Item = &str> {
        let outputs = self.outputs.iter().chain(&self.report).map(String::as_str);
        outputs.filter(|path| !path.contains("{lane}"))
    }

    /// Returns the files that are set aside when a lane is run. They exist if the lane was started before and
    /// did not end.
    pub fn stale_lane_files(&self, lane: &Lane) -> Vec<String> {
        let is_its_own = |path: &&String| self.ask.each.is_none() || path.contains("{lane}");
        let outputs = self.outputs.iter().chain(&self.report).filter(is_its_own);
        let filled = outputs.flat_map(|path| lane.covers().iter().map(|id| path.replace("{lane}", id)));
        filled.collect()
    }

    /// Returns the target if a person accepts the work as it is.
    pub fn approved(&self) -> TransitionTarget<'_> {
        let first = self.on.first().map_or("person", |first| first.to.as_str());
        TransitionTarget::new(self.approve.as_deref().unwrap_or(first))
    }

    /// Returns the phase that follows if a person wants changes.
    pub fn changed(&self) -> &str {
        self.changes.as_deref().unwrap_or(&self.name)
    }

    pub(crate) fn has_back_transition(&self) -> bool {
        self.on.iter().any(|on| TransitionTarget::new(&on.to) == TransitionTarget::Back)
    }
}

impl PhaseRequest {
    /// Fills the slots of a text. Returns `None` if a slot has no value.
    pub fn fill(text: &str, request: &str, lane: &Lane) -> Option<String> {
        let mut filled = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            let (name, after) = after.split_once('}')?;
            filled.push_str(before);
            filled.push_str(match name {
                "request" => request,
                "lane" if lane.of.is_empty() => &lane.id,
                name => lane.values.get(name)?,
            });
            rest = after;
        }
        filled.push_str(rest);
        Some(filled)
    }
}
