//! Tests whole flows with the built program: scripted agents, real processes, real git.

#![expect(clippy::unwrap_used, reason = "tests")]

mod agents;
mod broken;
mod documents;
mod kills;
mod layout;
mod people;
mod rounds;
mod several;
mod terminals;
mod traces;
mod ways_on;
mod world;
