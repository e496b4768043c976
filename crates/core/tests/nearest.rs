//! Tests which transition a waiting lane is said to be nearest to, and that every missing word has a reason.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;
use std::env;

use callsheet_core::flow::{
    Evidence, Lane, LaneDetails, NearestTransition, Phase, PhaseTransition, find_flow, find_nearest,
};
use callsheet_core::library::layout::Layout;
use callsheet_core::record::{LackContext, explain_lacks};
use callsheet_core::{Builtin, Library};
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

const WORDS: [&str; 14] = [
    "reply.PASS",
    "reply.NEEDS_CHANGES",
    "reply.complete",
    "submission.submit_plan",
    "submission.submit_review",
    "file.a.md",
    "file.specs/**",
    "file.out/{lane}.md",
    "check.tests",
    "checks-or-none",
    "changelog-or-none",
    "exit",
    "clean",
    "plan",
];

/// Evidence that runs can leave.
const EVIDENCE: [&str; 13] = [
    "reply.PASS",
    "reply.NEEDS_CHANGES",
    "reply.complete",
    "submission.submit_plan",
    "submission.submit_review",
    "file.a.md",
    "file.specs/login.md",
    "file.out/one.md",
    "check.tests",
    "checks-or-none",
    "exit",
    "clean",
    "plan",
];

fn transition(needs: Vec<&'static str>) -> PhaseTransition {
    PhaseTransition { needs: needs.into_iter().map(str::to_owned).collect(), to: "done".into() }
}

fn phases() -> impl Strategy<Value = Phase> {
    let needs = subsequence(WORDS.to_vec(), 1..6).prop_shuffle().prop_map(transition);
    proptest::collection::vec(needs, 1..6).prop_map(|on| Phase { on, ..Phase::default() })
}

fn evidence() -> impl Strategy<Value = Evidence> {
    subsequence(EVIDENCE.to_vec(), 0..EVIDENCE.len())
        .prop_map(|words| words.into_iter().map(str::to_owned).collect())
}

fn lane() -> Lane {
    Lane { id: "one".into(), of: vec!["one".into(), "two".into()], ..Lane::default() }
}

/// Returns the words of a transition with evidence and without, judged alone.
fn split(on: &PhaseTransition, evidence: &Evidence) -> (BTreeSet<String>, BTreeSet<String>) {
    let alone = Phase { on: vec![on.clone()], ..Phase::default() };
    let lacks: BTreeSet<String> =
        find_nearest(&alone, &lane(), evidence).unwrap().lacks.into_iter().collect();
    let all = on.needs.iter().flat_map(|need| match need.contains("{lane}") {
        true => vec![need.replace("{lane}", "one"), need.replace("{lane}", "two")],
        false => vec![need.clone()],
    });
    (all.filter(|need| !lacks.contains(need)).collect(), lacks)
}

fn has_claim(words: &BTreeSet<String>) -> bool {
    words.iter().any(|word| word.starts_with("reply.") || word.starts_with("submission."))
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if env::var_os("CALLSHEET_LONG").is_some_and(|long| long == "1") { 200_000 } else { 4_000 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn nearer_transition_is_never_beaten(phase in phases(), evidence in evidence()) {
        let nearest = find_nearest(&phase, &lane(), &evidence).unwrap();
        let (met, lacks) = split(&phase.on[nearest.on], &evidence);
        prop_assert_eq!(nearest.lacks.iter().cloned().collect::<BTreeSet<_>>(), lacks.clone());
        for on in &phase.on {
            let (other_met, other_lacks) = split(on, &evidence);
            let has_more = other_met.is_superset(&met) && other_lacks.is_subset(&lacks);
            prop_assert!(!has_more || (&other_met, &other_lacks) == (&met, &lacks), "{:?}", on.needs);
            // The agent's verdict and submissions come first.
            let is_given = has_claim(&other_met) && !has_claim(&other_lacks);
            prop_assert!(!is_given || (has_claim(&met) && !has_claim(&lacks)), "{:?}", on.needs);
        }
    }

    #[test]
    fn order_of_needs_changes_nothing(phase in phases(), evidence in evidence()) {
        let nearest = find_nearest(&phase, &lane(), &evidence).unwrap();
        let mut turned = phase.clone();
        turned.on.iter_mut().for_each(|on| on.needs.reverse());
        let again = find_nearest(&turned, &lane(), &evidence).unwrap();
        let mut lacks = again.lacks.clone();
        lacks.sort();
        let mut expected = nearest.lacks.clone();
        expected.sort();
        prop_assert_eq!((again.on, lacks), (nearest.on, expected));
    }

    #[test]
    fn every_missing_word_has_reason(
        word in select(WORDS.to_vec()),
        refused in proptest::collection::vec("[a-z]{1,8}", 0..3),
        changelog in proptest::option::of(Just("CHANGELOG.md".to_owned())),
    ) {
        let details = LaneDetails { changelog, strayed: Vec::new() };
        let (evidence, aside) = (Evidence::new(), BTreeSet::from(["specs/login.md".to_owned()]));
        let context =
            LackContext { evidence: &evidence, run: None, refused: &refused, aside: &aside, details: &details };
        let reasons = explain_lacks(&[word.to_owned()], &context);
        prop_assert!(!reasons.is_empty());
        prop_assert!(reasons.iter().all(|reason| reason.need == word && !reason.message.is_empty()));
    }
}

#[test]
fn nearest_of_shipped_flow_leads_forward() {
    let flow = find_flow(&Library::new(&Builtin), "sdd", &Layout::default()).unwrap().1;
    let nearest = |phase: &str, words: &[&str]| {
        let evidence: Evidence = words.iter().map(|word| (*word).to_owned()).collect();
        let phase = flow.phase(phase).unwrap();
        let NearestTransition { on, lacks } = find_nearest(phase, &lane(), &evidence).unwrap();
        (phase.on[on].to.clone(), lacks.join(" "))
    };
    let to = |to: &str, lacks: &str| (to.to_owned(), lacks.to_owned());
    // No verdict: the way forward, though the way back needs less.
    assert_eq!(
        nearest("plan", &["reply.no_verdict", "exit", "clean"]),
        to("challenge", "reply.PASS file.proposal.md file.specs/** file.tasks.md")
    );
    assert_eq!(nearest("challenge", &["exit", "clean"]), to("implement", "reply.PASS"));
    // The verdict chooses the way.
    assert_eq!(nearest("plan", &["reply.NEEDS_REVISION", "exit"]), to("plan", "clean"));
    assert_eq!(nearest("review", &["reply.NEEDS_CHANGES", "clean"]), to("implement", "exit"));
    assert_eq!(nearest("review", &["reply.PASS", "exit", "clean"]), to("archive", "checks-or-none"));
}
