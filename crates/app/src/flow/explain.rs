//! Explains why a flow waits, from its events and from the records of its runs.

use std::collections::BTreeSet;

use callsheet_core::flow::{
    Evidence, FlowEvent, FlowState, FlowStatus, LaneDetails, TransitionTarget, WaitReason, archive_folder,
};
use callsheet_core::record::{Id, LackContext, LackReason, RunSummary, explain_lacks};
use callsheet_store::{Ledger, LedgerError};

use super::RecordedFlow;
use super::status::{run_word, total_cost};
use crate::error::Result;
use crate::local_time::LocalClock;
use crate::run::cost::{cost_words, dollars};

/// A reason why a flow waits, with everything that its records say about it.
#[derive(Clone, Debug)]
pub struct ExplainedWait {
    /// The reason.
    pub reason: WaitReason,
    /// The reason in words.
    pub message: String,
    /// The last run of the lane that it is about.
    pub run: Option<Id>,
    /// The name by which a person calls that run.
    pub run_name: Option<String>,
    /// Why evidence is missing.
    pub lacks: Vec<LackReason>,
}

/// Explains why the flow waits for a person.
pub fn explain_waits(ledger: &mut Ledger, known: &RecordedFlow) -> Result<Vec<ExplainedWait>> {
    let mut waits = Vec::new();
    for reason in known.state.wait_reasons() {
        let message = explain_wait(&known.state, &reason);
        let account = waiting_lane(&reason).map(|lane| LaneAccount::new(known, lane));
        let run = account.as_ref().and_then(|account| account.run.clone());
        let summary = match &run {
            Some(run) => read_summary(ledger, run)?,
            None => None,
        };
        let lacks = match (&reason, &account) {
            (WaitReason::Evidence { lacks, .. }, Some(account)) => account.explain(summary.as_ref(), lacks),
            _ => Vec::new(),
        };
        let run_name = run.as_ref().map(|run| run_word(run.as_str(), summary.as_ref()));
        waits.push(ExplainedWait { reason, message, run, run_name, lacks });
    }
    Ok(waits)
}

/// Reads the summary of a run. Returns `None` if its records cannot be read: it was announced, but not
/// started, or they were removed. A flow is shown without them.
pub(super) fn read_summary(ledger: &mut Ledger, run: &Id) -> Result<Option<RunSummary>> {
    match ledger.run_summary(run) {
        Ok(summary) => Ok(Some(summary)),
        Err(LedgerError::NoRun(_) | LedgerError::Damaged(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn waiting_lane(reason: &WaitReason) -> Option<&str> {
    match reason {
        WaitReason::Evidence { lane, .. }
        | WaitReason::Submission { lane, .. }
        | WaitReason::Question { lane, .. }
        | WaitReason::Conflicts { lane, .. } => Some(lane),
        _ => None,
    }
}

/// Records of the flow about a lane of its current entry.
#[derive(Default)]
struct LaneAccount {
    run: Option<Id>,
    evidence: Evidence,
    refused: Vec<String>,
    aside: BTreeSet<String>,
    details: LaneDetails,
}

impl LaneAccount {
    fn new(known: &RecordedFlow, id: &str) -> Self {
        let current = known.state.entry;
        let mut account = Self::default();
        for event in &known.events {
            match event {
                FlowEvent::Entered { entry, aside, .. } if *entry == current => {
                    account.aside.extend(aside.iter().cloned());
                }
                FlowEvent::LaneStarted { entry, lane, run } if *entry == current && lane == id => {
                    account.run = Id::parse(run);
                }
                FlowEvent::LaneEnded { entry, lane, evidence, refused, details, .. }
                    if *entry == current && lane == id =>
                {
                    account.evidence.clone_from(evidence);
                    account.refused.clone_from(refused);
                    account.details.clone_from(details);
                }
                FlowEvent::Cleared { entry, lanes } if *entry == current => {
                    if let Some(evidence) = lanes.get(id) {
                        account.evidence.clone_from(evidence);
                    }
                }
                _ => {}
            }
        }
        // Files of a lane are set aside when it starts, and only the documents show it.
        let folder = archive_folder(current) + "/";
        let documents = known.state.documents.iter().flat_map(|documents| documents.keys());
        account.aside.extend(documents.filter_map(|path| path.strip_prefix(&folder)).map(str::to_owned));
        account
    }

    fn explain(&self, run: Option<&RunSummary>, lacks: &[String]) -> Vec<LackReason> {
        let Self { evidence, refused, aside, details, .. } = self;
        explain_lacks(lacks, &LackContext { evidence, run, refused, aside, details })
    }
}

/// Explains one of the reasons why the flow waits.
fn explain_wait(state: &FlowState, reason: &WaitReason) -> String {
    let begins = if state.at == FlowStatus::Entering { "begin" } else { "continue" };
    // The only lane of a phase has no name of its own.
    let named = |lane: &str| {
        let is_only = lane == "all" && state.lanes.len() < 2;
        format!("`{}`", if is_only { &state.phase } else { lane })
    };
    match reason {
        WaitReason::Decision => format!("`{}` needs a decision", state.phase),
        WaitReason::Evidence { lane, lacks, to } => {
            let (lane, lacks) = (named(lane), lacks.join(", "));
            format!("{lane} cannot continue to {}: it lacks {lacks}", target_words(to))
        }
        WaitReason::Submission { lane, says } => {
            format!("the submission of {} was refused: {}", named(lane), says.join("; "))
        }
        WaitReason::Question { lane, asks } => format!("{} asks: {}", named(lane), asks.join("; ")),
        WaitReason::Conflicts { lane, paths } => format!("cannot merge `{lane}`: {}", paths.join(", ")),
        WaitReason::Limit { phase } => format!("phase `{phase}` reached its limit of rounds"),
        WaitReason::Refused { says } => format!("`{}` cannot begin: {}", state.phase, says.join("; ")),
        WaitReason::Cost => {
            let limit = state.max_cost.map(|limit| format!(" of {}", dollars(limit))).unwrap_or_default();
            format!("the cost limit{limit} was reached (spent {})", cost_words(total_cost(state)))
        }
        WaitReason::Documents { paths, cut: true } => format!(
            "documents changed while the flow was not running, by a person or by the interrupted agent: {}",
            paths.join(", ")
        ),
        WaitReason::Documents { paths, cut: false } => {
            format!("`{}` changed documents of other phases: {}", state.phase, paths.join(", "))
        }
        WaitReason::Parked { lanes, until } => {
            let lanes: Vec<String> = lanes.iter().map(|lane| named(lane)).collect();
            let time = LocalClock::read().clock_time(until);
            format!("the quota of the agent of {} is used up until {time}", lanes.join(", "))
        }
        WaitReason::Failed { says } => format!("`{}` cannot {begins}: {}", state.phase, says.join("; ")),
    }
}

fn target_words(to: &str) -> String {
    match TransitionTarget::new(to) {
        TransitionTarget::Phase("") => "the next phase".to_owned(),
        TransitionTarget::Phase(phase) => format!("`{phase}`"),
        TransitionTarget::Person => "your decision".to_owned(),
        TransitionTarget::Done => "the end".to_owned(),
        TransitionTarget::Back => "the phase before it".to_owned(),
    }
}
