//! Proofs: each class of attacks on what the core promises, and how many of its members are tried.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod verdicts;
