//! Flows.

use callsheet_core::flow::{FlowCondition, FlowGraph, WaitReason};
use callsheet_core::record::{ChecksOutcome, DecidedBy, Id, LackCode, LackReason, RunOutcome};
use callsheet_core::reply::{Outcome, ProblemCode};
use schemars::JsonSchema;
use serde::Serialize;

use super::project::PreferenceOutput;
use super::reply::refusals;
use crate::diagnostics::ReasonOutput;
use crate::flow::explain::ExplainedWait;
use crate::flow::status::{FlowRunView, FlowView};
use crate::project::Project;
use crate::run::next_steps::NextStep;
use crate::session::new_preferences;

/// The status of a flow, with its runs.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct FlowStatusOutput {
    /// The flow.
    #[serde(flatten)]
    pub flow: FlowOutput,
    /// Its runs, in order.
    pub items: Vec<FlowRunOutput>,
}

/// A flow.
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
    /// Whether the cost contains estimates from tokens and a price.
    pub cost_estimated: bool,
    /// The ids of its runs.
    pub runs: Vec<String>,
    /// The commands that a person can type next, the most useful first.
    pub next: Vec<NextStep>,
    /// When it started.
    pub started_at: String,
    /// When its last event was recorded.
    pub last_at: String,
}

/// A run of a flow.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct FlowRunOutput {
    /// The id of the run.
    pub run: String,
    /// The phase.
    pub phase: String,
    /// The round of the phase.
    pub round: u32,
    /// The lane.
    pub lane: String,
    /// The agent.
    pub agent: Option<String>,
    /// The outcome of the run; `null` if its records are gone.
    pub outcome: Option<RunOutcome>,
    /// The result of the agent's reply.
    pub reply: Option<Outcome>,
    /// The result of the checks.
    pub checks: Option<ChecksOutcome>,
    /// The duration in milliseconds.
    pub duration_ms: Option<u64>,
    /// The cost in millionths of a dollar: as reported, else as estimated.
    pub cost_microusd: Option<u64>,
    /// Whether the cost was estimated from tokens and a price.
    pub cost_estimated: bool,
}

impl From<&FlowRunView> for FlowRunOutput {
    fn from(view: &FlowRunView) -> Self {
        let (place, summary) = (&view.place, view.summary.as_ref());
        let exit = summary.and_then(|summary| summary.exit.as_ref());
        let cost = exit.and_then(|exit| exit.cost());
        Self {
            run: place.run.clone(),
            phase: place.phase.clone(),
            round: place.round,
            lane: place.lane.clone(),
            agent: summary.and_then(|summary| summary.run.agent.clone()),
            outcome: summary.map(|summary| summary.outcome()),
            reply: summary.and_then(|summary| summary.reply()).map(|reply| reply.outcome),
            checks: summary.map(|summary| summary.checks_outcome()),
            duration_ms: exit.and_then(|exit| exit.duration_ms),
            cost_microusd: cost.map(|cost| cost.microusd),
            cost_estimated: cost.is_some_and(|cost| cost.is_estimate),
        }
    }
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
    /// The last run of the lane.
    pub run: Option<Id>,
    /// The target of the transition that the lane came nearest to.
    pub to: Option<String>,
    /// The missing evidence, the questions, the reasons of refusal, the paths in conflict, or the lanes without quota.
    pub details: Vec<String>,
    /// Why the evidence is missing.
    pub lacks: Vec<LackOutput>,
    /// When the quota of an agent is available again.
    pub parked_until_at: Option<String>,
}

/// Why a word of evidence is missing.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LackOutput {
    /// The kind of the reason.
    pub code: LackCode,
    /// The reason in words.
    pub message: String,
    /// The word of evidence.
    pub need: String,
    /// The problem of the reply.
    pub problem: Option<ProblemCode>,
    /// The line in the agent's text.
    pub line: Option<usize>,
    /// The path that the reason is about.
    pub path: Option<String>,
    /// The last lines of a failed check.
    pub output: Vec<String>,
}

impl From<&LackReason> for LackOutput {
    fn from(lack: &LackReason) -> Self {
        let LackReason { need, code, message, problem, line, path, output } = lack.clone();
        Self { code, message, need, problem, line, path, output }
    }
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
    /// The quota of an agent is used up.
    Parked,
}

impl From<&ExplainedWait> for WaitReasonOutput {
    fn from(wait: &ExplainedWait) -> Self {
        let mut target = None;
        let (code, lane, details) = match wait.reason.clone() {
            WaitReason::Decision => (WaitWord::Decision, None, Vec::new()),
            WaitReason::Evidence { lane, lacks, to } => {
                target = Some(to);
                (WaitWord::Evidence, Some(lane), lacks)
            }
            WaitReason::Submission { lane, says } => (WaitWord::Submission, Some(lane), says),
            WaitReason::Question { lane, asks } => (WaitWord::Question, Some(lane), asks),
            WaitReason::Conflicts { lane, paths } => (WaitWord::Conflicts, Some(lane), paths),
            WaitReason::Limit { phase } => (WaitWord::Limit, None, vec![phase]),
            WaitReason::Refused { says } => (WaitWord::Refused, None, says),
            WaitReason::Cost => (WaitWord::Cost, None, Vec::new()),
            WaitReason::Documents { paths, .. } => (WaitWord::Documents, None, paths),
            WaitReason::Failed { says } => (WaitWord::Failed, None, says),
            WaitReason::Parked { lanes, .. } => (WaitWord::Parked, lanes.first().cloned(), lanes),
        };
        let (message, run) = (wait.message.clone(), wait.run.clone());
        let lacks = wait.lacks.iter().map(LackOutput::from).collect();
        let parked_until_at = match &wait.reason {
            WaitReason::Parked { until, .. } => Some(until.clone()),
            _ => None,
        };
        Self { code, message, lane, run, to: target, details, lacks, parked_until_at }
    }
}

impl FlowStatusOutput {
    /// Describes a flow with its runs.
    pub fn new(project: &Project, view: &FlowView, runs: &[FlowRunView]) -> Self {
        let items = runs.iter().map(FlowRunOutput::from).collect();
        Self { flow: FlowOutput::new(project, view), items }
    }
}

impl FlowOutput {
    /// Describes a flow.
    pub fn new(project: &Project, view: &FlowView) -> Self {
        let known = &view.known;
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
            driven: view.driven,
            waits_for: view.waits.iter().map(WaitReasonOutput::from).collect(),
            questions: state.questions().iter().map(ToString::to_string).collect(),
            refused: refused.collect(),
            proposed: proposed.map(PreferenceOutput::from).collect(),
            decisions: decisions.collect(),
            cost_microusd: state.cost,
            cost_estimated: state.cost_estimated,
            runs: known.lane_runs.iter().map(|place| place.run.clone()).collect(),
            next: view.next.clone(),
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
    /// The nodes and edges.
    #[serde(flatten)]
    pub graph: FlowGraph,
    /// The diagram in the language of Mermaid.
    pub mermaid: String,
}
