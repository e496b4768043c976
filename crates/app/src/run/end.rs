//! Ends runs from another process, and completes the records of runs whose callsheet died.

use std::thread;
use std::time::{Duration, Instant};

use callsheet_core::diag::{Code, Diagnostic};
use callsheet_core::record::{Id, RunSummary};
use callsheet_core::request::fact::EndReason;
use callsheet_run::{ProcessTrace, grace_period, host_name};
use callsheet_store::{Ledger, LedgerError, RunRow};

use super::finish::recover;
use super::terminal::{close_pane, is_driven, is_pane_alive};
use crate::error::Result;
use crate::project::Project;
use crate::project::state::{RunDir, unfinished_runs};

/// Longer than an agent's grace period plus the time for the records that follow.
const PATIENCE: Duration = Duration::from_secs(30);

/// Result of a recovery.
#[derive(Debug, Default)]
pub struct RecoverReport {
    /// Runs whose records are complete now.
    pub recovered: Vec<RunSummary>,
    /// Runs that were left alone, because a process drives them or lives in them.
    pub running: Vec<Id>,
    /// Reasons why runs without a driving process were left alone.
    pub refused: Vec<Diagnostic>,
}

impl Project {
    /// Stops the agent of a run with all its child processes, and returns the summary of the run.
    pub fn stop_run(&self, name: &str) -> Result<RunSummary> {
        let mut ledger = self.write_ledger()?;
        let id = self.find_own_run(&mut ledger, name)?.run.id;
        let refused = |message: String| Diagnostic::error(Code::RunRefused, message);
        let summary = ledger.run_summary(&id)?;
        let launch = summary.launch.clone().filter(|_| !summary.is_complete());
        let launch = launch.ok_or_else(|| refused(format!("run {id} is not running")))?;
        if launch.host != host_name() {
            return Err(refused(format!("run {id} is running on another machine: {}", launch.host)).into());
        }
        self.record_page_action(&mut ledger, &id, "stop")?;
        let run_dir = RunDir::from_run(&id)?;
        if let Some(pane) = run_dir.pane() {
            close_pane(&pane)?;
            let why = "its terminal was closed by `callsheet stop`";
            recover(self, &mut ledger, &id, EndReason::Stopped, why)?;
        } else if is_driven(&id) {
            run_dir.request_stop()?;
            let begun = Instant::now();
            while is_driven(&id) && begun.elapsed() < PATIENCE {
                thread::sleep(Duration::from_millis(50));
            }
        } else {
            ProcessTrace::open(id.as_str(), run_dir.dir()).terminate(grace_period());
            recover(self, &mut ledger, &id, EndReason::Lost, "callsheet was killed")?;
        }
        let summary = ledger.run_summary(&id)?;
        if summary.exit.is_none() {
            let hint = "its callsheet process is stopping it";
            return Err(refused(format!("run {id} is still stopping")).hint(hint).into());
        }
        Ok(summary)
    }

    /// Completes the records of the named run, or of every run of this project on this machine, whose
    /// callsheet died.
    pub fn recover_runs(&self, name: Option<&str>) -> Result<RecoverReport> {
        let mut ledger = self.write_ledger()?;
        let runs = match name {
            Some(name) => vec![self.find_own_run(&mut ledger, name)?.run.id],
            None => self.find_unfinished_runs(&mut ledger)?,
        };
        let mut report = RecoverReport::default();
        for run in runs {
            let pane = RunDir::from_run(&run)?.pane();
            let lives = pane.as_ref().is_some_and(is_pane_alive);
            if is_driven(&run) || lives && name.is_none() {
                report.running.push(run);
                continue;
            }
            let why = match (pane, lives) {
                (None, _) => "callsheet was killed",
                (Some(_), false) => "its terminal is closed",
                (Some(_), true) => "no callsheet process watches its terminal",
            };
            match recover(self, &mut ledger, &run, EndReason::Lost, why) {
                Ok(summary) => report.recovered.extend(summary),
                // Processes of this run are alive, which does not prevent the recovery of the others.
                Err(failure) if failure.is_only(Code::RunRefused) => {
                    report.running.push(run);
                    report.refused.extend(failure.into_diagnostics().0);
                }
                Err(failure) => return Err(failure),
            }
        }
        Ok(report)
    }

    /// Returns the unfinished runs that this ledger knows and that belong to this project.
    fn find_unfinished_runs(&self, ledger: &mut Ledger) -> Result<Vec<Id>> {
        let project = self.project_filter(ledger)?;
        let is_own =
            |row: &RunRow| !row.imported && project.as_ref().is_none_or(|project| project.is_match(&row.run));
        let mut known = Vec::new();
        for run in unfinished_runs()? {
            match ledger.find(run.as_str()) {
                Ok(row) if is_own(&row) => known.push(row.run.id),
                Ok(_) | Err(LedgerError::NoRun(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(known)
    }
}
