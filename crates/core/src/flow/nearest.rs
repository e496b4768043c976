//! Finds the transition that a lane without a way on came nearest to. Only people read the result: the flow
//! waits whichever transition it is.
//!
//! The nearest transition is found by three rules, each among those that the rule before leaves:
//!
//! 1. A transition whose verdict and submissions were given comes before one that names neither, and that
//!    before one whose verdict or submission was not given: the agent chose its way by them.
//! 2. A transition is left out if another one lacks no more and has no less, and one of both is a real
//!    difference.
//! 3. The first one counts, because a phase lists its transitions from best to worst.

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;

use super::evidence::{Evidence, split_needs};
use super::{Lane, Phase};

/// Transition that a lane came nearest to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NearestTransition {
    /// Index of the transition.
    pub on: usize,
    /// Words of evidence that are missing; empty if the lane takes the transition.
    pub lacks: Vec<String>,
}

/// How a transition fits the claims of the agent, from worst to best.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum ClaimFit {
    /// A verdict or a submission that it needs was not given.
    Missing,
    /// It needs no verdict and no submission.
    NotNeeded,
    /// All of them were given.
    Given,
}

/// A transition with the words of its needs.
struct TransitionNeeds {
    met: BTreeSet<String>,
    lacks: BTreeSet<String>,
}

impl TransitionNeeds {
    fn claim_fit(&self) -> ClaimFit {
        let has_claim = |words: &BTreeSet<String>| words.iter().any(|word| is_claim(word));
        if has_claim(&self.lacks) {
            ClaimFit::Missing
        } else if has_claim(&self.met) {
            ClaimFit::Given
        } else {
            ClaimFit::NotNeeded
        }
    }

    /// Checks whether it lacks no more and has no less than the other one, and differs from it.
    fn is_nearer_than(&self, other: &Self) -> bool {
        self.lacks.is_subset(&other.lacks)
            && self.met.is_superset(&other.met)
            && (self.lacks.len(), self.met.len()) != (other.lacks.len(), other.met.len())
    }
}

fn is_claim(word: &str) -> bool {
    matches!(word.split('.').next(), Some("reply" | "submission"))
}

/// Finds the transition that the lane is nearest to. Returns `None` if the phase has no transition.
pub fn find_nearest(phase: &Phase, lane: &Lane, evidence: &Evidence) -> Option<NearestTransition> {
    let split: Vec<(Vec<String>, Vec<String>)> =
        phase.on.iter().map(|on| split_needs(&on.needs, lane, evidence)).collect();
    let all: Vec<TransitionNeeds> = split
        .iter()
        .map(|(met, lacks)| TransitionNeeds {
            met: met.iter().cloned().collect(),
            lacks: lacks.iter().cloned().collect(),
        })
        .collect();
    let best = all.iter().map(TransitionNeeds::claim_fit).max()?;
    let fits = |needs: &TransitionNeeds| needs.claim_fit() == best;
    let is_beaten = |needs: &TransitionNeeds| all.iter().any(|other| other.is_nearer_than(needs));
    let on = all.iter().position(|needs| fits(needs) && !is_beaten(needs))?;
    Some(NearestTransition { on, lacks: split[on].1.clone() })
}
