//! Reads lists of runs, records, and the log of a run.

use callsheet_core::record::{
    ChainLink, Digest, Event, FlowRecord, Id, LogStream, Output, Run, RunSummary, restore_text,
};

use crate::db::DatabaseConnection;
use crate::error::LedgerError;
use crate::ledger::{Ledger, MOST_READ, decompress_text, to_seq};
use crate::migrate::has_projects;
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

/// Row of the list of runs. It is derived from records, and `verify` derives it again.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunRow {
    /// Number of the run's first record.
    pub seq: u64,
    /// The run.
    pub run: Run,
    /// Reason of the end, if the run has ended.
    pub ended: Option<String>,
    /// Verdict of the reply, if it has one.
    pub verdict: Option<String>,
    /// Whether the run came from an export of another ledger.
    pub imported: bool,
}

/// Selects the runs of one project.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProjectFilter {
    /// Name of the project.
    pub name: String,
    /// Whether runs without a project match too.
    pub unnamed: bool,
}

impl ProjectFilter {
    /// Returns whether the filter selects a run.
    pub fn is_match(&self, run: &Run) -> bool {
        run.project.as_ref().map_or(self.unnamed, |project| *project == self.name)
    }
}

/// Selects the runs to list, the newest first.
#[derive(Clone, Debug, Default)]
pub struct RunFilter {
    /// `None` selects every project.
    pub project: Option<ProjectFilter>,
    /// Excludes runs that came from an export of another ledger.
    pub own: bool,
    /// Agent of the run.
    pub agent: Option<String>,
    /// Phase of the run.
    pub phase: Option<String>,
    /// Task of the run.
    pub task: Option<String>,
    /// Verdict of the reply.
    pub verdict: Option<String>,
    /// First start time, or its beginning.
    pub since: Option<String>,
    /// Last start time, or its beginning.
    pub until: Option<String>,
    /// Most runs to return.
    pub limit: usize,
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
fn left_out_bytes(output: &Output) -> Option<u64> {
    output.text.strip_prefix('[')?.strip_suffix(" bytes left out]\n")?.parse().ok()
}

impl Ledger {
    /// Returns the runs that a filter selects, the newest first.
    pub fn runs(&mut self, filter: &RunFilter) -> Result<Vec<RunRow>, LedgerError> {
        list_runs(&mut self.db, filter)
    }

    /// Finds a run by its id, by the beginning of its id, or the `last` one.
    pub fn find(&mut self, name: &str) -> Result<RunRow, LedgerError> {
        self.find_among(name, &RunFilter::default())
    }

    /// Finds a run, with `last` and `last~N` counted among the runs that `among` selects.
    pub fn find_among(&mut self, name: &str, among: &RunFilter) -> Result<RunRow, LedgerError> {
        let back = if name == "last" { Some("0") } else { name.strip_prefix("last~") };
        if let Some(back) = back {
            let digits = !back.is_empty() && back.bytes().all(|byte| byte.is_ascii_digit());
            let back: Option<usize> = back.parse().ok().filter(|_| digits);
            let none = || LedgerError::NoRun(name.into());
            let back = back.ok_or_else(none)?;
            let rows = self.runs(&RunFilter { limit: back.saturating_add(1), ..among.clone() })?;
            return rows.into_iter().nth(back).ok_or_else(none);
        }
        let is_prefix = !name.is_empty() && name.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit());
        if !is_prefix {
            return Err(LedgerError::NoRun(name.into()));
        }
        let first = name.to_ascii_lowercase();
        let after = format!("{first}~");
        let sql = if has_projects(&mut self.db)? {
            "SELECT seq, id, parent, task, agent, phase, role, recipe, started, ended, verdict, project, imported
             FROM runs WHERE id >= $1 AND id < $2 ORDER BY id LIMIT 11"
        } else {
            "SELECT seq, id, parent, task, agent, phase, role, recipe, started, ended, verdict,
                    CAST(NULL AS TEXT), CAST(NULL AS BIGINT)
             FROM runs WHERE id >= $1 AND id < $2 ORDER BY id LIMIT 11"
        };
        let rows = self.db.query(sql, &[SqlParam::Text(&first), SqlParam::Text(&after)])?;
        let mut rows: Vec<RunRow> = rows.into_iter().map(parse_run_row).collect::<Result<_, _>>()?;
        match rows.len() {
            0 => Err(LedgerError::NoRun(name.into())),
            1 => Ok(rows.remove(0)),
            _ => Err(LedgerError::ManyRuns(name.into(), rows.into_iter().map(|row| row.run.id).collect())),
        }
    }

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
        let rows = self.db.query(
            "SELECT seq, run, flow, kind, at, payload, packed, payload_sha256, chain FROM records
             WHERE run = $1 AND kind <> 'output' ORDER BY seq",
            &[SqlParam::Text(run.as_str())],
        )?;
        let records: Vec<StoredRecord> = rows.into_iter().map(parse_record).collect::<Result<_, _>>()?;
        let events: Vec<Option<Event>> = records.iter().map(StoredRecord::event).collect::<Result<_, _>>()?;
        RunSummary::from_events(events.into_iter().flatten())
            .ok_or_else(|| LedgerError::damaged(format!("run {run} has no record of its prompt")))
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
        const AT_ONCE: i64 = 64;
        let mut seq = 0;
        loop {
            let rows = self.db.query(
                "SELECT seq, run, flow, kind, at, payload, packed, payload_sha256, chain FROM records
                 WHERE run = $1 AND kind = 'output' AND seq > $2 ORDER BY seq LIMIT $3",
                &[SqlParam::Text(run.as_str()), SqlParam::Int(seq), SqlParam::Int(AT_ONCE)],
            )?;
            if rows.is_empty() {
                return Ok(());
            }
            for row in rows {
                let record = parse_record(row)?;
                seq = record.seq as i64;
                match record.event()? {
                    Some(Event::Output(output)) if output.stream == stream => take(Some(output)),
                    Some(_) => {}
                    None => take(None),
                }
            }
        }
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

pub(crate) fn list_runs(db: &mut DatabaseConnection, filter: &RunFilter) -> Result<Vec<RunRow>, LedgerError> {
    // A longer text with the same beginning sorts behind it, so a day is before every time of that day.
    let until = filter.until.as_ref().map(|until| format!("{until}~"));
    let (project, unnamed) = match &filter.project {
        Some(project) => (Some(project.name.as_str()), project.unnamed),
        None => (None, true),
    };
    let mut wanted = vec![
        SqlParam::text_or_null(filter.agent.as_deref()),
        SqlParam::text_or_null(filter.phase.as_deref()),
        SqlParam::text_or_null(filter.task.as_deref()),
        SqlParam::text_or_null(filter.verdict.as_deref()),
        SqlParam::text_or_null(filter.since.as_deref()),
        SqlParam::text_or_null(until.as_deref()),
    ];
    let limit = SqlParam::Int(i64::try_from(filter.limit).unwrap_or(i64::MAX));
    if !has_projects(db)? {
        if !unnamed {
            return Ok(Vec::new());
        }
        wanted.push(limit);
        let rows = db.query(
            "SELECT seq, id, parent, task, agent, phase, role, recipe, started, ended, verdict,
                    CAST(NULL AS TEXT), CAST(NULL AS BIGINT) FROM runs
             WHERE (CAST($1 AS TEXT) IS NULL OR agent = $1) AND (CAST($2 AS TEXT) IS NULL OR phase = $2)
               AND (CAST($3 AS TEXT) IS NULL OR task = $3) AND (CAST($4 AS TEXT) IS NULL OR verdict = $4)
               AND (CAST($5 AS TEXT) IS NULL OR started >= $5) AND (CAST($6 AS TEXT) IS NULL OR started <= $6)
             ORDER BY seq DESC LIMIT $7",
            &wanted,
        )?;
        return rows.into_iter().map(parse_run_row).collect();
    }
    wanted.extend([
        SqlParam::text_or_null(project),
        SqlParam::Int(unnamed.into()),
        SqlParam::Int(filter.own.into()),
        limit,
    ]);
    let rows = db.query(
        "SELECT seq, id, parent, task, agent, phase, role, recipe, started, ended, verdict, project, imported
         FROM runs
         WHERE (CAST($1 AS TEXT) IS NULL OR agent = $1) AND (CAST($2 AS TEXT) IS NULL OR phase = $2)
           AND (CAST($3 AS TEXT) IS NULL OR task = $3) AND (CAST($4 AS TEXT) IS NULL OR verdict = $4)
           AND (CAST($5 AS TEXT) IS NULL OR started >= $5) AND (CAST($6 AS TEXT) IS NULL OR started <= $6)
           AND (CAST($7 AS TEXT) IS NULL OR project = $7 OR (CAST($8 AS BIGINT) = 1 AND project IS NULL))
           AND (CAST($9 AS BIGINT) = 0 OR imported IS NULL)
         ORDER BY seq DESC LIMIT $10",
        &wanted,
    )?;
    rows.into_iter().map(parse_run_row).collect()
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

pub(crate) fn parse_run_row(mut row: SqlRow) -> Result<RunRow, LedgerError> {
    let seq = to_seq(row.int("runs.seq")?);
    let place = |column: &str| format!("runs.{column} of {seq}");
    let id = |text: Option<String>, column| match text.as_deref().map(Id::parse) {
        None => Ok(None),
        Some(Some(id)) => Ok(Some(id)),
        Some(None) => Err(LedgerError::damaged(format!("{} is not an id", place(column)))),
    };
    let own = row.text(&place("id"))?;
    let own = id(Some(own), "id")?.ok_or_else(|| LedgerError::damaged(place("id")))?;
    let parent = row.maybe_text(&place("parent"))?;
    let parent = id(parent, "parent")?;
    let [task, agent, phase, role] =
        ["task", "agent", "phase", "role"].map(|name| row.maybe_text(&place(name)));
    let (recipe, started) = (row.text(&place("recipe"))?, row.text(&place("started"))?);
    let mut run = Run::restore(own, &recipe, &started).with_parent(parent);
    (run.task, run.agent, run.phase, run.role) = (task?, agent?, phase?, role?);
    let (ended, verdict) = (row.maybe_text(&place("ended"))?, row.maybe_text(&place("verdict"))?);
    run.project = row.maybe_text(&place("project"))?;
    let imported = match row.maybe_int(&place("imported"))? {
        None => false,
        Some(1) => true,
        Some(_) => return Err(LedgerError::damaged(format!("{} is not 1", place("imported")))),
    };
    Ok(RunRow { seq, run, ended, verdict, imported })
}

fn parse_record(mut row: SqlRow) -> Result<StoredRecord, LedgerError> {
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
