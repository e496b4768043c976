//! Runs one lane of a phase: composes its prompt at the start and collects its evidence at the end.

use std::panic::{self, AssertUnwindSafe};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};

use callsheet_core::diag::{Code, Diagnostic};
use callsheet_core::flow::{DocumentDigests, FlowState, Lane, Phase};
use callsheet_core::record::{Id, RunCost, RunSummary};
use callsheet_core::request::fact::EndReason;
use callsheet_run::FingerprintCache;
use callsheet_store::{Ledger, LedgerError};

use super::driver::LaneMessage;
use super::driver_documents::restore_hint;
use super::lane_outcome::{LaneOutcome, run_cost};
use super::lane_split::SharedPart;
use super::worktrees::make_worktree;
use super::{FlowFolder, FlowOptions};
use crate::error::{Error, Result};
use crate::project::Project;
use crate::project::state::RunDir;
use crate::run::{
    InterruptFlag, PreparedRun, RunProgress, RunStopper, is_pane_alive, recover, run_pending_checks,
};

/// The end of a lane's run.
enum LaneEnd {
    Ended(LaneOutcome),
    /// The quota of its agent is used up.
    Parked {
        until: String,
        cost: RunCost,
    },
}

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
    /// The part that the prompts of the phase share.
    pub(super) shared: Arc<SharedPart>,
    pub(super) progress: Arc<RunProgress>,
    pub(super) fingerprints: Arc<FingerprintCache>,
}

impl LaneJob {
    pub(super) fn run(self, project: &Project, messages: &Sender<LaneMessage>, stopper: &RunStopper) {
        let lane = self.lane.id.clone();
        let entry = self.state.entry;
        let lane_done = panic::catch_unwind(AssertUnwindSafe(|| self.run_lane(project, messages, stopper)));
        let told_last = match lane_done.unwrap_or_else(|_| Err(panic_error())) {
            Ok(LaneEnd::Parked { until, cost }) => LaneMessage::Parked { lane, until, cost },
            Ok(LaneEnd::Ended(outcome)) => {
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
    ) -> Result<LaneEnd> {
        let mut ledger = project.write_ledger()?;
        let place = self.worktree_path(project)?;
        if let Some(run) = self.recorded_run(&mut ledger)?.cloned()
            && RunDir::from_run(&run)?.pane().as_ref().is_some_and(is_pane_alive)
        {
            // The agent continues in its terminal, even if callsheet ended.
            self.announce(messages, &run)?;
            return self
                .wait_for_terminal(project, &mut ledger, &run, place.as_ref(), stopper)
                .map(LaneEnd::Ended);
        }
        if let Some(account) = self.ended_run(project, &mut ledger)? {
            self.announce(messages, &account.run.id)?;
            let account = run_pending_checks(project, &mut ledger, account, stopper, &self.progress)?;
            return self.collect_outcome(project, &account, place.as_ref()).map(LaneEnd::Ended);
        }
        let ready = self.prepare_run(project, &mut ledger, place.as_ref(), false)?;
        self.announce(messages, ready.id())?;
        let (account, mut ledger) = ready.execute_with(project, ledger, stopper, &self.progress, None)?;
        if let Some(exit) = account.exit.as_ref().filter(|exit| exit.ended == EndReason::Unstarted) {
            let why = exit.why.clone().unwrap_or_default();
            let message = format!("cannot start `{}`: {why}", self.lane.id);
            return Err(Diagnostic::error(Code::RunNotStarted, message).into());
        }
        if let Some(exit) = account.exit.as_ref().filter(|exit| exit.ended == EndReason::Unauthenticated) {
            let why = exit.why.clone().unwrap_or_default();
            let message = format!("the agent of `{}` cannot work: {why}", self.lane.id);
            return Err(Diagnostic::error(Code::RunNotStarted, message).into());
        }
        if let Some(until) = account.exit.as_ref().and_then(|exit| exit.parked_until.clone()) {
            return Ok(LaneEnd::Parked { until, cost: run_cost(&account) });
        }
        if account.exit.is_none() {
            let run = account.run.id.clone();
            return self
                .wait_for_terminal(project, &mut ledger, &run, place.as_ref(), stopper)
                .map(LaneEnd::Ended);
        }
        self.collect_outcome(project, &account, place.as_ref()).map(LaneEnd::Ended)
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
            let message = format!("run {run} of `{}` is still running", self.lane.id);
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

    /// Announces the run, and waits until it is recorded.
    fn announce(&self, messages: &Sender<LaneMessage>, run: &Id) -> Result<()> {
        let (go, wait) = mpsc::sync_channel(1);
        let (entry, lane) = (self.state.entry, self.lane.id.clone());
        let is_sent = messages.send(LaneMessage::Ready { entry, lane, run: run.to_string(), go }).is_ok();
        // Without an answer, no thread decides any more.
        if is_sent && wait.recv() == Ok(true) {
            return Ok(());
        }
        let message = format!("`{}` was not started: approved documents changed", self.lane.id);
        let hint = restore_hint(&self.flow);
        Err(Diagnostic::error(Code::FlowRefused, message).hint(hint).into())
    }

    /// Returns the lane's earlier run, if this ledger recorded it itself.
    pub(super) fn recorded_run(&self, ledger: &mut Ledger) -> Result<Option<&Id>> {
        let Some(run) = self.before.last() else { return Ok(None) };
        Ok(is_recorded(ledger, run)?.then_some(run))
    }

    /// Returns the lane's run that had ended before this process started. It is not run again.
    fn ended_run(&self, project: &Project, ledger: &mut Ledger) -> Result<Option<RunSummary>> {
        let Some(run) = self.recorded_run(ledger)? else { return Ok(None) };
        recover(project, ledger, run, EndReason::Lost, "callsheet was killed")?;
        let account = ledger.run_summary(run)?;
        let by_itself = |ended| {
            matches!(ended, EndReason::Exited | EndReason::Signaled | EndReason::Timeout | EndReason::Cost)
        };
        let counts = account.is_complete() && account.exit.as_ref().is_some_and(|exit| by_itself(exit.ended));
        Ok(counts.then_some(account))
    }

    pub(super) fn worktree_path(&self, project: &Project) -> Result<Option<PathBuf>> {
        let make = || make_worktree(project, &self.flow, self.state.entry, &self.lane.id);
        self.worktree.then(make).transpose()
    }
}

fn panic_error() -> Error {
    Diagnostic::error(Code::OutputFailed, "callsheet failed; see its output").into()
}

/// Returns whether this ledger recorded the run itself. A run that was announced but not recorded started
/// nothing.
pub(super) fn is_recorded(ledger: &mut Ledger, run: &Id) -> Result<bool> {
    match ledger.find(run.as_str()) {
        Err(LedgerError::NoRun(_)) => Ok(false),
        found => Ok(!found?.imported),
    }
}
