//! Tests whole flows with the built program: scripted agents, real processes, real git.

#![expect(clippy::unwrap_used, reason = "tests")]

mod agents;
mod browser;
mod documents;
mod environment_failures;
mod explained_waits;
mod flow_costs;
mod flow_recovery;
mod flow_requests;
mod kills;
mod layout;
mod multiple_flows;
mod operators_day;
mod parked;
mod person_required;
mod project;
mod rounds;
mod split;
mod terminals;
mod traces;
