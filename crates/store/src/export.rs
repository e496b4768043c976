//! Exports: a file that holds everything that its records need, one JSON object per line, and its import.
//!
//! The first line is a header. Then come texts, then records, each with the link that precedes it; the last
//! line has the SHA-256 of all lines before it. So a file can be verified without its ledger. A text that is
//! too long for a line is split: all pieces but the last are in lines of their own, before the line that the
//! text belongs to.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead, Write};

use callsheet_core::record::{Composed, Digest, Event, Id, sha256};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::clock::now;
use crate::db::DatabaseConnection;
use crate::error::LedgerError;
use crate::ledger::{
    Head, Ledger, MOST_TEXT, RecordDraft, append_event, append_record, index_record, put_blobs, read_head,
    read_link_before,
};
use crate::read::{StoredRecord, for_each_record};
use crate::row::SqlParam;

/// Contents of an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExportScope {
    /// The whole ledger.
    All,
    /// One run.
    Run(Id),
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum ExportLine {
    CallsheetExport {
        version: u32,
        all: bool,
        seq: u64,
        chain: Digest,
    },
    /// Piece of the text of the next line that is not a part.
    Part {
        text: String,
    },
    Blob {
        sha256: Digest,
        text: String,
    },
    Record(Box<RecordLine>),
    End {
        lines: u64,
        sha256: Digest,
    },
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RecordLine {
    seq: u64,
    run: Option<Id>,
    flow: Option<Id>,
    kind: String,
    at: String,
    /// A text, because its bytes are hashed.
    payload: Option<String>,
    payload_sha256: Digest,
    before: Digest,
    chain: Digest,
}

/// Version 1 has no parts.
const VERSION: u32 = 2;

/// Most bytes of a line.
const MOST_LINE: u64 = 64 << 20;

/// Most bytes of a text in one line. JSON writes up to six for each.
const PIECE: usize = 8 << 20;

/// Longer than any first line.
const MOST_FIRST: u64 = 1 << 12;

struct ExportWriter<'w> {
    out: &'w mut dyn Write,
    hash: Sha256,
    lines: u64,
}

impl ExportWriter<'_> {
    fn write_line(&mut self, line: &ExportLine) -> Result<(), LedgerError> {
        let mut text = serde_json::to_string(line).map_err(|error| LedgerError::Failed(error.to_string()))?;
        text.push('\n');
        if text.len() as u64 > MOST_LINE {
            return Err(LedgerError::Failed(format!(
                "a line of the export would be longer than {MOST_LINE} bytes"
            )));
        }
        self.hash.update(text.as_bytes());
        self.lines += 1;
        self.out.write_all(text.as_bytes()).map_err(|error| write_failure(&error))
    }

    /// Writes all pieces of a text but the last, and returns the last.
    fn write_parts<'t>(&mut self, text: &'t str) -> Result<&'t str, LedgerError> {
        let mut rest = text;
        while rest.len() > PIECE {
            let (part, after) = rest.split_at(rest.floor_char_boundary(PIECE));
            self.write_line(&ExportLine::Part { text: part.to_owned() })?;
            rest = after;
        }
        Ok(rest)
    }
}

fn write_failure(error: &io::Error) -> LedgerError {
    LedgerError::Failed(format!("cannot write the export: {error}"))
}

/// Writes an export.
///
/// ```
/// use callsheet_store::{ExportScope, Ledger, LedgerUrl, export, import};
///
/// let mut from = Ledger::create(&LedgerUrl::Memory)?;
/// let mut file = Vec::new();
/// export(&mut from, &ExportScope::All, &mut file)?;
///
/// let mut to = Ledger::create(&LedgerUrl::Memory)?;
/// assert_eq!(import(&mut to, &mut file.as_slice())?.runs, 0);
/// # Ok::<(), callsheet_store::LedgerError>(())
/// ```
pub fn export(ledger: &mut Ledger, scope: &ExportScope, out: &mut dyn Write) -> Result<(), LedgerError> {
    ledger.read_snapshot(|ledger| export_snapshot(ledger, scope, out))
}

fn export_snapshot(ledger: &mut Ledger, scope: &ExportScope, out: &mut dyn Write) -> Result<(), LedgerError> {
    let Head { seq, chain } = ledger.head()?;
    let mut writer = ExportWriter { out, hash: Sha256::new(), lines: 0 };
    writer.write_line(&ExportLine::CallsheetExport {
        version: VERSION,
        all: *scope == ExportScope::All,
        seq,
        chain,
    })?;
    for sha256 in list_scope_blobs(ledger, scope)? {
        let text =
            ledger.blob(sha256)?.ok_or_else(|| LedgerError::damaged(format!("blob {sha256} is gone")))?;
        let text = writer.write_parts(&text)?.to_owned();
        writer.write_line(&ExportLine::Blob { sha256, text })?;
    }
    let run = match scope {
        ExportScope::Run(run) => Some(run),
        ExportScope::All => None,
    };
    for_each_record(&mut ledger.db, run, |db, record| write_record(db, record, &mut writer))?;
    let (lines, sha256) = (writer.lines, Digest(writer.hash.clone().finalize().into()));
    writer.write_line(&ExportLine::End { lines, sha256 })?;
    writer.out.flush().map_err(|error| write_failure(&error))
}

fn write_record(
    db: &mut DatabaseConnection,
    record: StoredRecord,
    writer: &mut ExportWriter<'_>,
) -> Result<(), LedgerError> {
    let seq = record.seq;
    let gone = || LedgerError::damaged(format!("record {} is gone", seq - 1));
    let before = read_link_before(db, seq)?.ok_or_else(gone)?;
    let id = |text: Option<String>| match text.as_deref().map(Id::parse) {
        Some(None) => Err(LedgerError::damaged(format!("record {seq} belongs to no run"))),
        Some(id) => Ok(id),
        None => Ok(None),
    };
    let payload = record.payload.as_deref().map(|payload| writer.write_parts(payload)).transpose()?;
    let payload = payload.map(str::to_owned);
    writer.write_line(&ExportLine::Record(Box::new(RecordLine {
        seq,
        run: id(record.run)?,
        flow: id(record.flow)?,
        kind: record.kind,
        at: record.at,
        payload,
        payload_sha256: record.payload_sha256,
        before,
        chain: record.chain,
    })))
}

fn list_scope_blobs(ledger: &mut Ledger, scope: &ExportScope) -> Result<BTreeSet<Digest>, LedgerError> {
    match scope {
        ExportScope::Run(run) => {
            let mut needed = BTreeSet::new();
            for record in ledger.records_of(run)? {
                let damaged = |lost| LedgerError::damaged(format!("record {}: {lost}", record.seq));
                needed.extend(record.event()?.map(|event| event.texts()).transpose().map_err(damaged)?);
            }
            Ok(needed.into_iter().flatten().collect())
        }
        ExportScope::All => {
            let rows = ledger.db.query("SELECT sha256 FROM blobs", &[])?;
            rows.into_iter().map(|mut row| row.digest("blobs.sha256")).collect()
        }
    }
}

/// Result of an import.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImportReport {
    /// Number of added runs.
    pub runs: usize,
    /// Number of added records.
    pub records: usize,
    /// Number of runs and flows that the ledger had already.
    pub known: usize,
    /// Whether the ledger was empty and got everything, so that it now has the same numbers, links and head.
    pub same_chain: bool,
}

/// Reads an export into a temporary ledger, which is removed when it is dropped. Checks everything on the
/// way.
pub fn read_export(file: &mut dyn BufRead) -> Result<Ledger, LedgerError> {
    let mut ledger = Ledger::open_temporary()?;
    import_all(&mut ledger, file, false)?;
    Ok(ledger)
}

/// Adds the contents of an export: everything or, if the file has any fault, nothing. A file is valid only if
/// [`export`] could have written it, byte for byte. Marks runs and flows that join existing records, each
/// with a record of its own.
pub fn import(ledger: &mut Ledger, file: &mut dyn BufRead) -> Result<ImportReport, LedgerError> {
    import_all(ledger, file, true)
}

fn import_all(ledger: &mut Ledger, file: &mut dyn BufRead, mark: bool) -> Result<ImportReport, LedgerError> {
    let mut lines = ExportReader { file, hash: Sha256::new(), number: 0 };
    let Ok(Some(ExportLine::CallsheetExport { version, all, seq, chain })) = lines.read_line(MOST_FIRST)
    else {
        return Err(LedgerError::damaged("not an export of callsheet"));
    };
    if version > VERSION {
        return Err(LedgerError::Newer { found: version.into(), known: VERSION.into() });
    }
    if version == 0 {
        return Err(LedgerError::damaged("no version of callsheet wrote this export"));
    }
    let target = Head { seq, chain };
    let (blobs, needed) = (BTreeSet::new(), BTreeSet::new());
    let mut form = ExportChecker { all, target, last: Head::NONE, run: None, blobs, needed };
    let mut parts = TextAssembler { version, text: String::new(), lengths: Vec::new() };
    ledger.with_write_lock(|db, zip| {
        let empty = read_head(db)?.seq == 0;
        let mut importer = RecordImporter {
            whole: empty && all,
            known: BTreeMap::new(),
            runs: BTreeSet::new(),
            done: ImportReport::default(),
        };
        loop {
            match lines.read_line(MOST_LINE)? {
                Some(ExportLine::Part { text }) => {
                    lines.check(parts.add_part(&text))?;
                }
                Some(ExportLine::Blob { sha256: digest, text }) => {
                    let text = lines.check(parts.finish_text(text))?;
                    if sha256(&[text.as_bytes()]) != digest {
                        return Err(lines.line_error(format!("blob {digest}: its text has another SHA-256")));
                    }
                    lines.check(form.check_blob(digest))?;
                    put_blobs(db, zip, &BTreeMap::from([(digest, text.into())]), BTreeMap::new())?;
                }
                Some(ExportLine::Record(mut record)) => {
                    record.payload = lines.check(match record.payload.take() {
                        Some(payload) => parts.finish_text(payload).map(Some),
                        None => parts.expect_no_parts().map(|()| None),
                    })?;
                    lines.check(check_record_line(&record, &mut form))?;
                    if importer.is_wanted(db, &record)? {
                        add_record(db, zip, &record)?;
                        importer.count_added(&record);
                    }
                }
                Some(ExportLine::End { .. }) => {
                    lines.check(parts.expect_no_parts())?;
                    lines.check(form.check_end())?;
                    lines.expect_end()?;
                    break;
                }
                Some(ExportLine::CallsheetExport { .. }) => {
                    return Err(lines.line_error("a second export begins".into()));
                }
                None => return Err(lines.line_error("it ends too early".into())),
            }
        }
        if mark && !importer.whole {
            importer.mark_imported(db, zip, target)?;
        }
        let mut done = importer.done;
        done.same_chain = importer.whole && read_head(db)? == target;
        if importer.whole && !done.same_chain {
            return Err(LedgerError::damaged("the export's records do not lead to the head that it names"));
        }
        Ok(done)
    })
}

struct ExportReader<'f> {
    file: &'f mut dyn BufRead,
    hash: Sha256,
    number: u64,
}

impl ExportReader<'_> {
    /// Reads the next line, which must be spelled as an export writes it. Checks the last line against all
    /// lines before it.
    fn read_line(&mut self, most: u64) -> Result<Option<ExportLine>, LedgerError> {
        let mut text = String::new();
        let read = io::Read::take(&mut *self.file, most + 1).read_line(&mut text);
        if text.is_empty() {
            read.map_err(|error| self.line_error(error.to_string()))?;
            return Ok(None);
        }
        let before = Digest(self.hash.clone().finalize().into());
        self.hash.update(text.as_bytes());
        self.number += 1;
        if text.len() as u64 > most {
            return Err(self.line_error(format!("it is longer than {most} bytes")));
        }
        let line = serde_json::from_str(&text).map_err(|error| self.line_error(error.to_string()))?;
        let mut same = ComparingWriter(text.strip_suffix('\n').unwrap_or_default().as_bytes());
        if serde_json::to_writer(&mut same, &line).is_err() || !same.0.is_empty() {
            return Err(self.line_error("it is not in the form that `export` writes".into()));
        }
        if let ExportLine::End { lines, sha256 } = line
            && (lines + 1 != self.number || sha256 != before)
        {
            return Err(self.line_error("the lines before it have another SHA-256".into()));
        }
        Ok(Some(line))
    }

    /// Checks that nothing is left.
    fn expect_end(&mut self) -> Result<(), LedgerError> {
        let rest = self.file.fill_buf().map(<[u8]>::len);
        match rest.map_err(|error| self.line_error(error.to_string()))? {
            0 => Ok(()),
            _ => Err(self.line_error("the export continues after its end".into())),
        }
    }

    /// Names the line in the error of a check.
    fn check<T>(&self, done: Result<T, String>) -> Result<T, LedgerError> {
        done.map_err(|why| self.line_error(why))
    }

    fn line_error(&self, why: String) -> LedgerError {
        LedgerError::damaged(format!("line {} of the export: {why}", self.number))
    }
}

/// Accepts only writes that equal the remaining text.
struct ComparingWriter<'t>(&'t [u8]);

impl Write for ComparingWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.strip_prefix(bytes).ok_or(io::ErrorKind::InvalidData)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Joins the pieces of a text. An export splits a text in exactly one way.
struct TextAssembler {
    version: u32,
    text: String,
    /// Length of each piece.
    lengths: Vec<usize>,
}

impl TextAssembler {
    fn add_part(&mut self, text: &str) -> Result<(), String> {
        if self.version < 2 {
            return Err("version 1 has no parts".into());
        }
        if self.text.len() + text.len() > MOST_TEXT {
            return Err(format!("a text is longer than {MOST_TEXT} bytes"));
        }
        self.text.push_str(text);
        self.lengths.push(text.len());
        Ok(())
    }

    /// Returns the whole text, which `last` ends.
    fn finish_text(&mut self, last: String) -> Result<String, String> {
        if self.version < 2 || self.lengths.is_empty() && last.len() <= PIECE {
            return Ok(last);
        }
        self.add_part(&last)?;
        let (text, lengths) = (std::mem::take(&mut self.text), std::mem::take(&mut self.lengths));
        let mut rest = text.as_str();
        let is_cut_there = |length: &usize| {
            let piece = if rest.len() > PIECE { rest.floor_char_boundary(PIECE) } else { rest.len() };
            rest = &rest[piece..];
            piece == *length && piece > 0
        };
        if !lengths.iter().all(is_cut_there) {
            return Err("a text is split at the wrong place".into());
        }
        Ok(text)
    }

    /// Checks that no pieces precede a line without a text.
    fn expect_no_parts(&self) -> Result<(), String> {
        if self.lengths.is_empty() { Ok(()) } else { Err("the pieces before it belong to no text".into()) }
    }
}

/// Checks the lines of an export together: texts in order, then records in order, and every text that a
/// record needs. An export of a whole ledger has all records up to its head; one of a run has only its
/// records and texts.
struct ExportChecker {
    all: bool,
    target: Head,
    /// Last record, which the next one follows.
    last: Head,
    run: Option<Id>,
    /// Texts of the export.
    blobs: BTreeSet<Digest>,
    needed: BTreeSet<Digest>,
}

impl ExportChecker {
    fn check_blob(&mut self, digest: Digest) -> Result<(), String> {
        if self.last.seq > 0 {
            return Err(format!("blob {digest} is not before the records"));
        }
        if self.blobs.last().is_some_and(|last| *last >= digest) {
            return Err(format!("blob {digest} is not in order"));
        }
        self.blobs.insert(digest);
        Ok(())
    }

    fn check_record(&mut self, record: &RecordLine, event: Option<&Event>) -> Result<(), String> {
        let place = format!("record {}", record.seq);
        if record.seq <= self.last.seq || record.seq > self.target.seq {
            return Err(format!("{place} is not in order"));
        }
        let is_next = record.seq == self.last.seq + 1;
        if self.all && !is_next || is_next && record.before != self.last.chain {
            return Err(format!("{place} does not follow the record before it"));
        }
        if !self.all && self.last.seq > 0 && record.run != self.run {
            return Err(format!("{place} belongs to another run than the export"));
        }
        if let Some(Event::Composed(composed)) = event {
            if record.run.as_ref() != Some(&composed.run.id) {
                return Err(format!("{place} names another run than its prompt"));
            }
        } else if !self.all && self.last.seq == 0 {
            return Err(format!("{place} is not the record of a prompt"));
        }
        if let Some(event) = event {
            self.needed.extend(event.texts().map_err(|lost| format!("{place}: {lost}"))?);
        }
        self.run.clone_from(&record.run);
        self.last = Head { seq: record.seq, chain: record.chain };
        Ok(())
    }

    fn check_end(&self) -> Result<(), String> {
        if let Some(missing) = self.needed.difference(&self.blobs).next() {
            return Err(format!("blob {missing} is missing"));
        }
        if !self.all && self.blobs.len() > self.needed.len() {
            return Err("it has texts that the run does not need".into());
        }
        let at_head = self.all || self.last.seq == self.target.seq;
        match self.all {
            _ if at_head && self.last != self.target => {
                Err("its records do not lead to the head that it names".into())
            }
            false if self.last.seq == 0 => Err("it has no record".into()),
            _ => Ok(()),
        }
    }
}

/// Checks a record against its digest and its link.
fn check_record_line(record: &RecordLine, form: &mut ExportChecker) -> Result<(), String> {
    let place = format!("record {}", record.seq);
    let mut event = None;
    if let Some(payload) = &record.payload {
        if sha256(&[payload.as_bytes()]) != record.payload_sha256 {
            return Err(format!("{place}: its payload has another SHA-256"));
        }
        event = Some(Event::read(&record.kind, payload).map_err(|why| format!("{place}: {why}"))?);
    }
    let link = callsheet_core::record::ChainLink {
        seq: record.seq,
        run: record.run.as_ref().map(Id::as_str),
        flow: record.flow.as_ref().map(Id::as_str),
        kind: &record.kind,
        at: &record.at,
        payload: record.payload_sha256,
    };
    if link.link_after(&record.before) != record.chain {
        return Err(format!("{place}: its link in the chain is broken"));
    }
    form.check_record(record, event.as_ref())
}

struct RecordImporter {
    /// Everything is added, so that numbers and links stay as they are.
    whole: bool,
    /// Runs and flows of the file, and whether the ledger had them before.
    known: BTreeMap<Id, bool>,
    /// The runs among them.
    runs: BTreeSet<Id>,
    done: ImportReport,
}

impl RecordImporter {
    fn is_wanted(&mut self, db: &mut DatabaseConnection, record: &RecordLine) -> Result<bool, LedgerError> {
        if self.whole {
            return Ok(true);
        }
        // A payload that another ledger removed says nothing here.
        if record.payload.is_none() || record.run.is_none() && record.flow.is_none() {
            return Ok(false);
        }
        // A record that names a run and a flow is about both: the ledger must not have had either before.
        let mut new = true;
        for id in record.run.iter().chain(&record.flow) {
            if !self.known.contains_key(id) {
                let sql = "SELECT seq FROM records WHERE run = $1 OR flow = $1 LIMIT 1";
                let known = !db.query(sql, &[SqlParam::Text(id.as_str())])?.is_empty();
                self.done.known += usize::from(known);
                self.known.insert(id.clone(), known);
            }
            new &= self.known.get(id) == Some(&false);
        }
        self.runs.extend(record.run.clone());
        Ok(new)
    }

    /// Marks each added run and flow as not the ledger's own.
    fn mark_imported(
        &self,
        db: &mut DatabaseConnection,
        zip: &mut zstd::bulk::Compressor<'static>,
        from: Head,
    ) -> Result<(), LedgerError> {
        let event = Event::Imported(callsheet_core::record::Imported { seq: from.seq, chain: from.chain });
        let payload = event.payload().map_err(|why| LedgerError::Failed(why.to_string()))?;
        let at = now();
        for (id, _) in self.known.iter().filter(|(_, known)| !**known) {
            let is_run = self.runs.contains(id);
            let (run, flow) = (Some(id).filter(|_| is_run), Some(id).filter(|_| !is_run));
            append_event(db, zip, (run, flow), &event, &payload, &at)?;
        }
        Ok(())
    }

    fn count_added(&mut self, record: &RecordLine) {
        self.done.records += 1;
        self.done.runs += usize::from(record.kind == "composed" && record.payload.is_some());
    }
}

fn add_record(
    db: &mut DatabaseConnection,
    zip: &mut zstd::bulk::Compressor<'static>,
    record: &RecordLine,
) -> Result<(), LedgerError> {
    let draft = RecordDraft {
        run: record.run.as_ref(),
        flow: record.flow.as_ref(),
        kind: &record.kind,
        at: &record.at,
        payload: record.payload.as_deref(),
        sha256: record.payload_sha256,
    };
    let head = append_record(db, zip, &draft)?;
    if let Some(payload) = &record.payload {
        let event =
            Event::read(&record.kind, payload).map_err(|why| LedgerError::Damaged(why.to_string()))?;
        index_record(db, head.seq, record.run.as_ref(), &event)?;
    }
    Ok(())
}

/// Returns the prompt of a run as an in-toto statement: its digest and its inputs.
pub fn in_toto_statement(ledger: &mut Ledger, run: &Id) -> Result<Value, LedgerError> {
    let composed = ledger.prompt_record(run)?;
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
