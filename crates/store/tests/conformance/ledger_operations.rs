//! Tests the normal operations of a ledger.

use callsheet_core::EndReason;
use callsheet_core::SharedText;
use callsheet_core::delivery::receipt::DeliveryReceipt;
use callsheet_core::flow::FlowEvent;
use callsheet_core::record::{
    ChangedContents, ContextRecord, Decided, DecidedBy, Delivered, Digest, Event, Exit, FileChange, FileMode,
    FileVersion, FlowRecord, Id, Imported, LogStream, Observed, OmittedContents, Output, RecordedReply,
    Removed, Replied, SubmissionRecord,
};
use callsheet_core::request::fact;
use callsheet_store::{DatabaseEngine, Ledger, LedgerError, LogExcerpt, LogLine, RunFilter, new_id};
use serde_json::json;

use crate::LedgerEngine;
use crate::prompts::{prompt_text, record_bundle, record_bundle_after};
use crate::raw_database::Raw;

/// Returns one event of every kind but `composed`.
pub(crate) fn events() -> Vec<Event> {
    vec![
        Event::Delivered(Delivered { receipt: DeliveryReceipt::Spawned, evidence: "pid 7".into() }),
        output(LogStream::Stdout, 1, "one\ntwo\n"),
        output(LogStream::Stderr, 1, "oh\n"),
        output(LogStream::Stdout, 3, "three"),
        Event::Exit(Exit::new(EndReason::Exited, Some(0))),
        Event::Observed(Observed {
            worktree: Some(fact::WorktreeObservation::default()),
            ..Observed::default()
        }),
        Event::Replied(Replied { verdict: Some("PASS".into()), reply: RecordedReply::default() }),
        Event::Decided(Decided {
            by: DecidedBy::Person,
            what: "src/x".into(),
            decision: "approve".into(),
            detail: json!(null),
        }),
    ]
}

pub(crate) fn output(stream: LogStream, line: u64, text: &str) -> Event {
    Event::Output(Output { stream, line, text: SharedText::from(text), cut: false })
}

/// Fills a ledger with two runs, one of them with every kind of event, and a flow.
pub(crate) fn fill_ledger(ledger: &mut Ledger) -> (Id, Id) {
    let first = record_bundle("T-1", &[("docs/plan.md", &"Plan with care.\n".repeat(60))]);
    ledger.record_prompt(&first).unwrap();
    for event in events() {
        ledger.append(Some(&first.composed.run.id), None, &event).unwrap();
    }
    let parent = Some(first.composed.run.id.clone());
    let second =
        record_bundle_after("T-1", &[("docs/plan.md", &"Plan with more care.\n".repeat(60))], parent);
    ledger.record_prompt(&second).unwrap();
    let flow = new_id().unwrap();
    let resumed = FlowRecord { by: DecidedBy::Flow, phase: "plan".into(), event: FlowEvent::Resumed };
    ledger.append(None, Some(&flow), &Event::FlowRecord(resumed)).unwrap();
    (first.composed.run.id, second.composed.run.id)
}

pub(crate) fn records_share_sequence_and_chain(engine: &LedgerEngine) {
    let mut ledger = engine.ledger("appends");
    let (first, _) = fill_ledger(&mut ledger);
    let records = ledger.records_after(0, 100).unwrap();
    assert_eq!(records.iter().map(|record| record.seq).collect::<Vec<_>>(), (1..=11).collect::<Vec<_>>());
    let mut before = Digest::ZERO;
    for record in &records {
        assert_eq!(record.link().link_after(&before), record.chain);
        before = record.chain;
    }
    let head = ledger.head().unwrap();
    assert_eq!((head.seq, head.chain), (11, before));
    let of_first: Vec<Event> = ledger
        .records_of(&first)
        .unwrap()
        .iter()
        .skip(1)
        .map(|record| record.event().unwrap().unwrap())
        .collect();
    assert_eq!(of_first, events());
    let flow = records[10].flow.as_deref().and_then(Id::parse).unwrap();
    assert_eq!(ledger.records_of_flow(&flow).unwrap(), records[10..]);
    let checked = ledger.verify_all(true).unwrap();
    assert_eq!((checked.records, checked.runs, checked.problems), (11, 2, vec![]));
    assert!(records.windows(2).all(|two| two[0].at <= two[1].at));
}

pub(crate) fn prompt_round_trips_byte_for_byte(engine: &LedgerEngine) {
    let mut ledger = engine.ledger("prompts");
    let hostile = "]]> <x> & \r\n \u{202e} \0".replace('\0', "");
    let files = [("a.md", hostile.as_str()), ("b.md", "plain\n")];
    let kept = record_bundle("T-1", &files);
    ledger.record_prompt(&kept).unwrap();
    assert_eq!(ledger.prompt(&kept.composed.run.id).unwrap(), prompt_text("T-1", &files));
    assert_eq!(ledger.prompt_record(&kept.composed.run.id).unwrap(), kept.composed);
    assert_eq!(ledger.verify(&[kept.composed.run.id]).unwrap().problems, []);
}

pub(crate) fn each_text_is_stored_once(engine: &LedgerEngine) {
    let place = engine.place("once");
    let mut ledger = Ledger::create(&place).unwrap();
    let long = "A line that is in every prompt.\n".repeat(100);
    let files = [("docs/plan.md", long.as_str())];
    ledger.record_prompt(&record_bundle("T-1", &files)).unwrap();
    let blobs = |ledger: &mut Ledger| ledger.verify_all(true).unwrap().blobs;
    let before = blobs(&mut ledger);
    for _ in 0..5 {
        ledger.record_prompt(&record_bundle("T-1", &files)).unwrap();
    }
    assert_eq!(blobs(&mut ledger), before);
    ledger.record_prompt(&record_bundle("T-2", &files)).unwrap();
    assert_eq!(blobs(&mut ledger), before, "its request is part of its record");
    ledger.record_prompt(&record_bundle("T-2", &[("docs/new.md", "A text that no prompt had.\n")])).unwrap();
    assert_eq!(blobs(&mut ledger), before + 2, "the text, and the listing with its name");
}

pub(crate) fn runs_are_listed_and_found(engine: &LedgerEngine) {
    let mut ledger = engine.ledger("runs");
    assert_eq!(ledger.find("last"), Err(LedgerError::NoRun("last".into())));
    let (first, second) = fill_ledger(&mut ledger);
    let list = |ledger: &mut Ledger, filter: RunFilter| -> Vec<Id> {
        let filter = RunFilter { limit: if filter.limit == 0 { 100 } else { filter.limit }, ..filter };
        ledger.runs(&filter).unwrap().into_iter().map(|row| row.run.id).collect()
    };
    let both = vec![second.clone(), first.clone()];
    let is = |text: &str| Some(text.to_owned());
    assert_eq!(list(&mut ledger, RunFilter::default()), both);
    assert_eq!(list(&mut ledger, RunFilter { limit: 1, ..RunFilter::default() }), vec![second.clone()]);
    assert_eq!(
        list(&mut ledger, RunFilter { verdict: is("PASS"), ..RunFilter::default() }),
        vec![first.clone()]
    );
    assert_eq!(
        list(
            &mut ledger,
            RunFilter { task: is("T-1"), agent: is("claude"), phase: is("plan"), ..RunFilter::default() }
        ),
        both
    );
    assert_eq!(list(&mut ledger, RunFilter { agent: is("codex"), ..RunFilter::default() }), []);
    assert_eq!(list(&mut ledger, RunFilter { since: is("2020-01-01"), ..RunFilter::default() }), both);
    assert_eq!(list(&mut ledger, RunFilter { until: is("2020-01-01"), ..RunFilter::default() }), []);
    let row = ledger.find(first.as_str()).unwrap();
    assert_eq!(
        (row.run.id, row.ended.as_deref(), row.verdict.as_deref()),
        (first.clone(), Some("exited"), Some("PASS"))
    );
    assert_eq!(ledger.find("last").unwrap().run.id, second);
    // Two ids created one after the other begin alike.
    let alike = first.as_str().bytes().zip(second.as_str().bytes()).take_while(|(a, b)| a == b).count();
    assert_eq!(ledger.find(&first.as_str()[..=alike]).unwrap().run.id, first);
    assert_eq!(
        ledger.find(&first.as_str()[..alike]),
        Err(LedgerError::ManyRuns(
            first.as_str()[..alike].into(),
            vec![format!("r1 {first}"), format!("r2 {second}")]
        ))
    );
    for name in ["", "x", "%", "ffffffff", "' OR 1=1"] {
        assert_eq!(ledger.find(name), Err(LedgerError::NoRun(name.into())));
    }
}

pub(crate) fn log_reads_by_stream_and_line(engine: &LedgerEngine) {
    let mut ledger = engine.ledger("lines");
    let (first, _) = fill_ledger(&mut ledger);
    let lines = |log: LogExcerpt| -> (Vec<(u64, String)>, u64) {
        (log.lines.into_iter().map(|LogLine { number, data, .. }| (number, data)).collect(), log.total)
    };
    let all = vec![(1, "one".to_owned()), (2, "two".to_owned()), (3, "three".to_owned())];
    let mut log = |stream, since, tail| lines(ledger.log(&first, stream, since, tail).unwrap());
    assert_eq!(log(LogStream::Stdout, 1, None), (all.clone(), 3));
    assert_eq!(log(LogStream::Stdout, 2, None), (all[1..].to_vec(), 3));
    assert_eq!(log(LogStream::Stdout, 1, Some(1)), (all[2..].to_vec(), 3));
    assert_eq!(log(LogStream::Stderr, 1, None), (vec![(1, "oh".to_owned())], 1));
    let prompt = ledger.prompt(&first).unwrap();
    let meta = lines(ledger.log(&first, LogStream::Meta, 1, None).unwrap()).0;
    assert_eq!(
        meta.into_iter().map(|(_, line)| line).collect::<Vec<_>>(),
        prompt.lines().collect::<Vec<_>>()
    );
}

pub(crate) fn newer_schema_is_refused(engine: &LedgerEngine) {
    let place = engine.place("newer");
    drop(Ledger::create(&place).unwrap());
    assert!(Raw::open(&place).run("INSERT INTO migrations (number, name, sha256) VALUES (4, 'later', 'x')"));
    let refused = Ledger::open(&place).unwrap_err();
    assert_eq!(refused, LedgerError::Newer { found: 4, known: 3 });
    assert_eq!(refused.to_string(), "the ledger has schema 4; this callsheet supports schemas up to 3");
    assert!(
        Raw::open(&place).run(
            "DELETE FROM migrations WHERE number = 4; UPDATE migrations SET sha256 = 'y' WHERE number = 1"
        )
    );
    assert_eq!(
        Ledger::open(&place).unwrap_err(),
        LedgerError::Damaged("migration 1 (`ledger`) is not the one that was applied".into())
    );
}

#[test]
fn foreign_schema_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let place = callsheet_store::LedgerUrl::Sqlite(dir.path().join("ledger.db"));
    let ledger = Ledger::create(&place).unwrap();
    assert_eq!(ledger.engine(), DatabaseEngine::Sqlite);
    drop(ledger);
    let trigger = "CREATE TRIGGER evil AFTER INSERT ON records BEGIN DELETE FROM runs; END";
    assert!(Raw::open(&place).run(trigger));
    assert_eq!(
        Ledger::open(&place).unwrap_err(),
        LedgerError::Damaged("`evil` in its schema is not callsheet's".into())
    );
}

#[test]
fn every_event_kind_round_trips() {
    let removed = Removed {
        why: "older than 3 days".into(),
        runs: vec![new_id().unwrap()],
        records: 1,
        blobs: 2,
        bytes: 3,
    };
    let composed = Event::Composed(record_bundle("T-1", &[("a.md", "x")]).composed);
    let submitted = Event::SubmissionRecord(SubmissionRecord {
        tool: "submit_review".into(),
        sha256: "0".into(),
        verdict: json!("pass"),
        done: json!({ "written": ["review.md"] }),
        refused: Vec::new(),
    });
    let imported = Event::Imported(Imported { seq: 7, chain: Digest::ZERO });
    let resumed = FlowRecord { by: DecidedBy::Flow, phase: "plan".into(), event: FlowEvent::Resumed };
    let flow = Event::FlowRecord(resumed);
    let version =
        FileVersion { mode: FileMode::Plain, sha256: None, omitted: Some(OmittedContents::Unknown) };
    let file = FileChange { path: "a".into(), before: None, after: Some(version) };
    let changed = Event::ChangedContents(ChangedContents { files: vec![file] });
    let context = Event::ContextRecord(ContextRecord {
        agent: "claude".into(),
        version: Some("2.1.325".into()),
        model: None,
        bytes: 50_000,
        document: Digest::ZERO,
    });
    let all =
        [events(), vec![Event::Removed(removed), imported, composed, submitted, flow, changed, context]]
            .concat();
    let mut kinds: Vec<&str> = all.iter().map(Event::kind).collect();
    for event in &all {
        assert_eq!(Event::read(event.kind(), &event.payload().unwrap()).as_ref(), Ok(event));
    }
    kinds.sort_unstable();
    kinds.dedup();
    let mut known: Vec<&str> = Event::KINDS.iter().map(|(kind, _)| *kind).collect();
    known.sort_unstable();
    assert_eq!(kinds, known);
}
