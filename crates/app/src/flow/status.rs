//! The status of a flow: why it waits, its runs, and the commands that a person can type next.

use callsheet_core::flow::{FlowDecision, FlowState};
use callsheet_core::is_name;
use callsheet_core::record::{Id, RunCost, RunSummary};
use callsheet_store::{Ledger, ProjectFilter};

use super::explain::{ExplainedWait, explain_waits, read_summary};
use super::find::{find_recorded, is_in_project, read_all};
use super::next_steps::flow_next_steps;
use super::{LaneRun, RecordedFlow};
use crate::error::Result;
use crate::project::Project;
use crate::run::is_driven;
use crate::run::next_steps::NextStep;

/// A flow as people see it.
#[derive(Debug)]
pub struct FlowView {
    /// The flow as it is recorded.
    pub known: RecordedFlow,
    /// Whether a process drives it.
    pub driven: bool,
    /// Why it waits for a person.
    pub waits: Vec<ExplainedWait>,
    /// The commands that a person can type next, the most useful first.
    pub next: Vec<NextStep>,
}

/// A run of a flow.
#[derive(Debug)]
pub struct FlowRunView {
    /// Its place in the flow.
    pub place: LaneRun,
    /// The records of the run; `None` if it was announced, but not started, or its records were removed.
    pub summary: Option<RunSummary>,
}

/// The name of a run in a table and in the commands for people.
pub fn run_word(run: &str, summary: Option<&RunSummary>) -> String {
    summary.map_or(run, RunSummary::name).to_owned()
}

/// Returns the cost of all runs of a flow.
pub const fn total_cost(state: &FlowState) -> RunCost {
    RunCost { microusd: state.cost, is_estimate: state.cost_estimated }
}

/// Returns the word that finds the flow among these: its name if no other flow has it, else its id.
fn flow_word(flows: &[RecordedFlow], known: &RecordedFlow, filter: Option<&ProjectFilter>) -> String {
    let (name, id) = (&known.plan.name, known.id.as_str());
    let fits = |other: &&RecordedFlow| {
        (other.plan.name == *name && is_in_project(other, filter)) || other.id.as_str().starts_with(name)
    };
    let is_found = is_name(name) && is_in_project(known, filter) && flows.iter().filter(fits).count() <= 1;
    if is_found { name.clone() } else { id.to_owned() }
}

impl Project {
    /// Reads the flows of the project that have not ended, the newest first.
    pub fn open_flows(&self, ledger: &mut Ledger) -> Result<Vec<FlowView>> {
        self.view_flows(ledger, |known| !known.imported && !known.state.has_ended())
    }

    /// Reads all flows of the project, the newest first.
    pub fn all_flows(&self, ledger: &mut Ledger) -> Result<Vec<FlowView>> {
        self.view_flows(ledger, |_| true)
    }

    fn view_flows(&self, ledger: &mut Ledger, is_shown: fn(&RecordedFlow) -> bool) -> Result<Vec<FlowView>> {
        let filter = self.project_filter(ledger)?;
        let flows = read_all(self, ledger)?;
        let is_shown = |known: &RecordedFlow| is_in_project(known, filter.as_ref()) && is_shown(known);
        let words = flows.iter().map(|known| flow_word(&flows, known, filter.as_ref()));
        let words: Vec<String> = words.collect();
        let mut views = Vec::new();
        for (known, word) in flows.into_iter().zip(words).filter(|(known, _)| is_shown(known)) {
            views.push(view_flow(ledger, known, &word, true)?);
        }
        views.reverse();
        Ok(views)
    }

    /// Reads the named flow; without a name, the newest one that has not ended, or else the newest.
    pub fn flow_view(&self, ledger: &mut Ledger, flow: Option<&str>) -> Result<FlowView> {
        let known = find_recorded(self, ledger, flow)?;
        self.view_recorded(ledger, known)
    }

    /// Adds the reasons to wait and the next commands to a recorded flow.
    pub fn view_recorded(&self, ledger: &mut Ledger, known: RecordedFlow) -> Result<FlowView> {
        let filter = self.project_filter(ledger)?;
        let word = flow_word(&read_all(self, ledger)?, &known, filter.as_ref());
        let is_own = is_in_project(&known, filter.as_ref());
        view_flow(ledger, known, &word, is_own)
    }
}

fn view_flow(ledger: &mut Ledger, known: RecordedFlow, word: &str, is_own: bool) -> Result<FlowView> {
    let driven = is_driven(&known.id);
    let waits = explain_waits(ledger, &known)?;
    let next = match is_own && !known.imported {
        true => flow_next_steps(&known, driven, word, &waits),
        false => Vec::new(),
    };
    Ok(FlowView { known, driven, waits, next })
}

impl FlowView {
    /// Reads the runs of the flow, in order.
    pub fn read_runs(&self, ledger: &mut Ledger) -> Result<Vec<FlowRunView>> {
        let mut runs = Vec::new();
        for place in &self.known.lane_runs {
            let summary = match Id::parse(&place.run) {
                Some(run) => read_summary(ledger, &run)?,
                None => None,
            };
            runs.push(FlowRunView { place: place.clone(), summary });
        }
        Ok(runs)
    }
}

/// Returns the word for a person's decision in a state.
pub(super) fn decision_word(decision: &FlowDecision, state: &FlowState) -> &'static str {
    match decision {
        FlowDecision::Approve => "approve",
        FlowDecision::Reject => "reject",
        FlowDecision::Changes(_) if !state.questions().is_empty() => "answer",
        FlowDecision::Changes(_) => "changes",
    }
}
