//! Every run that can be built is recorded and verified, on both engines.
//!
//! 200 runs; 20,000 with `CALLSHEET_LONG=1`.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

use callsheet_core::record::{Event, Id, RecordBundle, Run, build_record};
use callsheet_core::render::render;
use callsheet_core::request::Task;
use callsheet_core::{MemorySources, Request, SourceRecorder, compose};
use callsheet_store::{Ledger, LedgerError, LedgerUrl, new_id, now};
use callsheet_testing::{Postgres, report_missing};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;

/// The parts of a run that a caller chooses.
#[derive(Clone, Debug)]
struct Draft {
    request: Request,
    started: String,
    parent: bool,
    project: Option<String>,
}

fn odd_text() -> impl Strategy<Value = String> {
    let piece =
        select(vec!["T-1", "a b", "ä", "\u{1f600}", "'", "\"", "\\", "\n", "\r", "\u{7}", "\0", "\u{202e}"]);
    prop_oneof![4 => vec(piece, 0..5).prop_map(|pieces| pieces.concat()), 1 => Just("x".repeat(5_000))]
}

fn draft() -> impl Strategy<Value = Draft> {
    let name =
        || option::of(select(vec!["claude", "codex", "plan", "review", "coder", "no name", "no\0name"]));
    let time = prop_oneof![
        8 => select(vec!["2026-01-31T12:00:00.000000Z", "0000-01-01T00:00:00.000000Z", "9999-12-31T23:59:59.999999Z"]),
        1 => select(vec!["", "now", "2026-01-31", "2026-13-31T12:00:00.000000Z"]),
    ];
    let project = option::of(prop_oneof![
        select(vec!["example.org/shop", "/srv/shop", ""]).prop_map(String::from),
        odd_text()
    ]);
    (option::of(odd_text()), [name(), name(), name()], time, any::<bool>(), project).prop_map(
        |(task, [agent, phase, role], time, parent, project)| {
            let request = Request {
                recipe: Some("layers".into()),
                instructions: Some("Go.".into()),
                task: task.map(|id| Task { id: Some(id.into()), ..Task::default() }),
                agent: agent.map(Into::into),
                phase: phase.map(Into::into),
                role: role.map(Into::into),
                ..Request::default()
            };
            Draft { request, started: time.into(), parent, project }
        },
    )
}

fn sources() -> MemorySources {
    let mut sources = MemorySources::with_builtin();
    for role in ["claude", "codex", "plan", "review", "coder"] {
        sources
            .put(
                callsheet_core::SourceRoot::Project,
                &format!(".callsheet/templates/identity/{role}.md"),
                "You work.",
            )
            .unwrap();
    }
    sources
}

/// Returns the record of a run; `None` if it cannot be built.
fn build(draft: &Draft, last: Option<&Id>) -> Option<RecordBundle> {
    let Draft { request, started, parent, project } = draft;
    let recorder = SourceRecorder::new(sources());
    let composed = compose(request, &recorder).ok()?;
    let rendered = render(&composed.prompt, composed.prompt.format, None).ok()?;
    let run = Run::new(new_id().unwrap(), started, request, &composed.prompt.recipe).ok()?;
    let run = run.with_parent(last.filter(|_| *parent).cloned());
    let run = match project {
        Some(project) => run.with_project(project.as_str()).ok()?,
        None => run,
    };
    let made = (&composed, &rendered, None);
    Some(build_record(run, request, &recorder.finish(), made, &composed.diagnostics).unwrap())
}

fn prove_runs(mut ledger: Ledger) {
    let long = std::env::var_os("CALLSHEET_LONG").is_some_and(|long| long == "1");
    let cases = if long { 20_000 } else { 200 };
    let mut built: Vec<Id> = Vec::new();
    let mut runner =
        TestRunner::new(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() });
    for _ in 0..cases {
        let draft = draft().new_tree(&mut runner).unwrap().current();
        let Some(kept) = build(&draft, built.last()) else { continue };
        ledger.record_prompt(&kept).unwrap_or_else(|error| panic!("{error}: {draft:?}"));
        built.push(kept.composed.run.id.clone());
        assert_eq!(ledger.prompt_record(built.last().unwrap()).unwrap(), kept.composed);
    }
    assert!(built.len() * 10 > cases, "only {} of {cases} runs were built", built.len());
    let checked = ledger.verify_all(true).unwrap();
    assert_eq!((checked.problems, checked.same), (Vec::new(), built.len()));
}

#[test]
fn built_runs_verify_on_sqlite() {
    prove_runs(Ledger::create(&LedgerUrl::Memory).unwrap());
}

#[test]
fn built_runs_verify_on_postgres() {
    match Postgres::start() {
        Ok(server) => {
            prove_runs(
                Ledger::create(&LedgerUrl::Postgres(server.create_database("runs").unwrap())).unwrap(),
            );
        }
        Err(why) => report_missing(&format!("built runs on PostgreSQL: {why}")),
    }
}

fn valid_draft() -> Draft {
    let task = Task { id: Some("T-1".into()), ..Task::default() };
    let request = Request {
        recipe: Some("layers".into()),
        role: Some("coder".into()),
        task: Some(task),
        ..Request::default()
    };
    Draft { request, started: now(), parent: false, project: None }
}

#[test]
fn contradictions_are_not_built() {
    let Draft { request, started, .. } = valid_draft();
    let recorder = SourceRecorder::new(sources());
    let composed = compose(&request, &recorder).unwrap();
    let rendered = render(&composed.prompt, composed.prompt.format, None).unwrap();
    let made = (&composed, &rendered, None);
    let snapshot = recorder.finish();
    let run = || Run::new(new_id().unwrap(), &started, &request, &composed.prompt.recipe).unwrap();
    let with = |change: &dyn Fn(&mut Run)| {
        let mut run = run();
        change(&mut run);
        build_record(run, &request, &snapshot, made, &[]).is_ok()
    };
    assert!(with(&|_| {}));
    let changes: [&dyn Fn(&mut Run); 7] = [
        &|run| run.task = None,
        &|run| run.agent = Some("claude".into()),
        &|run| run.phase = Some("plan".into()),
        &|run| run.role = Some("other".into()),
        &|run| run.recipe = "run".into(),
        &|run| run.started = "yesterday".into(),
        &|run| run.project = Some("\n".into()),
    ];
    for (number, change) in changes.iter().enumerate() {
        assert!(!with(change), "change {number}");
    }
    let bad = Request { role: Some("no name".into()), ..request.clone() };
    assert!(Run::new(new_id().unwrap(), &started, &bad, "layers").is_err());
}

#[test]
fn prompts_without_texts_are_refused() {
    let mut ledger = Ledger::create(&LedgerUrl::Memory).unwrap();
    let kept = build(&valid_draft(), None).unwrap();
    let refused =
        |done: Result<u64, LedgerError>| assert!(matches!(done, Err(LedgerError::Failed(_))), "{done:?}");
    let mut other = kept.clone();
    other.blobs.pop_first().unwrap();
    refused(ledger.record_prompt(&other));
    let event = Event::Composed(kept.composed.clone());
    refused(ledger.append(Some(&kept.composed.run.id), None, &event));
    assert!(ledger.is_empty().unwrap());
    ledger.record_prompt(&kept).unwrap();
    assert_eq!(ledger.verify_all(true).unwrap().problems, []);
}
