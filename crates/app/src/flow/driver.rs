//! Drives a flow: the state machine of the core decides, and each decision is in the ledger before it is
//! carried out.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};
use std::sync::{Arc, Mutex};
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

use callsheet_core::diag::Diagnostic;
use callsheet_core::flow::{FlowAction, FlowEvent, FlowState, apply_event};
use callsheet_core::record::{self, DecidedBy, FlowRecord, Id, RunCost};
use callsheet_core::secrets::mask_addresses;
use callsheet_run::{DocumentReader, FingerprintCache};
use callsheet_store::Ledger;

use super::lane_split::SharedPart;
use super::parked::ParkedRuns;
use super::report_lines::ReportedPhase;
use super::{FlowFolder, FlowOptions, RecordedFlow, worktrees};
use crate::diagnostics::mask_diagnostic;
use crate::error::{Error, Result};
use crate::events::EventOutput;
use crate::project::Project;
use crate::project::state::RunDir;
use crate::run::{InterruptFlag, RunProgress, RunStopper};

/// Message from a lane's thread to the deciding thread.
pub(super) enum LaneMessage {
    /// A run is ready. It starts if the answer is `true`.
    Ready { entry: u32, lane: String, run: String, go: SyncSender<bool> },
    /// The lane ended with this event.
    Ended { event: FlowEvent, diagnostics: Vec<Diagnostic> },
    /// The quota of the lane's agent is used up until this time.
    Parked { lane: String, until: String, cost: RunCost },
    /// The lane could not be started, or its results could not be read.
    Failed { lane: String, failure: Error },
}

/// Poll interval for stop requests.
pub(super) const LOOK: Duration = Duration::from_millis(50);

/// Shortest interval between two writes of the session's state file.
const SHOW: Duration = Duration::from_millis(200);

/// Records the events of a flow and performs its actions.
#[derive(Debug)]
pub(super) struct FlowDriver<'a> {
    pub(super) project: &'a Project,
    pub(super) id: Id,
    pub(super) plan: FlowOptions,
    pub(super) state: FlowState,
    pub(super) ledger: Ledger,
    pub(super) folder: FlowFolder,
    pub(super) run_dir: RunDir,
    pub(super) interrupt: InterruptFlag,
    /// Runs of each lane of an entry.
    pub(super) lane_runs: BTreeMap<(u32, String), Vec<Id>>,
    /// Evidence at the end of each lane of an entry.
    pub(super) evidence: BTreeMap<(u32, String), BTreeSet<String>>,
    /// Lanes of all entries whose worktrees were merged.
    merged: BTreeSet<(u32, String)>,
    /// Interrupted runs get the very same prompt again.
    pub(super) same_prompt: bool,
    pub(super) last_event: String,
    pub(super) shown: Option<Instant>,
    pub(super) lanes: Arc<Mutex<BTreeMap<String, Arc<RunProgress>>>>,
    pub(super) fingerprints: Arc<FingerprintCache>,
    pub(super) documents: DocumentReader,
    /// Requested changes by phase that no phase was entered with yet.
    pub(super) changes: Vec<(String, String)>,
    /// The part that the prompts of a phase share, with the entry of the phase.
    pub(super) shared: Option<(u32, Arc<SharedPart>)>,
    /// Nothing can be recorded any more.
    pub(super) lost: bool,
    /// Events are not printed.
    pub(super) silent: bool,
    /// The phase that is reported when it ends.
    pub(super) reported: ReportedPhase,
}

impl<'a> FlowDriver<'a> {
    pub(super) fn new(
        project: &'a Project,
        ledger: Ledger,
        known: RecordedFlow,
        interrupt: InterruptFlag,
    ) -> Result<Self> {
        let folder = FlowFolder::new(project, &known.plan);
        let (mut lane_runs, mut evidence) = (BTreeMap::new(), BTreeMap::new());
        let mut merged = BTreeSet::new();
        for event in &known.events {
            match event {
                FlowEvent::LaneStarted { entry, lane, run } => {
                    add_run(&mut lane_runs, *entry, lane, run);
                }
                FlowEvent::LaneEnded { entry, lane, evidence: found, .. } => {
                    evidence.insert((*entry, lane.clone()), found.clone());
                }
                FlowEvent::Merged { entry, lane, conflicts } if conflicts.is_empty() => {
                    merged.insert((*entry, lane.clone()));
                }
                _ => {}
            }
        }
        Ok(Self {
            project,
            run_dir: RunDir::from_run(&known.id)?,
            id: known.id,
            plan: known.plan,
            state: known.state,
            ledger,
            folder,
            interrupt,
            lane_runs,
            evidence,
            merged,
            same_prompt: false,
            last_event: String::new(),
            shown: None,
            lanes: Arc::default(),
            fingerprints: Arc::default(),
            documents: DocumentReader::default(),
            changes: known.changes,
            shared: None,
            lost: false,
            silent: false,
            reported: ReportedPhase::default(),
        })
    }

    /// Returns the running lanes, for a progress display.
    pub(super) fn lanes(&self) -> Arc<Mutex<BTreeMap<String, Arc<RunProgress>>>> {
        Arc::clone(&self.lanes)
    }

    /// Checks whether nothing can be recorded any more.
    pub(super) fn is_lost(&self) -> bool {
        self.lost
    }

    pub(super) fn state(&self) -> &FlowState {
        &self.state
    }

    /// Records an event and returns the resulting actions.
    pub(super) fn apply_event(&mut self, event: FlowEvent, by: DecidedBy) -> Result<Vec<FlowAction>> {
        let happened = self.record_event(event, by);
        self.lost |= happened.is_err();
        happened
    }

    fn record_event(&mut self, event: FlowEvent, by: DecidedBy) -> Result<Vec<FlowAction>> {
        let record = FlowRecord { by, phase: self.state.phase.clone(), event: event.clone() };
        let seq = self.ledger.append(None, Some(&self.id), &record::Event::FlowRecord(record))?;
        let (state, actions) = apply_event(&self.plan.definition, std::mem::take(&mut self.state), &event);
        self.state = state;
        self.report_phase();
        self.last_event = event.name().to_owned();
        match event {
            FlowEvent::LaneStarted { entry, lane, run } => {
                add_run(&mut self.lane_runs, entry, &lane, &run);
            }
            FlowEvent::Merged { entry, lane, conflicts } if conflicts.is_empty() => {
                self.merged.insert((entry, lane));
            }
            _ => {}
        }
        self.report_event(seq)?;
        Ok(actions)
    }

    /// Reports the events of a record to the observer.
    fn report_event(&mut self, seq: u64) -> Result<()> {
        if self.silent || !self.project.observer.wants_events() {
            return Ok(());
        }
        for record in self.ledger.records_after(seq - 1, 1)? {
            for event in EventOutput::from_record(&record)? {
                self.project.observer.event(&event)?;
            }
        }
        Ok(())
    }

    /// Carries out `actions` and the actions that result from them, until only a person can continue the
    /// flow.
    pub(super) fn drive(&mut self, actions: Vec<FlowAction>) -> Result<()> {
        thread::scope(|scope| {
            let (send, receive) = mpsc::channel();
            let mut running: BTreeMap<String, Arc<RunStopper>> = BTreeMap::new();
            let result = self.run_actions(scope, actions, &send, &receive, &mut running);
            if result.is_err() {
                // No lane may continue without a driver that decides.
                running.values().for_each(|stopper| stopper.stop_by_driver());
            }
            result
        })
    }

    fn run_actions<'scope>(
        &mut self,
        scope: &'scope Scope<'scope, '_>,
        actions: Vec<FlowAction>,
        send: &Sender<LaneMessage>,
        receive: &Receiver<LaneMessage>,
        running: &mut BTreeMap<String, Arc<RunStopper>>,
    ) -> Result<()>
    where
        'a: 'scope,
    {
        let mut queue: VecDeque<FlowAction> = actions.into();
        let mut failures: Vec<String> = Vec::new();
        let mut parked: Option<ParkedRuns> = None;
        let mut stopping = false;
        loop {
            while let Some(action) = queue.pop_front() {
                let done = match action {
                    FlowAction::Run { entry, phase, lane, worktree } => {
                        let stopper = Arc::new(RunStopper::new(&InterruptFlag::default()));
                        running.insert(lane.id.clone(), Arc::clone(&stopper));
                        let job = self.lane_job(entry, &phase, lane, worktree)?;
                        let (project, send) = (self.project, send.clone());
                        scope.spawn(move || job.run(project, &send, &stopper));
                        Ok(Vec::new())
                    }
                    action => self.perform_action(action),
                };
                match done {
                    Ok(more) => queue.extend(more),
                    Err(failure) if self.lost => return Err(failure),
                    Err(failure) => failures.extend(render_failures(&failure)),
                }
            }
            self.try_write_state(running.is_empty());
            if running.is_empty() {
                return self.record_pause(failures, stopping, parked);
            }
            match receive.recv_timeout(LOOK) {
                Ok(LaneMessage::Ready { entry, lane, run, go }) => {
                    // The prompt is composed and contains the documents as they are now.
                    self.check_documents(DecidedBy::Flow)?;
                    let starts = !stopping && self.state.strayed.is_empty();
                    if starts {
                        queue.extend(
                            self.apply_event(FlowEvent::LaneStarted { entry, lane, run }, DecidedBy::Flow)?,
                        );
                    }
                    // A thread that has ended reports its own failure.
                    let _ = go.send(starts);
                }
                Ok(LaneMessage::Ended { event, diagnostics }) => {
                    if let FlowEvent::LaneEnded { lane, .. } = &event {
                        self.report_lane(&event);
                        running.remove(lane);
                        self.remove_lane(lane);
                    }
                    self.project.observer.diagnostics(&diagnostics);
                    // A lane that ended because the flow stops is run again when the flow resumes.
                    if !stopping {
                        self.check_documents(DecidedBy::Flow)?;
                        queue.extend(self.apply_event(event, DecidedBy::Flow)?);
                    }
                }
                Ok(LaneMessage::Parked { lane, until, cost }) => {
                    running.remove(&lane);
                    self.remove_lane(&lane);
                    parked.get_or_insert_default().add(lane, until, cost);
                }
                Ok(LaneMessage::Failed { lane, failure }) => {
                    running.remove(&lane);
                    self.remove_lane(&lane);
                    failures.extend(render_failures(&failure));
                }
                Err(_) => {}
            }
            if !stopping && (self.interrupt.is_set() || self.run_dir.has_stop_request()) {
                stopping = true;
                running.values().for_each(|stopper| stopper.stop_by_driver());
            }
        }
    }

    /// Records that the flow is stopped or that an action failed, after the last lane has ended.
    pub(super) fn record_pause(
        &mut self,
        mut failures: Vec<String>,
        stopping: bool,
        parked: Option<ParkedRuns>,
    ) -> Result<()> {
        if let Some(runs) = parked.as_ref().filter(|_| !failures.is_empty()) {
            failures.push(runs.words());
        }
        if self.state.has_ended() || (failures.is_empty() && !stopping && parked.is_none()) {
            failures.iter().for_each(|why| self.project.observer.status(why));
            return Ok(());
        }
        // Changes so far are the agents'; later ones are a person's.
        self.check_documents(DecidedBy::Flow)?;
        let entry = self.state.entry;
        let (event, by) = match (stopping, parked) {
            (true, _) => (FlowEvent::Stopped, self.project.caller()),
            (false, Some(runs)) if failures.is_empty() => (runs.into_event(entry), DecidedBy::Flow),
            (false, _) => (FlowEvent::Failed { entry, why: failures }, DecidedBy::Flow),
        };
        self.apply_event(event, by)?;
        self.try_write_state(true);
        Ok(())
    }

    pub(super) fn perform_action(&mut self, action: FlowAction) -> Result<Vec<FlowAction>> {
        match action {
            FlowAction::Enter { entry, keep, .. } => return self.enter_phase(entry, keep),
            FlowAction::Merge { entry, lane } => return self.merge_lane(entry, lane),
            // They are written when the phase is entered.
            FlowAction::Write { phase, changes } => self.changes.push((phase, changes)),
            FlowAction::Finish { done } => self.finish_flow(done)?,
            FlowAction::Ignore { why } => self.project.observer.note(&why),
            FlowAction::Run { .. } | FlowAction::Ask { .. } | FlowAction::Stop => {}
        }
        Ok(Vec::new())
    }

    pub(super) fn remove_lane(&self, lane: &str) {
        if let Ok(mut lanes) = self.lanes.lock() {
            lanes.remove(lane);
        }
    }

    fn finish_flow(&mut self, done: bool) -> Result<()> {
        self.try_write_state(true);
        if done && self.plan.definition.archive {
            self.folder.archive()?;
        }
        self.remove_worktrees();
        Ok(())
    }

    /// Removes the worktrees and branches whose work is in the project. A failure leaves them, and the next
    /// flow reports them.
    fn remove_worktrees(&self) {
        for (entry, lane) in &self.merged {
            if let Err(failure) = worktrees::remove_worktree(self.project, &self.id, *entry, lane) {
                self.project.observer.note(&failure.to_string());
            }
        }
    }

    /// Writes the state file if nothing depends on it: a failure is only a note.
    pub(super) fn try_write_state(&mut self, now: bool) {
        if let Err(failure) = self.write_state(now) {
            self.project.observer.note(&failure.to_string());
        }
    }

    /// Writes the session's state file for readers of its folder.
    pub(super) fn write_state(&mut self, now: bool) -> Result<()> {
        let late = self.shown.is_none_or(|shown| shown.elapsed() >= SHOW);
        if self.folder.can_show_state() && (now || late) {
            self.shown = Some(Instant::now());
            self.folder.write_state(&self.plan, &self.state, &self.last_event)?;
        }
        Ok(())
    }
}

/// Renders failures as lines for a person. They are recorded, so they must not contain secrets.
pub(super) fn render_failures(error: &Error) -> Vec<String> {
    let line = |diag: &Diagnostic| {
        let text = mask_addresses(&mask_diagnostic(diag).to_string());
        let parts = text.lines().map(|line| line.trim_start_matches([' ', '=']).trim_end());
        parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ")
    };
    error.diagnostics().iter().map(line).collect()
}

/// Appends a run to those of its lane, so that the latest is last.
fn add_run(runs: &mut BTreeMap<(u32, String), Vec<Id>>, entry: u32, lane: &str, run: &str) {
    let runs = runs.entry((entry, lane.to_owned())).or_default();
    if let Some(run) = Id::parse(run) {
        runs.retain(|known| *known != run);
        runs.push(run);
    }
}
