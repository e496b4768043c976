//! State, events and actions of a flow. The transitions between them are in `step`.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{DocumentChanges, DocumentDigests, Flow};
use crate::library::preferences::Preference;
use crate::text::word_enum::word_enum;

/// Settings that a flow is started with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FlowSettings {
    /// Number of lanes that run at once; at least 1.
    pub jobs: u32,
    /// Optional phases that are included.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub with: BTreeSet<String>,
    /// Whether one coder carries out the whole plan.
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    pub single_coder: bool,
    /// Cost limit in millionths of a dollar. A person is asked when it is reached; each approval grants as
    /// much again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_cost: Option<u64>,
}

/// Event in the life of a flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum FlowEvent {
    /// The flow was started.
    Started {
        /// The person's words.
        request: String,
        /// Settings of the flow.
        settings: FlowSettings,
        /// Other data that the driver needs to keep. The state machine ignores it.
        #[serde(default, skip_serializing_if = "Value::is_null")]
        more: Value,
    },
    /// A phase was entered.
    Entered {
        /// Number of the phase entry.
        entry: u32,
        /// Lanes of the phase.
        groups: Vec<LaneGroup>,
        /// Whether the phase asks its retry request.
        #[serde(default, skip_serializing_if = "core::ops::Not::not")]
        again: bool,
        /// Files that were set aside.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        aside: Vec<String>,
    },
    /// A phase cannot be entered: a file that it needs is missing or invalid.
    Refused {
        /// Number of the phase entry.
        entry: u32,
        /// Reasons.
        why: Vec<String>,
    },
    /// The run of a lane was started.
    LaneStarted {
        /// Number of the phase entry.
        entry: u32,
        /// Id of the lane.
        lane: String,
        /// Id of the run.
        run: String,
    },
    /// The run of a lane ended.
    LaneEnded {
        /// Number of the phase entry.
        entry: u32,
        /// Id of the lane.
        lane: String,
        /// Id of the run.
        run: String,
        /// Evidence of the run.
        evidence: BTreeSet<String>,
        /// Cost in millionths of a dollar.
        #[serde(default)]
        cost: u64,
        /// Whether the cost was estimated from tokens and a price.
        #[serde(default, skip_serializing_if = "core::ops::Not::not")]
        cost_estimated: bool,
        /// Reasons why its last submission was refused.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        refused: Vec<String>,
        /// Questions that only a person can answer.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        questions: Vec<String>,
        /// Preferences that the agent proposes.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        proposed: Vec<Preference>,
        /// Further observations, which explain missing evidence.
        #[serde(default, skip_serializing_if = "LaneDetails::is_empty")]
        details: LaneDetails,
    },
    /// A person approved changes outside the scope of these lanes: each is judged again, by this evidence.
    Cleared {
        /// Number of the phase entry.
        entry: u32,
        /// Lane → evidence.
        lanes: BTreeMap<String, BTreeSet<String>>,
    },
    /// The worktree of a lane was merged, unless there are conflicts.
    Merged {
        /// Number of the phase entry.
        entry: u32,
        /// Id of the lane.
        lane: String,
        /// Paths in conflict.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        conflicts: Vec<String>,
    },
    /// Documents of the flow's folder differ from the last check.
    Documents {
        /// Changed documents.
        changed: DocumentChanges,
        /// State of the driver since the last check.
        #[serde(default, skip_serializing_if = "DriverPresence::is_driven")]
        meanwhile: DriverPresence,
    },
    /// An action failed. A person is asked, and resuming tries the action again.
    Failed {
        /// Number of the phase entry.
        entry: u32,
        /// Reasons.
        why: Vec<String>,
    },
    /// The quota of the agents of these lanes is used up. Resuming runs the lanes again.
    Parked {
        /// Number of the phase entry.
        entry: u32,
        /// Ids of the lanes.
        lanes: Vec<String>,
        /// When the quota is available again, in UTC.
        until: String,
        /// Cost of their runs in millionths of a dollar.
        #[serde(default)]
        cost: u64,
        /// Whether the cost contains estimates.
        #[serde(default, skip_serializing_if = "core::ops::Not::not")]
        cost_estimated: bool,
    },
    /// A person decided.
    Decided {
        /// The decision.
        decision: FlowDecision,
    },
    /// A person stopped the flow.
    Stopped,
    /// A person resumed the flow.
    Resumed,
}

impl FlowEvent {
    /// Returns the name of the event.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Started { .. } => "started",
            Self::Entered { .. } => "entered",
            Self::Refused { .. } => "refused",
            Self::LaneStarted { .. } => "lane_started",
            Self::LaneEnded { .. } => "lane_ended",
            Self::Cleared { .. } => "cleared",
            Self::Merged { .. } => "merged",
            Self::Documents { .. } => "documents",
            Self::Failed { .. } => "failed",
            Self::Parked { .. } => "parked",
            Self::Decided { .. } => "decided",
            Self::Stopped => "stopped",
            Self::Resumed => "resumed",
        }
    }
}

/// Observations at the end of a lane that no record of its run contains.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LaneDetails {
    /// The changelog that the flow should have changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changelog: Option<String>,
    /// Documents of other phases that the lane changed in its worktree.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub strayed: Vec<String>,
}

impl LaneDetails {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// State of the flow's driver since the last check of the documents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DriverPresence {
    /// The flow was driven, or waited for a person.
    #[default]
    Driven,
    /// No process drove the flow, and none of its agents was alive when the documents changed: a person
    /// changed them.
    LeftAlone,
    /// No process drove the flow. Either an interrupted agent or a person changed the documents; it is
    /// unknown which.
    Cut,
}

impl DriverPresence {
    fn is_driven(&self) -> bool {
        *self == Self::Driven
    }
}

/// Decision of a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FlowDecision {
    /// The work counts as it is.
    Approve,
    /// The flow ends here.
    Reject,
    /// The work must change, in the person's words.
    Changes(String),
}

/// Lanes that run one after the other, or in parallel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LaneGroup {
    /// Id of the group.
    pub id: String,
    /// Whether its lanes run in parallel.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub parallel: bool,
    /// Whether each lane works in its own worktree, which is merged afterwards.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub worktrees: bool,
    /// Lanes in the order of the plan.
    pub lanes: Vec<Lane>,
}

/// One piece of work of a phase: a task, a sub-plan, a reviewer or a topic.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lane {
    /// Id, unique in its phase.
    pub id: String,
    /// Ids that the lane covers, if it covers more than its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub of: Vec<String>,
    /// Globs of the files that only this lane may write; empty if ownership does not matter.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub owned: Vec<String>,
    /// Other names of files that it owns, reachable through links.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<String>,
    /// Values for the slots of its request.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, String>,
}

impl Lane {
    /// Returns the ids that the lane covers.
    pub fn covers(&self) -> &[String] {
        if self.of.is_empty() { core::slice::from_ref(&self.id) } else { &self.of }
    }
}

/// State of a flow. Folding the same events results in the same state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowState {
    /// Status.
    pub at: FlowStatus,
    /// Whether the flow was stopped. It does nothing until it is resumed.
    pub stopped: bool,
    /// Reasons why an action failed. The flow does nothing until a person resumes it or decides.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<String>,
    /// Lanes whose agents have no quota left. The flow does nothing until a person resumes it or decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parked: Option<ParkedLanes>,
    /// Settings that the flow was started with.
    pub settings: FlowSettings,
    /// The person's words.
    pub request: String,
    /// Current or last phase.
    pub phase: String,
    /// Number of phase entries so far. The number of the last entry identifies it.
    pub entry: u32,
    /// Number of entries per phase since a person last decided.
    pub rounds: BTreeMap<String, u32>,
    /// Number of entries per phase since the start.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub times: BTreeMap<String, u32>,
    /// Lanes of the previous entry whose submission was refused, each with the reasons.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub refused: BTreeMap<String, Vec<String>>,
    /// Number of consecutive entries that such refusals caused. They belong to one round.
    #[serde(default)]
    pub refusals: u32,
    /// Lanes of this entry that ended with their last submission refused, each with the reasons.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unheard: BTreeMap<String, Vec<String>>,
    /// Lanes of the previous entry that must run again, regardless of the files that they left.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub rerun: BTreeSet<String>,
    /// Preferences that agents proposed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub proposed: Vec<Preference>,
    /// Phase that led to this one.
    pub came_from: Option<String>,
    /// Whether the phase asks its retry request.
    pub again: bool,
    /// Total cost in millionths of a dollar.
    pub cost: u64,
    /// Whether the total cost contains estimates.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub cost_estimated: bool,
    /// Current cost limit in millionths of a dollar.
    pub max_cost: Option<u64>,
    /// Groups of the current phase.
    pub groups: Vec<LaneGroupState>,
    /// Lanes of all groups, in plan order.
    pub lanes: Vec<LaneState>,
    /// Index of the current group.
    pub group: usize,
    /// Index of the first lane that has not started.
    pub next: usize,
    /// Index of the first lane that is not settled or waits to be merged.
    pub unsettled: usize,
    /// Whether that lane is being merged.
    pub merging: bool,
    /// Indexes of the running lanes, in plan order.
    pub running: Vec<usize>,
    /// Lanes of the previous round of this phase that need not run again.
    pub kept: BTreeMap<String, Option<usize>>,
    /// Lanes of the phases that were left.
    pub left: BTreeMap<String, FinishedPhase>,
    /// Documents at the last check; `None` before the first check.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub documents: Option<DocumentDigests>,
    /// Changed documents that the phase may not change, each with its approved digest.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub strayed: BTreeMap<String, Option<String>>,
    /// Whether it is unknown who changed some of them.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub cut: bool,
}

word_enum! {
    /// Condition of a flow as people see it.
    FlowCondition {
        /// No phase has begun.
        New "new",
        /// A phase is in progress.
        Running "running",
        /// A person must decide.
        Waiting "waiting",
        /// A person stopped the flow; it can be resumed.
        Stopped "stopped",
        /// Completed.
        Done "done",
        /// Ended by a person.
        Rejected "rejected",
    }
}

impl FlowState {
    /// Returns the condition of the flow.
    pub fn condition(&self) -> FlowCondition {
        match self.at {
            _ if self.stopped => FlowCondition::Stopped,
            _ if self.is_waiting() => FlowCondition::Waiting,
            FlowStatus::New => FlowCondition::New,
            FlowStatus::Entering | FlowStatus::Running => FlowCondition::Running,
            FlowStatus::Waiting { .. } => FlowCondition::Waiting,
            FlowStatus::Done => FlowCondition::Done,
            FlowStatus::Rejected => FlowCondition::Rejected,
        }
    }
}

/// Status of a flow.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "at", rename_all = "snake_case")]
pub enum FlowStatus {
    #[default]
    /// Not started.
    New,
    /// The inputs of the phase are being read, and stale files are being set aside.
    Entering,
    /// Lanes are running or being merged.
    Running,
    /// A person must decide.
    Waiting {
        /// Reasons.
        why: Vec<WaitReason>,
    },
    /// Completed.
    Done,
    /// Ended by a person.
    Rejected,
}

/// Reason why a person is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "why", rename_all = "snake_case")]
pub enum WaitReason {
    /// The flow requires a person's decision here.
    Decision,
    /// A lane lacks evidence for its nearest transition.
    Evidence {
        /// Id of the lane.
        lane: String,
        /// Words of the missing evidence.
        lacks: Vec<String>,
        /// Target of the transition.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        to: String,
    },
    /// The submissions of a lane were refused repeatedly.
    Submission {
        /// The lane.
        lane: String,
        /// The reasons of the last refusal.
        says: Vec<String>,
    },
    /// A lane asks questions that only a person can answer.
    Question {
        /// The lane.
        lane: String,
        /// The questions.
        asks: Vec<String>,
    },
    /// The work of a lane cannot be merged automatically.
    Conflicts {
        /// The lane.
        lane: String,
        /// The files that conflict.
        paths: Vec<String>,
    },
    /// The phase reached its limit of rounds.
    Limit {
        /// The phase.
        phase: String,
    },
    /// The phase cannot be entered.
    Refused {
        /// The reasons.
        says: Vec<String>,
    },
    /// The cost limit was reached.
    Cost,
    /// Documents changed that the phase may not change.
    Documents {
        /// Paths of the documents.
        paths: Vec<String>,
        /// Whether they changed while no process drove the flow, and it is unknown who changed them.
        #[serde(default, skip_serializing_if = "core::ops::Not::not")]
        cut: bool,
    },
    /// An action failed.
    Failed {
        /// The errors.
        says: Vec<String>,
    },
    /// The quota of the agents of these lanes is used up until a time in UTC.
    Parked {
        /// Ids of the lanes.
        lanes: Vec<String>,
        /// When the quota is available again, in UTC.
        until: String,
    },
}

/// Lanes whose agents have no quota left.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParkedLanes {
    /// Ids of the lanes.
    pub lanes: Vec<String>,
    /// When the quota is available again, in UTC.
    pub until: String,
}

/// State of a lane group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaneGroupState {
    /// Id of the group.
    pub id: String,
    /// Whether its lanes run in parallel.
    pub parallel: bool,
    /// Whether each lane works in its own worktree.
    pub worktrees: bool,
    /// Index behind its last lane.
    pub end: usize,
}

/// Lane with its stage and its dependencies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaneState {
    /// The lane.
    pub lane: Lane,
    /// Its stage.
    pub stage: LaneStage,
    /// Indexes of the lanes that must be settled before it starts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<usize>,
    /// Whether all lanes before it must be settled.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub alone: bool,
}

/// Stage of a lane.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "stage", rename_all = "snake_case")]
pub enum LaneStage {
    /// Not started.
    Todo,
    /// Running.
    Running {
        /// Id of the run, once it is known.
        run: Option<String>,
    },
    /// It took a transition, or a person accepted it, and it waits to be merged.
    Unmerged {
        /// Index of the transition; `None` if a person accepted it.
        on: Option<usize>,
    },
    /// Done.
    Done {
        /// Index of the transition; `None` if a person accepted it.
        on: Option<usize>,
    },
    /// Failed.
    Failed {
        /// Reason.
        why: WaitReason,
    },
}

/// Summary of the lanes of a phase that was left.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FinishedPhase {
    /// Number of lanes.
    pub lanes: usize,
    /// Ids of the lanes that were done.
    pub done: Vec<String>,
    /// Ids of the groups.
    pub groups: Vec<String>,
    /// Whether the last group ran in parallel.
    pub parallel: bool,
}

/// Action for the driver. Performing it a second time must change nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "snake_case")]
pub enum FlowAction {
    /// Collect the reviews, read the phase's lanes, then set stale files aside, or none of them if lanes are
    /// kept. Answer with `Entered` or `Refused`.
    Enter {
        /// Number of the phase entry.
        entry: u32,
        /// Name of the phase.
        phase: String,
        /// Number of the phase's round.
        round: u32,
        /// Whether finished lanes are kept.
        keep: bool,
    },
    /// Set stale files of this lane aside and run it. Answer with `LaneStarted` before the run and with
    /// `LaneEnded` after it.
    Run {
        /// Number of the phase entry.
        entry: u32,
        /// Name of the phase.
        phase: String,
        /// The lane.
        lane: Lane,
        /// Whether it runs in its own worktree.
        worktree: bool,
    },
    /// Merge a lane. Answer with `Merged`.
    Merge {
        /// Number of the phase entry.
        entry: u32,
        /// Id of the lane.
        lane: String,
    },
    /// Write the changes that a person wants from this phase.
    Write {
        /// Name of the phase.
        phase: String,
        /// The person's words.
        changes: String,
    },
    /// Ask a person.
    Ask {
        /// Name of the phase.
        phase: String,
        /// Reasons.
        why: Vec<WaitReason>,
    },
    /// End all runs.
    Stop,
    /// End the flow.
    Finish {
        /// Whether it was completed, not rejected.
        done: bool,
    },
    /// The event changed nothing.
    Ignore {
        /// Reason.
        why: String,
    },
}

impl FlowState {
    /// Returns the number of entries of the current phase since the start.
    pub fn round(&self) -> u32 {
        self.phase_round(&self.phase)
    }

    /// Returns the number of entries of a phase since the start.
    pub fn phase_round(&self, phase: &str) -> u32 {
        self.times.get(phase).copied().unwrap_or_default()
    }

    /// Returns the open questions in the words of the agents.
    pub fn questions(&self) -> Vec<&str> {
        let FlowStatus::Waiting { why } = &self.at else { return Vec::new() };
        let asks = why.iter().filter_map(|why| match why {
            WaitReason::Question { asks, .. } => Some(asks),
            _ => None,
        });
        asks.flatten().map(String::as_str).collect()
    }

    /// Checks whether the lanes of the current group have worktrees.
    pub fn has_worktrees(&self) -> bool {
        self.groups.get(self.group).is_some_and(|group| group.worktrees)
    }

    /// Summarizes the lanes of this phase, for the time after it is left.
    pub(super) fn summarize_phase(&self, flow: &Flow) -> Option<FinishedPhase> {
        flow.phase(&self.phase)?.phase_request(self.again).each?;
        let done = self.lanes.iter().filter(|state| matches!(state.stage, LaneStage::Done { .. }));
        Some(FinishedPhase {
            lanes: self.lanes.len(),
            done: done.map(|state| state.lane.id.clone()).collect(),
            groups: self.groups.iter().map(|group| group.id.clone()).collect(),
            parallel: self.groups.last().is_some_and(|group| group.parallel),
        })
    }

    /// Checks whether the flow does nothing until a person acts.
    pub const fn is_paused(&self) -> bool {
        self.stopped || self.is_waiting()
    }

    /// Checks whether a person must decide or repair something.
    pub const fn is_waiting(&self) -> bool {
        matches!(self.at, FlowStatus::Waiting { .. }) || !self.failed.is_empty() || self.parked.is_some()
    }

    /// Returns the reasons why a person is asked.
    pub fn wait_reasons(&self) -> Vec<WaitReason> {
        let failed = (!self.failed.is_empty()).then(|| WaitReason::Failed { says: self.failed.clone() });
        let asked = match &self.at {
            FlowStatus::Waiting { why } => why.as_slice(),
            _ => &[],
        };
        let strayed = self.stray_reason().filter(|_| asked.is_empty());
        let parked =
            self.parked.clone().map(|ParkedLanes { lanes, until }| WaitReason::Parked { lanes, until });
        failed.into_iter().chain(parked).chain(strayed).chain(asked.iter().cloned()).collect()
    }

    /// Returns the wait reason for changed documents that the phase may not change.
    pub(super) fn stray_reason(&self) -> Option<WaitReason> {
        let paths: Vec<String> = self.strayed.keys().cloned().collect();
        (!paths.is_empty()).then_some(WaitReason::Documents { paths, cut: self.cut })
    }

    /// Checks whether the flow is done or rejected.
    pub const fn has_ended(&self) -> bool {
        matches!(self.at, FlowStatus::Done | FlowStatus::Rejected)
    }

    /// Returns the running lanes, each with its run.
    pub fn running_lanes(&self) -> impl Iterator<Item = (&Lane, Option<&str>)> {
        self.running.iter().filter_map(|at| self.lanes.get(*at)).map(|state| match &state.stage {
            LaneStage::Running { run } => (&state.lane, run.as_deref()),
            _ => (&state.lane, None),
        })
    }
}
