//! Flows: data files that say which phase follows which, and the state machine that runs all of them.
//!
//! Every function takes its arguments in one order: flow, state, phase, lane, its own ones, library, layout.
//!
//! A flow file defines the request, inputs and outputs of every phase, and which evidence leads where.
//! `step` takes a state and an event, and returns the next state and the actions to perform. This module
//! never starts an agent, writes a file or asks a person: the driver of a flow performs the actions. Folding
//! the recorded events again results in the same state.

mod changes;
mod dependencies;
mod documents;
mod evidence;
mod findings;
mod flow_file;
mod graph;
mod judge;
mod lanes;
mod nearest;
mod request;
mod session;
mod state;
mod step;
mod weakening;

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::text::word_enum::word_enum;

pub use changes::add_changes;
pub use documents::{DocumentChanges, DocumentDigests, DocumentFilter, diff_documents};
pub use evidence::{
    Evidence, LaneObservation, collect_evidence, find_plan_errors, find_stale_changelog, needs_changelog,
};
pub use findings::{FindingNumbering, ReviewFinding, format_fixes, has_severe, parse_findings};
pub use flow_file::{EvidenceNeed, find_flow, parse_need, read_flow};
pub use graph::{FlowGraph, GraphEdge, GraphNode, GraphNodeKind, draw_graph, read_graph};
pub use judge::has_submitted;
pub use lanes::{PreparedPhase, prepare_phase};
pub use nearest::{NearestTransition, find_nearest};
pub use request::{archive_folder, build_request, find_outputs, writable_globs};
pub use session::{CONTEXT, SessionLabels, build_session_state, collect_reviews, render_session_context};
pub use state::{
    DriverPresence, FinishedPhase, FlowAction, FlowCondition, FlowDecision, FlowEvent, FlowSettings,
    FlowState, FlowStatus, Lane, LaneDetails, LaneGroup, LaneGroupState, LaneStage, LaneState, ParkedLanes,
    WaitReason,
};
pub use step::{apply_event, fold_events};

/// The contents of `flows/NAME.toml`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", schemars(title = "Flow"))]
pub struct Flow {
    /// The purpose of the flow, in one sentence.
    pub description: String,
    /// The folder of its documents: `.callsheet/FOLDER/ID/`.
    pub folder: FolderKind,
    /// The file in that folder that holds the person's request, if phases read it there.
    #[serde(default)]
    pub request: Option<String>,
    /// The file in that folder that holds the changes that a person wants.
    pub changes: String,
    /// Whether the folder is moved to `.callsheet/FOLDER/archive/` when the flow is done.
    #[serde(default)]
    pub archive: bool,
    /// The phases; the flow begins with the first one.
    pub phase: Vec<Phase>,
}

word_enum! {
    /// The folder of a flow's documents.
    #[derive(Default)]
    FolderKind {
        /// `.callsheet/changes/`.
        #[default]
        Changes "changes",
        /// `.callsheet/sessions/`.
        Sessions "sessions",
    }
}

/// A phase: its request, and the targets of its evidence. All paths are relative to the flow's folder.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// The name of the phase, by which transitions refer to it.
    pub name: String,
    /// The recipe of its prompts.
    pub recipe: String,
    /// The contract of the reply or of the submission.
    #[serde(default)]
    pub contract: Option<String>,
    /// The agent of the phase, unless the person chooses another one.
    #[serde(default)]
    pub agent: Option<String>,
    /// The role of its agents if `ask` names none.
    #[serde(default)]
    pub role: Option<String>,
    /// The request of its first round.
    pub ask: PhaseRequest,
    /// The request for a later round, once there are results to start from.
    #[serde(default)]
    pub again: Option<PhaseRetry>,
    /// Whether the phase is skipped unless the person includes it.
    #[serde(default)]
    pub optional: bool,
    /// Paths and globs of the files that are included as artifacts. They are read before any file is set aside, so that a
    /// phase receives the files that it is about to replace.
    #[serde(default)]
    pub inputs: Vec<String>,
    /// Paths and globs of the files that the phase writes; a path with `{lane}` is written by that lane. Files of an
    /// earlier round are set aside first, so that no file counts because it already exists.
    #[serde(default)]
    pub outputs: Vec<String>,
    /// The file that the answer itself becomes. It is set aside like the outputs.
    #[serde(default)]
    pub report: Option<String>,
    /// Paths and globs of other documents that the phase may change. A document that some phase writes or owns must not
    /// be changed by any other phase.
    #[serde(default)]
    pub owns: Vec<String>,
    /// The findings that the phase answers once they exist.
    #[serde(default)]
    pub findings: Option<FindingFiles>,
    /// The merging of the reviews of several lanes into one, done before another phase is entered.
    #[serde(default)]
    pub collect: Option<ReviewCollection>,
    /// The files that the phase may write.
    #[serde(default)]
    pub writes: WriteAccess,
    /// The available reviewers, if the phase has one lane for each.
    #[serde(default)]
    pub reviewer: Vec<ReviewerSpec>,
    /// The number of times that the phase is entered before a person is asked.
    #[serde(default)]
    pub limit: Option<u32>,
    /// The target if a person accepts the work as it is [default: the target of the first transition].
    #[serde(default)]
    pub approve: Option<String>,
    /// The target if a person wants changes [default: the phase itself].
    #[serde(default)]
    pub changes: Option<String>,
    /// The transitions, from best to worst. A lane takes the first one that it has all evidence for, the phase takes the
    /// transition of its worst lane, and a lane that takes none needs a person.
    pub on: Vec<PhaseTransition>,
}

/// The contents of the request: one of `phase`, `role` and `command`. In texts, `{request}` is replaced by the person's
/// words, `{lane}` by the lane, `{findings}` by the findings that are answered; a topic has `{type}` and `{topic}`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct PhaseRequest {
    /// The phase of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// The role of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// The command of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The task in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// Values of the request. A value with `{lane}` is omitted if one lane represents all.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, String>,
    /// The source of the lanes: one lane for each entry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub each: Option<LaneSource>,
}

/// The request for a later round of a phase.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PhaseRetry {
    /// The file that must exist when the phase is entered.
    pub file: String,
    /// The request, in place of the request of the phase.
    pub ask: PhaseRequest,
    /// The inputs, in place of the inputs of the phase.
    #[serde(default)]
    pub inputs: Option<Vec<String>>,
}

/// Findings of a review. callsheet gives each an id in `file`, and writes the report on each to `fixes`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct FindingFiles {
    /// The file that holds the findings.
    pub file: String,
    /// The YAML file that holds the report on each finding and the changes.
    pub fixes: String,
}

/// The source of the lanes of a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum LaneSource {
    /// The tasks of `tasks.md`, one after the other.
    Tasks,
    /// The sub-plans of the execution plan, group by group.
    Plans,
    /// The reviewers that the execution plan's review strategy requires, all at once.
    Reviewers,
    /// The requested research that is not done, all at once.
    Topics,
}

/// The files that a phase may write besides the flow's folder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum WriteAccess {
    /// No other files.
    #[default]
    Folder,
    /// The files of the project; if a lane owns files, only those.
    Project,
}

/// A reviewer that a review strategy can require.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ReviewerSpec {
    /// The name of the reviewer, which is also the name of its lane.
    pub name: String,
    /// The severities of a review strategy that require this reviewer.
    pub severity: Vec<ReviewSeverity>,
    /// The task of the reviewer in words; otherwise that of the phase.
    #[serde(default)]
    pub instructions: Option<String>,
}

/// The severity of a review strategy: how much depends on the work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum ReviewSeverity {
    /// A small risk.
    Low,
    /// A medium risk.
    #[default]
    Medium,
    /// A high risk.
    High,
}

/// The files that the reviews of several lanes are merged into.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ReviewCollection {
    /// The review of a lane.
    pub from: String,
    /// The file that holds all reviews.
    pub all: String,
    /// The file that holds the failed reviews.
    pub failed: String,
}

/// A target, and the evidence that leads to it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PhaseTransition {
    /// The required evidence; all of it.
    pub needs: Vec<String>,
    /// The target: a phase; `person`, who decides; `done`; or `back`, the phase that led here.
    pub to: String,
}

/// Target of a transition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TransitionTarget<'f> {
    /// The phase with this name.
    Phase(&'f str),
    /// A person, who decides.
    Person,
    /// The end of the flow.
    Done,
    /// The phase that led here.
    Back,
}

impl<'f> TransitionTarget<'f> {
    pub(crate) const RESERVED: [&'static str; 3] = ["person", "done", "back"];

    /// Reads a target: a reserved word, or the name of a phase.
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
    pub fn phase_request(&self, again: bool) -> &PhaseRequest {
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
    pub fn approval_target(&self) -> TransitionTarget<'_> {
        let first = self.on.first().map_or("person", |first| first.to.as_str());
        TransitionTarget::new(self.approve.as_deref().unwrap_or(first))
    }

    /// Returns the phase that follows if a person wants changes.
    pub fn changes_phase(&self) -> &str {
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
