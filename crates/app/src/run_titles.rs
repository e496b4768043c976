//! Titles by which a person recognizes runs in lists: the task of a run, or the place of a run of a flow.

use std::collections::BTreeMap;

use callsheet_core::record::Id;
use callsheet_store::{Ledger, RunRow, StoredFacts};

use crate::flow::RecordedFlow;

/// Lane of a phase that is not divided.
const ONLY_LANE: &str = "all";

/// Titles of runs. Each flow is read once.
#[derive(Debug, Default)]
pub struct RunTitles {
    flows: BTreeMap<Id, Option<RecordedFlow>>,
}

impl RunTitles {
    /// Returns the title of a run without the id of its task: the first line of the task's text; for a run of a flow, the flow, the
    /// phase, its round from the second on, and the lane or the title of the task. Empty if there is none.
    pub fn title(&mut self, ledger: &mut Ledger, row: &RunRow) -> String {
        let text = row.facts.as_ref().map(StoredFacts::title).unwrap_or_default();
        let Some(flow) = row.facts.as_ref().and_then(|facts| facts.flow.as_ref()) else {
            return text.to_owned();
        };
        let known = self.flows.entry(flow.clone());
        // A list does not depend on flows that cannot be read: `verify` reports them.
        let known = known.or_insert_with(|| RecordedFlow::read(ledger, flow).ok().flatten()).as_ref();
        let place = known.and_then(|known| {
            known.lane_runs.iter().find(|place| place.run == row.run.id.as_str()).map(|place| (known, place))
        });
        let Some((known, place)) = place else { return text.to_owned() };
        let round = if place.round > 1 { format!("round {}", place.round) } else { String::new() };
        let lane = match row.run.task {
            Some(_) => text,
            None if place.lane == ONLY_LANE => "",
            None => &place.lane,
        };
        let parts = [known.plan.name.as_str(), &place.phase, &round, lane];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" · ")
    }
}
