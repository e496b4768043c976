//! Tests that a ledger detects tampering.

use std::collections::BTreeMap;

use callsheet_core::ENGINE_VERSION;
use callsheet_core::record::{ChainLink, Digest, Event, sha256};
use callsheet_store::{Ledger, LedgerError, LedgerProblemKind, LedgerUrl};

use crate::LedgerEngine;
use crate::ledger_operations::fill_ledger;
use crate::prompts::record_bundle;
use crate::raw_database::{Cell, Raw, TABLES};

/// Returns every other value that one changed byte makes of a cell: for long cells some of them, or all with
/// `CALLSHEET_LONG`. If every check is a network connection, returns one.
fn changed_cells(cell: &Cell, raw: &Raw) -> Vec<Cell> {
    let long = std::env::var_os("CALLSHEET_LONG").is_some();
    let all = all_changed_cells(cell, long);
    let most = if long || matches!(raw, Raw::Sqlite(_)) { all.len() } else { 1 };
    all.into_iter().rev().take(most).collect()
}

fn all_changed_cells(cell: &Cell, long: bool) -> Vec<Cell> {
    let places = |length: usize| -> Vec<usize> {
        match long || length <= 8 {
            true => (0..length).collect(),
            false => vec![0, 1, 4, length / 3, length / 2, length - 2, length - 1],
        }
    };
    match cell {
        Cell::Null => vec![Cell::Text("x".into())],
        Cell::Int(number) => vec![Cell::Int(number ^ 1), Cell::Int(number ^ (1 << 20))],
        Cell::Text(text) => {
            // Text must stay text, or the database would refuse it.
            let change = |at: usize| {
                let mut bytes = text.clone().into_bytes();
                bytes[at] ^= if bytes[at].is_ascii_alphanumeric() { 1 } else { 2 };
                String::from_utf8(bytes).ok().map(Cell::Text)
            };
            places(text.len()).into_iter().filter_map(change).collect()
        }
        Cell::Bytes(bytes) => {
            let change = |(at, bits): (usize, u8)| {
                let mut bytes = bytes.clone();
                bytes[at] ^= bits;
                Cell::Bytes(bytes)
            };
            let places = places(bytes.len()).into_iter();
            places.flat_map(|at| [(at, 0x01), (at, 0x10), (at, 0x80)]).map(change).collect()
        }
    }
}

/// Returns the problems that are found, or the error of the open.
fn findings(place: &LedgerUrl) -> Vec<String> {
    let checked = Ledger::open(place).and_then(|mut ledger| ledger.verify_all(true));
    match checked {
        Ok(checked) => checked.problems.iter().map(ToString::to_string).collect(),
        Err(error) => vec![error.to_string()],
    }
}

pub(crate) fn every_changed_column_is_reported(engine: &LedgerEngine) {
    let place = engine.place("flips");
    fill_ledger(&mut Ledger::create(&place).unwrap());
    assert_eq!(findings(&place), Vec::<String>::new());
    let mut raw = Raw::open(&place);
    let runs = raw.column("runs", "seq", ("seq", crate::raw_database::Type::Int));
    let ids = raw.column("runs", "seq", ("id", crate::raw_database::Type::Text));
    let ids: BTreeMap<i64, String> = runs
        .into_iter()
        .zip(ids)
        .filter_map(|pair| match pair {
            (Cell::Int(seq), Cell::Text(id)) => Some((seq, id)),
            _ => None,
        })
        .collect();
    let mut tried = 0;
    for (table, key, columns) in TABLES {
        let (_, key_type) = columns.iter().find(|(column, _)| column == key).unwrap();
        let keys = raw.column(table, key, (key, *key_type));
        for (column, ty) in *columns {
            let cells = raw.column(table, key, (column, *ty));
            for (at, cell) in keys.iter().zip(cells) {
                for other in changed_cells(&cell, &raw) {
                    // A value that the database itself refuses cannot be there.
                    if matches!(
                        (&other, ty),
                        (Cell::Text(_), crate::raw_database::Type::Int | crate::raw_database::Type::Bytes)
                    ) || !raw.set((table, key), at, column, &other)
                    {
                        continue;
                    }
                    tried += 1;
                    let found = findings(&place);
                    let named = found.iter().any(|line| is_row_named(line, table, at, &raw, &ids));
                    assert!(named, "{table}.{column} of {at:?}: {cell:?} became {other:?}, found {found:?}");
                    let now = if column == key { &other } else { at };
                    assert!(raw.set((table, key), now, column, &cell));
                }
            }
        }
    }
    assert_eq!(findings(&place), Vec::<String>::new());
    assert!(tried > 150, "{tried}");
}

/// Returns whether a finding names the row.
fn is_row_named(line: &str, table: &str, key: &Cell, raw: &Raw, ids: &BTreeMap<i64, String>) -> bool {
    match (table, key) {
        ("migrations", _) => line.contains("migration") || line.contains("schema"),
        ("blobs", key) => {
            let digest = raw.literal(key).to_lowercase();
            let digest =
                digest.trim_start_matches("x'").trim_start_matches("'\\x").trim_end_matches("::bytea");
            line.contains(digest.trim_end_matches('\''))
        }
        ("runs" | "run_facts", Cell::Int(seq)) => {
            let id = ids.get(seq).is_some_and(|id| line.starts_with(&format!("run {id}: ")));
            let is_named =
                [format!("of {seq} "), format!("of {seq}:")].iter().any(|name| line.contains(name));
            id || is_named || line.contains("it has no record")
        }
        // The next record is tied to this one.
        ("records", Cell::Int(seq)) => {
            let near = [format!("record {seq}:"), format!("record {}:", seq + 1), format!("of {seq}")];
            near.iter().any(|name| line.contains(name))
        }
        _ => line.contains("head"),
    }
}

/// Changes more than one column at a time, so that no check of a single column can detect it.
pub(crate) fn combined_changes_are_found(engine: &LedgerEngine) {
    let place = engine.place("together");
    fill_ledger(&mut Ledger::create(&place).unwrap());
    let mut raw = Raw::open(&place);
    assert!(raw.run("UPDATE records SET payload = NULL, packed = NULL WHERE seq = 3"));
    assert_eq!(findings(&place), ["record 3: its payload is gone, and no record says that it was removed"]);

    let place = engine.place("together_2");
    fill_ledger(&mut Ledger::create(&place).unwrap());
    let mut raw = Raw::open(&place);
    let digests = raw.column("blobs", "sha256", ("sha256", crate::raw_database::Type::Bytes));
    let [one, other] = [&digests[0], &digests[1]].map(|digest| raw.literal(digest));
    assert!(raw.run(&format!(
        "UPDATE blobs SET (size, zstd, packed) = (SELECT size, zstd, packed FROM blobs WHERE sha256 = {other})
         WHERE sha256 = {one}"
    )));
    let Cell::Bytes(digest) = &digests[0] else { unreachable!("digests are bytes") };
    let digest = Digest(digest.clone().try_into().unwrap());
    let wrong = format!("blob {digest}: its text has another SHA-256");
    let found = findings(&place);
    assert!(found.iter().any(|line| line.ends_with(&wrong)), "{found:?}");
    let mut ledger = Ledger::open(&place).unwrap();
    assert_eq!(ledger.blob(digest), Err(LedgerError::Damaged(wrong)));
}

pub(crate) fn removed_and_reordered_records_are_found(engine: &LedgerEngine) {
    let place = engine.place("order");
    fill_ledger(&mut Ledger::create(&place).unwrap());
    let head = Ledger::open(&place).unwrap().head().unwrap();
    let mut raw = Raw::open(&place);
    assert!(raw.run("DELETE FROM records WHERE seq = 5"));
    assert_eq!(findings(&place), ["record 5: it is gone", "record 6: its link in the chain is broken"]);

    let place = engine.place("order_2");
    fill_ledger(&mut Ledger::create(&place).unwrap());
    let mut raw = Raw::open(&place);
    assert!(raw.run("UPDATE records SET seq = 1000 WHERE seq = 3"));
    assert!(raw.run("UPDATE records SET seq = 3 WHERE seq = 4"));
    assert!(raw.run("UPDATE records SET seq = 4 WHERE seq = 1000"));
    let broken = |seq: u64| format!("record {seq}: its link in the chain is broken");
    assert_eq!(findings(&place), [broken(3), broken(4), broken(5)]);

    // The last record, with the head adjusted: only an earlier copy of the head shows it.
    let place = engine.place("order_3");
    let mut ledger = Ledger::create(&place).unwrap();
    fill_ledger(&mut ledger);
    let kept = ledger.head().unwrap();
    assert_ne!(kept, head, "ids and times differ");
    let mut raw = Raw::open(&place);
    assert!(raw.run("DELETE FROM records WHERE seq = 11"));
    assert_eq!(findings(&place), ["head: it names 11, but the last record is 10"]);
    assert!(raw.run("UPDATE head SET seq = 10, chain = (SELECT chain FROM records WHERE seq = 10)"));
    assert_eq!(findings(&place), Vec::<String>::new());
    assert_eq!(ledger.has_link(&kept), Ok(false));
}

/// Replaces the text of a source, and adjusts everything that can be adjusted to it.
pub(crate) fn altered_source_differs_despite_rebuilt_chain(engine: &LedgerEngine) {
    let place = engine.place("forged");
    let mut ledger = Ledger::create(&place).unwrap();
    let mut kept = record_bundle("T-1", &[("docs/plan.md", &"Ask before you delete.\n".repeat(40))]);
    let run = kept.composed.run.id.clone();
    let forged = "Delete what you like..\n".repeat(40);
    let (old, new) =
        (sha256(&["Ask before you delete.\n".repeat(40).as_bytes()]), sha256(&[forged.as_bytes()]));
    kept.blobs.remove(&old);
    kept.blobs.insert(new, forged.into());
    let texts = kept.composed.snapshot.texts.values_mut();
    texts.filter(|digest| **digest == Some(old)).for_each(|digest| *digest = Some(new));
    ledger.record_prompt(&kept).unwrap();
    let checked = ledger.verify_all(true).unwrap();
    assert_eq!(checked.worst(), Some(LedgerProblemKind::Differs));
    assert_eq!(
        checked.problems.iter().map(ToString::to_string).collect::<Vec<_>>(),
        [format!(
            "run {run}: project:docs/plan.md: its text is not the version that the prompt was composed from"
        )]
    );
    assert!(matches!(ledger.prompt(&run), Err(LedgerError::Damaged(_))));

    // If the version is changed as well, the text still has another digest.
    let mut again = kept.clone();
    again.composed.run.id = callsheet_store::new_id().unwrap();
    for origin in &mut again.composed.output.origins {
        if origin.version == old.short() {
            origin.version = new.short();
        }
    }
    ledger.record_prompt(&again).unwrap();
    let checked = ledger.verify(&[again.composed.run.id.clone()]).unwrap();
    let sha256 = again.composed.output.sha256;
    assert_eq!(
        checked.problems.iter().map(ToString::to_string).collect::<Vec<_>>(),
        [format!("run {}: its parts do not give the text with the SHA-256 {sha256}", again.composed.run.id)]
    );

    // Another engine is reported, not judged.
    let mut other = self::record_bundle("T-1", &[("a.md", "x")]);
    other.composed.engine += 1;
    ledger.record_prompt(&other).unwrap();
    let checked = ledger.verify(&[other.composed.run.id.clone()]).unwrap();
    assert_eq!(checked.worst(), Some(LedgerProblemKind::OtherEngine));
    assert_eq!(
        checked.problems[0].to_string(),
        format!(
            "run {}: version {} of the engine made it, which is newer than this one ({ENGINE_VERSION}): its texts and its \
             SHA-256 are right, but it was not composed again; the version of callsheet that made it can compose it again",
            other.composed.run.id,
            ENGINE_VERSION + 1
        )
    );
    assert_eq!(checked.other_engines, [(other.composed.run.id, ENGINE_VERSION + 1)]);
}

#[test]
fn chain_link_matches_documentation() {
    let payload = Event::payload(&crate::ledger_operations::events()[0]).unwrap();
    let payload = sha256(&[payload.as_bytes()]);
    let link = ChainLink { seq: 7, run: Some("r"), flow: None, kind: "delivered", at: "t", payload };
    let before = Digest([1; 32]);
    assert_eq!(link.link_after(&before), sha256(&[&[1; 32], &payload.0, b"7\nr\n\ndelivered\nt\n"]));
}
