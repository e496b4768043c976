//! Evidence: what is known of a lane's run, as words that transitions can need.
//!
//! | evidence | there is |
//! |---|---|
//! | `reply.WORD` | a verdict that was believed, or `complete`, `incomplete`, `no_verdict` … |
//! | `submission.CONTRACT` | something that was handed in by this run and found good |
//! | `file.PATH` | a file that this round wrote; in a need it may be a glob |
//! | `check.NAME` | a check that passed |
//! | `checks` | at least one check, and all of them passed |
//! | `checks-or-none` | no check that did not pass |
//! | `changelog-or-none` | a changelog that a run of the flow changed, or none in the project's folder |
//! | `exit` | a process that ended by itself, with 0 |
//! | `clean` | no change outside the scope that nobody approved |
//! | `plan`, `plan.needs_design` | a valid execution plan, and what it says |
//! | `topics` | research that was asked for and is not done |

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::{Lane, Phase, lanes};
use crate::diag::{Code, Diagnostic, Diagnostics};
use crate::fact::{CheckResult, EndReason, RunFacts};
use crate::glob::Glob;
use crate::lookup::Library;
use crate::reply::Outcome;
use crate::request::Layout;
use crate::source::{ListingLimits, SourceId, SourceRoot};
use crate::submission;

pub type Evidence = BTreeSet<String>;

/// What whoever ran a lane has seen of it.
#[derive(Clone, Copy, Debug)]
pub struct LaneObservation<'s> {
    /// What the reply comes to.
    pub outcome: Outcome,
    pub facts: &'s RunFacts,
    /// The contracts that this run handed in and that were found good, each with its verdict.
    pub submissions: &'s [(String, Option<String>)],
    /// The files among the phase's outputs that are there now.
    pub files: &'s [String],
    /// What the runs of the flow changed, this one included.
    pub flow_changed: &'s BTreeSet<String>,
    /// What the phase reports has a finding with which nothing passes.
    pub is_severe: bool,
}

/// All evidence of a run. What the flow's folder says is looked up only where the phase needs it.
pub fn evidence(
    phase: &Phase,
    seen: &LaneObservation<'_>,
    library: &Library<'_>,
    layout: &Layout,
) -> Evidence {
    let mut evidence = Evidence::new();
    let handed_in = seen.submissions.iter().filter_map(|(_, verdict)| verdict.as_deref());
    let failed = handed_in.clone().any(|verdict| verdict != "pass");
    match seen.outcome {
        Outcome::None => {
            let word = if failed { "NEEDS_CHANGES" } else { "PASS" };
            evidence.extend(handed_in.take(1).map(|_| format!("reply.{word}")));
        }
        outcome => {
            // A pass with such a finding contradicts itself, and what is more severe counts.
            let is_conflict = outcome == Outcome::Pass && seen.is_severe;
            let outcome = if is_conflict { rejection_outcome(phase) } else { outcome };
            evidence.insert(format!("reply.{}", word(outcome)));
        }
    }
    evidence.extend(seen.submissions.iter().map(|(name, _)| format!("submission.{name}")));
    evidence.extend(seen.files.iter().map(|path| format!("file.{path}")));
    add_facts(seen.facts, &mut evidence);
    if needs(phase, "plan")
        && let Ok(order) = submission::order(library, layout)
    {
        evidence.insert("plan".to_string());
        evidence.extend(order.needs_design.then(|| "plan.needs_design".to_string()));
    }
    if needs_changelog(phase) && has_changelog_or_none(seen.flow_changed, library) {
        evidence.insert("changelog-or-none".to_string());
    }
    if needs(phase, "topics")
        && lanes::topics(library, &BTreeSet::new()).is_ok_and(|topics| !topics.is_empty())
    {
        evidence.insert("topics".to_string());
    }
    evidence
}

/// The verdict that sends the work of this phase back.
fn rejection_outcome(phase: &Phase) -> Outcome {
    let leads = |outcome: Outcome| {
        let need = format!("reply.{}", word(outcome));
        phase.on.iter().any(|on| on.needs.contains(&need))
    };
    if leads(Outcome::NeedsRevision) { Outcome::NeedsRevision } else { Outcome::NeedsChanges }
}

fn needs(phase: &Phase, word: &str) -> bool {
    let mut needs = phase.on.iter().flat_map(|on| &on.needs);
    needs.any(|need| need.split('.').next() == Some(word))
}

/// Whether it matters here what the whole flow changed.
pub fn needs_changelog(phase: &Phase) -> bool {
    needs(phase, "changelog-or-none")
}

/// What a changelog is called, without its ending and in lower case.
const CHANGELOGS: [&str; 4] = ["changelog", "changes", "history", "news"];

/// Whether the project's changelog, if it has one, was changed by the flow. A file that cannot be seen is no evidence.
fn has_changelog_or_none(changed: &BTreeSet<String>, library: &Library<'_>) -> bool {
    let Ok(folder) = SourceId::new(SourceRoot::Project, ".") else { return false };
    let limits = ListingLimits { depth: 1, entries: 100_000, ignored: true };
    let Ok(listing) = library.sources.list(&folder, limits) else { return false };
    let listing = listing.unwrap_or_default();
    let stem = |path: &str| path.split('.').next().unwrap_or_default().to_ascii_lowercase();
    let files = listing.entries.iter().filter(|entry| !entry.dir).map(|entry| &entry.path);
    let files: BTreeSet<&String> = files.collect();
    // What the flow itself removed was there.
    let known = || files.iter().copied().chain(changed.iter().filter(|path| !path.contains('/')));
    // If there are several, the first name counts.
    let name = CHANGELOGS.iter().find(|name| known().any(|path| stem(path) == **name));
    let is_written =
        |name: &&str| files.iter().any(|path| stem(path) == *name && changed.contains(path.as_str()));
    listing.left_out == 0 && name.is_none_or(is_written)
}

/// Why the plan that is there is none, where the phase needs one.
pub fn plan_errors(phase: &Phase, library: &Library<'_>, layout: &Layout) -> Vec<Diagnostic> {
    if !needs(phase, "plan") {
        return Vec::new();
    }
    let Err(Diagnostics(mut diags)) = submission::order(library, layout) else { return Vec::new() };
    // What nobody wrote is not refused.
    diags.retain(|diag| diag.code != Code::IncludeNotFound);
    diags
}

/// A verdict as the contract spells it; what is no verdict in lower case.
fn word(outcome: Outcome) -> String {
    match outcome {
        Outcome::Pass
        | Outcome::NeedsRevision
        | Outcome::NeedsChanges
        | Outcome::Rejected
        | Outcome::MajorIssues => outcome.name().to_uppercase(),
        other => other.name().to_string(),
    }
}

fn add_facts(facts: &RunFacts, evidence: &mut Evidence) {
    let passed = |check: &&crate::fact::CheckSummary| check.result == CheckResult::Passed;
    evidence.extend(facts.checks.iter().filter(passed).map(|check| format!("check.{}", check.name)));
    if facts.checks.iter().all(|check| passed(&check)) {
        evidence.insert("checks-or-none".to_string());
        evidence.extend((!facts.checks.is_empty()).then(|| "checks".to_string()));
    }
    if facts.ended == Some(EndReason::Exited) && facts.exit_code == Some(0) {
        evidence.insert("exit".to_string());
    }
    let accepted = facts.violations.iter().all(|violation| violation.decision.is_accepted());
    if accepted && facts.unseen.is_empty() {
        evidence.insert("clean".to_string());
    }
}

/// What of `needs` there is no evidence for. What contradicts itself is no evidence.
pub(super) fn missing_evidence(needs: &[String], lane: &Lane, evidence: &Evidence) -> Vec<String> {
    let from = "reply.".to_string();
    let replies = evidence.range(from..).take_while(|word| word.starts_with("reply.")).count();
    let holds = |need: &str| match need.strip_prefix("file.") {
        Some(path) if path.contains(['*', '?', '[', '{']) => {
            let glob = Glob::new(path);
            evidence.iter().filter_map(|word| word.strip_prefix("file.")).any(|path| glob.covers(path))
        }
        _ => evidence.contains(need) && (replies == 1 || !need.starts_with("reply.")),
    };
    let mut lacks = Vec::new();
    for need in needs {
        let all = if need.contains("{lane}") { lane.covers() } else { &lane.covers()[..1] };
        let all = all.iter().map(|id| need.replace("{lane}", id));
        lacks.extend(all.filter(|need| !holds(need)));
    }
    lacks
}
