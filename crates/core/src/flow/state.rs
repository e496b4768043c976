//! What a flow knows of itself, what can happen to it, and what it wants done.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{DocumentChanges, DocumentDigests, Flow};
use crate::prefs::Preference;

/// What somebody starts a flow with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FlowSettings {
    /// How many lanes run at once; at least one does.
    pub jobs: u32,
    /// The optional phases that are wanted.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub with: BTreeSet<String>,
    /// One coder carries out the whole plan.
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    pub single_coder: bool,
    /// In millionths of a dollar: what may be spent before a person is asked, and how much more each time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_cost: Option<u64>,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case", deny_unknown_fields)]
pub enum FlowEvent {
    Started {
        request: String,
        settings: FlowSettings,
        /// What else whoever drives the flow has to remember. The machine does not look at it.
        #[serde(default, skip_serializing_if = "Value::is_null")]
        more: Value,
    },
    /// A phase was entered: these lanes it has, and these files were set aside.
    Entered {
        entry: u32,
        groups: Vec<LaneGroup>,
        #[serde(default, skip_serializing_if = "core::ops::Not::not")]
        again: bool,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        aside: Vec<String>,
    },
    /// A phase cannot be entered: what it needs is not there or not valid.
    Refused {
        entry: u32,
        why: Vec<String>,
    },
    LaneStarted {
        entry: u32,
        lane: String,
        run: String,
    },
    LaneEnded {
        entry: u32,
        lane: String,
        run: String,
        evidence: BTreeSet<String>,
        /// In millionths of a dollar.
        #[serde(default)]
        cost: u64,
        /// Why what it submitted last was refused.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        refused: Vec<String>,
        /// What only a person can answer.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        questions: Vec<String>,
        /// Preferences that it proposes.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        proposed: Vec<Preference>,
    },
    /// A person approved what lanes did outside of their scope: each is judged again, by this evidence.
    Cleared {
        entry: u32,
        lanes: BTreeMap<String, BTreeSet<String>>,
    },
    /// What a lane did is now part of the whole, unless there are conflicts.
    Merged {
        entry: u32,
        lane: String,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        conflicts: Vec<String>,
    },
    /// Documents of the flow's folder differ from the last look.
    Documents {
        changed: DocumentChanges,
        #[serde(default, skip_serializing_if = "DriverPresence::is_driven")]
        meanwhile: DriverPresence,
    },
    /// Something could not be done. A person is asked, and resuming tries it again.
    Failed {
        entry: u32,
        why: Vec<String>,
    },
    Decided {
        decision: FlowDecision,
    },
    Stopped,
    Resumed,
}

/// What became of the flow since the last look at its documents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DriverPresence {
    /// It was driven, or waited for a person.
    #[default]
    Driven,
    /// Nobody drove it, and none of its agents lived any more when this changed: it was a person.
    LeftAlone,
    /// Nobody drove it, and it is not known whether an agent that was cut changed this, or a person.
    Cut,
}

impl DriverPresence {
    fn is_driven(&self) -> bool {
        *self == Self::Driven
    }
}

/// What a person decided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FlowDecision {
    /// The work counts as it is.
    Approve,
    /// The flow ends here.
    Reject,
    /// What has to be changed.
    Changes(String),
}

/// Lanes that run one after the other, or at once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LaneGroup {
    pub id: String,
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub parallel: bool,
    /// Each lane works in a worktree of its own, and is merged.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub worktrees: bool,
    pub lanes: Vec<Lane>,
}

/// One piece of work of a phase.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lane {
    pub id: String,
    /// What it stands for, where that is more than itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub of: Vec<String>,
    /// Globs of the files that it alone may write; none where that does not matter.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub owned: Vec<String>,
    /// Other names of files that it owns: links lead from one to the other.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<String>,
    /// What its request can name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, String>,
}

impl Lane {
    /// What it stands for, each by itself.
    pub fn covers(&self) -> &[String] {
        if self.of.is_empty() { core::slice::from_ref(&self.id) } else { &self.of }
    }
}

/// Where a flow stands. Folding the events again gives the same.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowState {
    pub at: FlowStatus,
    /// Nothing happens until it is resumed.
    pub stopped: bool,
    /// Why something could not be done. Nothing happens until a person resumes the flow or decides.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<String>,
    pub settings: FlowSettings,
    pub request: String,
    /// The phase it is in, or was in last.
    pub phase: String,
    /// How many times any phase was entered. Its number is the entry's name.
    pub entry: u32,
    /// How many times each phase was entered since a person decided.
    pub rounds: BTreeMap<String, u32>,
    /// How many times each phase was entered at all.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub times: BTreeMap<String, u32>,
    /// Lanes of the last entry whose submission was refused, each with the reasons.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub refused: BTreeMap<String, Vec<String>>,
    /// How many times in a row the phase was entered because of that. It is the same round.
    #[serde(default)]
    pub refusals: u32,
    /// Lanes of this entry that ended with their last submission refused, each with the reasons.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unheard: BTreeMap<String, Vec<String>>,
    /// Lanes of the last entry that have to run again, whatever they left.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub rerun: BTreeSet<String>,
    /// Preferences that agents proposed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub proposed: Vec<Preference>,
    /// The phase that led to this one.
    pub came_from: Option<String>,
    /// The phase goes on from something.
    pub again: bool,
    /// In millionths of a dollar.
    pub cost: u64,
    pub max_cost: Option<u64>,
    pub groups: Vec<LaneGroupState>,
    pub lanes: Vec<LaneState>,
    /// The group that is worked on.
    pub group: usize,
    /// The first lane that was not started yet.
    pub next: usize,
    /// The first lane that is not settled, or waits to be merged.
    pub unsettled: usize,
    /// Whether that lane is being merged.
    pub merging: bool,
    /// Places of the lanes that run, in plan order.
    pub running: Vec<usize>,
    /// Lanes of the last round of this phase that need not run again.
    pub kept: BTreeMap<String, Option<usize>>,
    /// What became of the lanes of phases that were left.
    pub left: BTreeMap<String, FinishedPhase>,
    /// The documents at the last look; none before the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub documents: Option<DocumentDigests>,
    /// Documents that changed and that the phase may not change, each with what was approved.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub strayed: BTreeMap<String, Option<String>>,
    /// It is not known who changed some of them.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub cut: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "at", rename_all = "snake_case")]
pub enum FlowStatus {
    #[default]
    New,
    /// The phase's inputs are being read, and what is stale is being set aside.
    Entering,
    Running,
    /// A person has to decide.
    Waiting {
        why: Vec<WaitReason>,
    },
    Done,
    Rejected,
}

/// Why a person is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "why", rename_all = "snake_case")]
pub enum WaitReason {
    /// The flow says that a person decides here.
    Decision,
    /// Evidence that a lane lacks for the best that could follow.
    Evidence { lane: String, lacks: Vec<String> },
    /// What a lane submitted was refused, time and again.
    Submission { lane: String, says: Vec<String> },
    /// A lane asks what only a person can answer.
    Question { lane: String, asks: Vec<String> },
    /// What a lane did cannot be merged by itself.
    Conflicts { lane: String, paths: Vec<String> },
    /// This phase was entered as often as it may be.
    Limit { phase: String },
    /// The phase cannot be entered.
    Refused { says: Vec<String> },
    /// As much was spent as may be.
    Cost,
    /// Documents were changed that the phase may not change.
    Documents {
        paths: Vec<String>,
        /// They changed while nobody drove the flow, and it is not known by whom.
        #[serde(default, skip_serializing_if = "core::ops::Not::not")]
        cut: bool,
    },
    /// Something could not be done.
    Failed { says: Vec<String> },
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaneGroupState {
    pub id: String,
    pub parallel: bool,
    pub worktrees: bool,
    /// Where its lanes end.
    pub end: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaneState {
    pub lane: Lane,
    pub stage: LaneStage,
    /// Places of the lanes that have to be settled before it starts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<usize>,
    /// All before it have to be.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub alone: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "stage", rename_all = "snake_case")]
pub enum LaneStage {
    Todo,
    Running {
        run: Option<String>,
    },
    /// It took this transition, or a person accepted it, and waits to be merged.
    Unmerged {
        on: Option<usize>,
    },
    Done {
        on: Option<usize>,
    },
    Failed {
        why: WaitReason,
    },
}

/// The lanes of a phase that was left, as numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FinishedPhase {
    pub lanes: usize,
    pub done: Vec<String>,
    pub groups: Vec<String>,
    pub parallel: bool,
}

/// Something that is to be done. Doing it a second time must change nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "snake_case")]
pub enum FlowAction {
    /// Put reviews together, read the phase's lanes, then set aside what is stale: nothing where lanes are kept. Answer with `Entered` or `Refused`.
    Enter {
        entry: u32,
        phase: String,
        round: u32,
        keep: bool,
    },
    /// Set aside what is stale of this lane, and run it. Answer with `LaneStarted` before, and `LaneEnded`.
    Run {
        entry: u32,
        phase: String,
        lane: Lane,
        worktree: bool,
    },
    /// Answer with `Merged`.
    Merge {
        entry: u32,
        lane: String,
    },
    /// Write what a person wants changed, for this phase.
    Write {
        phase: String,
        changes: String,
    },
    Ask {
        phase: String,
        why: Vec<WaitReason>,
    },
    /// End what runs.
    Stop,
    Finish {
        done: bool,
    },
    /// What happened changes nothing.
    Ignore {
        why: String,
    },
}

impl FlowState {
    pub fn round(&self) -> u32 {
        self.round_of(&self.phase)
    }

    /// How many times a phase was entered.
    pub fn round_of(&self, phase: &str) -> u32 {
        self.times.get(phase).copied().unwrap_or_default()
    }

    /// What a person is asked, in the words of the agents.
    pub fn questions(&self) -> Vec<&str> {
        let FlowStatus::Waiting { why } = &self.at else { return Vec::new() };
        let asks = why.iter().filter_map(|why| match why {
            WaitReason::Question { asks, .. } => Some(asks),
            _ => None,
        });
        asks.flatten().map(String::as_str).collect()
    }

    /// Whether the lanes that are worked on have worktrees.
    pub fn worktrees(&self) -> bool {
        self.groups.get(self.group).is_some_and(|group| group.worktrees)
    }

    /// What is remembered of the lanes of this phase once it is left.
    pub(super) fn finished_phase(&self, flow: &Flow) -> Option<FinishedPhase> {
        flow.phase(&self.phase)?.asked(self.again).each?;
        let done = self.lanes.iter().filter(|state| matches!(state.stage, LaneStage::Done { .. }));
        Some(FinishedPhase {
            lanes: self.lanes.len(),
            done: done.map(|state| state.lane.id.clone()).collect(),
            groups: self.groups.iter().map(|group| group.id.clone()).collect(),
            parallel: self.groups.last().is_some_and(|group| group.parallel),
        })
    }

    /// Whether nothing happens before a person says so.
    pub const fn is_paused(&self) -> bool {
        self.stopped || self.is_waiting()
    }

    /// Whether a person has to decide, or to repair something.
    pub const fn is_waiting(&self) -> bool {
        matches!(self.at, FlowStatus::Waiting { .. }) || !self.failed.is_empty()
    }

    /// Why a person is asked.
    pub fn wait_reasons(&self) -> Vec<WaitReason> {
        let failed = (!self.failed.is_empty()).then(|| WaitReason::Failed { says: self.failed.clone() });
        let asked = match &self.at {
            FlowStatus::Waiting { why } => why.as_slice(),
            _ => &[],
        };
        let strayed = self.why_strayed().filter(|_| asked.is_empty());
        failed.into_iter().chain(strayed).chain(asked.iter().cloned()).collect()
    }

    /// Documents that changed and that the phase may not change.
    pub(super) fn why_strayed(&self) -> Option<WaitReason> {
        let paths: Vec<String> = self.strayed.keys().cloned().collect();
        (!paths.is_empty()).then_some(WaitReason::Documents { paths, cut: self.cut })
    }

    /// Whether nothing can happen any more.
    pub const fn has_ended(&self) -> bool {
        matches!(self.at, FlowStatus::Done | FlowStatus::Rejected)
    }

    /// The lanes that run, each with its run.
    pub fn running(&self) -> impl Iterator<Item = (&Lane, Option<&str>)> {
        self.running.iter().filter_map(|at| self.lanes.get(*at)).map(|state| match &state.stage {
            LaneStage::Running { run } => (&state.lane, run.as_deref()),
            _ => (&state.lane, None),
        })
    }
}
