//! An automaton of a pattern that somebody else wrote: one step for every byte, whatever the pattern is.
//!
//! It is built whole before the first text is looked at, so that a pattern which would need too many states is known by
//! then. How far it has looked is known as well, which no other engine tells.

use alloc::string::{String, ToString};
use core::ops::Range;

use regex_automata::dfa::{Automaton as _, StartKind, dense};
use regex_automata::nfa::thompson;
use regex_automata::{Anchored, Input};

use super::rules::syntax;

/// Bytes of the automaton, and of what it is made from.
const MOST_MEMORY: usize = 512 * 1024;

#[derive(Clone)]
pub(super) struct PatternAutomaton {
    table: dense::DFA<alloc::vec::Vec<u32>>,
    anchored: Anchored,
    /// How much longer it takes to find the groups of a byte than to step over it.
    pub(super) weight: usize,
}

impl PatternAutomaton {
    /// One that begins where it is told to, or anywhere behind.
    pub(super) fn new(pattern: &str, anchored: Anchored) -> Result<Self, String> {
        let too_large = "it is too large";
        let nfa = thompson::Compiler::new()
            .syntax(syntax())
            .configure(thompson::Config::new().utf8(false).nfa_size_limit(Some(MOST_MEMORY / 4)))
            .build(pattern)
            .map_err(|error| match error.size_limit() {
                Some(_) => too_large.to_string(),
                None => error.to_string(),
            })?;
        let start = if anchored == Anchored::No { StartKind::Unanchored } else { StartKind::Anchored };
        let config = dense::Config::new()
            .start_kind(start)
            .dfa_size_limit(Some(MOST_MEMORY))
            .determinize_size_limit(Some(MOST_MEMORY));
        let table = dense::Builder::new().configure(config).build_from_nfa(&nfa);
        let table = table.map_err(|_| too_large.to_string())?;
        Ok(Self { table, anchored, weight: nfa.states().len() / 4 + 1 })
    }

    /// Whether it matches somewhere in the range, and how many bytes it looked at to know.
    pub(super) fn is_match(&self, bytes: &[u8], range: Range<usize>) -> (bool, usize) {
        let input = Input::new(bytes).span(range.clone()).anchored(self.anchored);
        // Without a state to begin with, what would be found is not known.
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
        // A match is told one step late.
        state = match bytes.get(range.end) {
            Some(byte) => self.table.next_state(state, *byte),
            None => self.table.next_eoi_state(state),
        };
        (self.table.is_match_state(state) || self.table.is_quit_state(state), range.len() + 1)
    }
}
