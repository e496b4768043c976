//! One line for each lane and each phase that ends, for a person who follows a flow.

use std::time::{Duration, Instant};

use callsheet_core::flow::{FlowEvent, FlowStatus};
use callsheet_core::record::Id;

use super::driver::FlowDriver;
use super::status::run_word;
use crate::project::duration::duration_words;
use crate::text_width::visible_line;

/// The phase that is reported when it ends.
#[derive(Debug)]
pub(super) struct ReportedPhase {
    name: String,
    entry: u32,
    round: u32,
    lanes: usize,
    begun: Instant,
    /// The cost of the flow when the phase began, in millionths of a dollar.
    cost_before: u64,
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
            cost_before: 0,
            has_ended: false,
        }
    }
}

impl FlowDriver<'_> {
    /// Reports the end of a lane: verdict, evidence, duration, cost and run.
    pub(super) fn report_lane(&mut self, event: &FlowEvent) {
        let FlowEvent::LaneEnded { lane, run, evidence, cost, .. } = event else { return };
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
            cost_words(*cost)
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
            FlowStatus::Done => "the flow is done".to_owned(),
            FlowStatus::Rejected => "the flow was rejected".to_owned(),
            _ => format!("next: {}", state.phase),
        };
        let count = format!("{} {}", known.lanes, if known.lanes == 1 { "lane" } else { "lanes" });
        let line = format!(
            "{} ended: round {}, {count}, {}{}; {next}",
            known.name,
            known.round,
            took_words(known.begun.elapsed()),
            cost_words(state.cost.saturating_sub(known.cost_before)),
        );
        let fresh = ReportedPhase {
            name: state.phase.clone(),
            entry: state.entry,
            round: state.round(),
            lanes: state.lanes.len(),
            begun: Instant::now(),
            cost_before: state.cost,
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

fn cost_words(cost: u64) -> String {
    if cost == 0 { String::new() } else { format!(", ${:.2}", cost as f64 / 1e6) }
}
