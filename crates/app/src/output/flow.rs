//! Flows.

use callsheet_core::flow::{FlowCondition, WaitReason};
use callsheet_core::record::{DecidedBy, Id};
use schemars::JsonSchema;
use serde::Serialize;

use super::project::PreferenceOutput;
use super::reply::refusals;
use crate::diagnostics::ReasonOutput;
use crate::flow::{RecordedFlow, explain_wait};
use crate::project::Project;
use crate::session::new_preferences;

/// The status of a flow.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct FlowOutput {
    /// The id of the flow.
    pub flow: Id,
    /// Its own name, which is the name of its folder.
    pub name: String,
    /// The name of its definition, such as `sdd`.
    pub definition: String,
    /// Its folder.
    pub folder: String,
    /// The words that it was started with.
    pub request: String,
    /// The condition of the flow.
    pub state: FlowCondition,
    /// The phase that it is in.
    pub phase: String,
    /// The round of the phase.
    pub round: u32,
    /// The lanes that are running.
    pub running: Vec<RunningLaneOutput>,
    /// Whether a process drives it.
    pub driven: bool,
    /// Why it waits for a person.
    pub waits_for: Vec<WaitReasonOutput>,
    /// The questions of its agents.
    pub questions: Vec<String>,
    /// The refused submissions, by lane.
    pub refused: Vec<RefusedLaneOutput>,
    /// Preferences that a person can approve.
    pub proposed: Vec<PreferenceOutput>,
    /// The decisions of persons.
    pub decisions: Vec<FlowDecisionOutput>,
    /// The cost in millionths of a dollar.
    pub cost_microusd: u64,
    /// Its runs.
    pub runs: Vec<String>,
    /// When it started.
    pub started_at: String,
    /// When its last event was recorded.
    pub last_at: String,
}

/// A lane that is running.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct RunningLaneOutput {
    /// The lane.
    pub lane: String,
    /// Its run; `null` before it is started.
    pub run: Option<String>,
}

/// The refused submissions of a lane.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct RefusedLaneOutput {
    /// The lane.
    pub lane: String,
    /// Why they were refused.
    pub reasons: Vec<ReasonOutput>,
}

/// A decision about a flow.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct FlowDecisionOutput {
    /// The decision.
    pub decision: String,
    /// Who decided.
    pub by: DecidedBy,
    /// When.
    pub at: String,
}

/// Why a flow waits for a person.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct WaitReasonOutput {
    /// The kind of the reason.
    pub code: WaitWord,
    /// The reason in words.
    pub message: String,
    /// The lane that it is about.
    pub lane: Option<String>,
    /// The missing evidence, the questions, the reasons of refusal or the paths in conflict.
    pub details: Vec<String>,
}

/// The kind of a reason to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum WaitWord {
    /// The flow requires a decision here.
    Decision,
    /// Evidence is missing.
    Evidence,
    /// Submissions were refused repeatedly.
    Submission,
    /// An agent asks.
    Question,
    /// Work cannot be merged.
    Conflicts,
    /// The phase reached its limit of rounds.
    Limit,
    /// The phase cannot begin.
    Refused,
    /// The cost limit was reached.
    Cost,
    /// Documents changed that must not.
    Documents,
    /// A step failed.
    Failed,
}

impl WaitReasonOutput {
    fn new(reason: &WaitReason, message: String) -> Self {
        let (code, lane, details) = match reason.clone() {
            WaitReason::Decision => (WaitWord::Decision, None, Vec::new()),
            WaitReason::Evidence { lane, lacks } => (WaitWord::Evidence, Some(lane), lacks),
            WaitReason::Submission { lane, says } => (WaitWord::Submission, Some(lane), says),
            WaitReason::Question { lane, asks } => (WaitWord::Question, Some(lane), asks),
            WaitReason::Conflicts { lane, paths } => (WaitWord::Conflicts, Some(lane), paths),
            WaitReason::Limit { phase } => (WaitWord::Limit, None, vec![phase]),
            WaitReason::Refused { says } => (WaitWord::Refused, None, says),
            WaitReason::Cost => (WaitWord::Cost, None, Vec::new()),
            WaitReason::Documents { paths, .. } => (WaitWord::Documents, None, paths),
            WaitReason::Failed { says } => (WaitWord::Failed, None, says),
        };
        Self { code, message, lane, details }
    }
}

impl FlowOutput {
    /// Describes a flow. `driven` says whether a process drives it.
    pub fn new(project: &Project, known: &RecordedFlow, driven: bool) -> Self {
        let state = &known.state;
        let running = state
            .running_lanes()
            .map(|(lane, run)| RunningLaneOutput { lane: lane.id.clone(), run: run.map(str::to_owned) });
        let refused = state
            .refused
            .iter()
            .map(|(lane, says)| RefusedLaneOutput { lane: lane.clone(), reasons: refusals(says) });
        let decisions = known.decisions.iter().map(|(decision, by, at)| FlowDecisionOutput {
            decision: (*decision).to_owned(),
            by: *by,
            at: at.clone(),
        });
        let waits = state.wait_reasons();
        let waits = waits.iter().map(|reason| WaitReasonOutput::new(reason, explain_wait(state, reason)));
        let proposed = new_preferences(project, &state.proposed).into_iter();
        Self {
            flow: known.id.clone(),
            name: known.plan.name.clone(),
            definition: known.plan.flow.clone(),
            folder: known.folder(),
            request: state.request.clone(),
            state: state.condition(),
            phase: state.phase.clone(),
            round: state.round(),
            running: running.collect(),
            driven,
            waits_for: waits.collect(),
            questions: state.questions().iter().map(ToString::to_string).collect(),
            refused: refused.collect(),
            proposed: proposed.map(PreferenceOutput::from).collect(),
            decisions: decisions.collect(),
            cost_microusd: state.cost,
            runs: known.runs().into_iter().map(str::to_owned).collect(),
            started_at: known.times.0.clone(),
            last_at: known.times.1.clone(),
        }
    }
}

/// A flow as a diagram.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct FlowGraphOutput {
    /// The name of its definition.
    pub definition: String,
    /// The flow whose place is marked in the diagram.
    pub flow: Option<Id>,
    /// The diagram in the language of Mermaid.
    pub mermaid: String,
}
