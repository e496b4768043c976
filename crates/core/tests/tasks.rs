//! Tests the status of a task: every status and every reason, by the facts of its runs alone.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

use callsheet_core::PromptFormat;
use callsheet_core::record::task_status::{TaskCheckout, TaskReason, TaskStatus, derive_task_status};
use callsheet_core::record::{
    Composed, Decided, DecidedBy, Event, Exit, Id, LaunchRecord, Observed, RecordedReply, Replied, Run,
    RunOptions, RunSummary, TextAssembly, sha256,
};
use callsheet_core::reply::{Outcome, ProblemCode, ReplyProblem};
use callsheet_core::request::fact::{
    self, ChangeKind, ChangedFile, CheckResult, CheckRun, CheckSpec, EndReason, Violation, ViolationDecision,
    ViolationReason,
};
use serde_json::json;

/// Builds a run from a few words; each word is a fact.
///
/// `composed`: nothing was started. `running`: it has not ended. `left`: it ended, and no observation
/// followed. `exit N`, `signal`, `timeout`, `cost`, `lost`, `unstarted`, `stopped`: the reason of its end.
/// `pass`, `fail`, `pending`: the result of a check. `commit`: it made a commit. `edit`, `built`: it changed
/// a file, or a file that git ignores. `dirty`: uncommitted work is left. `unseen`: a path could not be
/// observed. `known`: the contents of its changes are recorded. `outside`: it changed a file outside its
/// scope; `approve`, `reject`: a person's decision about that. `is-error`: the agent reports a failure.
/// `pass-verdict`: the agent reports a pass. `no-git`: the project has no repository.
fn run_from_words(words: &str) -> RunSummary {
    let has = |word: &str| words.split(' ').any(|known| known == word);
    let number =
        || words.split(' ').skip_while(|word| *word != "exit").nth(1).map(|code| code.parse().unwrap());
    let id = Id::parse("01a1e2ed-827b-77ce-a517-760036744626").unwrap();
    let spec = CheckSpec { name: "c".into(), argv: vec!["c".into()], timeout_ms: None };
    let result =
        [("pass", CheckResult::Passed), ("fail", CheckResult::Failed), ("pending", CheckResult::Pending)]
            .into_iter()
            .find(|(word, _)| has(word))
            .map(|(_, result)| result);
    let launch = {
        let checks = result.iter().map(|_| spec.clone()).collect();
        LaunchRecord { options: RunOptions { checks, ..RunOptions::default() }, ..LaunchRecord::default() }
    };
    let mut run = Run::restore(id, "run", "2026-01-31T12:00:00.000000Z");
    run.task = Some("T".into());
    let mut events = vec![Event::Composed(Composed {
        run,
        engine: 1,
        request: serde_json::Value::Null,
        snapshot: Default::default(),
        api: None,
        output: TextAssembly {
            sha256: sha256(&[]),
            bytes: 0,
            format: PromptFormat::Markdown,
            origins: Vec::new(),
            parts: Vec::new(),
            sections: Vec::new(),
        },
        warnings: Vec::new(),
        secrets: None,
        sealed: None,
        launch: (!has("composed")).then_some(launch),
        made_by: None,
        profile: None,
    })];
    if !has("composed") && !has("running") {
        let (ended, code) = match words {
            _ if has("exit") => (EndReason::Exited, number()),
            _ if has("signal") => (EndReason::Signaled, None),
            _ if has("timeout") => (EndReason::Timeout, None),
            _ if has("cost") => (EndReason::Cost, None),
            _ if has("lost") => (EndReason::Lost, None),
            _ if has("unstarted") => (EndReason::Unstarted, None),
            _ if has("stopped") => (EndReason::Stopped, None),
            other => panic!("{other}"),
        };
        events.push(Event::Exit(Exit::new(ended, code)));
        let failed =
            ReplyProblem { code: ProblemCode::StreamFailed, message: String::new(), place: None, more: 0 };
        let problems = if has("is-error") { vec![failed] } else { Vec::new() };
        let verdict = has("pass-verdict").then(|| "PASS".to_owned());
        events.push(Event::Replied(Replied {
            verdict,
            reply: RecordedReply { problems, outcome: Outcome::Pass, ..RecordedReply::default() },
        }));
    }
    if !has("composed") && !has("running") && !has("left") {
        let file = |path: &str, change| ChangedFile { path: path.into(), change, from: None };
        let changed = [
            ("edit", ChangeKind::Modified),
            ("built", ChangeKind::Ignored),
            ("outside", ChangeKind::Untracked),
        ];
        let violation = Violation {
            path: "outside".into(),
            reason: ViolationReason::OutsideWrite,
            decision: ViolationDecision::Pending,
        };
        let worktree = fact::WorktreeObservation {
            head_before: Some("a".into()),
            head_after: Some(if has("commit") { "b".into() } else { "a".into() }),
            dirty_after: has("dirty"),
            changed: changed
                .iter()
                .filter(|(word, _)| has(word))
                .map(|(word, change)| file(word, *change))
                .collect(),
            violations: has("outside").then_some(violation).into_iter().collect(),
            unseen: has("unseen")
                .then(|| fact::UnseenPath::new("folder", "it is closed"))
                .into_iter()
                .collect(),
            ..fact::WorktreeObservation::default()
        };
        let check = |result| CheckRun {
            name: "c".into(),
            argv: Vec::new(),
            result,
            ended: None,
            exit_code: None,
            duration_ms: 0,
            output: String::new(),
        };
        let worktree = (!has("no-git")).then_some(worktree);
        let contents = has("known").then(|| [("edit".to_owned(), Some("c".to_owned()))].into());
        let checks = result.map(check).into_iter().collect();
        events.push(Event::Observed(Observed { worktree, checks, contents, ..Observed::default() }));
    }
    let by_each = DecidedBy::ALL.iter().map(|by| (format!("{}-approve", by.name()), *by));
    let plain = ["approve", "reject", "mine"].map(|word| (word.to_owned(), DecidedBy::Person));
    for (word, by) in plain.into_iter().chain(by_each) {
        if has(&word) {
            let decision = word.rsplit_once('-').map_or(word.as_str(), |(_, decision)| decision).into();
            events.push(Event::Decided(Decided {
                by,
                what: "outside".into(),
                decision,
                detail: json!(null),
            }));
        }
    }
    RunSummary::from_events(events).unwrap()
}

/// Renders the status of a task. `merged` lists the commits of the base, and `contents` or `worktree` if the
/// base or the worktree has the changed contents.
fn render_status(merged: &[&str], runs: &[&str]) -> String {
    let runs: Vec<RunSummary> = runs.iter().map(|words| run_from_words(words)).collect();
    let mut checkout = TaskCheckout {
        has_commit: &mut |commit| merged.contains(&commit),
        has_contents: &mut |worktree, since, contents| {
            assert_eq!((since, contents), (Some("a"), &[("edit".to_owned(), Some("c".to_owned()))].into()));
            merged.contains(if worktree.is_some() { &"worktree" } else { &"contents" })
        },
    };
    let (status, reasons) = derive_task_status(&runs, &mut checkout);
    let reasons: Vec<&str> = reasons.iter().map(|reason| reason.name()).collect();
    format!("{} {}", status.name(), reasons.join(" ")).trim_end().to_owned()
}

/// The base has the commit at which the runs began and their own commit.
const ALL: &[&str] = &["a", "b"];
/// The base has only the commit at which the runs began.
const OLD: &[&str] = &["a"];
/// The base has the changed contents, in a person's own commits.
const BY_PERSON: &[&str] = &["a", "contents"];
/// The worktree's commit has the changed contents.
const IN_WORKTREE: &[&str] = &["a", "worktree"];

#[test]
fn c5_task_status_follows_facts() {
    let cases: &[(&[&str], &[&str], &str)] = &[
        // Nothing was started.
        (ALL, &[], "open"),
        (ALL, &["composed"], "open"),
        // The only way to be done, even if later runs add nothing.
        (ALL, &["exit 0 pass commit"], "done"),
        (ALL, &["exit 0 pass commit", "exit 0 pass"], "done"),
        (ALL, &["exit 0 edit dirty", "exit 0 pass"], "done"),
        (ALL, &["exit 0 pass commit outside approve"], "done"),
        (ALL, &["exit 0 pass commit outside mine"], "done"),
        (ALL, &["exit 0 pass commit", "exit 1"], "done"),
        // A person committed the changes.
        (BY_PERSON, &["exit 0 pass edit dirty known"], "done"),
        (BY_PERSON, &["exit 1 edit dirty known", "exit 0 pass dirty"], "done"),
        (BY_PERSON, &["exit 0 pass edit dirty known", "exit 1 dirty"], "done"),
        (OLD, &["exit 0 pass edit dirty known"], "ready uncommitted"),
        (IN_WORKTREE, &["exit 0 pass edit dirty known"], "ready merge_pending"),
        (OLD, &["exit 0 pass edit commit known"], "ready merge_pending"),
        // One run did not record the contents of its changes.
        (BY_PERSON, &["exit 0 edit dirty", "exit 0 pass edit dirty known"], "ready uncommitted"),
        // The base has the contents, but no fact shows that they are good.
        (BY_PERSON, &["exit 0 edit dirty known"], "needs_review unchecked"),
        (BY_PERSON, &["exit 0 fail edit dirty known"], "needs_review checks_failed"),
        (BY_PERSON, &["exit 1 pass edit dirty known"], "needs_review run_failed"),
        (BY_PERSON, &["exit 0 pass edit dirty known unseen"], "needs_review unseen"),
        // A change after the checks passed is unchecked.
        (BY_PERSON, &["exit 0 pass edit dirty known", "exit 0 edit dirty known"], "needs_review unchecked"),
        // Runs that only look done.
        (ALL, &["exit 0 pass"], "ready nothing_changed"),
        (ALL, &["exit 0 pass built"], "ready nothing_changed"),
        (ALL, &["exit 0 pass-verdict"], "ready nothing_changed"),
        (ALL, &["exit 0 commit pass-verdict"], "needs_review unchecked"),
        (ALL, &["exit 0 pending commit"], "needs_review checks_pending"),
        (ALL, &["exit 0 pass commit is-error"], "needs_review run_failed"),
        (ALL, &["exit 1 pass commit"], "needs_review run_failed"),
        (ALL, &["lost pass commit"], "needs_review run_failed"),
        (ALL, &["exit 0 pass commit dirty"], "needs_review uncommitted"),
        (ALL, &["exit 0 pass commit unseen"], "needs_review unseen"),
        (ALL, &["exit 0 fail commit"], "needs_review checks_failed"),
        (OLD, &["exit 0 pass commit"], "ready merge_pending"),
        (ALL, &["exit 0 pass no-git"], "ready nothing_changed"),
        // A person must review these, regardless of all other facts.
        (ALL, &["exit 0 pass commit outside"], "needs_review scope_violation_pending"),
        (ALL, &["exit 0 pass commit outside flow-approve"], "needs_review scope_violation_pending"),
        (ALL, &["exit 0 pass commit outside reject"], "needs_review scope_violation_rejected"),
        (ALL, &["exit 0 outside", "exit 0 pass commit"], "needs_review scope_violation_pending"),
        (
            OLD,
            &["exit 1 fail commit dirty outside"],
            "needs_review scope_violation_pending checks_failed merge_pending run_failed uncommitted",
        ),
        // The run continues, or its end is unknown.
        (ALL, &["running"], "running"),
        (ALL, &["exit 0 left pass commit"], "running checks_pending"),
        (ALL, &["running pass"], "running checks_pending"),
        (ALL, &["exit 0 outside", "running"], "running scope_violation_pending"),
        // A person stopped the run.
        (ALL, &["stopped"], "cancelled nothing_changed"),
        (ALL, &["exit 0 pass commit", "stopped"], "cancelled"),
        (ALL, &["stopped", "exit 0 pass commit"], "done"),
        // The task can be run again.
        (OLD, &["exit 0 fail edit dirty"], "failed checks_failed uncommitted"),
        (ALL, &["exit 0 fail"], "failed checks_failed nothing_changed"),
        (ALL, &["exit 3"], "failed run_failed nothing_changed"),
        (ALL, &["signal pending"], "failed checks_pending run_failed nothing_changed"),
        (ALL, &["timeout pending"], "failed checks_pending run_failed nothing_changed"),
        (ALL, &["cost pending"], "failed checks_pending run_failed nothing_changed"),
        (ALL, &["lost pending"], "failed checks_pending run_failed nothing_changed"),
        (ALL, &["unstarted pending"], "failed checks_pending run_failed nothing_changed"),
        (ALL, &["exit 0 edit dirty"], "ready uncommitted"),
        (ALL, &["exit 0 pending edit dirty"], "ready checks_pending uncommitted"),
    ];
    for (merged, runs, expected) in cases {
        assert_eq!(render_status(merged, runs), *expected, "{runs:?}");
    }
    // The cases cover every status and every reason.
    let told: Vec<&str> = cases.iter().flat_map(|(_, _, expected)| expected.split(' ')).collect();
    let statuses = [
        TaskStatus::Cancelled,
        TaskStatus::Running,
        TaskStatus::NeedsReview,
        TaskStatus::Done,
        TaskStatus::Failed,
        TaskStatus::Ready,
        TaskStatus::Open,
    ];
    let reasons = [
        TaskReason::ScopeViolationPending,
        TaskReason::ScopeViolationRejected,
        TaskReason::Unseen,
        TaskReason::ChecksPending,
        TaskReason::ChecksFailed,
        TaskReason::Unchecked,
        TaskReason::MergePending,
        TaskReason::RunFailed,
        TaskReason::Uncommitted,
        TaskReason::NothingChanged,
    ];
    let names = statuses.iter().map(|status| status.name()).chain(reasons.iter().map(|reason| reason.name()));
    for name in names {
        assert!(told.contains(&name), "{name}");
    }
}

#[test]
fn decision_counts_for_every_person_channel() {
    let names: Vec<&str> = DecidedBy::ALL.iter().map(|by| by.name()).collect();
    assert_eq!(names, ["person", "flow", "terminal", "yes", "page", "api"]);
    for by in DecidedBy::ALL {
        assert_eq!(serde_json::from_value::<DecidedBy>(json!(by.name())).unwrap(), *by);
        let account = run_from_words(&format!("exit 0 outside {}-approve", by.name()));
        let approved =
            account.violations()[0].decision == callsheet_core::request::fact::ViolationDecision::Approved;
        assert_eq!(approved, *by != DecidedBy::Flow, "{by:?}");
        assert_eq!(account.decisions()[0].by, *by);
    }
}
