//! Tests that retention removes neither unfinished runs nor runs whose time comes from a wrong clock.

use std::process::Command;
use std::slice::from_ref;

use callsheet_core::delivery::receipt::DeliveryReceipt;
use callsheet_core::flow::{self, FlowDecision, FlowSettings, find_flow};
use callsheet_core::library::layout::Layout;
use callsheet_core::record::{
    Decided, DecidedBy, Delivered, Event, Exit, FlowRecord, Id, LaunchRecord, LogStream, Observed, Output,
    RecordBundle, RecordedReply, Replied,
};
use callsheet_core::{Builtin, EndReason, Library};
use callsheet_store::{Ledger, LedgerError, LedgerUrl, RetentionPolicy, new_id};
use serde_json::json;

use crate::prompts::{record_bundle, record_bundle_after};
use crate::run_on_both;

const NOTHING: RetentionPolicy = RetentionPolicy { days: None, last: Some(0) };

fn problems(ledger: &mut Ledger) -> Vec<String> {
    ledger.verify_all(true).unwrap().problems.iter().map(ToString::to_string).collect()
}

/// Returns a prompt with which a program is started.
fn launched_prompt(parent: Option<&Id>, flow: Option<&Id>) -> RecordBundle {
    let mut kept =
        record_bundle_after("T-1", &[("a.md", &"A text of this run.\n".repeat(40))], parent.cloned());
    let flow = flow.map(|flow| ("flow".to_owned(), flow.to_string()));
    kept.composed.launch = Some(LaunchRecord { flow: flow.into_iter().collect(), ..LaunchRecord::default() });
    kept
}

/// Returns all events of a run after its prompt, in order.
fn run_events() -> Vec<Event> {
    vec![
        Event::Delivered(Delivered { receipt: DeliveryReceipt::Spawned, evidence: "pid 7".into() }),
        Event::Output(Output { stream: LogStream::Stdout, line: 1, text: "one\n".into(), cut: false }),
        Event::Exit(Exit::new(EndReason::Exited, Some(0))),
        Event::Replied(Replied { verdict: None, reply: RecordedReply::default() }),
        Event::Observed(Observed::default()),
    ]
}

/// Records all events of a run.
fn record_run_events(ledger: &mut Ledger, run: &Id) {
    for event in run_events() {
        ledger.append(Some(run), None, &event).unwrap();
    }
}

#[test]
fn unfinished_run_is_kept() {
    run_on_both("unfinished_runs", |place| {
        let (mut ledger, mut other) = (Ledger::create(place).unwrap(), Ledger::create(place).unwrap());
        let first = launched_prompt(None, None);
        let parent = record_bundle("T-0", &[]);
        ledger.record_prompt(&parent).unwrap();
        let second = launched_prompt(Some(&parent.composed.run.id), None);
        let id = &second.composed.run.id;
        ledger.record_prompt(&first).unwrap();
        record_run_events(&mut ledger, &first.composed.run.id);
        ledger.record_prompt(&second).unwrap();
        for (step, event) in run_events().iter().enumerate() {
            let swept = other.sweep_project(NOTHING, None).unwrap();
            // The ended run is removed; the other one and its parent stay.
            let wanted = if step == 0 { vec![first.composed.run.id.clone()] } else { vec![] };
            assert_eq!((swept.runs, swept.unfinished), (wanted, vec![id.clone()]), "before {}", event.kind());
            ledger.append(Some(id), None, event).unwrap();
            ledger.run_summary(id).unwrap();
        }
        let swept = other.sweep_project(NOTHING, None).unwrap();
        assert_eq!(swept.runs, [id.clone(), parent.composed.run.id.clone()]);
        // Nothing can be appended to a removed run.
        let head = ledger.head().unwrap();
        for event in run_events() {
            assert_eq!(ledger.append(Some(id), None, &event), Err(LedgerError::NoRun(id.to_string())));
        }
        assert_eq!((ledger.head().unwrap(), problems(&mut ledger)), (head, vec![]));
    });
}

#[test]
fn runs_of_unfinished_flow_are_kept() {
    run_on_both("unfinished_flows", |place| {
        let mut ledger = Ledger::create(place).unwrap();
        let flow = new_id().unwrap();
        let kept = launched_prompt(None, Some(&flow));
        let id = &kept.composed.run.id;
        let (_, definition) = find_flow(&Library::new(&Builtin), "sdd", &Layout::default()).unwrap();
        let decide = |ledger: &mut Ledger, event: &flow::FlowEvent| {
            // Older versions recorded it as a decision.
            let old = Decided {
                by: DecidedBy::Flow,
                what: "flow".into(),
                decision: "x".into(),
                detail: json!(event),
            };
            let new = FlowRecord { by: DecidedBy::Flow, phase: "plan".into(), event: event.clone() };
            let is_old = matches!(event, flow::FlowEvent::Refused { .. } | flow::FlowEvent::Stopped);
            let event = if is_old { Event::Decided(old) } else { Event::FlowRecord(new) };
            ledger.append(None, Some(&flow), &event).unwrap();
        };
        let more = json!({ "definition": definition });
        let started =
            flow::FlowEvent::Started { request: "x".into(), settings: FlowSettings::default(), more };
        let events = [
            started,
            flow::FlowEvent::Refused { entry: 1, why: Vec::new() },
            flow::FlowEvent::Stopped,
            flow::FlowEvent::Resumed,
            flow::FlowEvent::Decided { decision: FlowDecision::Reject },
        ];
        assert!(flow::fold_events(&definition, &events).has_ended());
        decide(&mut ledger, &events[0]);
        ledger.record_prompt(&kept).unwrap();
        record_run_events(&mut ledger, id);
        for event in &events[1..] {
            let swept = ledger.sweep_project(NOTHING, None).unwrap();
            assert_eq!((swept.runs, swept.unfinished), (vec![], vec![id.clone()]), "before {event:?}");
            decide(&mut ledger, event);
        }
        assert_eq!(ledger.sweep_project(NOTHING, None).unwrap().runs, from_ref(id));
        // An unknown flow may not have ended.
        let unknown = launched_prompt(None, Some(&new_id().unwrap()));
        ledger.record_prompt(&unknown).unwrap();
        let id = &unknown.composed.run.id;
        record_run_events(&mut ledger, id);
        assert_eq!(ledger.sweep_project(NOTHING, None).unwrap().unfinished, from_ref(id));
        assert_eq!(problems(&mut ledger), Vec::<String>::new());
    });
}

/// Records a run with this start time.
fn compose_at(ledger: &mut Ledger, started: &str) -> Id {
    let mut kept = record_bundle("T-1", &[]);
    kept.composed.run.started = started.into();
    ledger.record_prompt(&kept).unwrap();
    kept.composed.run.id
}

/// Returns the time this many days ago.
fn days_ago(days: u32) -> String {
    let mut date = Command::new("date");
    date.args(["-u", "-d", &format!("{days} days ago"), "+%Y-%m-%dT%H:%M:%S.000000Z"]);
    String::from_utf8(date.output().unwrap().stdout).unwrap().trim().to_owned()
}

#[test]
fn wrong_clock_removes_no_run() {
    let (backwards, soon) = (days_ago(300), "2999-12-31T00:00:00.000000Z");
    let wrong = [
        "0000-01-01T00:00:00.000000Z",
        "1969-12-31T23:59:59.999999Z",
        "1970-01-01T00:00:00.000000Z",
        "1999-12-31T00:00:00.000000Z",
        &backwards,
        soon,
        "9999-12-31T23:59:59.999999Z",
        "12026-01-01T00:00:00.000000Z",
        "-001-01-01T00:00:00.000000Z",
        "",
        "soon",
    ];
    let days = RetentionPolicy { days: Some(30), last: None };
    for (number, wrong) in wrong.iter().enumerate() {
        let mut ledger = Ledger::create(&LedgerUrl::Memory).unwrap();
        let before = compose_at(&mut ledger, &days_ago(100));
        let odd = compose_at(&mut ledger, wrong);
        let swept = ledger.preview_project_sweep(days, None).unwrap();
        assert_eq!((swept.runs, swept.clock_is_wrong), (vec![before.clone()], false), "{number}: {wrong}");
        // A later run whose time is right and long ago shows that this one is old too.
        compose_at(&mut ledger, &days_ago(60));
        let swept = ledger.sweep_project(days, None).unwrap();
        assert!(swept.runs.contains(&odd) && swept.runs.len() == 3, "{number}: {wrong}: {swept:?}");
        assert_eq!(problems(&mut ledger), Vec::<String>::new());
    }
}

/// A clock that jumps far ahead does not count at once, even if runs have its times.
#[test]
fn long_time_step_is_distrusted() {
    let days = RetentionPolicy { days: Some(30), last: None };
    let removed = |times: &[u32]| {
        let mut ledger = Ledger::create(&LedgerUrl::Memory).unwrap();
        times.iter().for_each(|days| drop(compose_at(&mut ledger, &days_ago(*days))));
        let swept = ledger.sweep_project(days, None).unwrap();
        (swept.runs.len(), swept.clock_is_wrong)
    };
    assert_eq!(removed(&[]), (0, false));
    assert_eq!(removed(&[390]), (1, false));
    assert_eq!(removed(&[410]), (0, true));
    assert_eq!(removed(&[810, 390]), (2, false));
    assert_eq!(removed(&[810, 410]), (0, true));
    assert_eq!(removed(&[900, 3, 2, 1]), (0, true));
    assert_eq!(removed(&[900, 8, 2, 1]), (1, false));
    assert_eq!(removed(&[900, 890, 50, 40, 1]), (4, false));
}
