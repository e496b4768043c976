//! Tests that a file is read as an export only if `export` could have written it, byte for byte.

use std::io::BufReader;

use callsheet_core::EndReason;
use callsheet_core::record::{Decided, DecidedBy, Digest, Event, Exit, sha256};
use callsheet_store::{ExportScope, Ledger, LedgerError, LedgerUrl, export, import, new_id, read_export};
use serde_json::{Map, Value, json};

use crate::prompts::record_bundle;

fn exports() -> [(Vec<String>, bool); 2] {
    let mut ledger = Ledger::create(&LedgerUrl::Memory).unwrap();
    let first =
        record_bundle("T-1", &[("docs/plan.md", &"Plan with care.\n".repeat(60)), ("a.md", "ä & <b>\n")]);
    let second = record_bundle("T-2", &[("docs/plan.md", &"Plan with care.\n".repeat(60))]);
    for kept in [&first, &second] {
        ledger.record_prompt(kept).unwrap();
        let exit = Event::Exit(Exit::new(EndReason::Exited, Some(0)));
        ledger.append(Some(&kept.composed.run.id), None, &exit).unwrap();
    }
    let decided = Decided {
        by: DecidedBy::Flow,
        what: "plan".into(),
        decision: "review".into(),
        detail: json!({ "n": 1 }),
    };
    ledger.append(None, Some(&new_id().unwrap()), &Event::Decided(decided)).unwrap();
    [(ExportScope::All, true), (ExportScope::Run(first.composed.run.id), false)].map(|(scope, all)| {
        let mut file = Vec::new();
        export(&mut ledger, &scope, &mut file).unwrap();
        let lines = String::from_utf8(file).unwrap();
        (lines.split_inclusive('\n').map(str::to_owned).collect(), all)
    })
}

/// Returns the lines with a matching end, as a forger would write it.
fn with_end(lines: &[String]) -> String {
    let body = lines[..lines.len() - 1].concat();
    let count = body.split_inclusive('\n').count();
    let end = json!({ "end": { "lines": count, "sha256": sha256(&[body.as_bytes()]) } });
    format!("{body}{end}\n")
}

fn reverse_keys(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let turned: Map<String, Value> =
                map.iter().rev().map(|(key, value)| (key.clone(), reverse_keys(value))).collect();
            turned.into()
        }
        other => other.clone(),
    }
}

/// Returns the same value in other spellings.
fn spellings(line: &str) -> Vec<String> {
    let text = line.trim_end_matches('\n');
    let value: Value = serde_json::from_str(text).unwrap();
    let (kind, inner) = value.as_object().unwrap().iter().next().unwrap();
    let first = inner.as_object().unwrap().keys().next().unwrap();
    let mut all = vec![
        format!(" {text}\n"),
        format!("{text} \n"),
        format!("{text}\r\n"),
        format!("\t{text}\n"),
        format!("\u{feff}{text}\n"),
        format!("\n{text}\n"),
        format!("{text}\n\n"),
        text.replacen(':', ": ", 1) + "\n",
        text.replacen("{\"", "{ \"", 1) + "\n",
        format!("{}\n", serde_json::to_string_pretty(&value).unwrap().replace('\n', " ")),
        text.replacen(kind, &format!("\\u{:04x}{}", kind.as_bytes()[0], &kind[1..]), 1) + "\n",
        format!("{{\"{kind}\":{inner},\"{kind}\":{inner}}}\n"),
        text.replacen(&format!("{{\"{first}\""), &format!("{{\"more\":1,\"{first}\""), 1) + "\n",
        text.replacen(&format!("{{\"{first}\""), &format!("{{\"{first}\":null,\"{first}\""), 1) + "\n",
    ];
    let turned = reverse_keys(&value).to_string();
    if turned != text {
        all.push(turned + "\n");
    }
    all
}

/// Returns every forged file, with a description of the forgery.
fn forge_files(lines: &[String], all: bool) -> Vec<(String, String)> {
    let whole = lines.concat();
    let mut files = Vec::new();
    let (header, body, end) = (&lines[0], &lines[1..lines.len() - 1], &lines[lines.len() - 1]);
    let after = ["\n", " ", "x", "\0", "{}", "{}\n", "\r\n", "\n\n", "\u{feff}", "null\n", "\u{1f}\u{8b}"];
    let after =
        after.into_iter().chain([end, header, &body[0], &body[body.len() - 1], &whole].map(String::as_str));
    files.extend(after.map(|more| (format!("{more:?} after the end"), format!("{whole}{more}"))));
    files.push(("no last newline".into(), whole.trim_end_matches('\n').into()));
    files.extend(spellings(end).into_iter().map(|other| {
        (format!("the end as {other:?}"), format!("{}{other}", lines[..lines.len() - 1].concat()))
    }));
    let mut forge = |what: String, lines: Vec<String>| files.push((what, with_end(&lines)));
    let with = |at: usize, other: &[String]| [&lines[..at], other, &lines[at + 1..]].concat();
    for (at, line) in lines.iter().enumerate().take(lines.len() - 1) {
        for other in spellings(line) {
            forge(format!("line {at} as {other:?}"), with(at, &[other]));
        }
        forge(format!("line {at} twice"), with(at, &[line.clone(), line.clone()]));
        // Only its ledger knows the records of a run.
        if all || !line.starts_with("{\"record") {
            forge(format!("line {at} left out"), with(at, &[]));
        }
        forge(format!("an end before line {at}"), with(at, &[end.clone(), line.clone()]));
        if at + 2 < lines.len() {
            forge(format!("lines {at} and {} swapped", at + 1), {
                let mut other = lines.to_vec();
                other.swap(at, at + 1);
                other
            });
        }
    }
    let mut head = |key: &str, value: Value| {
        let mut other: Value = serde_json::from_str(header).unwrap();
        other["callsheet_export"][key] = value;
        forge(format!("a header with another {key}"), with(0, &[format!("{other}\n")]));
    };
    head("all", json!(!all));
    head("version", json!(0));
    head("version", json!(3));
    if all {
        head("seq", json!(1));
        head("seq", json!(99));
        head("chain", json!(Digest::ZERO));
    } else {
        let text = "A text that the run does not need.".repeat(30);
        let digest = sha256(&[text.as_bytes()]);
        let blob = format!("{}\n", json!({ "blob": { "sha256": digest, "text": text } }));
        let mut blobs: Vec<String> = lines.to_vec();
        let is_behind = |line: &String| line.starts_with("{\"blob") && *line < blob;
        let at = lines.iter().skip(1).take_while(|line| is_behind(line)).count() + 1;
        blobs.insert(at, blob);
        forge("a text that the run does not need".into(), blobs);
    }
    files
}

#[test]
fn forged_exports_are_refused() {
    let mut target = Ledger::create(&LedgerUrl::Memory).unwrap();
    target.record_prompt(&record_bundle("T-9", &[])).unwrap();
    let head = target.head().unwrap();
    let mut tried = 0;
    for (lines, all) in exports() {
        assert_eq!(with_end(&lines), lines.concat(), "an end that is made again is the same");
        assert!(read_export(&mut lines.concat().as_bytes()).is_ok());
        for (what, file) in forge_files(&lines, all) {
            assert_ne!(file, lines.concat(), "{what}");
            tried += 1;
            // In small pieces too: data after the end may not be in the buffer yet.
            for size in [1 << 16, 7] {
                let read = read_export(&mut BufReader::with_capacity(size, file.as_bytes()));
                let refused = matches!(read, Err(LedgerError::Damaged(_) | LedgerError::Newer { .. }));
                assert!(refused, "{what}: {read:?}");
            }
            let added = import(&mut target, &mut file.as_bytes());
            assert!(
                matches!(added, Err(LedgerError::Damaged(_) | LedgerError::Newer { .. })),
                "{what}: {added:?}"
            );
            assert_eq!(target.head().unwrap(), head, "{what}");
        }
    }
    assert!(tried > 250, "{tried}");
}

/// Returns a text of bytes that JSON writes as six each.
fn control_characters(length: usize) -> String {
    "\u{1}".repeat(length)
}

/// Uses texts of lengths around the limit of a line, and of the bytes that take the most space in JSON.
#[test]
fn long_texts_survive_export_and_import() {
    const PIECE: usize = 8 << 20;
    const LINE: usize = 64 << 20;
    let mut texts = vec![
        control_characters(PIECE + 1),
        format!("{}äöü", "x".repeat(PIECE - 3)),
        "\"\\".repeat(PIECE / 2 + 9),
    ];
    if std::env::var_os("CALLSHEET_LONG").is_some() {
        // Each takes six bytes in JSON, and at most 256 MiB are stored.
        texts.push(control_characters((256 << 20) / 6 - 1_000));
    }
    let mut ledger = Ledger::create(&LedgerUrl::Memory).unwrap();
    let run = record_bundle("T-1", &[("a.md", "x")]);
    ledger.record_prompt(&run).unwrap();
    for text in &texts {
        let decided =
            Decided { by: DecidedBy::Flow, what: "x".into(), decision: "y".into(), detail: json!(text) };
        ledger.append(Some(&run.composed.run.id), None, &Event::Decided(decided)).unwrap();
    }
    let large = record_bundle("T-2", &[("large.md", &format!("{}\n", "x".repeat(PIECE)))]);
    ledger.record_prompt(&large).unwrap();
    let mut file = Vec::new();
    export(&mut ledger, &ExportScope::All, &mut file).unwrap();
    let longest = file.split(|byte| *byte == b'\n').map(<[u8]>::len).max().unwrap();
    assert!(longest < LINE, "{longest}");
    let mut target = Ledger::create(&LedgerUrl::Memory).unwrap();
    assert!(import(&mut target, &mut BufReader::new(&file[..])).unwrap().same_chain);
    assert_eq!(target.head(), ledger.head());
    let mut again = Vec::new();
    export(&mut target, &ExportScope::All, &mut again).unwrap();
    assert!(again == file, "the second export is another one");
    // A text that could not be exported is not stored.
    let decided = Decided {
        by: DecidedBy::Flow,
        what: "x".into(),
        decision: "y".into(),
        detail: json!("x".repeat((256 << 20) + 1)),
    };
    let refused = ledger.append(Some(&run.composed.run.id), None, &Event::Decided(decided)).unwrap_err();
    assert!(
        matches!(&refused, LedgerError::Failed(why) if why.ends_with("the limit is 268435456")),
        "{refused:?}"
    );
}

#[test]
fn overlong_line_is_not_read_fully() {
    /// Endless input, with the number of requested bytes.
    struct Endless(usize);
    impl std::io::Read for Endless {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            buffer.fill(b' ');
            self.0 += buffer.len();
            Ok(buffer.len())
        }
    }
    let first = exports()[0].0[0].clone();
    let file = std::io::Read::chain(first.as_bytes(), Endless(0));
    let mut reader = BufReader::new(file);
    let refused = read_export(&mut reader).unwrap_err();
    assert_eq!(
        refused,
        LedgerError::Damaged("line 2 of the export: it is longer than 67108864 bytes".into())
    );
    assert!(reader.get_ref().get_ref().1.0 <= (64 << 20) + (1 << 20));
    // Without a valid first line, the read stops much sooner.
    let mut reader = BufReader::new(Endless(0));
    assert_eq!(
        read_export(&mut reader).unwrap_err(),
        LedgerError::Damaged("not an export of callsheet".into())
    );
    assert!(reader.get_ref().0 <= 64 << 10);
}

/// Tests splits that an export would not make.
#[test]
fn only_canonical_text_splits_are_accepted() {
    const PIECE: usize = 8 << 20;
    let mut ledger = Ledger::create(&LedgerUrl::Memory).unwrap();
    let run = record_bundle("T-1", &[("a.md", "x")]);
    ledger.record_prompt(&run).unwrap();
    let long = "x".repeat(PIECE + 10);
    let decided =
        Decided { by: DecidedBy::Flow, what: "x".into(), decision: "y".into(), detail: json!(long) };
    ledger.append(Some(&run.composed.run.id), None, &Event::Decided(decided)).unwrap();
    let mut file = Vec::new();
    export(&mut ledger, &ExportScope::All, &mut file).unwrap();
    let lines: Vec<String> =
        String::from_utf8(file).unwrap().split_inclusive('\n').map(str::to_owned).collect();
    let at = lines.iter().position(|line| line.starts_with("{\"part\"")).unwrap();
    let refused = |lines: &[String], why: &str| {
        let read = read_export(&mut BufReader::new(with_end(lines).as_bytes()));
        match read {
            Err(LedgerError::Damaged(found)) => assert!(found.ends_with(why), "{found}"),
            other => panic!("{why}: {other:?}"),
        }
    };
    let cut = "a text is split at the wrong place";
    // A shorter part, with the rest in the next line.
    let mut shorter = lines.clone();
    shorter[at] = lines[at].replacen("xx", "x", 1);
    shorter[at + 1] = lines[at + 1].replacen("\"payload\":\"", "\"payload\":\"x", 1);
    refused(&shorter, cut);
    // The whole text in one line.
    let mut one = lines.clone();
    let part = one.remove(at);
    let part = part.trim_start_matches("{\"part\":{\"text\":\"").trim_end_matches("\"}}\n").to_owned();
    one[at] = one[at].replacen("\"payload\":\"", &format!("\"payload\":\"{part}"), 1);
    refused(&one, cut);
    // A part without a text, and an older version.
    let mut nothing = lines.clone();
    nothing.insert(lines.len() - 1, "{\"part\":{\"text\":\"\"}}\n".into());
    refused(&nothing, "the pieces before it belong to no text");
    let mut older = lines;
    older[0] = older[0].replacen("\"version\":2", "\"version\":1", 1);
    refused(&older, "version 1 has no parts");
}

/// The end matches, but the last record is missing.
#[test]
fn export_without_last_record_is_refused() {
    let (lines, _) = exports()[0].clone();
    let last = lines.len() - 2;
    assert!(lines[last].starts_with("{\"record\""));
    let mut cut = lines;
    cut.remove(last);
    let refused = read_export(&mut BufReader::new(with_end(&cut).as_bytes())).unwrap_err();
    assert!(
        matches!(&refused, LedgerError::Damaged(why) if why.ends_with("its records do not lead to the head that it names")),
        "{refused:?}"
    );
}
