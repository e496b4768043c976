//! Summarizes the records of a run. Facts and claims stay separate.

use alloc::string::ToString;
use alloc::vec::Vec;

use serde::Serialize;

use super::{
    Decided, Delivered, Event, Exit, LaunchRecord, Observed, RecordedReply, Replied, Run, SubmissionRecord,
};
use crate::delivery::receipt::DeliveryReceipt;
use crate::request::fact::{CheckResult, CheckSummary, EndReason, RunFacts, Violation, ViolationDecision};
use crate::text::word_enum::word_enum;

/// Summary of a run.
#[derive(Clone, Debug)]
pub struct RunSummary {
    /// The run.
    pub run: Run,
    /// Digest of its prompt.
    pub prompt_sha256: super::Digest,
    /// How it was started; `None` if the prompt was only composed.
    pub launch: Option<LaunchRecord>,
    /// Delivery receipts in the order in which they were proven.
    pub receipts: Vec<DeliveryReceipt>,
    /// End of the process.
    pub exit: Option<Exit>,
    /// Observations after the run.
    pub observed: Option<Observed>,
    /// Reply of the agent.
    pub replied: Option<Replied>,
    /// Whether it came from an export of another ledger: then nothing that it names is started.
    pub imported: bool,
    /// Submissions of the agent by a tool, in order.
    pub submitted: Vec<SubmissionRecord>,
    decided: Vec<Decided>,
}

word_enum! {
    /// Status of a run, by its process alone.
    RunStatus {
        /// Composed only; no start was planned.
        Composed "composed",
        /// Started and not ended.
        Running "running",
        /// The process ended with 0.
        Completed "completed",
        /// Ended in any other way.
        Failed "failed",
        /// A person stopped it.
        Cancelled "cancelled",
    }
}

impl Exit {
    /// Returns the status of a run that ended like this.
    pub const fn status(&self) -> RunStatus {
        match (self.ended, self.code) {
            (EndReason::Exited, Some(0)) => RunStatus::Completed,
            (EndReason::Stopped, _) => RunStatus::Cancelled,
            _ => RunStatus::Failed,
        }
    }
}

/// Overall result of the checks. No checks is not a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum ChecksOutcome {
    /// There are no checks.
    None,
    /// Some checks have no result yet.
    Pending,
    /// At least one check failed.
    Failed,
    /// All checks passed.
    Passed,
}

impl RunSummary {
    /// Summarizes the records of one run, in order. Returns `None` if the prompt is not among them.
    pub fn from_events(events: impl IntoIterator<Item = Event>) -> Option<Self> {
        let mut account: Option<Self> = None;
        for event in events {
            match (event, &mut account) {
                (Event::Composed(composed), none @ None) => {
                    *none = Some(Self {
                        run: composed.run,
                        prompt_sha256: composed.output.sha256,
                        launch: composed.launch,
                        receipts: Vec::new(),
                        exit: None,
                        observed: None,
                        replied: None,
                        imported: false,
                        submitted: Vec::new(),
                        decided: Vec::new(),
                    });
                }
                (Event::Delivered(Delivered { receipt, .. }), Some(account)) => {
                    account.receipts.push(receipt);
                }
                (Event::Exit(exit), Some(account)) => account.exit = Some(exit),
                (Event::Observed(observed), Some(account)) => account.observed = Some(observed),
                (Event::Replied(replied), Some(account)) => account.replied = Some(replied),
                (Event::SubmissionRecord(submitted), Some(account)) => account.submitted.push(submitted),
                (Event::Decided(decided), Some(account)) => account.decided.push(decided),
                (Event::Imported(_), Some(account)) => account.imported = true,
                _ => {}
            }
        }
        account
    }

    /// Returns the status of the run.
    pub fn status(&self) -> RunStatus {
        match (&self.launch, &self.exit) {
            (_, Some(exit)) => exit.status(),
            (Some(_), None) => RunStatus::Running,
            (None, None) => RunStatus::Composed,
        }
    }

    /// Checks whether the run is complete: no more records are expected.
    pub fn is_complete(&self) -> bool {
        self.launch.is_none() || self.exit.is_some() && self.observed.is_some()
    }

    /// Returns the overall result of the checks.
    pub fn checks_outcome(&self) -> ChecksOutcome {
        let planned = self.launch.as_ref().map_or(0, |launch| launch.options.checks.len());
        let checks = self.observed.as_ref().map_or(&[][..], |observed| &observed.checks);
        let any = |result| checks.iter().any(|check| check.result == result);
        match (planned, checks.len()) {
            (0, 0) => ChecksOutcome::None,
            _ if any(CheckResult::Failed) => ChecksOutcome::Failed,
            (planned, run) if run < planned || any(CheckResult::Pending) => ChecksOutcome::Pending,
            _ => ChecksOutcome::Passed,
        }
    }

    /// Returns the changes that the scope did not allow, each with a person's decision about it.
    pub fn violations(&self) -> Vec<Violation> {
        let seen = self.observed.as_ref().and_then(|observed| observed.worktree.as_ref());
        let violations = seen.into_iter().flat_map(|seen| &seen.violations);
        violations
            .map(|violation| Violation { decision: self.decision(&violation.path), ..violation.clone() })
            .collect()
    }

    /// Checks whether the run observed a change of this path.
    pub fn has_observed_change(&self, path: &str) -> bool {
        let seen = self.observed.as_ref().and_then(|observed| observed.worktree.as_ref());
        seen.is_some_and(|seen| seen.changed.iter().any(|file| file.path == path))
    }

    /// Returns a person's decision about a path. Only the first decision counts.
    pub fn decision(&self, path: &str) -> ViolationDecision {
        let of_person = |decided: &&Decided| decided.by.is_person() && decided.what == path;
        let word = self.decided.iter().find(of_person).map(|decided| decided.decision.as_str());
        ViolationDecision::from_word(word.unwrap_or_default())
    }

    /// Returns every decision about this run, in order.
    pub fn decisions(&self) -> &[Decided] {
        &self.decided
    }

    /// Returns the facts for the digest of the next run. It contains no claims.
    pub fn facts(&self, attempts: usize) -> RunFacts {
        let seen = self.observed.as_ref().and_then(|observed| observed.worktree.as_ref());
        let checks = self.observed.iter().flat_map(|observed| &observed.checks);
        RunFacts {
            run: Some(self.run.id.to_string()),
            ended: self.exit.as_ref().map(|exit| exit.ended),
            exit_code: self.exit.as_ref().and_then(|exit| exit.code),
            attempts: u32::try_from(attempts).ok(),
            checks: checks.map(CheckSummary::from_run).collect(),
            changed: seen
                .map(|seen| seen.changed.iter().map(|file| file.path.clone()).collect())
                .unwrap_or_default(),
            violations: self.violations(),
            unseen: seen
                .map(|seen| seen.newly_unseen().map(|unseen| unseen.path.clone()).collect())
                .unwrap_or_default(),
            reply: None,
        }
    }

    /// Checks whether the agent itself reported a failure, regardless of its exit code.
    pub fn has_reported_failure(&self) -> bool {
        self.reply().is_some_and(RecordedReply::has_failed_stream)
    }

    /// Returns the reply as it was read.
    pub fn reply(&self) -> Option<&RecordedReply> {
        self.replied.as_ref().map(|replied| &replied.reply)
    }
}
