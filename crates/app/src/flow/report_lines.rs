//! One line for each lane and each phase that ends, for a person who follows a flow.

use std::time::{Duration, Instant};

use callsheet_core::flow::{FlowEvent, FlowStatus};
use callsheet_core::record::{Id, RunCost};

use super::driver::FlowDriver;
use super::status::{run_word, total_cost};
use crate::project::duration::duration_words;
use crate::run::cost::cost_words;
use crate::text_width::visible_line;

/// The phase that is reported when it ends.
#[derive(Debug)]
pub(super) struct ReportedPhase {
    name: String,
    entry: u32,
    round: u32,
    lanes: usize,
    begun: Instant,
    /// The cost of the lanes that have ended.
    cost: RunCost,
    has_ended: bool,
}

impl Default for ReportedPhase {
    fn default() -> Self {
        Self {
            name: String::new(),
            entry: 0,
            round: 0,
            lanes: 0,
            begun: Instant::now(),
            cost: RunCost::default(),
            has_ended: false,
        }
    }
}

impl FlowDriver<'_> {
    /// Reports the end of a lane: verdict, evidence, duration, cost and run.
    pub(super) fn report_lane(&mut self, event: &FlowEvent) {
        let FlowEvent::LaneEnded { lane, run, evidence, cost, cost_estimated, .. } = event else { return };
        let cost = RunCost { microusd: *cost, is_estimate: *cost_estimated };
        self.reported.cost = self.reported.cost + cost;
        let replies = evidence.iter().filter_map(|word| word.strip_prefix("reply."));
        let verdict = replies.collect::<Vec<_>>().join(", ");
        let verdict = if verdict.is_empty() { "no verdict" } else { &verdict };
        let others = evidence.iter().filter(|word| !word.starts_with("reply.")).map(String::as_str);
        let others = others.collect::<Vec<_>>().join(", ");
        let others = if others.is_empty() { "no evidence".to_owned() } else { others };
        let summary = Id::parse(run).and_then(|run| self.ledger.run_summary(&run).ok());
        let name = run_word(run, summary.as_ref());
        let lanes = self.lanes();
        let took = lanes.lock().ok().and_then(|lanes| Some(lanes.get(lane)?.elapsed())).unwrap_or_default();
        let line = format!(
            "{} {lane}: {verdict} ({others}), {}{}, run {name}",
            self.state().phase,
            took_words(took),
            cost_part(cost)
        );
        self.tell(&line);
    }

    /// Reports the end of the phase that was left by the last event.
    pub(super) fn report_phase(&mut self) {
        let state = self.state();
        let known = &self.reported;
        if known.entry == state.entry && known.has_ended == state.has_ended() {
            let lanes = state.lanes.len();
            self.reported.lanes = lanes;
            return;
        }
        let was_known = known.entry > 0 && known.lanes > 0;
        let next = match &state.at {
            FlowStatus::Done => format!("the flow is done{}", cost_part(total_cost(state))),
            FlowStatus::Rejected => format!("the flow was rejected{}", cost_part(total_cost(state))),
            _ => format!("next: {}", state.phase),
        };
        let count = format!("{} {}", known.lanes, if known.lanes == 1 { "lane" } else { "lanes" });
        let line = format!(
            "{} ended: round {}, {count}, {}{}; {next}",
            known.name,
            known.round,
            took_words(known.begun.elapsed()),
            cost_part(known.cost),
        );
        let fresh = ReportedPhase {
            name: state.phase.clone(),
            entry: state.entry,
            round: state.round(),
            lanes: state.lanes.len(),
            begun: Instant::now(),
            cost: RunCost::default(),
            has_ended: state.has_ended(),
        };
        if was_known {
            self.tell(&line);
        }
        self.reported = fresh;
    }

    fn tell(&self, line: &str) {
        if !self.silent {
            self.project.observer.status(&visible_line(line));
        }
    }
}

fn took_words(took: Duration) -> String {
    duration_words(u64::try_from(took.as_millis()).unwrap_or(u64::MAX))
}

fn cost_part(cost: RunCost) -> String {
    if cost.microusd == 0 { String::new() } else { format!(", {}", cost_words(cost)) }
}
