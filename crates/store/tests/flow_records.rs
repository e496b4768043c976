//! Events of flows, in records of this version and of older ones.

use callsheet_core::flow::{FlowDecision, FlowEvent, FlowSettings};
use callsheet_core::record::{Decided, DecidedBy, Event, FlowRecord};
use callsheet_store::{Ledger, LedgerUrl, new_id};
use serde_json::{Value, json};

fn old_record(phase: &str, detail: Value) -> Event {
    let what = if phase.is_empty() { "flow" } else { phase }.to_owned();
    Event::Decided(Decided { by: DecidedBy::Terminal, what, decision: "x".into(), detail })
}

#[test]
fn old_flow_records_are_read() {
    let mut ledger = Ledger::create(&LedgerUrl::Memory).unwrap();
    let flow = new_id().unwrap();
    let started = FlowEvent::Started {
        request: "x".into(),
        settings: FlowSettings::default(),
        more: json!({ "flow": "sdd" }),
    };
    let events = [
        ("", started),
        ("plan", FlowEvent::Refused { entry: 1, why: vec!["no".into()] }),
        ("plan", FlowEvent::Decided { decision: FlowDecision::Changes("more".into()) }),
        ("review", FlowEvent::Stopped),
        ("review", FlowEvent::Resumed),
    ];
    let mut expected = Vec::new();
    for (phase, event) in events {
        let record = FlowRecord { by: DecidedBy::Terminal, phase: phase.into(), event };
        ledger.append(None, Some(&flow), &old_record(phase, json!(record.event))).unwrap();
        ledger.append(None, Some(&flow), &Event::FlowRecord(record.clone())).unwrap();
        expected.extend([record.clone(), record]);
    }
    let records = ledger.records_of_flow(&flow).unwrap();
    let read: Vec<FlowRecord> = records.iter().map(|record| record.flow_record().unwrap().unwrap()).collect();
    assert_eq!(read, expected);
    assert_eq!(ledger.verify_all(true).unwrap().problems, []);
}

#[test]
fn unreadable_flow_record_is_error() {
    for detail in [json!({}), json!("x"), json!({ "event": "unheard" }), json!({ "event": "refused" })] {
        let mut ledger = Ledger::create(&LedgerUrl::Memory).unwrap();
        let flow = new_id().unwrap();
        ledger.append(None, Some(&flow), &old_record("", Value::Null)).unwrap();
        ledger.append(None, Some(&flow), &old_record("plan", detail.clone())).unwrap();
        let records = ledger.records_of_flow(&flow).unwrap();
        assert_eq!(records[0].flow_record().unwrap(), None);
        let error = records[1].flow_record().unwrap_err().to_string();
        assert!(error.contains("record 2: not a flow event"), "{detail}: {error}");
    }
}
