//! Judges a lane: determines the transition that its evidence leads to.

use alloc::string::String;
use alloc::vec::Vec;

use super::evidence::{Evidence, find_missing_evidence};
use super::nearest::{NearestTransition, find_nearest};
use super::{Lane, LaneStage, Phase, TransitionTarget, WaitReason};

/// Checks whether an agent can provide this evidence with another submission.
pub(super) fn is_submittable(need: &str) -> bool {
    matches!(need.split('.').next(), Some("submission" | "reply" | "file" | "plan" | "topics"))
}

/// Checks whether, for one of the transitions, all evidence that the agent itself must provide exists.
pub fn has_submitted(phase: &Phase, lane: &Lane, evidence: &Evidence) -> bool {
    let lacks = |needs: &[String]| {
        find_missing_evidence(needs, lane, evidence).iter().any(|need| is_submittable(need))
    };
    phase.on.iter().any(|on| !lacks(&on.needs))
}

/// Returns the target of a transition.
pub(super) fn transition_target(phase: &Phase, on: usize) -> TransitionTarget<'_> {
    phase.on.get(on).map_or(TransitionTarget::Person, |on| TransitionTarget::new(&on.to))
}

/// Checks whether another submission could be enough: the transition that lacks the fewest words lacks only
/// words that a submission provides. Recorded flows went on by this rule, so it stays, whichever transition is
/// the nearest.
pub(super) fn can_submit_again(phase: &Phase, lane: &Lane, evidence: &Evidence) -> bool {
    let lacks = phase.on.iter().map(|on| find_missing_evidence(&on.needs, lane, evidence));
    lacks.min_by_key(Vec::len).is_none_or(|lacks| lacks.iter().all(|need| is_submittable(need)))
}

/// Determines the stage of a lane from its evidence.
pub(super) fn judge_lane(phase: &Phase, lane: &Lane, evidence: &Evidence, worktree: bool) -> LaneStage {
    let is_taken = |needs: &[String]| find_missing_evidence(needs, lane, evidence).is_empty();
    match phase.on.iter().position(|on| is_taken(&on.needs)) {
        // A worktree is not merged before the person has decided about it.
        Some(on) if worktree && transition_target(phase, on) == TransitionTarget::Person => {
            LaneStage::Failed { why: WaitReason::Decision }
        }
        Some(on) if worktree => LaneStage::Unmerged { on: Some(on) },
        Some(on) => LaneStage::Done { on: Some(on) },
        None => {
            let nearest = find_nearest(phase, lane, evidence);
            let to = nearest.as_ref().and_then(|nearest| phase.on.get(nearest.on)).map(|on| on.to.clone());
            let lacks = nearest.map(|NearestTransition { lacks, .. }| lacks).unwrap_or_default();
            let (lane, to) = (lane.id.clone(), to.unwrap_or_default());
            LaneStage::Failed { why: WaitReason::Evidence { lane, lacks, to } }
        }
    }
}
