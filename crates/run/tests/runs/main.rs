//! Tests of runs with an agent that obeys the test: the events, the observations, and that no process is
//! left.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod agents;
mod checks;
mod embedding;
mod faults;
mod lane_merges;
mod observed_changes;
mod orphans;
mod support;
mod terminals;
