//! The judgement of a lane: what its evidence leads to.

use alloc::string::String;
use alloc::vec::Vec;

use super::evidence::{Evidence, missing_evidence};
use super::{Lane, LaneStage, Phase, TransitionTarget, WaitReason};

/// Whether an agent that submits something else can provide this.
pub(super) fn is_submitted(need: &str) -> bool {
    matches!(need.split('.').next(), Some("submission" | "reply" | "file" | "plan" | "topics"))
}

/// Whether all that an agent itself has to provide is there for one of the transitions.
pub fn has_submitted(phase: &Phase, lane: &Lane, evidence: &Evidence) -> bool {
    let lacks =
        |needs: &[String]| missing_evidence(needs, lane, evidence).iter().any(|need| is_submitted(need));
    phase.on.iter().any(|on| !lacks(&on.needs))
}

/// Where a transition leads.
pub(super) fn target(phase: &Phase, on: usize) -> TransitionTarget<'_> {
    phase.on.get(on).map_or(TransitionTarget::Person, |on| TransitionTarget::new(&on.to))
}

/// What becomes of a lane by its evidence.
pub(super) fn judge(phase: &Phase, lane: &Lane, evidence: &Evidence, worktree: bool) -> LaneStage {
    let lacks: Vec<Vec<String>> =
        phase.on.iter().map(|on| missing_evidence(&on.needs, lane, evidence)).collect();
    match lacks.iter().position(Vec::is_empty) {
        // Nobody merges what a person has yet to decide about.
        Some(on) if worktree && target(phase, on) == TransitionTarget::Person => {
            LaneStage::Failed { why: WaitReason::Decision }
        }
        Some(on) if worktree => LaneStage::Unmerged { on: Some(on) },
        Some(on) => LaneStage::Done { on: Some(on) },
        None => {
            let nearest = lacks.into_iter().min_by_key(Vec::len).unwrap_or_default();
            LaneStage::Failed { why: WaitReason::Evidence { lane: lane.id.clone(), lacks: nearest } }
        }
    }
}
