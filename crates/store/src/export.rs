//! Exports: a file that holds everything that its records need, one JSON object per line, and the way back.
//!
//! The first line says what it is, then come texts, then records, each with the link that it is tied to; the last line
//! has the SHA-256 of all before it. So a file can be proved without the ledger that it came from.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead, Write};

use callsheet_core::Text;
use callsheet_core::record::{Composed, Digest, Event, Id, blobs_of, sha256};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::clock::now;
use crate::db::Db;
use crate::error::Error;
use crate::ledger::{Draft, Head, Ledger, append, head, index, put_blobs};
use crate::read::Record;
use crate::row::Param;

/// What goes into a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    All,
    Run(Id),
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum FileLine {
    CallsheetExport { version: u32, all: bool, seq: u64, chain: Digest },
    Blob { sha256: Digest, text: Text },
    Record(Box<RecordLine>),
    End { lines: u64, sha256: Digest },
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RecordLine {
    seq: u64,
    run: Option<Id>,
    flow: Option<Id>,
    kind: String,
    at: String,
    /// A text, since its bytes are what is hashed.
    payload: Option<String>,
    payload_sha256: Digest,
    before: Digest,
    chain: Digest,
}

const VERSION: u32 = 1;

/// Longer than any line that is written; a text is the longest.
const MOST_LINE: u64 = 1 << 33;

struct Writer<'w> {
    out: &'w mut dyn Write,
    hash: Sha256,
    lines: u64,
}

impl Writer<'_> {
    fn line(&mut self, line: &FileLine) -> Result<(), Error> {
        let mut text = serde_json::to_string(line).map_err(|error| Error::Failed(error.to_string()))?;
        text.push('\n');
        self.hash.update(text.as_bytes());
        self.lines += 1;
        self.out.write_all(text.as_bytes()).map_err(|error| unwritten(&error))
    }
}

fn unwritten(error: &io::Error) -> Error {
    Error::Failed(format!("the export could not be written: {error}"))
}

/// Writes an export.
pub fn export(ledger: &mut Ledger, scope: &Scope, out: &mut dyn Write) -> Result<(), Error> {
    ledger.still(|ledger| export_as_it_is(ledger, scope, out))
}

fn export_as_it_is(ledger: &mut Ledger, scope: &Scope, out: &mut dyn Write) -> Result<(), Error> {
    let Head { seq, chain } = ledger.head()?;
    let mut writer = Writer { out, hash: Sha256::new(), lines: 0 };
    writer.line(&FileLine::CallsheetExport { version: VERSION, all: *scope == Scope::All, seq, chain })?;
    for sha256 in blobs(ledger, scope)? {
        let text = ledger.blob(sha256)?.ok_or_else(|| Error::damaged(format!("blob {sha256} is gone")))?;
        writer.line(&FileLine::Blob { sha256, text })?;
    }
    match scope {
        Scope::Run(run) => {
            for record in ledger.records_of(run)? {
                write_record(ledger, record, &mut writer)?;
            }
        }
        Scope::All => {
            let mut last = 0;
            while last < seq {
                for record in ledger.records_after(last, 256)? {
                    last = record.seq;
                    write_record(ledger, record, &mut writer)?;
                }
            }
        }
    }
    let (lines, sha256) = (writer.lines, Digest(writer.hash.clone().finalize().into()));
    writer.line(&FileLine::End { lines, sha256 })?;
    writer.out.flush().map_err(|error| unwritten(&error))
}

fn write_record(ledger: &mut Ledger, record: Record, writer: &mut Writer<'_>) -> Result<(), Error> {
    let seq = record.seq;
    let gone = || Error::damaged(format!("record {} is gone", seq - 1));
    let before = ledger.link_before(seq)?.ok_or_else(gone)?;
    let id = |text: Option<String>| match text.as_deref().map(Id::parse) {
        Some(None) => Err(Error::damaged(format!("record {seq}: it is about no run"))),
        Some(id) => Ok(id),
        None => Ok(None),
    };
    writer.line(&FileLine::Record(Box::new(RecordLine {
        seq,
        run: id(record.run)?,
        flow: id(record.flow)?,
        kind: record.kind,
        at: record.at,
        payload: record.payload,
        payload_sha256: record.payload_sha256,
        before,
        chain: record.chain,
    })))
}

fn blobs(ledger: &mut Ledger, scope: &Scope) -> Result<BTreeSet<Digest>, Error> {
    match scope {
        Scope::Run(run) => {
            let composed = ledger.composed(run)?;
            blobs_of(&composed).map_err(|lost| Error::damaged(format!("run {run}: {lost}")))
        }
        Scope::All => {
            let rows = ledger.db.query("SELECT sha256 FROM blobs", &[])?;
            rows.into_iter().map(|mut row| row.digest("blobs.sha256")).collect()
        }
    }
}

/// What an import has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    pub runs: usize,
    pub records: usize,
    /// Runs that were there already.
    pub known: usize,
    /// The ledger was empty and got everything: it has the same numbers, links and head now.
    pub same_chain: bool,
}

/// Reads an export into a ledger of its own, which is gone when it is dropped; all of it is checked on the way.
pub fn read_export(file: &mut dyn BufRead) -> Result<Ledger, Error> {
    let mut ledger = Ledger::create(&crate::Place::Memory)?;
    add_all(&mut ledger, file, false)?;
    Ok(ledger)
}

/// Adds what an export holds: all of it or, if anything is wrong with the file, nothing. Runs and flows that are added to
/// others are marked, each by a record of its own.
pub fn import(ledger: &mut Ledger, file: &mut dyn BufRead) -> Result<Imported, Error> {
    add_all(ledger, file, true)
}

fn add_all(ledger: &mut Ledger, file: &mut dyn BufRead, mark: bool) -> Result<Imported, Error> {
    let mut lines = Lines { file, hash: Sha256::new(), number: 0 };
    let Some(FileLine::CallsheetExport { version, all, seq, chain }) = lines.next()? else {
        return Err(Error::damaged("this is no export of callsheet"));
    };
    if version > VERSION {
        return Err(Error::Newer { found: version.into(), known: VERSION.into() });
    }
    let target = Head { seq, chain };
    ledger.alone(|db, zip| {
        let empty = head(db)?.seq == 0;
        let mut importer = Importer {
            whole: empty && all,
            known: BTreeMap::new(),
            runs: BTreeSet::new(),
            done: Imported::default(),
        };
        loop {
            match lines.next()? {
                Some(FileLine::Blob { sha256: digest, text }) => {
                    if sha256(&[text.as_bytes()]) != digest {
                        return Err(lines.wrong(format!("blob {digest}: its text has another SHA-256")));
                    }
                    put_blobs(db, zip, &BTreeMap::from([(digest, text)]), BTreeMap::new())?;
                }
                Some(FileLine::Record(record)) => {
                    check(&record).map_err(|why| lines.wrong(why))?;
                    if importer.wants(db, &record)? {
                        add(db, zip, &record)?;
                        importer.added(&record);
                    }
                }
                Some(FileLine::End { .. }) => break,
                Some(FileLine::CallsheetExport { .. }) | None => {
                    return Err(lines.wrong("it ends too early".into()));
                }
            }
        }
        if mark && !importer.whole {
            importer.mark(db, zip, target)?;
        }
        let mut done = importer.done;
        done.same_chain = importer.whole && head(db)? == target;
        if importer.whole && !done.same_chain {
            return Err(Error::damaged("the export's records do not lead to the head that it tells"));
        }
        Ok(done)
    })
}

struct Lines<'f> {
    file: &'f mut dyn BufRead,
    hash: Sha256,
    number: u64,
}

impl Lines<'_> {
    /// The next line; the last one is checked against all before it.
    fn next(&mut self) -> Result<Option<FileLine>, Error> {
        let mut text = String::new();
        let read = io::Read::take(&mut *self.file, MOST_LINE).read_line(&mut text);
        read.map_err(|error| self.wrong(error.to_string()))?;
        if text.is_empty() {
            return Ok(None);
        }
        let before = Digest(self.hash.clone().finalize().into());
        self.hash.update(text.as_bytes());
        self.number += 1;
        let line = serde_json::from_str(&text).map_err(|error| self.wrong(error.to_string()))?;
        if let FileLine::End { lines, sha256 } = line
            && (lines + 1 != self.number || sha256 != before)
        {
            return Err(self.wrong("what stands before it has another SHA-256".into()));
        }
        Ok(Some(line))
    }

    fn wrong(&self, why: String) -> Error {
        Error::damaged(format!("line {} of the export: {why}", self.number))
    }
}

/// Whether a record is what its digest and its link say.
fn check(record: &RecordLine) -> Result<(), String> {
    let place = format!("record {}", record.seq);
    if let Some(payload) = &record.payload {
        if sha256(&[payload.as_bytes()]) != record.payload_sha256 {
            return Err(format!("{place}: its payload has another SHA-256"));
        }
        Event::read(&record.kind, payload).map_err(|why| format!("{place}: {why}"))?;
    }
    let link = callsheet_core::record::Link {
        seq: record.seq,
        run: record.run.as_ref().map(Id::as_str),
        flow: record.flow.as_ref().map(Id::as_str),
        kind: &record.kind,
        at: &record.at,
        payload: record.payload_sha256,
    };
    match link.after(&record.before) == record.chain {
        true => Ok(()),
        false => Err(format!("{place}: its link in the chain is broken")),
    }
}

struct Importer {
    /// Everything is taken, so that numbers and links stay as they are.
    whole: bool,
    /// Runs and flows of the file, and whether the ledger had them before.
    known: BTreeMap<Id, bool>,
    /// Those of them that are runs.
    runs: BTreeSet<Id>,
    done: Imported,
}

impl Importer {
    fn wants(&mut self, db: &mut Db, record: &RecordLine) -> Result<bool, Error> {
        if self.whole {
            return Ok(true);
        }
        // What was removed elsewhere says nothing here.
        if record.payload.is_none() || record.run.is_none() && record.flow.is_none() {
            return Ok(false);
        }
        // A record that names a run and a flow is about both: neither may be one that the ledger had before.
        let mut new = true;
        for id in record.run.iter().chain(&record.flow) {
            if !self.known.contains_key(id) {
                let sql = "SELECT seq FROM records WHERE run = $1 OR flow = $1 LIMIT 1";
                let known = !db.query(sql, &[Param::Text(id.as_str())])?.is_empty();
                self.done.known += usize::from(known);
                self.known.insert(id.clone(), known);
            }
            new &= self.known.get(id) == Some(&false);
        }
        self.runs.extend(record.run.clone());
        Ok(new)
    }

    /// Says of each run and flow that was added that it is not the ledger's own.
    fn mark(&self, db: &mut Db, zip: &mut zstd::bulk::Compressor<'static>, from: Head) -> Result<(), Error> {
        let event = Event::Imported(callsheet_core::record::Imported { seq: from.seq, chain: from.chain });
        let payload = event.payload().map_err(Error::Failed)?;
        let (at, digest) = (now(), sha256(&[payload.as_bytes()]));
        for (id, _) in self.known.iter().filter(|(_, known)| !**known) {
            let is_run = self.runs.contains(id);
            let (run, flow) = (Some(id).filter(|_| is_run), Some(id).filter(|_| !is_run));
            let draft =
                Draft { run, flow, kind: event.kind(), at: &at, payload: Some(&payload), sha256: digest };
            let head = append(db, zip, &draft)?;
            index(db, head.seq, run, &event)?;
        }
        Ok(())
    }

    fn added(&mut self, record: &RecordLine) {
        self.done.records += 1;
        self.done.runs += usize::from(record.kind == "composed" && record.payload.is_some());
    }
}

fn add(db: &mut Db, zip: &mut zstd::bulk::Compressor<'static>, record: &RecordLine) -> Result<(), Error> {
    let draft = Draft {
        run: record.run.as_ref(),
        flow: record.flow.as_ref(),
        kind: &record.kind,
        at: &record.at,
        payload: record.payload.as_deref(),
        sha256: record.payload_sha256,
    };
    let head = append(db, zip, &draft)?;
    if let Some(payload) = &record.payload {
        let event = Event::read(&record.kind, payload).map_err(Error::Damaged)?;
        index(db, head.seq, record.run.as_ref(), &event)?;
    }
    Ok(())
}

/// The prompt of a run as an in-toto statement: its digest, and what it was made of.
pub fn statement(ledger: &mut Ledger, run: &Id) -> Result<Value, Error> {
    let composed = ledger.composed(run)?;
    let materials = composed
        .snapshot
        .texts
        .iter()
        .filter_map(|(id, digest)| Some(json!({ "name": id, "digest": { "sha256": (*digest)? } })));
    let materials: Vec<Value> = materials.collect();
    let records = ledger.records_of(run)?;
    let links: Vec<Value> = records
        .iter()
        .map(|record| {
            json!({ "seq": record.seq, "kind": record.kind, "at": record.at, "payload_sha256": record.payload_sha256, "chain": record.chain })
        })
        .collect();
    let Composed { run, engine, api, output, .. } = &composed;
    Ok(json!({
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{ "name": format!("prompt of run {}", run.id), "digest": { "sha256": output.sha256 } }],
        "predicateType": "urn:callsheet:prompt:v1",
        "predicate": {
            "run": run,
            "engine": engine,
            "format": output.format,
            "api": api,
            "bytes": output.bytes,
            "resolvedDependencies": materials,
            "records": links,
        },
    }))
}
