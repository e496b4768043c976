//! Summarizes the records of a run. Facts and claims stay separate.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::{
    ChangedContents, ContextRecord, Decided, Delivered, Event, Exit, LaunchRecord, Observed, RecordedReply,
    Replied, Run, SubmissionRecord,
};
use crate::delivery::receipt::DeliveryReceipt;
use crate::reply::Outcome;
use crate::request::fact::{
    ChangeKind, CheckResult, CheckRun, CheckSummary, EndReason, RunFacts, Violation, ViolationDecision,
};
use crate::text::word_enum::word_enum;

/// Summary of a run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RunSummary {
    /// The run.
    pub run: Run,
    /// Short name of the run in its ledger, such as `r42`; no record holds it.
    pub short_name: Option<String>,
    /// Digest of its prompt.
    pub prompt_sha256: super::Digest,
    /// How it was started; `None` if the prompt was only composed.
    pub launch: Option<LaunchRecord>,
    /// Delivery receipts in the order in which they were proven.
    pub receipts: Vec<DeliveryReceipt>,
    /// End of the process.
    pub exit: Option<Exit>,
    /// Contents of the changed files; `None` if they were not kept.
    pub changed: Option<ChangedContents>,
    /// Observations after the run.
    pub observed: Option<Observed>,
    /// Reply of the agent.
    pub replied: Option<Replied>,
    /// Whether it came from an export of another ledger: then nothing that it names is started.
    pub imported: bool,
    /// Submissions of the agent by a tool, in order.
    pub submitted: Vec<SubmissionRecord>,
    /// The newest probe of its prompt.
    pub context: Option<ContextRecord>,
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

word_enum! {
    /// Outcome of a run: what a person has to know first.
    RunOutcome {
        /// The prompt was only composed.
        Composed "composed",
        /// The run has not ended.
        Running "running",
        /// Everything that can be seen is good.
        Succeeded "succeeded",
        /// Everything that can be seen is good, but no file changed.
        NothingChanged "nothing_changed",
        /// The agent's reply asks for a person.
        NeedsReview "needs_review",
        /// A check failed or did not run.
        FailedChecks "failed_checks",
        /// A change outside of the scope waits for a person's decision, or some changes could not be seen.
        OutOfScope "out_of_scope",
        /// The agent failed, by its exit code or by its own report.
        AgentFailed "agent_failed",
        /// A time limit ended the run or a check.
        TimedOut "timed_out",
        /// The cost limit ended the run.
        OverCost "over_cost",
        /// The agent's quota is used up until a known time.
        Parked "parked",
        /// A person stopped the run.
        Stopped "stopped",
        /// The end of the run was not observed.
        Lost "lost",
    }
}

impl RunOutcome {
    /// Checks whether a run with this outcome has failed: its command ends with another exit code than 0.
    pub const fn is_failure(self) -> bool {
        match self {
            Self::Composed | Self::Running | Self::Succeeded | Self::NothingChanged => false,
            Self::NeedsReview
            | Self::FailedChecks
            | Self::OutOfScope
            | Self::AgentFailed
            | Self::TimedOut
            | Self::OverCost
            | Self::Parked
            | Self::Stopped
            | Self::Lost => true,
        }
    }

    /// Returns the words for people.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Composed => "composed only",
            Self::Running => "running",
            Self::Succeeded => "succeeded",
            Self::NothingChanged => "nothing changed",
            Self::NeedsReview => "needs review",
            Self::FailedChecks => "failed checks",
            Self::OutOfScope => "out of scope",
            Self::AgentFailed => "agent failed",
            Self::TimedOut => "timed out",
            Self::OverCost => "over its cost limit",
            Self::Parked => "parked",
            Self::Stopped => "stopped",
            Self::Lost => "lost",
        }
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

word_enum! {
    /// Overall result of the checks. No checks is not a pass.
    ChecksOutcome {
        /// There are no checks.
        None "none",
        /// Some checks have no result yet.
        Pending "pending",
        /// At least one check failed.
        Failed "failed",
        /// All checks passed.
        Passed "passed",
    }
}

word_enum! {
    /// A person's decision about a task as a whole, recorded with its newest run.
    TaskDecision {
        /// Nothing more is expected of the task.
        Close "close",
        /// The task counts again.
        Reopen "reopen",
    }
}

impl TaskDecision {
    /// Returns the decision about a task that a record holds, if it holds one.
    pub fn from_decided(decided: &Decided) -> Option<Self> {
        let word = |word: &&Self| word.name() == decided.decision;
        Self::ALL.iter().find(word).copied().filter(|_| decided.by.is_person())
    }
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
                        short_name: None,
                        prompt_sha256: composed.output.sha256,
                        launch: composed.launch,
                        receipts: Vec::new(),
                        exit: None,
                        changed: None,
                        observed: None,
                        replied: None,
                        imported: false,
                        submitted: Vec::new(),
                        context: None,
                        decided: Vec::new(),
                    });
                }
                (Event::Delivered(Delivered { receipt, .. }), Some(account)) => {
                    account.receipts.push(receipt);
                }
                (Event::Exit(exit), Some(account)) => account.exit = Some(exit),
                (Event::ChangedContents(changed), Some(account)) => account.changed = Some(changed),
                (Event::Observed(observed), Some(account)) => account.observed = Some(observed),
                (Event::Replied(replied), Some(account)) => account.replied = Some(replied),
                (Event::SubmissionRecord(submitted), Some(account)) => account.submitted.push(submitted),
                (Event::ContextRecord(context), Some(account)) => account.context = Some(context),
                (Event::Decided(decided), Some(account)) => account.decided.push(decided),
                (Event::Imported(_), Some(account)) => account.imported = true,
                _ => {}
            }
        }
        account
    }

    /// Returns the name by which a person calls the run: its short name, else its id.
    pub fn name(&self) -> &str {
        self.short_name.as_deref().unwrap_or(self.run.id.as_str())
    }

    /// Returns the status of the run.
    pub fn status(&self) -> RunStatus {
        match (&self.launch, &self.exit) {
            (_, Some(exit)) => exit.status(),
            (Some(_), None) => RunStatus::Running,
            (None, None) => RunStatus::Composed,
        }
    }

    /// Returns the outcome: the first of these that applies, from the worst on. Ledgers store it in their lists of runs: if other
    /// records lead to it, `FACT_RULES` of `callsheet-store` goes up.
    pub fn outcome(&self) -> RunOutcome {
        let Some(exit) = &self.exit else {
            return if self.launch.is_some() { RunOutcome::Running } else { RunOutcome::Composed };
        };
        let observed = self.observed.as_ref();
        let seen = observed.and_then(|observed| observed.worktree.as_ref());
        let is_late = |check: &CheckRun| check.ended == Some(EndReason::Timeout);
        let pending = self.violations().iter().any(|violation| !violation.decision.is_accepted());
        let unseen = seen.is_some_and(|seen| seen.newly_unseen().next().is_some());
        let reply = self.reply().map(|reply| reply.outcome).unwrap_or_default();
        let is_unchanged = seen.is_some_and(|seen| {
            seen.commits.is_empty() && seen.changed.iter().all(|file| file.change == ChangeKind::Ignored)
        });
        match exit.ended {
            EndReason::Stopped => RunOutcome::Stopped,
            EndReason::Parked => RunOutcome::Parked,
            EndReason::Timeout => RunOutcome::TimedOut,
            EndReason::Cost => RunOutcome::OverCost,
            _ if observed.is_some_and(|observed| observed.checks.iter().any(is_late)) => RunOutcome::TimedOut,
            EndReason::Lost => RunOutcome::Lost,
            _ if exit.status() == RunStatus::Failed || self.has_reported_failure() => RunOutcome::AgentFailed,
            _ if pending || unseen => RunOutcome::OutOfScope,
            _ if matches!(self.checks_outcome(), ChecksOutcome::Failed | ChecksOutcome::Pending) => {
                RunOutcome::FailedChecks
            }
            _ if !reply.is_good() => RunOutcome::NeedsReview,
            // A review changes nothing, and says so.
            _ if is_unchanged && reply == Outcome::None => RunOutcome::NothingChanged,
            _ => RunOutcome::Succeeded,
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
        let of_person = |decided: &&Decided| {
            decided.by.is_person() && decided.what == path && TaskDecision::from_decided(decided).is_none()
        };
        let word = self.decided.iter().find(of_person).map(|decided| decided.decision.as_str());
        ViolationDecision::from_word(word.unwrap_or_default())
    }

    /// Returns every decision about this run, in order.
    pub fn decisions(&self) -> &[Decided] {
        &self.decided
    }

    /// Checks whether a person closed the task after this run, and did not reopen it.
    pub fn is_task_closed(&self) -> bool {
        let last = self.decided.iter().rev().find_map(TaskDecision::from_decided);
        last == Some(TaskDecision::Close)
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
