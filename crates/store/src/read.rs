//! Reads records, and the log of a run.

use callsheet_core::record::{
    ChainLink, Digest, Event, Exit, FlowRecord, Id, LogStream, Output, RunSummary, restore_text,
};

use crate::db::DatabaseConnection;
use crate::error::LedgerError;
use crate::ledger::{Ledger, MOST_READ, decompress_text, to_seq};
use crate::row::{SqlParam, SqlRow};

/// Record as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredRecord {
    /// Number of the record.
    pub seq: u64,
    /// Id of its run, if it has one.
    pub run: Option<String>,
    /// Id of its flow, if it has one.
    pub flow: Option<String>,
    /// Kind of the event.
    pub kind: String,
    /// Time of the append.
    pub at: String,
    /// JSON; `None` if retention removed it.
    pub payload: Option<String>,
    /// Digest of the payload.
    pub payload_sha256: Digest,
    /// Link of the record in the chain.
    pub chain: Digest,
}

impl StoredRecord {
    /// Returns the event, or `None` if its payload was removed.
    pub fn event(&self) -> Result<Option<Event>, LedgerError> {
        let read = |payload: &String| {
            Event::read(&self.kind, payload)
                .map_err(|why| LedgerError::damaged(format!("record {}: {why}", self.seq)))
        };
        self.payload.as_ref().map(read).transpose()
    }

    /// Returns the event of a flow, also from a record of before they were a kind of their own.
    pub fn flow_record(&self) -> Result<Option<FlowRecord>, LedgerError> {
        if self.flow.is_none() {
            return Ok(None);
        }
        let Some(event) = self.event()? else { return Ok(None) };
        event.into_flow_record().map_err(|why| LedgerError::damaged(format!("record {}: {why}", self.seq)))
    }

    /// Returns the fields that the chain hashes.
    pub fn link(&self) -> ChainLink<'_> {
        ChainLink {
            seq: self.seq,
            run: self.run.as_deref(),
            flow: self.flow.as_deref(),
            kind: &self.kind,
            at: &self.at,
            payload: self.payload_sha256,
        }
    }
}

/// Line of a run's log.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogLine {
    /// Number of the line, from 1.
    pub number: u64,
    /// Time of its record.
    pub at: String,
    /// Text without its line end.
    pub data: String,
}

/// Lines of one stream.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogExcerpt {
    /// The lines.
    pub lines: Vec<LogLine>,
    /// Number of lines of the whole stream.
    pub total: u64,
    /// Whether more was printed than is kept.
    pub cut: bool,
    /// Number of bytes that were left out as a whole.
    pub left_out: u64,
    /// Number of lines whose end is missing.
    pub cut_lines: u64,
}

/// Returns the line that stands for output that is not kept.
pub fn omission_line(bytes: u64) -> String {
    format!("[{bytes} bytes left out]\n")
}

/// Returns the number of bytes that a line of [`omission_line`] stands for.
pub fn left_out_bytes(output: &Output) -> Option<u64> {
    output.text.strip_prefix('[')?.strip_suffix(" bytes left out]\n")?.parse().ok()
}

impl Ledger {
    /// Returns the records of a run, in order.
    pub fn records_of(&mut self, run: &Id) -> Result<Vec<StoredRecord>, LedgerError> {
        records_of(&mut self.db, run, None)
    }

    /// Returns the time at which the end of a run was recorded.
    pub fn ended_at(&mut self, run: &Id) -> Result<Option<String>, LedgerError> {
        let sql = "SELECT at FROM records WHERE run = $1 AND kind = 'exit' ORDER BY seq LIMIT 1";
        let rows = self.db.query(sql, &[SqlParam::Text(run.as_str())])?;
        rows.into_iter().next().map(|mut row| row.text("records.at")).transpose()
    }

    /// Summarizes the records of a run, without reading its whole output.
    pub fn run_summary(&mut self, run: &Id) -> Result<RunSummary, LedgerError> {
        let records = self.records_without_output(run)?;
        let events: Vec<Option<Event>> = records.iter().map(StoredRecord::event).collect::<Result<_, _>>()?;
        let mut summary = RunSummary::from_events(events.into_iter().flatten())
            .ok_or_else(|| LedgerError::damaged(format!("run {run} has no record of its prompt")))?;
        summary.short_name = self.number_of(run)?.map(|number| format!("r{number}"));
        Ok(summary)
    }

    /// Returns the record of the end of a run; `None` if it has not ended, or if retention emptied the record.
    pub fn exit_record(&mut self, run: &Id) -> Result<Option<Exit>, LedgerError> {
        // The end is among the last records: a long output is not read.
        let rows = self.db.query(
            "SELECT seq, run, flow, kind, at, payload, packed, payload_sha256, chain FROM records
             WHERE run = $1 AND kind = 'exit' ORDER BY seq DESC LIMIT 1",
            &[SqlParam::Text(run.as_str())],
        )?;
        let Some(row) = rows.into_iter().next() else { return Ok(None) };
        Ok(match parse_record(row)?.event()? {
            Some(Event::Exit(exit)) => Some(exit),
            _ => None,
        })
    }

    /// Returns the records of a run in order, without the lines that its agent printed.
    pub fn records_without_output(&mut self, run: &Id) -> Result<Vec<StoredRecord>, LedgerError> {
        let rows = self.db.query(
            "SELECT seq, run, flow, kind, at, payload, packed, payload_sha256, chain FROM records
             WHERE run = $1 AND kind <> 'output' ORDER BY seq",
            &[SqlParam::Text(run.as_str())],
        )?;
        rows.into_iter().map(parse_record).collect()
    }

    /// Returns the number of records of a run.
    pub fn count_records(&mut self, run: &Id) -> Result<usize, LedgerError> {
        let sql = "SELECT COUNT(*) FROM records WHERE run = $1";
        let rows = self.db.query(sql, &[SqlParam::Text(run.as_str())])?;
        let count = rows.into_iter().next().map(|mut row| row.int("COUNT(*)")).transpose()?;
        Ok(count.unwrap_or(0).unsigned_abs() as usize)
    }

    /// Returns all flows, the oldest first.
    pub fn flows(&mut self) -> Result<Vec<Id>, LedgerError> {
        let sql = "SELECT flow, MIN(seq) FROM records WHERE flow IS NOT NULL GROUP BY flow ORDER BY 2";
        let rows = self.db.query(sql, &[])?;
        let id = |mut row: SqlRow| {
            let text = row.text("records.flow")?;
            Id::parse(&text).ok_or_else(|| LedgerError::damaged(format!("`{text}` is not a flow id")))
        };
        rows.into_iter().map(id).collect()
    }

    /// Returns the records of a flow, in order.
    pub fn records_of_flow(&mut self, flow: &Id) -> Result<Vec<StoredRecord>, LedgerError> {
        records_of_flow(&mut self.db, flow)
    }

    /// Returns at most `limit` records with a number above `seq`, in order.
    pub fn records_after(&mut self, seq: u64, limit: usize) -> Result<Vec<StoredRecord>, LedgerError> {
        records_after(&mut self.db, None, seq, limit)
    }

    /// Restores and checks the prompt of a run.
    pub fn prompt(&mut self, run: &Id) -> Result<String, LedgerError> {
        let composed = self.prompt_record(run)?;
        let text = self.with_blobs(|blob| restore_text(&composed, blob))?;
        match callsheet_core::record::sha256(&[text.as_bytes()]) == composed.output.sha256 {
            true => Ok(text),
            false => Err(LedgerError::damaged(format!("the prompt of run {run} has another SHA-256"))),
        }
    }

    /// Returns lines of a stream: the last `tail` of those from line `since` on. The stream of the prompt is
    /// `meta`.
    pub fn log(
        &mut self,
        run: &Id,
        stream: LogStream,
        since: u64,
        tail: Option<usize>,
    ) -> Result<LogExcerpt, LedgerError> {
        let mut log = LogExcerpt { lines: Vec::new(), total: 0, cut: false, left_out: 0, cut_lines: 0 };
        let mut add = |at: &str, first: u64, text: &str| {
            let lines = text.split_inclusive('\n').zip(first..);
            for (line, number) in lines {
                log.total = log.total.max(number);
                if number >= since {
                    let data = line.strip_suffix('\n').unwrap_or(line).to_owned();
                    log.lines.push(LogLine { number, at: at.to_owned(), data });
                }
            }
        };
        let (mut left_out, mut cut_lines) = (0, 0);
        for record in self.records_of(run)? {
            match record.event()? {
                Some(Event::Output(output)) if output.stream == stream => {
                    add(&record.at, output.line, &output.text);
                    match Some(&output).filter(|output| output.cut).map(left_out_bytes) {
                        Some(Some(bytes)) => left_out += bytes,
                        Some(None) => cut_lines += 1,
                        None => {}
                    }
                }
                Some(Event::Composed(_)) if stream == LogStream::Meta => {
                    add(&record.at, 1, &self.prompt(run)?)
                }
                _ => {}
            }
        }
        (log.cut, log.left_out, log.cut_lines) = (left_out > 0 || cut_lines > 0, left_out, cut_lines);
        let skip = tail.map_or(0, |tail| log.lines.len().saturating_sub(tail));
        log.lines.drain(..skip);
        Ok(log)
    }

    /// Passes the output of a run on a stream to `take`, record by record; `None` for a removed one.
    pub fn for_each_output(
        &mut self,
        run: &Id,
        stream: LogStream,
        take: &mut dyn FnMut(Option<Output>),
    ) -> Result<(), LedgerError> {
        let mut seq = 0;
        loop {
            let records = self.outputs_after(run, seq, 64)?;
            let Some(last) = records.last() else { return Ok(()) };
            seq = last.seq;
            for record in &records {
                match record.event()? {
                    Some(Event::Output(output)) if output.stream == stream => take(Some(output)),
                    Some(_) => {}
                    None => take(None),
                }
            }
        }
    }

    /// Returns the records of a run's output behind a record, at most `limit`.
    pub fn outputs_after(
        &mut self,
        run: &Id,
        seq: u64,
        limit: usize,
    ) -> Result<Vec<StoredRecord>, LedgerError> {
        let seq = i64::try_from(seq).unwrap_or(i64::MAX);
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = self.db.query(
            "SELECT seq, run, flow, kind, at, payload, packed, payload_sha256, chain FROM records
             WHERE run = $1 AND kind = 'output' AND seq > $2 ORDER BY seq LIMIT $3",
            &[SqlParam::Text(run.as_str()), SqlParam::Int(seq), SqlParam::Int(limit)],
        )?;
        rows.into_iter().map(parse_record).collect()
    }

    /// Lets `work` ask for blobs. If `work` fails because a blob could not be read, for a reason other than
    /// damage, returns that reason.
    pub fn with_blobs<T>(
        &mut self,
        work: impl FnOnce(
            &mut dyn FnMut(Digest) -> Option<callsheet_core::SharedText>,
        ) -> Result<T, callsheet_core::record::ReplayError>,
    ) -> Result<T, LedgerError> {
        let mut wrong = None;
        let done = work(&mut |digest| match self.blob(digest) {
            Ok(text) => text,
            Err(error) => {
                wrong = Some(error);
                None
            }
        });
        match (done, wrong) {
            (Ok(done), _) => Ok(done),
            (Err(lost), Some(LedgerError::Damaged(_)) | None) => Err(LedgerError::damaged(lost.to_string())),
            (Err(_), Some(error)) => Err(error),
        }
    }
}

/// Returns the records of a run, optionally of one kind.
pub(crate) fn records_of(
    db: &mut DatabaseConnection,
    run: &Id,
    kind: Option<&str>,
) -> Result<Vec<StoredRecord>, LedgerError> {
    let rows = db.query(
        "SELECT seq, run, flow, kind, at, payload, packed, payload_sha256, chain FROM records
         WHERE run = $1 AND (CAST($2 AS TEXT) IS NULL OR kind = $2) ORDER BY seq",
        &[SqlParam::Text(run.as_str()), SqlParam::text_or_null(kind)],
    )?;
    rows.into_iter().map(parse_record).collect()
}

pub(crate) fn records_of_flow(
    db: &mut DatabaseConnection,
    flow: &Id,
) -> Result<Vec<StoredRecord>, LedgerError> {
    let rows = db.query(
        "SELECT seq, run, flow, kind, at, payload, packed, payload_sha256, chain FROM records WHERE flow = $1 ORDER BY seq",
        &[SqlParam::Text(flow.as_str())],
    )?;
    rows.into_iter().map(parse_record).collect()
}

/// Number of records that a full scan reads at once.
pub(crate) const PAGE: usize = 64;

/// Returns at most `limit` records with a number above `seq`, in order, optionally of one run.
pub(crate) fn records_after(
    db: &mut DatabaseConnection,
    run: Option<&Id>,
    seq: u64,
    limit: usize,
) -> Result<Vec<StoredRecord>, LedgerError> {
    let (seq, limit) = (SqlParam::Int(seq as i64), SqlParam::Int(limit as i64));
    let rows = match run {
        None => db.query(
            "SELECT seq, run, flow, kind, at, payload, packed, payload_sha256, chain FROM records
             WHERE seq > $1 ORDER BY seq LIMIT $2",
            &[seq, limit],
        )?,
        Some(run) => db.query(
            "SELECT seq, run, flow, kind, at, payload, packed, payload_sha256, chain FROM records
             WHERE run = $1 AND seq > $2 ORDER BY seq LIMIT $3",
            &[SqlParam::Text(run.as_str()), seq, limit],
        )?,
    };
    rows.into_iter().map(parse_record).collect()
}

/// Passes every record to `take`, in order, optionally those of one run.
pub(crate) fn for_each_record(
    db: &mut DatabaseConnection,
    run: Option<&Id>,
    mut take: impl FnMut(&mut DatabaseConnection, StoredRecord) -> Result<(), LedgerError>,
) -> Result<(), LedgerError> {
    let mut last = 0;
    loop {
        let page = records_after(db, run, last, PAGE)?;
        let Some(newest) = page.last() else { return Ok(()) };
        last = newest.seq;
        page.into_iter().try_for_each(|record| take(db, record))?;
    }
}

pub(crate) fn parse_record(mut row: SqlRow) -> Result<StoredRecord, LedgerError> {
    let seq = to_seq(row.int("records.seq")?);
    let place = |column: &str| format!("records.{column} of {seq}");
    let (run, flow) = (row.maybe_text(&place("run"))?, row.maybe_text(&place("flow"))?);
    let (kind, at) = (row.text(&place("kind"))?, row.text(&place("at"))?);
    let (zipped, packed) = (row.maybe_bytes(&place("payload"))?, row.maybe_int(&place("packed"))?);
    let payload = match (zipped, packed) {
        (None, None) => None,
        (Some(zipped), Some(packed)) => Some(decompress_text(&place("payload"), &zipped, packed, MOST_READ)?),
        _ => return Err(LedgerError::damaged(format!("{} is missing", place("payload")))),
    };
    let (payload_sha256, chain) = (row.digest(&place("payload_sha256"))?, row.digest(&place("chain"))?);
    Ok(StoredRecord { seq, run, flow, kind, at, payload, payload_sha256, chain })
}
