//! Evidence: facts and claims of a lane's run, as words that transitions can need.
//!
//! | evidence | condition |
//! |---|---|
//! | `reply.WORD` | a verdict that counts, or `complete`, `incomplete`, `no_verdict` … |
//! | `submission.CONTRACT` | this run submitted it, and it was accepted |
//! | `file.PATH` | this round wrote the file; in a need it may be a glob |
//! | `check.NAME` | the check passed |
//! | `checks` | there is at least one check, and all of them passed |
//! | `checks-or-none` | all checks passed, or there are none |
//! | `changelog-or-none` | a run of the flow changed the changelog, or the project's folder has none |
//! | `exit` | the process ended by itself, with 0 |
//! | `clean` | a person accepted every change outside the scope, and no file escaped observation |
//! | `plan`, `plan.needs_design` | there is a valid execution plan; it needs a design |
//! | `topics` | requested research is not done |

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::{Lane, Phase, lanes};
use crate::diag::{Code, Diagnostic, Diagnostics};
use crate::library::layout::Layout;
use crate::library::lookup::DynLibrary;
use crate::library::plan;
use crate::reply::Outcome;
use crate::request::fact::{CheckResult, EndReason, RunFacts};
use crate::source::{ListingLimits, SourceId, SourceRoot};
use crate::text::glob::Glob;

/// Words of evidence.
pub type Evidence = BTreeSet<String>;

/// Observations of a lane's run.
#[derive(Clone, Copy, Debug)]
pub struct LaneObservation<'s> {
    /// Outcome of the reply.
    pub outcome: Outcome,
    /// Facts of the run.
    pub facts: &'s RunFacts,
    /// Contracts that this run submitted and that were accepted, each with its verdict.
    pub submissions: &'s [(String, Option<String>)],
    /// Files among the phase's outputs that exist now.
    pub files: &'s [String],
    /// Files that the runs of the flow changed, including this run.
    pub flow_changed: &'s BTreeSet<String>,
    /// Whether the phase's report has a finding with which no review passes.
    pub is_severe: bool,
}

/// Collects all evidence of a run. The flow's folder is read only if the phase needs it.
pub fn collect_evidence(
    phase: &Phase,
    seen: &LaneObservation<'_>,
    library: &DynLibrary<'_>,
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
            // A pass with a severe finding contradicts itself: the more severe statement counts.
            let is_conflict = outcome == Outcome::Pass && seen.is_severe;
            let outcome = if is_conflict { rejection_outcome(phase) } else { outcome };
            evidence.insert(format!("reply.{}", outcome_word(outcome)));
        }
    }
    evidence.extend(seen.submissions.iter().map(|(name, _)| format!("submission.{name}")));
    evidence.extend(seen.files.iter().map(|path| format!("file.{path}")));
    add_facts(seen.facts, &mut evidence);
    if needs_evidence(phase, "plan")
        && let Ok(order) = plan::find_execution_plan(library, layout)
    {
        evidence.insert("plan".to_string());
        evidence.extend(order.needs_design.then(|| "plan.needs_design".to_string()));
    }
    if needs_changelog(phase) && matches!(find_changelog(seen.flow_changed, library), ChangelogState::Fine) {
        evidence.insert("changelog-or-none".to_string());
    }
    if needs_evidence(phase, "topics")
        && lanes::topic_lanes(&BTreeSet::new(), library).is_ok_and(|topics| !topics.is_empty())
    {
        evidence.insert("topics".to_string());
    }
    evidence
}

/// Returns the verdict that sends the work of this phase back.
fn rejection_outcome(phase: &Phase) -> Outcome {
    let leads = |outcome: Outcome| {
        let need = format!("reply.{}", outcome_word(outcome));
        phase.on.iter().any(|on| on.needs.contains(&need))
    };
    if leads(Outcome::NeedsRevision) { Outcome::NeedsRevision } else { Outcome::NeedsChanges }
}

fn needs_evidence(phase: &Phase, word: &str) -> bool {
    let mut needs = phase.on.iter().flat_map(|on| &on.needs);
    needs.any(|need| need.split('.').next() == Some(word))
}

/// Checks whether the phase needs to know the changes of the whole flow.
pub fn needs_changelog(phase: &Phase) -> bool {
    needs_evidence(phase, "changelog-or-none")
}

/// Names of changelogs, without extension and in lower case.
const CHANGELOGS: [&str; 4] = ["changelog", "changes", "history", "news"];

/// State of the project's changelog.
enum ChangelogState {
    /// The flow changed it, or there is none.
    Fine,
    /// The flow did not change it, or removed it.
    Stale(String),
    /// The project's folder cannot be seen as a whole.
    Unseen,
}

/// Returns the changelog that the flow should have changed, if the phase needs that and the project has one.
pub fn find_stale_changelog(
    phase: &Phase,
    changed: &BTreeSet<String>,
    library: &DynLibrary<'_>,
) -> Option<String> {
    match needs_changelog(phase).then(|| find_changelog(changed, library))? {
        ChangelogState::Stale(path) => Some(path),
        ChangelogState::Fine | ChangelogState::Unseen => None,
    }
}

/// Checks whether the flow changed the project's changelog, if there is one. A file that cannot be seen is
/// not evidence.
fn find_changelog(changed: &BTreeSet<String>, library: &DynLibrary<'_>) -> ChangelogState {
    let Ok(folder) = SourceId::new(SourceRoot::Project, ".") else { return ChangelogState::Unseen };
    let limits = ListingLimits { depth: 1, entries: 100_000, ignored: true };
    let Ok(listing) = library.sources.list(&folder, limits) else { return ChangelogState::Unseen };
    let listing = listing.unwrap_or_default();
    if listing.left_out > 0 {
        return ChangelogState::Unseen;
    }
    let stem = |path: &str| path.split('.').next().unwrap_or_default().to_ascii_lowercase();
    let files = listing.entries.iter().filter(|entry| !entry.dir).map(|entry| &entry.path);
    let files: BTreeSet<&String> = files.collect();
    // A changelog that the flow itself removed existed before.
    let known = || files.iter().copied().chain(changed.iter().filter(|path| !path.contains('/')));
    // If there are several, the first name counts.
    let found = CHANGELOGS.iter().find_map(|name| known().find(|path| stem(path) == **name));
    let Some(path) = found else { return ChangelogState::Fine };
    let is_written = |file: &&String| stem(file) == stem(path) && changed.contains(file.as_str());
    if files.iter().any(is_written) { ChangelogState::Fine } else { ChangelogState::Stale(path.clone()) }
}

/// Returns the errors of the session's plan, if the phase needs one.
pub fn find_plan_errors(phase: &Phase, library: &DynLibrary<'_>, layout: &Layout) -> Vec<Diagnostic> {
    if !needs_evidence(phase, "plan") {
        return Vec::new();
    }
    let Err(Diagnostics(mut diags)) = plan::find_execution_plan(library, layout) else { return Vec::new() };
    // A missing plan is not refused.
    diags.retain(|diag| diag.code != Code::IncludeNotFound);
    diags
}

/// Returns a verdict as the contract spells it, and any other outcome in lower case.
fn outcome_word(outcome: Outcome) -> String {
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
    let passed = |check: &&crate::request::fact::CheckSummary| check.result == CheckResult::Passed;
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

/// Returns the words of `needs` without evidence. Contradictory replies are not evidence.
pub(super) fn find_missing_evidence(needs: &[String], lane: &Lane, evidence: &Evidence) -> Vec<String> {
    split_needs(needs, lane, evidence).1
}

/// Returns the words of `needs` with evidence, and those without. Contradictory replies are not evidence.
pub(super) fn split_needs(needs: &[String], lane: &Lane, evidence: &Evidence) -> (Vec<String>, Vec<String>) {
    let from = "reply.".to_string();
    let replies = evidence.range(from..).take_while(|word| word.starts_with("reply.")).count();
    let holds = |need: &str| match need.strip_prefix("file.") {
        Some(path) if path.contains(['*', '?', '[', '{']) => {
            let glob = Glob::new(path);
            evidence.iter().filter_map(|word| word.strip_prefix("file.")).any(|path| glob.covers(path))
        }
        _ => evidence.contains(need) && (replies == 1 || !need.starts_with("reply.")),
    };
    let words = needs.iter().flat_map(|need| {
        let all = if need.contains("{lane}") { lane.covers() } else { &lane.covers()[..1] };
        all.iter().map(|id| need.replace("{lane}", id))
    });
    words.partition(|need| holds(need))
}
