//! Whole flows with the built program: scripted agents, real processes, real git.

mod agents;
mod kills;
mod people;
mod traces;
mod world;
