//! Runs one lane of a phase: composes its prompt at the start and collects its evidence at the end.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::{Duration, Instant};

use callsheet_core::diag::{Code, Diagnostic};
use callsheet_core::flow::{
    DocumentDigests, DocumentFilter, FindingFiles, FindingNumbering, FlowEvent, FlowState, Lane,
    LaneObservation, LaneSource, Phase, build_request, collect_evidence, diff_documents, find_outputs,
    find_plan_errors, format_fixes, has_severe, has_submitted, writable_globs,
};
use callsheet_core::library::agent::DeliveryMethod;
use callsheet_core::library::preferences::Preference;
use callsheet_core::record::{Digest, Exit, Id, RunOptions, RunSummary, restore_request, restore_snapshot};
use callsheet_core::reply::Outcome as Reply;
use callsheet_core::request::fact::EndReason;
use callsheet_core::request::scope::Scope;
use callsheet_core::submission;
use callsheet_core::{Library, Request, SharedText, Snapshot, find_agent, find_contract};
use callsheet_run::{DocumentReader, FingerprintCache};
use callsheet_store::{Ledger, LedgerError};

use super::driver::LaneMessage;
use super::worktrees::make_worktree;
use super::{FlowFolder, FlowOptions};
use crate::compose::inputs::PreparedInput;
use crate::compose::secrets;
use crate::compose::{ComposeOptions, Purpose, compose_input};
use crate::error::{Error, Result};
use crate::project::Project;
use crate::project::state::RunDir;
use crate::run::{
    InterruptFlag, PreparedRun, RunLocation, RunProgress, RunSetup, RunStopper, TerminalState, TerminalWatch,
    complete, is_pane_alive, recover, run_pending_checks, terminal_summary,
};
use crate::session::{FileSubmissions, SessionDir, SubmissionResult, refusal_reasons};

/// Poll interval for a terminal.
const TERMINAL_LOOK: Duration = Duration::from_millis(500);

/// All inputs of a lane, so that it can run on its own thread.
#[derive(Debug)]
pub(super) struct LaneJob {
    pub(super) flow: Id,
    pub(super) plan: FlowOptions,
    /// State from which its request is made.
    pub(super) state: FlowState,
    pub(super) phase: Phase,
    pub(super) lane: Lane,
    pub(super) worktree: bool,
    pub(super) folder: FlowFolder,
    /// Documents at the start of the phase.
    pub(super) approved: DocumentDigests,
    /// Runs of the lane before a crash or a stop, the latest last.
    pub(super) before: Vec<Id>,
    /// Every earlier run of the flow, if the phase needs their changes.
    pub(super) flow_runs: Vec<Id>,
    pub(super) max_cost_usd: Option<f64>,
    pub(super) single_coder: bool,
    /// An interrupted run gets the very same prompt again.
    pub(super) same_prompt: bool,
    /// The phase has no other lane.
    pub(super) alone: bool,
    pub(super) progress: Arc<RunProgress>,
    pub(super) fingerprints: Arc<FingerprintCache>,
}

/// Submissions of a run.
#[derive(Default)]
struct RunSubmissions {
    /// Accepted contracts, each with its verdict.
    accepted: Vec<(String, Option<String>)>,
    /// Reasons why the last submission was refused.
    refused: Vec<String>,
    questions: Vec<String>,
    proposed: Vec<Preference>,
}

impl RunSubmissions {
    fn add(&mut self, tool: &str, verdict: Option<String>, done: SubmissionResult) {
        self.accepted.push((tool.to_owned(), verdict));
        self.questions.extend(done.questions);
        self.proposed.extend(done.proposed);
    }
}

/// Result of a lane.
pub(super) struct LaneOutcome {
    run: Id,
    evidence: BTreeSet<String>,
    cost: u64,
    submissions: RunSubmissions,
    diagnostics: Vec<Diagnostic>,
}

impl LaneOutcome {
    /// Returns the event of the lane's end, and the diagnostics about it.
    pub(super) fn into_event(self, entry: u32, lane: String) -> (FlowEvent, Vec<Diagnostic>) {
        let Self { run, evidence, cost, submissions, diagnostics } = self;
        let RunSubmissions { refused, questions, proposed, .. } = submissions;
        let run = run.to_string();
        let event = FlowEvent::LaneEnded { entry, lane, run, evidence, cost, refused, questions, proposed };
        (event, diagnostics)
    }
}

/// Questions that an agent asked in its terminal.
#[derive(Default)]
struct TerminalQuestions {
    /// Open questions, each with the words that followed it.
    open: BTreeMap<String, String>,
    /// Questions after which the agent continued while a person was attached.
    answered: BTreeSet<String>,
}

impl TerminalQuestions {
    /// Detects answers: a person is attached to the terminal, and the text behind a question has grown.
    fn note_answers(&mut self, shown: &str, is_attended: bool) {
        let behind = text_after_questions(shown);
        let is_answered = |before: &String| is_attended && *before != behind;
        let answered =
            self.open.iter().filter(|(_, before)| is_answered(before)).map(|(asked, _)| asked.clone());
        self.answered.extend(answered);
    }

    /// Retains the open questions in `questions`, and returns the new ones.
    fn take_new_questions(&mut self, questions: &mut Vec<String>, shown: &str) -> Vec<String> {
        questions.retain(|question| !self.answered.contains(question));
        let new: Vec<String> =
            questions.iter().filter(|question| !self.open.contains_key(*question)).cloned().collect();
        let behind = text_after_questions(shown);
        self.open.extend(new.iter().map(|question| (question.clone(), behind.clone())));
        new
    }
}

/// Returns the words behind the last question, without whitespace and punctuation, because those differ in a
/// terminal of another width.
fn text_after_questions(shown: &str) -> String {
    let plain: String = shown.chars().filter(|c| c.is_alphanumeric() || "</>".contains(*c)).collect();
    plain.rsplit("</question>").next().unwrap_or_default().to_owned()
}

impl LaneJob {
    pub(super) fn run(self, project: &Project, messages: &Sender<LaneMessage>, stopper: &RunStopper) {
        let lane = self.lane.id.clone();
        let entry = self.state.entry;
        let lane_done = panic::catch_unwind(AssertUnwindSafe(|| self.run_lane(project, messages, stopper)));
        let told_last = match lane_done.unwrap_or_else(|_| Err(panic_error())) {
            Ok(outcome) => {
                let (event, diagnostics) = outcome.into_event(entry, lane);
                LaneMessage::Ended { event, diagnostics }
            }
            Err(failure) => LaneMessage::Failed { lane, failure },
        };
        // If the receiver is gone, no thread is left to decide.
        let _ = messages.send(told_last);
    }

    fn run_lane(
        &self,
        project: &Project,
        messages: &Sender<LaneMessage>,
        stopper: &RunStopper,
    ) -> Result<LaneOutcome> {
        let mut ledger = project.write_ledger()?;
        let place = self.worktree_path(project)?;
        if let Some(run) = self.recorded_run(&mut ledger)?.cloned()
            && RunDir::from_run(&run)?.pane().as_ref().is_some_and(is_pane_alive)
        {
            // The agent continues in its terminal, even if callsheet ended.
            self.announce(messages, &run)?;
            return self.wait_for_terminal(project, &mut ledger, &run, place.as_ref(), stopper);
        }
        if let Some(account) = self.ended_run(project, &mut ledger)? {
            self.announce(messages, &account.run.id)?;
            let account = run_pending_checks(project, &mut ledger, account, stopper, &self.progress)?;
            return self.collect_outcome(project, &account, place.as_ref());
        }
        let ready = self.prepare_run(project, &mut ledger, place.as_ref(), false)?;
        self.announce(messages, ready.id())?;
        let (account, mut ledger) = ready.execute_with(project, ledger, stopper, &self.progress, None)?;
        if let Some(exit) = account.exit.as_ref().filter(|exit| exit.ended == EndReason::Unstarted) {
            let why = exit.why.clone().unwrap_or_default();
            let message = format!("`{}` could not be started: {why}", self.lane.id);
            return Err(Diagnostic::error(Code::RunNotStarted, message).into());
        }
        if account.exit.is_none() {
            let run = account.run.id.clone();
            return self.wait_for_terminal(project, &mut ledger, &run, place.as_ref(), stopper);
        }
        self.collect_outcome(project, &account, place.as_ref())
    }

    /// Prepares the run of a lane whose agent the caller runs.
    pub(super) fn prepare_external(&self, project: &Project) -> Result<PreparedRun> {
        let place = self.worktree_path(project)?;
        self.prepare_run(project, &mut project.write_ledger()?, place.as_ref(), true)
    }

    /// Returns the result of the lane's earlier run, if it had ended by itself. It is not run again.
    pub(super) fn earlier_outcome(&self, project: &Project) -> Result<Option<LaneOutcome>> {
        let mut ledger = project.write_ledger()?;
        let Some(summary) = self.ended_run(project, &mut ledger)? else { return Ok(None) };
        self.complete_outcome(project, &mut ledger, summary).map(Some)
    }

    /// Returns the result of a run whose agent the caller ran.
    pub(super) fn external_outcome(&self, project: &Project, run: &Id) -> Result<LaneOutcome> {
        let mut ledger = project.write_ledger()?;
        let summary = ledger.run_summary(run)?;
        if !summary.is_complete() {
            let message = format!("run {run} of `{}` has not ended", self.lane.id);
            return Err(Diagnostic::error(Code::RunRefused, message).into());
        }
        self.complete_outcome(project, &mut ledger, summary)
    }

    fn complete_outcome(
        &self,
        project: &Project,
        ledger: &mut Ledger,
        summary: RunSummary,
    ) -> Result<LaneOutcome> {
        let stopper = RunStopper::new(&InterruptFlag::default());
        let summary = run_pending_checks(project, ledger, summary, &stopper, &self.progress)?;
        self.collect_outcome(project, &summary, self.worktree_path(project)?.as_ref())
    }

    /// Waits for an agent in a terminal. It has ended well if its process ended, or if all its outputs exist
    /// and its pane is idle. While a person is attached, the person answers its questions there.
    fn wait_for_terminal(
        &self,
        project: &Project,
        ledger: &mut Ledger,
        run: &Id,
        place: Option<&PathBuf>,
        stopper: &RunStopper,
    ) -> Result<LaneOutcome> {
        let Some(mut watch) = TerminalWatch::find(run)? else {
            recover(project, ledger, run, EndReason::Lost, "its terminal is gone")?;
            return self.collect_outcome(project, &ledger.run_summary(run)?, place);
        };
        let mut dialog = TerminalQuestions::default();
        project.observer.status(&format!(
            "{} {}: `{}`",
            self.phase.name,
            self.lane.id,
            watch.attach_command()
        ));
        let (begun, stop) = (Instant::now(), stopper.stop_flag());
        let deadline = self.plan.run.timeout_ms.map(Duration::from_millis);
        let exit = loop {
            let known = ledger.run_summary(run)?;
            if known.is_complete() {
                // A person stopped the run.
                return self.collect_outcome(project, &known, place);
            }
            let state = watch.poll_state();
            if !dialog.open.is_empty() {
                dialog.note_answers(watch.shown(), watch.is_attended());
            }
            if let TerminalState::Gone(code) = state {
                break Exit::new(EndReason::Exited, code);
            }
            if stop.is_stopped() {
                let (ended, why) = stopper.stop_reason();
                break Exit { why, ..Exit::new(ended, None) };
            }
            if deadline.is_some_and(|deadline| begun.elapsed() > deadline) {
                break Exit::new(EndReason::Timeout, None);
            }
            if state == TerminalState::Idle {
                let seen = terminal_summary(project, ledger, run, watch.shown())?;
                let LaneOutcome { evidence, mut submissions, .. } =
                    self.collect_outcome(project, &seen, place)?;
                let new = dialog.take_new_questions(&mut submissions.questions, watch.shown());
                if !new.is_empty() {
                    let asks = new.join("; ");
                    project.observer.status(&format!(
                        "`{}` asks: {asks}: `{}`",
                        self.lane.id,
                        watch.attach_command()
                    ));
                }
                let is_open = !submissions.questions.is_empty();
                let is_done = has_submitted(&self.phase, &self.lane, &evidence);
                if is_open && !watch.is_attended() || !is_open && (is_done || !submissions.refused.is_empty())
                {
                    let why = Some("its work is there, and its terminal is idle".to_owned());
                    break Exit { why, ..Exit::new(EndReason::Exited, Some(0)) };
                }
            }
            thread::sleep(TERMINAL_LOOK);
        };
        let shown = watch.text();
        watch.close()?;
        complete(project, ledger, run, exit, Some(&shown))?;
        let account = ledger.run_summary(run)?;
        let account = run_pending_checks(project, ledger, account, stopper, &self.progress)?;
        let mut outcome = self.collect_outcome(project, &account, place)?;
        outcome.submissions.questions.retain(|question| !dialog.answered.contains(question));
        Ok(outcome)
    }

    /// Announces the run, and waits until it is recorded.
    fn announce(&self, messages: &Sender<LaneMessage>, run: &Id) -> Result<()> {
        let (go, wait) = mpsc::sync_channel(1);
        let (entry, lane) = (self.state.entry, self.lane.id.clone());
        let is_sent = messages.send(LaneMessage::Ready { entry, lane, run: run.to_string(), go }).is_ok();
        // Without an answer, no thread decides any more.
        if is_sent && wait.recv() == Ok(true) {
            return Ok(());
        }
        let message = format!("`{}` was not started: documents are not as they were approved", self.lane.id);
        let hint = "restore them and resume the flow, or accept them with `callsheet flow decide approve`";
        Err(Diagnostic::error(Code::FlowRefused, message).hint(hint).into())
    }

    /// Returns an unused folder, so that files archived by the phase are not overwritten.
    fn archive_folder(&self) -> String {
        let home = format!("earlier/{:03}-{}", self.state.entry, self.lane.id);
        let free =
            (1..).map(|number| format!("{home}-{number}")).find(|path| !self.folder.path.join(path).exists());
        free.unwrap_or(home)
    }

    /// Returns the lane's earlier run, if this ledger recorded it itself.
    fn recorded_run(&self, ledger: &mut Ledger) -> Result<Option<&Id>> {
        let Some(run) = self.before.last() else { return Ok(None) };
        Ok(is_recorded(ledger, run)?.then_some(run))
    }

    /// Returns the lane's run that had ended before this process started. It is not run again.
    fn ended_run(&self, project: &Project, ledger: &mut Ledger) -> Result<Option<RunSummary>> {
        let Some(run) = self.recorded_run(ledger)? else { return Ok(None) };
        recover(project, ledger, run, EndReason::Lost, "its callsheet died")?;
        let account = ledger.run_summary(run)?;
        let by_itself = |ended| {
            matches!(ended, EndReason::Exited | EndReason::Signaled | EndReason::Timeout | EndReason::Cost)
        };
        let counts = account.is_complete() && account.exit.as_ref().is_some_and(|exit| by_itself(exit.ended));
        Ok(counts.then_some(account))
    }

    /// Restores the request of an interrupted run, if the next run must get the same prompt.
    fn previous_request(&self, ledger: &mut Ledger) -> Result<Option<(Request, Snapshot)>> {
        let Some(run) = self.recorded_run(ledger)?.filter(|_| self.same_prompt) else { return Ok(None) };
        let composed = ledger.prompt_record(run)?;
        let both = |blob: &mut dyn FnMut(Digest) -> Option<SharedText>| {
            Ok((restore_request(&composed, blob)?, restore_snapshot(&composed, blob)?))
        };
        Ok(Some(ledger.with_blobs(both)?))
    }

    fn prepare_run(
        &self,
        project: &Project,
        ledger: &mut Ledger,
        place: Option<&PathBuf>,
        external: bool,
    ) -> Result<PreparedRun> {
        self.folder.archive_files(&self.phase.stale_lane_files(&self.lane), &self.archive_folder())?;
        let (disk, layout) = (project.disk(Some(self.folder.path.clone())), project.config.layout());
        let library = Library::new(&disk);
        let agent = self.plan.agent(&self.phase)?;
        let (mut request, replay) = match self.previous_request(ledger)? {
            Some((request, snapshot)) => (request, Some(snapshot)),
            None => {
                let flow = &self.plan.definition;
                (build_request(flow, &self.state, &self.phase, &self.lane, &library)?, None)
            }
        };
        let (_, attached) = find_agent(&library, &agent, &layout)?;
        let by_tool = attached.tools.mcp.is_some() && self.plan.run.program.is_empty() && !self.plan.by_file;
        request.mcp = by_tool && self.has_submissions(&library, &layout)?;
        request.agent = Some(agent);
        request.session = Some(self.folder.relative.clone());
        request.layout = layout;
        let input = PreparedInput {
            request,
            session: Some(self.folder.path.clone()),
            texts: BTreeMap::new(),
            listings: BTreeMap::new(),
            replay,
            diagnostics: Vec::new(),
        };
        let mode = secrets::choose_mode(project, None, Purpose::Record)?;
        let finished =
            compose_input(project, input, ComposeOptions { mode, budget: None, api: None }, Purpose::Record)?;
        let session = match place {
            Some(worktree) => self.folder.copy_to(worktree)?,
            None => self.folder.path.clone(),
        };
        let task = match self.lane.covers() {
            [all] if *all == self.lane.id && self.phase.ask.each.is_none() => self.plan.name.clone(),
            ids => ids.join(","),
        };
        let note = [
            ("flow", Some(self.flow.to_string())),
            ("phase", Some(self.phase.name.clone())),
            ("lane", Some(self.lane.id.clone())),
            ("contract", self.phase.contract.clone()),
            ("role", self.phase.role.clone()),
            ("task", Some(task)),
        ];
        let options = RunOptions {
            model: self.plan.model(&self.phase),
            max_cost_usd: self.max_cost_usd.filter(|left| *left > 0.0),
            by: self.plan.terminal.then_some(DeliveryMethod::Terminal),
            single_coder: self.single_coder && self.phase.ask.each == Some(LaneSource::Plans),
            // The claim of the flow counts for its lanes.
            share: false,
            ..self.plan.run.clone()
        };
        let setup = RunSetup {
            options,
            env: project.config.env.value.clone(),
            place: place.map_or(RunLocation::Project, |path| RunLocation::At(path.clone())),
            // The server accepts submissions for the flow, wherever the lane works.
            session: Some(if by_tool { self.folder.path.clone() } else { session }),
            watched: Some(self.folder.path.clone()),
            scope: Some(Scope {
                write: writable_globs(&self.phase, &self.lane, &self.folder.relative),
                exclude: project.config.exclude.value.clone(),
            }),
            tasks: self.tasks(),
            own: self.folder.own_paths(),
            fingerprints: Arc::clone(&self.fingerprints),
            parent: self.recorded_run(ledger)?.cloned(),
            // In a terminal a person can approve preferences.
            proposes: !self.plan.terminal,
            flow: note.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect(),
            external,
            ..RunSetup::default()
        };
        project.prepare(finished, setup)
    }

    /// Returns the tasks whose status the reply must report.
    fn tasks(&self) -> Option<Vec<String>> {
        match self.phase.ask.each {
            Some(LaneSource::Tasks) => Some(self.lane.covers().to_vec()),
            None if !self.lane.of.is_empty() => Some(self.lane.of.clone()),
            _ => None,
        }
    }

    /// Returns whether the phase expects a submission.
    fn has_submissions(
        &self,
        library: &callsheet_core::DynLibrary<'_>,
        layout: &callsheet_core::library::layout::Layout,
    ) -> Result<bool> {
        let Some(contract) = &self.phase.contract else { return Ok(false) };
        Ok(find_contract(library, contract, layout)?.1.submission.is_some())
    }

    /// Collects the results of the run and derives its evidence.
    fn collect_outcome(
        &self,
        project: &Project,
        account: &RunSummary,
        place: Option<&PathBuf>,
    ) -> Result<LaneOutcome> {
        if let Some(worktree) = place {
            self.folder.take_from(worktree, &self.phase.stale_lane_files(&self.lane))?;
        }
        let outcome = account.reply().map(|reply| reply.outcome).unwrap_or_default();
        let is_severe = self.write_report(account, outcome)?;
        self.write_fixes(project, account)?;
        let mut submissions = self.collect_submissions(project, account)?;
        submissions.questions.extend(account.reply().into_iter().flat_map(|reply| reply.questions.clone()));
        let mut diagnostics = Vec::new();
        let (disk, layout) = (project.disk(Some(self.folder.path.clone())), project.config.layout());
        let library = Library::new(&disk);
        let mut facts = account.facts(0);
        if account.has_reported_failure() {
            facts.ended = None;
        }
        let files = find_outputs(&self.phase, &self.lane, &library)?;
        let flow_changed = self.changed_paths(project, account, &self.flow_runs)?;
        let seen = LaneObservation {
            outcome,
            facts: &facts,
            submissions: &submissions.accepted,
            files: &files,
            flow_changed: &flow_changed,
            is_severe,
        };
        let mut evidence = collect_evidence(&self.phase, &seen, &library, &layout);
        let refused_plan = find_plan_errors(&self.phase, &library, &layout);
        submissions.refused.extend(refusal_reasons(&refused_plan, None));
        let mut seen = BTreeSet::new();
        submissions.refused.retain(|reason| seen.insert(reason.clone()));
        let strayed = place.map(|worktree| self.strayed_documents(worktree)).unwrap_or_default();
        if !strayed.is_empty() {
            evidence.remove("clean");
            let message =
                format!("`{}` changed documents that are not its own: {}", self.lane.id, strayed.join(", "));
            diagnostics.push(Diagnostic::warning(Code::FlowRefused, message));
        }
        let cost = account.exit.as_ref().and_then(|exit| exit.report.cost_usd).unwrap_or(0.0);
        let cost = (cost.max(0.0) * 1e6).round() as u64;
        Ok(LaneOutcome { run: account.run.id.clone(), evidence, cost, submissions, diagnostics })
    }

    /// Writes the reply to the phase's report file. Returns whether it contains a finding that prevents a
    /// pass.
    fn write_report(&self, account: &RunSummary, outcome: Reply) -> Result<bool> {
        let Some(report) = &self.phase.report else { return Ok(false) };
        let text = account.reply().map(|reply| reply.text.as_str()).unwrap_or_default();
        if text.trim().is_empty() {
            return Ok(false);
        }
        let mut text = format!("{}\n", text.trim());
        let holds_findings = self.plan.definition.holds_findings(report);
        let is_severe = has_severe(&text);
        if holds_findings {
            let asks_for_changes = match outcome {
                Reply::Pass => is_severe,
                outcome => matches!(outcome, Reply::NeedsChanges | Reply::MajorIssues),
            };
            text = FindingNumbering::new(self.state.round()).number(&text, asks_for_changes);
        }
        self.folder.write(&BTreeMap::from([(report.clone(), text)]))?;
        Ok(is_severe)
    }

    /// Writes the reported status of each finding and the changes since the lane began. An interrupted run
    /// may have made them.
    fn write_fixes(&self, project: &Project, account: &RunSummary) -> Result<()> {
        let Some(FindingFiles { file, fixes }) = &self.phase.findings else { return Ok(()) };
        if self.phase.phase_request(self.state.again).each.is_some() || self.lane.of.is_empty() {
            return Ok(());
        }
        let text = self.folder.read(file)?;
        let reported = |id: &str| account.reply()?.tasks.get(id).map(|status| status.name());
        let changed = self.changed_paths(project, account, &self.before)?;
        let own = format!("{}/", self.folder.relative);
        let changed = changed.into_iter().filter(|path| !path.starts_with(&own)).collect();
        let fixes_text = format_fixes(&text, &self.lane.of, &reported, changed);
        self.folder.write(&BTreeMap::from([(fixes.clone(), fixes_text)]))
    }

    /// Returns the paths changed by this run and by the runs in `before`.
    fn changed_paths(
        &self,
        project: &Project,
        account: &RunSummary,
        before: &[Id],
    ) -> Result<BTreeSet<String>> {
        let mut changed: BTreeSet<String> = account.facts(0).changed.into_iter().collect();
        let before: Vec<&Id> = before.iter().filter(|run| **run != account.run.id).collect();
        if before.is_empty() {
            return Ok(changed);
        }
        let mut ledger = project.read_ledger()?;
        for run in before {
            if is_recorded(&mut ledger, run)? {
                changed.extend(ledger.run_summary(run)?.facts(0).changed);
            }
        }
        Ok(changed)
    }

    /// Returns whether none of the run's changes waits for a person's approval.
    pub(super) fn is_clean(&self, project: &Project, account: &RunSummary) -> Result<bool> {
        let facts = account.facts(0);
        let accepted = facts.violations.iter().all(|violation| violation.decision.is_accepted());
        if !accepted || !facts.unseen.is_empty() {
            return Ok(false);
        }
        let place = self.worktree_path(project)?;
        Ok(place.is_none_or(|worktree| self.strayed_documents(&worktree).is_empty()))
    }

    /// Returns the documents that the lane changed in its worktree and that its phase must not change.
    fn strayed_documents(&self, worktree: &Path) -> Vec<String> {
        let filter = DocumentFilter::new(&self.plan.definition, self.state.entry);
        // Archived documents are not copied to worktrees.
        let travels = |path: &str| filter.is_document(path) && !path.starts_with("earlier/");
        let now = DocumentReader::default().read(&worktree.join(&self.folder.relative), &travels);
        let mut approved = self.approved.clone();
        approved.retain(|path, _| travels(path));
        let changed = diff_documents(&approved, &now).into_keys();
        changed.filter(|path| !self.phase.can_change(path)).collect()
    }

    /// Collects the submissions made with tools, or else the files waiting in the session, each with its
    /// verdict.
    fn collect_submissions(&self, project: &Project, account: &RunSummary) -> Result<RunSubmissions> {
        let mut submissions = RunSubmissions::default();
        for record in account.reply().into_iter().flat_map(|reply| &reply.submitted) {
            submissions.refused.clone_from(&record.refused);
            if record.refused.is_empty() {
                let verdict = record.verdict.as_str().map(str::to_owned);
                let done: SubmissionResult = serde_json::from_value(record.done.clone())
                    .map_err(|error| Diagnostic::error(Code::LedgerDamaged, error.to_string()))?;
                submissions.add(&record.tool, verdict, done);
            }
        }
        if !submissions.accepted.is_empty() || !submissions.refused.is_empty() {
            return Ok(submissions);
        }
        let mut session = SessionDir::open(project, Some(&self.folder.path))?;
        session.proposes = !self.plan.terminal;
        let own = (!self.alone).then(|| self.phase.stale_lane_files(&self.lane));
        let is_own = |path: &str| own.as_ref().is_none_or(|own| own.iter().any(|own| own == path));
        let role = account.run.role.as_deref();
        let all = if role.is_some() {
            submission::list_tools(&session.disk, &session.layout, role)?
        } else {
            Vec::new()
        };
        let library = Library::new(&session.disk);
        let contract = self
            .phase
            .contract
            .as_deref()
            .filter(|_| self.has_submissions(&library, &session.layout).unwrap_or(false));
        let mut tools: Vec<&str> = contract.into_iter().collect();
        // Sub-plans come before the order that names them.
        let mut others: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
        others.sort_by_key(|name| std::cmp::Reverse(*name));
        tools.extend(others.into_iter().filter(|name| Some(*name) != self.phase.contract.as_deref()));
        for tool in tools {
            match session.submit_waiting_files(tool, &is_own) {
                Ok(FileSubmissions { accepted, refused }) => {
                    accepted.into_iter().for_each(|(verdict, done)| submissions.add(tool, verdict, done));
                    submissions.refused.extend(refused);
                }
                Err(failure) => submissions.refused.extend(refusal_reasons(failure.diagnostics(), None)),
            }
            // A whole plan contains its parts.
            if Some(tool) == self.phase.contract.as_deref() && !submissions.accepted.is_empty() {
                break;
            }
        }
        Ok(submissions)
    }

    fn worktree_path(&self, project: &Project) -> Result<Option<PathBuf>> {
        let make = || make_worktree(project, &self.flow, self.state.entry, &self.lane.id);
        self.worktree.then(make).transpose()
    }
}

fn panic_error() -> Error {
    Diagnostic::error(Code::OutputFailed, "callsheet itself failed; what it printed says where").into()
}

/// Returns whether this ledger recorded the run itself. A run that was announced but not recorded started
/// nothing.
fn is_recorded(ledger: &mut Ledger, run: &Id) -> Result<bool> {
    match ledger.find(run.as_str()) {
        Err(LedgerError::NoRun(_)) => Ok(false),
        found => Ok(!found?.imported),
    }
}
