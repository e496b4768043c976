//! Drives a flow: the state machine of the core decides, and each decision is in the ledger before it is
//! carried out.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};
use std::sync::{Arc, Mutex};
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

use callsheet_core::Library;
use callsheet_core::diag::{Code, Diagnostic};
use callsheet_core::flow::{
    DocumentChanges, DocumentFilter, DriverPresence, FlowAction, FlowDecision, FlowEvent, FlowState,
    FlowStatus, Lane, WaitReason, apply_event, collect_reviews, diff_documents, needs_changelog,
    prepare_phase,
};
use callsheet_core::record::{self, DecidedBy, FlowRecord, Id};
use callsheet_core::secrets::mask_addresses;
use callsheet_run::{DocumentReader, FingerprintCache, Git, find_shared_names};
use callsheet_store::Ledger;
use serde_json::{Value, json};

use crate::diagnostics::mask_diagnostic;
use crate::error::{Error, Result};
use crate::project::Project;
use crate::project::person::refuse_below_guard;
use crate::project::state::RunDir;
use crate::run::{InterruptFlag, RunProgress, RunStopper, is_pane_alive};

use super::lane::LaneJob;
use super::{FlowFolder, FlowOptions, RecordedFlow, worktrees};

/// Message from a lane's thread to the deciding thread.
pub(super) enum LaneMessage {
    /// A run is ready. It starts if the answer is `true`.
    Ready { entry: u32, lane: String, run: String, go: SyncSender<bool> },
    /// The lane ended with this event.
    Ended { event: FlowEvent, diagnostics: Vec<Diagnostic> },
    /// The lane could not be started, or its results could not be read.
    Failed { lane: String, failure: Error },
}

/// Poll interval for stop requests.
const LOOK: Duration = Duration::from_millis(50);
/// How long a temporary file may take to replace its document. A file that stays is judged like any other.
const SETTLES: Duration = Duration::from_secs(1);
/// Shortest interval between two writes of the session's state file.
const SHOW: Duration = Duration::from_millis(200);

/// Records the events of a flow and performs its actions.
#[derive(Debug)]
pub(super) struct FlowDriver<'a> {
    project: &'a Project,
    id: Id,
    plan: FlowOptions,
    state: FlowState,
    ledger: Ledger,
    folder: FlowFolder,
    run_dir: RunDir,
    interrupt: InterruptFlag,
    /// Runs of each lane of an entry.
    lane_runs: BTreeMap<(u32, String), Vec<Id>>,
    /// Evidence at the end of each lane of an entry.
    evidence: BTreeMap<(u32, String), BTreeSet<String>>,
    /// Interrupted runs get the very same prompt again.
    same_prompt: bool,
    last_event: String,
    shown: Option<Instant>,
    lanes: Arc<Mutex<BTreeMap<String, Arc<RunProgress>>>>,
    fingerprints: Arc<FingerprintCache>,
    documents: DocumentReader,
    /// Requested changes by phase that no phase was entered with yet.
    changes: Vec<(String, String)>,
    /// Nothing can be recorded any more.
    lost: bool,
    /// Events are not printed.
    silent: bool,
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
        for event in &known.events {
            match event {
                FlowEvent::LaneStarted { entry, lane, run } => {
                    add_run(&mut lane_runs, *entry, lane, run);
                }
                FlowEvent::LaneEnded { entry, lane, evidence: found, .. } => {
                    evidence.insert((*entry, lane.clone()), found.clone());
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
            same_prompt: false,
            last_event: String::new(),
            shown: None,
            lanes: Arc::default(),
            fingerprints: Arc::default(),
            documents: DocumentReader::default(),
            changes: known.changes,
            lost: false,
            silent: false,
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
        let detail = json!(event);
        let record = FlowRecord { by, phase: self.state.phase.clone(), event: event.clone() };
        let seq = self.ledger.append(None, Some(&self.id), &record::Event::FlowRecord(record))?;
        let (state, actions) = apply_event(&self.plan.definition, std::mem::take(&mut self.state), &event);
        self.state = state;
        if let FlowEvent::LaneStarted { entry, lane, run } = event {
            add_run(&mut self.lane_runs, entry, &lane, &run);
        }
        self.last_event = detail["event"].as_str().unwrap_or_default().to_owned();
        self.report_event(seq, detail)?;
        Ok(actions)
    }

    /// Reports an event to the observer.
    fn report_event(&self, seq: u64, mut event: Value) -> Result<()> {
        if !self.silent {
            // The start options are in the ledger; here they would hide the rest.
            if let Some(event) = event.as_object_mut() {
                event.remove("more");
            }
            let line = json!({ "seq": seq, "flow": self.id, "phase": self.state.phase, "event": event["event"], "data": event });
            self.project.observer.flow_event(&line)?;
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
                return self.record_pause(failures, stopping);
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
    pub(super) fn record_pause(&mut self, failures: Vec<String>, stopping: bool) -> Result<()> {
        if self.state.has_ended() || (failures.is_empty() && !stopping) {
            failures.iter().for_each(|why| self.project.observer.status(why));
            return Ok(());
        }
        // Changes so far are the agents'; later ones are a person's.
        self.check_documents(DecidedBy::Flow)?;
        let entry = self.state.entry;
        let (event, by) = match stopping {
            true => (FlowEvent::Stopped, self.project.caller()),
            false => (FlowEvent::Failed { entry, why: failures }, DecidedBy::Flow),
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

    /// Records the differences since the last look at the documents.
    pub(super) fn check_documents(&mut self, by: DecidedBy) -> Result<()> {
        let changed = self.changed_documents();
        self.record_document_changes(changed, DriverPresence::Driven, by)
    }

    /// Fails if documents differ from the approved ones.
    pub(super) fn check_approved(&mut self) -> Result<()> {
        self.check_documents(DecidedBy::Flow)?;
        if self.state.strayed.is_empty() { Ok(()) } else { Err(strayed_error(&self.state)) }
    }

    fn changed_documents(&mut self) -> DocumentChanges {
        let filter = DocumentFilter::new(&self.plan.definition, self.state.entry);
        let begun = Instant::now();
        loop {
            let now = self.documents.read(&self.folder.path, &|path| filter.is_document(path));
            let changed = diff_documents(self.state.documents.as_ref().unwrap_or(&BTreeMap::new()), &now);
            // A lane that ends writes its outputs: such a temporary file is about to replace a document.
            let is_coming = |path: &String| {
                let name = path.rsplit('/').next().unwrap_or_default();
                name.starts_with('.') && name.ends_with(".new")
            };
            if !changed.keys().any(is_coming) || begun.elapsed() > SETTLES {
                return changed;
            }
            thread::sleep(LOOK);
        }
    }

    fn record_document_changes(
        &mut self,
        changed: DocumentChanges,
        meanwhile: DriverPresence,
        by: DecidedBy,
    ) -> Result<()> {
        if self.state.documents.is_none() || !changed.is_empty() {
            self.apply_event(FlowEvent::Documents { changed, meanwhile }, by)?;
        }
        Ok(())
    }

    /// Records the document changes since the flow was last driven. Changes that the agents' guards saw after
    /// the last process of their agents ended are the agents'; later ones are a person's. If a guard saw
    /// nothing, the author is unknown.
    fn record_unattended_changes(&mut self) -> Result<()> {
        let mut looks = Vec::new();
        for run in self.state.running_lanes().filter_map(|(_, run)| Id::parse(run?)) {
            let run_dir = RunDir::from_run(&run)?;
            if run_dir.pane().as_ref().is_some_and(is_pane_alive) {
                // The agent continues in its terminal: the flow was not left alone.
                return Ok(());
            }
            looks.push(run_dir.last_documents(&run));
        }
        let changed = self.changed_documents();
        let Some(looks) = looks.into_iter().collect::<Option<Vec<_>>>() else {
            return self.record_document_changes(changed, DriverPresence::Cut, DecidedBy::Flow);
        };
        let was_seen =
            |path: &String, what: &Option<String>| looks.iter().any(|seen| seen.get(path) == what.as_ref());
        let (agents, persons) = changed.into_iter().partition(|(path, what)| was_seen(path, what));
        self.record_document_changes(agents, DriverPresence::Driven, DecidedBy::Flow)?;
        self.record_document_changes(persons, DriverPresence::LeftAlone, self.project.caller())
    }

    pub(super) fn remove_lane(&self, lane: &str) {
        if let Ok(mut lanes) = self.lanes.lock() {
            lanes.remove(lane);
        }
    }

    /// Determines the lanes of the phase and archives the files of an earlier round.
    fn enter_phase(&mut self, entry: u32, keep: bool) -> Result<Vec<FlowAction>> {
        self.folder.create(self.project)?;
        for (phase, words) in &self.changes {
            self.folder.note_changes(&self.plan.definition, phase, words)?;
        }
        let disk = self.project.disk(Some(self.folder.path.clone()));
        let library = Library::new(&disk);
        let layout = self.project.config.layout();
        let mut files = collect_reviews(&self.plan.definition, &self.state, &library)?;
        if let Some(file) =
            self.plan.definition.request.as_ref().filter(|file| !self.folder.path.join(file).exists())
        {
            files.insert(file.clone(), format!("{}\n", self.state.request.trim_end()));
        }
        files.extend(self.folder.context_file()?);
        self.folder.write(&files)?;
        self.check_approved()?;
        // The files just written are not in the earlier listing.
        let disk = self.project.disk(Some(self.folder.path.clone()));
        let library = Library::new(&disk);
        let shared = || find_shared_names(&self.project.dir);
        let prepared = prepare_phase(&self.plan.definition, &self.state, &shared, &library, &layout)?;
        if prepared.groups.iter().all(|group| group.lanes.is_empty()) {
            return Err(Diagnostic::error(Code::FlowRefused, "there is nothing to do").into());
        }
        let phase = self.plan.definition.phase(&self.state.phase);
        let mut stale: Vec<String> = match phase {
            Some(phase) if !keep => phase.stale_files().map(str::to_owned).collect(),
            _ => Vec::new(),
        };
        // Refused files are archived together with the reasons.
        let lanes = prepared.groups.iter().flat_map(|group| &group.lanes);
        let refused = lanes.filter(|lane| self.state.refused.contains_key(&lane.id));
        stale.extend(
            phase.iter().flat_map(|phase| refused.clone().flat_map(|lane| phase.stale_lane_files(lane))),
        );
        let aside = self.folder.archive_files(&stale, &callsheet_core::flow::archive_folder(entry))?;
        let mut groups = prepared.groups;
        if !Git::open(&self.project.dir).is_ok_and(|git| git.is_some_and(|git| git.head().is_ok())) {
            // Worktrees need git; lanes that own different files can share one checkout.
            groups.iter_mut().for_each(|group| group.worktrees = false);
        }
        self.check_documents(DecidedBy::Flow)?;
        let actions = self.apply_event(
            FlowEvent::Entered { entry, groups, again: prepared.again, aside },
            DecidedBy::Flow,
        )?;
        self.changes.clear();
        // Prompts mention the round that the state file shows.
        self.write_state(true)?;
        Ok(actions)
    }

    pub(super) fn lane_job(&self, entry: u32, phase: &str, lane: Lane, worktree: bool) -> Result<LaneJob> {
        let phase = self.plan.definition.phase(phase).cloned();
        let phase = phase.ok_or_else(|| Diagnostic::error(Code::FlowBad, "the flow has no such phase"))?;
        let progress = Arc::new(RunProgress::new(format!("{} {}", phase.name, lane.id)));
        if let Ok(mut lanes) = self.lanes.lock() {
            lanes.insert(lane.id.clone(), Arc::clone(&progress));
        }
        let spent = self.state.cost;
        let left = self.state.max_cost.map(|most| most.saturating_sub(spent) as f64 / 1e6);
        Ok(LaneJob {
            flow: self.id.clone(),
            before: self.lane_runs.get(&(entry, lane.id.clone())).cloned().unwrap_or_default(),
            flow_runs: if needs_changelog(&phase) {
                self.lane_runs.values().flatten().cloned().collect()
            } else {
                Vec::new()
            },
            // Only the inputs of a request: the lanes of a large phase are not copied for each lane.
            state: FlowState {
                request: self.state.request.clone(),
                phase: self.state.phase.clone(),
                times: self.state.times.clone(),
                refused: self.state.refused.clone(),
                again: self.state.again,
                entry,
                ..FlowState::default()
            },
            same_prompt: self.same_prompt,
            plan: self.plan.clone(),
            approved: self.state.documents.clone().filter(|_| worktree).unwrap_or_default(),
            folder: self.folder.clone(),
            max_cost_usd: left,
            single_coder: self.state.settings.single_coder,
            alone: self.state.lanes.len() == 1,
            phase,
            lane,
            worktree,
            progress,
            fingerprints: Arc::clone(&self.fingerprints),
        })
    }

    fn merge_lane(&mut self, entry: u32, lane: String) -> Result<Vec<FlowAction>> {
        let conflicts = worktrees::merge_worktree(self.project, &self.id, entry, &lane)?;
        self.apply_event(FlowEvent::Merged { entry, lane, conflicts }, DecidedBy::Flow)
    }

    fn finish_flow(&mut self, done: bool) -> Result<()> {
        self.try_write_state(true);
        if done && self.plan.definition.archive {
            self.folder.archive()?;
        }
        Ok(())
    }

    /// Writes the state file if nothing depends on it: a failure is only a note.
    pub(super) fn try_write_state(&mut self, now: bool) {
        if let Err(failure) = self.write_state(now) {
            self.project.observer.note(&failure.to_string());
        }
    }

    /// Writes the session's state file for readers of its folder.
    fn write_state(&mut self, now: bool) -> Result<()> {
        let late = self.shown.is_none_or(|shown| shown.elapsed() >= SHOW);
        if self.folder.can_show_state() && (now || late) {
            self.shown = Some(Instant::now());
            self.folder.write_state(&self.plan, &self.state, &self.last_event)?;
        }
        Ok(())
    }

    /// Resumes the flow with decisions that may not have been carried out. An interrupted run gets a new
    /// prompt from the current documents, or the very same prompt.
    pub(super) fn resume(&mut self, same_prompt: bool) -> Result<Vec<FlowAction>> {
        self.same_prompt = same_prompt;
        if self.state.has_ended() {
            return Ok(vec![FlowAction::Finish { done: self.state.at == FlowStatus::Done }]);
        }
        // While a flow waits or is left alone, a person may edit its documents.
        match refuse_below_guard() {
            Ok(()) if self.state.is_paused() => self.check_documents(self.project.caller())?,
            Ok(()) => self.record_unattended_changes()?,
            Err(_) => {}
        }
        if !self.state.strayed.is_empty() && !matches!(self.state.at, FlowStatus::Waiting { .. }) {
            let why = render_failures(&strayed_error(&self.state));
            return self.apply_event(FlowEvent::Failed { entry: self.state.entry, why }, DecidedBy::Flow);
        }
        let cleared = self.clear_lanes()?;
        if !cleared.is_empty() {
            return Ok(cleared);
        }
        self.apply_event(FlowEvent::Resumed, self.project.caller())
    }

    /// Lets lanes continue whose changes outside their scope have been approved since.
    fn clear_lanes(&mut self) -> Result<Vec<FlowAction>> {
        let entry = self.state.entry;
        let waits = |why: &WaitReason| match why {
            WaitReason::Evidence { lane, lacks } if lacks.iter().any(|word| word == "clean") => {
                Some(lane.clone())
            }
            _ => None,
        };
        if self.state.stopped || !self.state.failed.is_empty() || !self.state.strayed.is_empty() {
            return Ok(Vec::new());
        }
        let waiting: Vec<String> = self.state.wait_reasons().iter().filter_map(waits).collect();
        let mut lanes = BTreeMap::new();
        for id in waiting {
            let key = (entry, id.clone());
            let run = self.lane_runs.get(&key).and_then(|runs| runs.last());
            let lane = self.state.lanes.iter().find(|state| state.lane.id == id);
            let (Some(run), Some(lane), Some(evidence)) = (run, lane, self.evidence.get(&key)) else {
                continue;
            };
            let mut evidence = evidence.clone();
            let worktree = self.state.has_worktrees();
            let job = self.lane_job(entry, &self.state.phase, lane.lane.clone(), worktree)?;
            self.remove_lane(&id);
            let account = self.ledger.run_summary(run)?;
            if job.is_clean(self.project, &account)? {
                evidence.insert("clean".into());
                lanes.insert(id, evidence);
            }
        }
        if lanes.is_empty() {
            Ok(Vec::new())
        } else {
            self.apply_event(FlowEvent::Cleared { entry, lanes }, DecidedBy::Flow)
        }
    }

    /// Continues as a person decided, with the documents as the person left them.
    pub(super) fn decide(&mut self, decision: FlowDecision, by: DecidedBy) -> Result<Vec<FlowAction>> {
        self.check_documents(by)?;
        self.apply_event(FlowEvent::Decided { decision }, by)
    }

    /// Stops a flow without running lanes.
    pub(super) fn stop(&mut self) -> Result<()> {
        self.silent = true;
        if !self.state.is_paused() {
            self.record_unattended_changes()?;
        }
        self.apply_event(FlowEvent::Stopped, self.project.caller()).map(drop)
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

/// Reports documents that differ from the approved ones.
fn strayed_error(state: &FlowState) -> Error {
    let paths: Vec<&str> = state.strayed.keys().map(String::as_str).collect();
    let message = format!("documents are not as they were approved: {}", paths.join(", "));
    let hint = "restore them and resume the flow, or accept them with `callsheet flow decide approve`";
    Diagnostic::error(Code::FlowRefused, message).hint(hint).into()
}

/// Appends a run to those of its lane, so that the latest is last.
fn add_run(runs: &mut BTreeMap<(u32, String), Vec<Id>>, entry: u32, lane: &str, run: &str) {
    let runs = runs.entry((entry, lane.to_owned())).or_default();
    if let Some(run) = Id::parse(run) {
        runs.retain(|known| *known != run);
        runs.push(run);
    }
}
