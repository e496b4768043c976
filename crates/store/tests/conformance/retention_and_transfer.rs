//! Tests retention, exports and imports.

use std::io::BufReader;
use std::slice::from_ref;

use callsheet_core::EndReason;
use callsheet_core::delivery::receipt::DeliveryReceipt;
use callsheet_core::record::{Decided, DecidedBy, Delivered, Event, Exit, Id, Removed};
use callsheet_store::{
    ExportScope, ImportReport, Ledger, LedgerError, LedgerUrl, RetentionPolicy, RunFilter, export, import,
    in_toto_statement, new_id, read_export,
};
use serde_json::json;

use crate::LedgerEngine;
use crate::ledger_operations::fill_ledger;
use crate::prompts::{prompt_text, record_bundle, record_bundle_after};
use crate::raw_database::Raw;

fn ids(ledger: &mut Ledger) -> Vec<Id> {
    let rows = ledger.runs(&RunFilter { limit: 100, ..RunFilter::default() }).unwrap();
    rows.into_iter().rev().map(|row| row.run.id).collect()
}

fn problems(ledger: &mut Ledger) -> Vec<String> {
    ledger.verify_all(true).unwrap().problems.iter().map(ToString::to_string).collect()
}

pub(crate) fn retention_removes_unneeded_content(engine: &LedgerEngine) {
    let mut ledger = engine.ledger("gc");
    let shared = "Everybody needs this.\n".repeat(50);
    let own = "Only the first needs this.\n".repeat(50);
    let first = record_bundle("T-1", &[("own.md", &own), ("shared.md", &shared)]);
    let running = record_bundle("T-2", &[("shared.md", &shared)]);
    let parent = record_bundle("T-3", &[("shared.md", &shared)]);
    let last = record_bundle_after("T-3", &[("shared.md", &shared)], Some(parent.composed.run.id.clone()));
    for kept in [&first, &running, &parent, &last] {
        ledger.record_prompt(kept).unwrap();
        let delivered =
            Event::Delivered(Delivered { receipt: DeliveryReceipt::Spawned, evidence: "pid 1".into() });
        ledger.append(Some(&kept.composed.run.id), None, &delivered).unwrap();
    }
    for kept in [&first, &parent, &last] {
        let exit = Event::Exit(Exit::new(EndReason::Exited, Some(0)));
        ledger.append(Some(&kept.composed.run.id), None, &exit).unwrap();
    }
    let keep_all = ledger.sweep_project(RetentionPolicy { days: Some(1), last: None }, None).unwrap();
    assert_eq!((keep_all.runs, keep_all.seq), (vec![], None));
    let blobs = ledger.verify_all(true).unwrap().blobs;
    let rule = RetentionPolicy { days: None, last: Some(1) };
    let expired = ledger.preview_project_sweep(rule, None).unwrap();
    assert_eq!(expired.runs, from_ref(&first.composed.run.id));
    assert_eq!(expired.unfinished, from_ref(&running.composed.run.id));
    let swept = ledger.sweep_project(rule, None).unwrap();
    // Its own file, and the listing with its name.
    assert_eq!(
        (&swept.runs, swept.records, swept.blobs, swept.seq),
        (&vec![first.composed.run.id.clone()], 3, 2, Some(12))
    );
    let checked = ledger.verify_all(true).unwrap();
    assert_eq!((checked.blobs, checked.runs, checked.records, checked.problems), (blobs - 2, 3, 12, vec![]));
    let left = [&running, &parent, &last].map(|kept| kept.composed.run.id.clone());
    assert_eq!(ids(&mut ledger), left);
    let text = prompt_text("T-2", &[("shared.md", &shared)]);
    assert_eq!(ledger.prompt(&running.composed.run.id).unwrap(), text);
    let said = ledger.records_after(11, 1).unwrap()[0].event().unwrap().unwrap();
    let removed = Removed {
        why: "not among the last 1".into(),
        runs: vec![first.composed.run.id.clone()],
        records: 3,
        blobs: 2,
        bytes: swept.bytes,
    };
    assert_eq!(said, Event::Removed(removed));
    assert_eq!(
        ledger.find(first.composed.run.id.as_str()),
        Err(LedgerError::NoRun(first.composed.run.id.to_string()))
    );
    // The same text is stored again.
    ledger.record_prompt(&record_bundle("T-4", &[("own.md", &own)])).unwrap();
    assert_eq!(problems(&mut ledger), Vec::<String>::new());
}

fn export_bytes(ledger: &mut Ledger, scope: &ExportScope) -> Vec<u8> {
    let mut file = Vec::new();
    export(ledger, scope, &mut file).unwrap();
    file
}

/// Records are read in pages.
pub(crate) fn all_pages_are_read(engine: &LedgerEngine) {
    let mut ledger = engine.ledger("pages");
    let first = record_bundle("T-1", &[("a.md", &"The first needs this.\n".repeat(50))]);
    ledger.record_prompt(&first).unwrap();
    for line in 1..=150 {
        let said =
            crate::ledger_operations::output(callsheet_core::record::LogStream::Stdout, line, "a line\n");
        ledger.append(Some(&first.composed.run.id), None, &said).unwrap();
    }
    let files = [("b.md", &*"The last needs this.\n".repeat(50))];
    let last = record_bundle("T-2", &files);
    ledger.record_prompt(&last).unwrap();
    for scope in [ExportScope::All, ExportScope::Run(first.composed.run.id.clone())] {
        let file = export_bytes(&mut ledger, &scope);
        let lines = file.split(|byte| *byte == b'\n').filter(|line| line.starts_with(b"{\"record\"")).count();
        assert_eq!(lines, if scope == ExportScope::All { 152 } else { 151 });
        let mut alone = read_export(&mut BufReader::new(&file[..])).unwrap();
        assert_eq!(problems(&mut alone), Vec::<String>::new());
        assert_eq!(alone.head().unwrap() == ledger.head().unwrap(), scope == ExportScope::All);
    }
    let swept = ledger.sweep_project(RetentionPolicy { days: None, last: Some(1) }, None).unwrap();
    assert_eq!((swept.runs, swept.records), (vec![first.composed.run.id], 151));
    assert_eq!(ledger.prompt(&last.composed.run.id).unwrap(), prompt_text("T-2", &files));
    assert_eq!(problems(&mut ledger), Vec::<String>::new());
}

pub(crate) fn export_verifies_without_ledger(engine: &LedgerEngine) {
    let mut ledger = engine.ledger("export");
    let (first, second) = fill_ledger(&mut ledger);
    let prompt = ledger.prompt(&second).unwrap();
    let file = export_bytes(&mut ledger, &ExportScope::Run(second.clone()));
    let mut alone = read_export(&mut BufReader::new(&file[..])).unwrap();
    assert_eq!(problems(&mut alone), Vec::<String>::new());
    assert_eq!((ids(&mut alone), alone.prompt(&second).unwrap()), (vec![second.clone()], prompt));
    // A changed byte anywhere or a missing line is refused.
    let step = if std::env::var_os("CALLSHEET_LONG").is_some() { 1 } else { 97 };
    for at in (0..file.len()).step_by(step) {
        let mut other = file.clone();
        other[at] ^= 1;
        let read = read_export(&mut BufReader::new(&other[..]));
        assert!(
            matches!(read, Err(LedgerError::Damaged(_) | LedgerError::Newer { .. })),
            "byte {at}: {read:?}"
        );
    }
    let ends: Vec<usize> =
        file.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1).collect();
    for end in &ends[..ends.len() - 1] {
        assert!(matches!(read_export(&mut BufReader::new(&file[..*end])), Err(LedgerError::Damaged(_))));
    }
    let statement = in_toto_statement(&mut ledger, &first).unwrap();
    let composed = ledger.prompt_record(&first).unwrap();
    assert_eq!(statement["subject"][0]["digest"], json!({ "sha256": composed.output.sha256 }));
    assert_eq!(statement["_type"], "https://in-toto.io/Statement/v1");
    assert_eq!(statement["predicate"]["run"]["id"], json!(first));
    assert_eq!(statement["predicate"]["records"].as_array().unwrap().len(), 9);
}

pub(crate) fn import_restores_same_chain(engine: &LedgerEngine) {
    let mut ledger = engine.ledger("import");
    let (first, second) = fill_ledger(&mut ledger);
    ledger.record_prompt(&record_bundle("T-9", &[("a.md", "x")])).unwrap();
    // Removed content leaves its link too.
    ledger.append(Some(&second), None, &Event::Exit(Exit::new(EndReason::Lost, None))).unwrap();
    let swept = ledger.sweep_project(RetentionPolicy { days: None, last: Some(1) }, None).unwrap();
    assert_eq!(swept.runs, [second.clone(), first]);
    let file = export_bytes(&mut ledger, &ExportScope::All);
    let import_into = |place: &LedgerUrl| {
        let mut target = Ledger::create(place).unwrap();
        let done = import(&mut target, &mut BufReader::new(&file[..])).unwrap();
        (target, done)
    };
    let done = |same_chain| ImportReport { runs: 1, records: 14, known: 0, same_chain };
    for place in [LedgerUrl::Memory, engine.place("import_2")] {
        let (mut target, imported) = import_into(&place);
        assert_eq!(imported, done(true));
        assert_eq!(target.head().unwrap(), ledger.head().unwrap());
        assert_eq!(target.records_after(0, 100).unwrap(), ledger.records_after(0, 100).unwrap());
        assert_eq!(problems(&mut target), Vec::<String>::new());
        assert_eq!(export_bytes(&mut target, &ExportScope::All), file);
        // A second import adds nothing.
        let again = import(&mut target, &mut BufReader::new(&file[..])).unwrap();
        // The run and the flow.
        assert_eq!(again, ImportReport { runs: 0, records: 0, known: 2, same_chain: false });
    }
    // Into a ledger with its own runs: numbers are new, and removals in the other ledger are skipped.
    let mut target = engine.ledger("import_3");
    let own = record_bundle("T-0", &[]);
    target.record_prompt(&own).unwrap();
    let imported = import(&mut target, &mut BufReader::new(&file[..])).unwrap();
    assert_eq!(imported, ImportReport { runs: 1, records: 2, known: 0, same_chain: false });
    // The added run and the added flow each have a record that marks them.
    assert_eq!((ids(&mut target).len(), target.head().unwrap().seq), (2, 5));
    let rows = target.runs(&RunFilter { limit: 9, ..RunFilter::default() }).unwrap();
    assert_eq!(rows.iter().map(|row| row.imported).collect::<Vec<_>>(), [true, false]);
    let own = target.runs(&RunFilter { limit: 9, own: true, ..RunFilter::default() }).unwrap();
    assert_eq!(own, rows[1..]);
    assert!(target.run_summary(&rows[0].run.id).unwrap().imported);
    assert_eq!(problems(&mut target), Vec::<String>::new());
}

pub(crate) fn import_never_extends_existing_runs(engine: &LedgerEngine) {
    let mut ledger = engine.ledger("added_to");
    let (run, _) = fill_ledger(&mut ledger);
    let flow = ledger.flows().unwrap().remove(0);
    let before = (ledger.records_of(&run).unwrap(), ledger.records_of_flow(&flow).unwrap());
    let approve = |what: &str| {
        Event::Decided(Decided {
            by: DecidedBy::Person,
            what: what.into(),
            decision: "approve".into(),
            detail: json!({ "event": "decided", "decision": "approve" }),
        })
    };
    // Records about a run and a flow at once, one of which belongs to the other ledger.
    let place = engine.place("added_from");
    let mut evil = Ledger::create(&place).unwrap();
    let own = record_bundle("T-7", &[("a.md", "x")]);
    let (own_run, own_flow) = (own.composed.run.id.clone(), new_id().unwrap());
    evil.record_prompt(&own).unwrap();
    // A forged ledger lists the runs of its records.
    let mut raw = Raw::open(&place);
    for (seq, id) in [(1001, &run), (1002, &flow)] {
        let row = format!("({seq}, '{id}', 'run', '2026-01-01T00:00:00.000000Z')");
        assert!(raw.run(&format!("INSERT INTO runs (seq, id, recipe, started) VALUES {row}")));
    }
    for (run, flow) in [
        (Some(&own_run), Some(&flow)),
        (Some(&run), Some(&own_flow)),
        (Some(&run), None),
        (None, Some(&flow)),
        (Some(&flow), None),
        (None, Some(&run)),
        (Some(&run), Some(&flow)),
    ] {
        evil.append(run, flow, &approve("src/x")).unwrap();
    }
    let file = export_bytes(&mut evil, &ExportScope::All);
    import(&mut ledger, &mut BufReader::new(&file[..])).unwrap();
    assert_eq!((ledger.records_of(&run).unwrap(), ledger.records_of_flow(&flow).unwrap()), before);
    assert!(ledger.records_of_flow(&run).unwrap().is_empty() && ledger.records_of(&flow).unwrap().is_empty());
    assert!(ledger.run_summary(&own_run).unwrap().imported);
    assert_eq!(problems(&mut ledger), Vec::<String>::new());
}

/// A chain that does not contain an earlier head accepts no more records.
pub(crate) fn rolled_back_chain_refuses_records(engine: &LedgerEngine) {
    let place = engine.place("rolled_back");
    let mut ledger = Ledger::create(&place).unwrap();
    let (sender, heads) = std::sync::mpsc::channel();
    ledger.keep_heads(move |head| sender.send(head).unwrap());
    let (run, _) = fill_ledger(&mut ledger);
    let head = ledger.head().unwrap();
    assert_eq!(heads.try_iter().last(), Some(head));
    let exit = Event::Exit(Exit::new(EndReason::Exited, Some(0)));
    let mut other = Ledger::open(&place).unwrap();
    other.expect_head(head);
    // Other processes may append in between.
    ledger.append(Some(&run), None, &exit).unwrap();
    other.append(Some(&run), None, &exit).unwrap();
    let mut raw = Raw::open(&place);
    assert!(raw.run(
        "DELETE FROM records WHERE seq > 8; UPDATE head SET seq = 8, chain = (SELECT chain FROM records WHERE seq = 8)"
    ));
    let is_damaged = |result: Result<u64, LedgerError>, seq: u64| {
        let why = format!("its records no longer lead to the known record {seq}");
        matches!(result, Err(LedgerError::Damaged(said)) if said.ends_with(&why))
    };
    assert!(is_damaged(ledger.append(Some(&run), None, &exit), 12));
    assert!(is_damaged(other.append(Some(&run), None, &exit), 13));
    let swept = other.sweep_project(RetentionPolicy { days: None, last: Some(0) }, None);
    assert!(is_damaged(swept.map(|swept| swept.records), 13));
    // As long as before, but with other records.
    let mut third = Ledger::open(&place).unwrap();
    for _ in 0..5 {
        third.append(Some(&run), None, &exit).unwrap();
    }
    assert!(is_damaged(other.append(Some(&run), None, &exit), 13));
}
