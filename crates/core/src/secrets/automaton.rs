//! Matches a pattern that is not shipped with an automaton: one step for every byte, whatever the pattern is.
//!
//! The whole automaton is built before the first text is scanned, so that a pattern which needs too many
//! states is detected by then. Unlike any other engine, it reports how far it has looked.

use alloc::boxed::Box;
use core::ops::Range;

use regex_automata::dfa::{Automaton as _, StartKind, dense};
use regex_automata::nfa::thompson;
use regex_automata::{Anchored, Input};

use super::rules::syntax;

/// The maximum size of the automaton and of its intermediate forms, in bytes.
const MOST_MEMORY: usize = 512 * 1024;

#[derive(Clone)]
pub(super) struct PatternAutomaton {
    table: dense::DFA<alloc::vec::Vec<u32>>,
    anchored: Anchored,
    /// The cost of finding the groups in a byte, relative to one step.
    pub(super) weight: usize,
}

/// Why a pattern has no automaton.
#[derive(Debug, thiserror::Error)]
pub(super) enum AutomatonError {
    #[error("it is too large")]
    TooLarge,
    #[error("{0}")]
    Pattern(Box<thompson::BuildError>),
}

impl PatternAutomaton {
    /// Creates an automaton that matches at the start of a range, or anywhere in it if it is not anchored.
    pub(super) fn new(pattern: &str, anchored: Anchored) -> Result<Self, AutomatonError> {
        let nfa = thompson::Compiler::new()
            .syntax(syntax())
            .configure(thompson::Config::new().utf8(false).nfa_size_limit(Some(MOST_MEMORY / 4)))
            .build(pattern)
            .map_err(|error| match error.size_limit() {
                Some(_) => AutomatonError::TooLarge,
                None => AutomatonError::Pattern(Box::new(error)),
            })?;
        let start = if anchored == Anchored::No { StartKind::Unanchored } else { StartKind::Anchored };
        let config = dense::Config::new()
            .start_kind(start)
            .dfa_size_limit(Some(MOST_MEMORY))
            .determinize_size_limit(Some(MOST_MEMORY));
        let table = dense::Builder::new().configure(config).build_from_nfa(&nfa);
        let table = table.map_err(|_| AutomatonError::TooLarge)?;
        Ok(Self { table, anchored, weight: nfa.states().len() / 4 + 1 })
    }

    /// Checks whether the pattern matches in the range. Returns the number of examined bytes too.
    pub(super) fn is_match(&self, bytes: &[u8], range: Range<usize>) -> (bool, usize) {
        let input = Input::new(bytes).span(range.clone()).anchored(self.anchored);
        // Without a start state the result is unknown, so a match is assumed.
        let Ok(mut state) = self.table.start_state_forward(&input) else { return (true, 0) };
        for (step, byte) in bytes[range.clone()].iter().enumerate() {
            state = self.table.next_state(state, *byte);
            if self.table.is_special_state(state) {
                if self.table.is_dead_state(state) {
                    return (false, step + 1);
                }
                if self.table.is_match_state(state) || self.table.is_quit_state(state) {
                    return (true, step + 1);
                }
            }
        }
        // The automaton reports a match one step late.
        state = match bytes.get(range.end) {
            Some(byte) => self.table.next_state(state, *byte),
            None => self.table.next_eoi_state(state),
        };
        (self.table.is_match_state(state) || self.table.is_quit_state(state), range.len() + 1)
    }
}
