//! Lanes of a flow whose agents have no quota left.

use callsheet_core::diag::{Code, Diagnostic};
use callsheet_core::flow::FlowEvent;
use callsheet_core::record::RunCost;

use crate::error::Error;
use crate::local_time::LocalClock;

/// Lanes whose runs are parked.
#[derive(Debug, Default)]
pub(super) struct ParkedRuns {
    lanes: Vec<String>,
    until: String,
    cost: RunCost,
}

impl ParkedRuns {
    /// Adds a lane. All of them can continue at the latest time.
    pub(super) fn add(&mut self, lane: String, until: String, cost: RunCost) {
        self.lanes.push(lane);
        self.lanes.sort();
        self.until = until.max(std::mem::take(&mut self.until));
        self.cost = self.cost + cost;
    }

    pub(super) fn words(&self) -> String {
        format!(
            "the quota of the agent of `{}` is used up until {}",
            self.lanes.join("`, `"),
            LocalClock::read().clock_time(&self.until)
        )
    }

    pub(super) fn into_event(self, entry: u32) -> FlowEvent {
        let Self { lanes, until, cost } = self;
        let RunCost { microusd: cost, is_estimate: cost_estimated } = cost;
        FlowEvent::Parked { entry, lanes, until, cost, cost_estimated }
    }
}

/// Returns the error for a flow that is resumed before its agents have quota again.
pub(super) fn too_early_error(until: &str) -> Error {
    let until = LocalClock::read().clock_time(until);
    let message = format!("the flow is parked until {until}: the quota of its agent is used up");
    Diagnostic::error(Code::RunRefused, message)
        .hint("run `callsheet flow resume` then, or `callsheet flow decide approve` to try at once")
        .into()
}
