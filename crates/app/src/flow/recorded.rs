//! Reads flows from their records.

use crate::error::Result;

use callsheet_core::diag::{Code, Diagnostic};
use callsheet_core::flow::{FlowAction, FlowEvent, FlowState, FlowStatus, apply_event};
use callsheet_core::record::{DecidedBy, FlowRecord, Id};
use callsheet_store::Ledger;

use super::FlowOptions;
use super::status::decision_word;

/// Flow as the ledger holds it.
#[derive(Debug)]
#[non_exhaustive]
pub struct RecordedFlow {
    /// The id of the flow.
    pub id: Id,
    /// The options of its start.
    pub plan: FlowOptions,
    /// Its events, in order.
    pub events: Vec<FlowEvent>,
    /// The state that results from its events.
    pub state: FlowState,
    /// Time of its start and of its last event.
    pub times: (String, String),
    /// Whether the flow came from an export of another ledger.
    pub imported: bool,
    /// Decisions of persons, with their author and time.
    pub decisions: Vec<(&'static str, DecidedBy, String)>,
    /// Its runs, in order.
    pub lane_runs: Vec<LaneRun>,
    /// Requested changes by phase that no phase was entered with yet.
    pub(super) changes: Vec<(String, String)>,
}

/// A run of a flow, with its place in the flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneRun {
    /// The phase.
    pub phase: String,
    /// The round of the phase.
    pub round: u32,
    /// The lane.
    pub lane: String,
    /// The id of the run.
    pub run: String,
}

impl RecordedFlow {
    /// Reads a flow from its records alone.
    pub fn read(ledger: &mut Ledger, id: &Id) -> Result<Option<Self>> {
        let (mut events, mut times) = (Vec::new(), (String::new(), String::new()));
        let mut imported = false;
        let mut deciders = Vec::new();
        for record in ledger.records_of_flow(id)? {
            imported |= record.kind == "imported";
            let Some(FlowRecord { by, event, .. }) = record.flow_record()? else { continue };
            if let FlowEvent::Decided { .. } = &event {
                deciders.push((by, record.at.clone()));
            }
            events.push(event);
            if times.0.is_empty() {
                times.0.clone_from(&record.at);
            }
            times.1 = record.at;
        }
        let Some(FlowEvent::Started { more, .. }) = events.first() else { return Ok(None) };
        let damaged = |error: serde_json::Error| {
            Diagnostic::error(Code::LedgerDamaged, format!("cannot read flow {id}: {error}"))
        };
        let plan: FlowOptions = serde_json::from_value(more.clone()).map_err(damaged)?;
        let (mut state, mut changes, mut decisions) = (FlowState::default(), Vec::new(), Vec::new());
        let mut lane_runs: Vec<LaneRun> = Vec::new();
        let mut deciders = deciders.into_iter();
        for event in &events {
            if let FlowEvent::Decided { decision } = event
                && let Some((by, at)) = deciders.next()
            {
                decisions.push((decision_word(decision, &state), by, at));
            }
            let (next, actions) = apply_event(&plan.definition, state, event);
            state = next;
            if let FlowEvent::LaneStarted { lane, run, .. } = event
                && !lane_runs.iter().any(|known| known.run == *run)
            {
                let (phase, round) = (state.phase.clone(), state.round());
                lane_runs.push(LaneRun { phase, round, lane: lane.clone(), run: run.clone() });
            }
            if let FlowEvent::Entered { .. } = event {
                changes.clear();
            }
            changes.extend(actions.into_iter().filter_map(|action| match action {
                FlowAction::Write { phase, changes } => Some((phase, changes)),
                _ => None,
            }));
        }
        Ok(Some(Self { id: id.clone(), plan, events, state, times, imported, decisions, lane_runs, changes }))
    }

    /// Creates a flow that is about to start.
    pub fn new(id: Id, plan: FlowOptions) -> Self {
        let (state, times) = (FlowState::default(), Default::default());
        let (events, decisions, lane_runs, changes) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { id, plan, events, state, times, imported: false, decisions, lane_runs, changes }
    }

    /// Returns the folder of its documents, relative to the project.
    pub fn folder(&self) -> String {
        let is_archived = self.plan.definition.archive && self.state.at == FlowStatus::Done;
        if is_archived { self.plan.archive_folder() } else { self.plan.folder() }
    }
}
