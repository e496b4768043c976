//! Runs with an agent that does whatever a test wants: what is told, what is observed, and that nothing is left.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod agents;
mod checks;
mod faults;
mod lanes;
mod observed;
mod orphans;
mod support;
mod terminals;
