//! Steps a flow for a caller that runs the agents itself.

use std::collections::{BTreeMap, VecDeque};

use callsheet_core::diag::{Code, Diagnostic};
use callsheet_core::flow::{FlowAction, FlowEvent, FlowState, Lane};
use callsheet_core::record::{DecidedBy, Id};

use super::RecordedFlow;
use super::driver::render_failures;
use super::lane::LaneJob;
use super::lane_outcome::LaneOutcome;
use super::steps::{FlowBegin, OpenFlow, read_flow};
use crate::error::Result;
use crate::project::Project;
use crate::run::{InterruptFlag, PreparedRun};

/// A flow whose agents the caller runs: no agent is started. No other process can drive the flow until the
/// stepper is dropped.
#[derive(Debug)]
pub struct FlowStepper<'p> {
    project: &'p Project,
    open: OpenFlow<'p>,
    queue: VecDeque<FlowAction>,
    /// Lanes that the caller runs, by their runs.
    running: BTreeMap<Id, LaneJob>,
    failures: Vec<String>,
}

/// A lane that the caller runs.
#[derive(Debug)]
pub struct FlowLane {
    /// The phase of the lane.
    pub phase: String,
    /// The id of the lane.
    pub lane: String,
    /// The run with its prompt, for [`PreparedRun::execute_external`].
    pub run: PreparedRun,
}

impl Project {
    /// Starts, resumes or decides a flow and lets the caller run its agents.
    pub fn step_flow(&self, begin: FlowBegin<'_>) -> Result<FlowStepper<'_>> {
        let (open, actions) = OpenFlow::begin(self, begin, false, &InterruptFlag::default())?;
        let (running, failures) = (BTreeMap::new(), Vec::new());
        Ok(FlowStepper { project: self, open, queue: actions.into(), running, failures })
    }
}

impl FlowStepper<'_> {
    /// Returns the state of the flow.
    pub fn state(&self) -> &FlowState {
        self.open.driver.state()
    }

    /// Returns the next lane to run. `None` if running lanes must finish first, a person must decide, or the
    /// flow has ended.
    pub fn next_lane(&mut self) -> Result<Option<FlowLane>> {
        while let Some(action) = self.queue.pop_front() {
            let done = match action {
                FlowAction::Run { entry, phase, lane, worktree } => {
                    match self.begin_lane(entry, &phase, lane, worktree) {
                        Ok(None) => Ok(Vec::new()),
                        Ok(lane) => return Ok(lane),
                        Err(failure) => Err(failure),
                    }
                }
                action => self.open.driver.perform_action(action),
            };
            match done {
                Ok(more) => self.queue.extend(more),
                Err(failure) if self.open.driver.is_lost() => return Err(failure),
                Err(failure) => self.failures.extend(render_failures(&failure)),
            }
        }
        self.open.driver.try_write_state(self.running.is_empty());
        if self.running.is_empty() {
            let failures = std::mem::take(&mut self.failures);
            self.open.driver.record_pause(failures, false, None)?;
        }
        Ok(None)
    }

    /// Judges a lane by the records of its run, which must have ended.
    pub fn finish_lane(&mut self, run: &Id) -> Result<()> {
        let unknown =
            || Diagnostic::error(Code::RunRefused, format!("run {run} is not a running lane of this flow"));
        let job = self.running.get(run).ok_or_else(unknown)?;
        let outcome = job.external_outcome(self.project, run)?;
        let (entry, lane) = (job.state.entry, job.lane.id.clone());
        self.running.remove(run);
        self.end_lane(entry, lane, outcome)
    }

    /// Lets other processes drive the flow, and returns it as it is recorded.
    pub fn close(self) -> Result<RecordedFlow> {
        let (project, id) = (self.project, self.open.id.clone());
        self.open.close();
        read_flow(project, &id)
    }

    fn begin_lane(
        &mut self,
        entry: u32,
        phase: &str,
        lane: Lane,
        worktree: bool,
    ) -> Result<Option<FlowLane>> {
        let job = self.open.driver.lane_job(entry, phase, lane, worktree)?;
        let lane = job.lane.id.clone();
        if let Some(outcome) = job.earlier_outcome(self.project)? {
            self.end_lane(entry, lane, outcome)?;
            return Ok(None);
        }
        let run = job.prepare_external(self.project)?;
        // The prompt is composed and contains the documents as they are now.
        self.open.driver.check_approved()?;
        let started = FlowEvent::LaneStarted { entry, lane: lane.clone(), run: run.id().to_string() };
        let more = self.open.driver.apply_event(started, DecidedBy::Flow)?;
        self.queue.extend(more);
        self.running.insert(run.id().clone(), job);
        Ok(Some(FlowLane { phase: phase.to_owned(), lane, run }))
    }

    fn end_lane(&mut self, entry: u32, lane: String, outcome: LaneOutcome) -> Result<()> {
        self.open.driver.remove_lane(&lane);
        let (event, diagnostics) = outcome.into_event(entry, lane);
        self.project.observer.diagnostics(&diagnostics);
        self.open.driver.check_documents(DecidedBy::Flow)?;
        let more = self.open.driver.apply_event(event, DecidedBy::Flow)?;
        self.queue.extend(more);
        Ok(())
    }
}
