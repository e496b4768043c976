//! Verifies a ledger: the chain, the list of runs, the texts, and every prompt by composing it again.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use callsheet_core::record::{Digest, Event, Id, ReplayOutcome, Run, sha256, verify, verify_sealed};

use crate::error::LedgerError;
use crate::ledger::{Head, Ledger, read_link_before};
use crate::list::{RunRow, parse_run_row};
use crate::migrate::has_projects;
use crate::read::{PAGE, StoredRecord};

/// Kind of a problem, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LedgerProblemKind {
    /// Data in the ledger was changed or is missing.
    Damaged,
    /// A prompt differs from the result of its request and its sources.
    Differs,
    /// The stored data is right; proving the delivered text needs its secret values.
    NeedsSecret,
    /// Made by another version of the engine: the stored data is right, but the prompt is not composed again.
    OtherEngine,
}

/// Problem found by a verification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerProblem {
    /// Kind of the problem.
    pub result: LedgerProblemKind,
    /// A record, a run or a blob.
    pub place: String,
    /// Description of the problem.
    pub what: String,
}

impl fmt::Display for LedgerProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.what)
    }
}

/// Result of a verification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifyReport {
    /// Number of checked records.
    pub records: u64,
    /// Number of runs whose prompts were verified, with any result.
    pub runs: usize,
    /// Number of runs whose prompts were composed again and have the same bytes.
    pub same: usize,
    /// Number of checked texts.
    pub blobs: usize,
    /// Runs that need secret values, with the names of the values.
    pub sealed: Vec<(Id, Vec<String>)>,
    /// Runs made by another version of the engine, with that version.
    pub other_engines: Vec<(Id, u32)>,
    /// Problems that were found.
    pub problems: Vec<LedgerProblem>,
    /// Head of the ledger.
    pub head: Head,
}

impl VerifyReport {
    /// Returns the worst kind of problem.
    pub fn worst(&self) -> Option<LedgerProblemKind> {
        self.problems.iter().map(|problem| problem.result).min()
    }

    pub(crate) fn add_damage(&mut self, place: impl Into<String>, what: impl Into<String>) {
        self.add(LedgerProblemKind::Damaged, place, what);
    }

    pub(crate) fn add(
        &mut self,
        result: LedgerProblemKind,
        place: impl Into<String>,
        what: impl Into<String>,
    ) {
        self.problems.push(LedgerProblem { result, place: place.into(), what: what.into() });
    }

    /// Records damage as a problem. Any other error ends the verification.
    pub(crate) fn record_damage<T>(
        &mut self,
        place: &str,
        done: Result<T, LedgerError>,
    ) -> Result<Option<T>, LedgerError> {
        match done {
            Ok(done) => Ok(Some(done)),
            Err(LedgerError::Damaged(what)) => {
                self.add_damage(place, what);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

impl Ledger {
    /// Verifies the prompts of some runs, with their records and their texts.
    pub fn verify(&mut self, runs: &[Id]) -> Result<VerifyReport, LedgerError> {
        let mut checked = self.new_report()?;
        for run in runs {
            let records = self.records_of(run);
            for record in checked.record_damage(&format!("run {run}"), records)?.unwrap_or_default() {
                let before = self.link_before(record.seq)?;
                check_link(&record, before.as_ref(), &mut checked);
                checked.records += 1;
                if let Some(Some(event)) = checked.record_damage(&record_place(record.seq), record.event())? {
                    self.verify_texts(record.seq, &event, &mut checked)?;
                }
            }
        }
        Ok(checked)
    }

    /// Verifies everything; with `read_data` also texts that no prompt needs, and the pages of the database.
    pub fn verify_all(&mut self, read_data: bool) -> Result<VerifyReport, LedgerError> {
        self.read_snapshot(|ledger| ledger.verify_snapshot(read_data))
    }

    fn verify_snapshot(&mut self, read_data: bool) -> Result<VerifyReport, LedgerError> {
        let mut checked = self.new_report()?;
        let mut walk = ExpectedRuns::default();
        let mut last = Head::NONE;
        loop {
            let page = match self.records_after(last.seq, PAGE) {
                // One by one, so that the intact records are checked too.
                Err(LedgerError::Damaged(_)) => self.records_after(last.seq, 1),
                page => page,
            };
            let Some(page) = checked.record_damage(&record_place(last.seq + 1), page)? else {
                // The damaged record's content is unknown; the next one follows the stored link.
                last.seq += 1;
                match self.link_before(last.seq + 1)? {
                    Some(chain) => last.chain = chain,
                    None => break,
                }
                continue;
            };
            if page.is_empty() {
                break;
            }
            for record in page {
                for missing in last.seq + 1..record.seq {
                    checked.add_damage(record_place(missing), "it is gone");
                }
                check_link(&record, Some(&last.chain), &mut checked);
                last = Head { seq: record.seq, chain: record.chain };
                checked.records += 1;
                if let Some(event) = checked.record_damage(&record_place(record.seq), record.event())? {
                    if let Some(event) = &event {
                        self.verify_texts(record.seq, event, &mut checked)?;
                    }
                    walk.add_record(&record, event, &mut checked);
                }
            }
        }
        if last != checked.head {
            let what = format!("it names {}, but the last record is {}", checked.head.seq, last.seq);
            checked.add_damage("head", what);
        }
        walk.check_removed(&mut checked);
        self.verify_runs(walk.runs, &mut checked)?;
        self.verify_facts(&mut checked)?;
        if read_data {
            self.verify_blobs(&mut checked)?;
            for line in self.db.integrity_check()? {
                checked.add_damage("database", line);
            }
        }
        Ok(checked)
    }

    fn new_report(&mut self) -> Result<VerifyReport, LedgerError> {
        Ok(VerifyReport {
            records: 0,
            runs: 0,
            same: 0,
            blobs: 0,
            sealed: Vec::new(),
            other_engines: Vec::new(),
            problems: Vec::new(),
            head: self.head()?,
        })
    }

    /// Returns the link that precedes a record.
    pub fn link_before(&mut self, seq: u64) -> Result<Option<Digest>, LedgerError> {
        read_link_before(&mut self.db, seq)
    }

    /// Returns whether the chain still contains a link that was kept elsewhere.
    pub fn has_link(&mut self, head: &Head) -> Result<bool, LedgerError> {
        Ok(self.link_before(head.seq + 1)? == Some(head.chain))
    }

    /// Verifies the texts that a record refers to.
    fn verify_texts(
        &mut self,
        seq: u64,
        event: &Event,
        checked: &mut VerifyReport,
    ) -> Result<(), LedgerError> {
        match event {
            Event::Composed(composed) => self.verify_prompt(composed, checked)?,
            Event::ChangedContents(_) | Event::ContextRecord(_) => {
                let place = record_place(seq);
                for digest in event.texts().unwrap_or_default() {
                    let blob = self.blob(digest);
                    if checked.record_damage(&place, blob)? == Some(None) {
                        checked.add_damage(place.as_str(), format!("blob {digest} is gone"));
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn verify_prompt(
        &mut self,
        composed: &callsheet_core::record::Composed,
        checked: &mut VerifyReport,
    ) -> Result<(), LedgerError> {
        checked.runs += 1;
        let place = format!("run {}", composed.run.id);
        let given = self.given.clone();
        let findings = self.with_blobs(|blob| {
            let finding = verify(composed, blob)?;
            Ok(match finding {
                ReplayOutcome::Same => [Some(verify_sealed(composed, &given, blob)?), None],
                // The delivered text can be verified without composing, unless it contains secret values.
                ReplayOutcome::OtherEngine(_) => {
                    let sealed = verify_sealed(composed, &given, blob)?;
                    [Some(sealed).filter(|sealed| *sealed != finding), Some(finding)]
                }
                finding => [Some(finding), None],
            })
        });
        let findings = checked.record_damage(&place, findings)?.into_iter().flatten().flatten();
        let mut same = false;
        for finding in findings {
            match finding {
                ReplayOutcome::Same => same = true,
                ReplayOutcome::Differs { input, why } => {
                    let what = input.map_or(why.clone(), |input| format!("{input}: {why}"));
                    checked.add(LedgerProblemKind::Differs, place.as_str(), what);
                }
                ReplayOutcome::OtherEngine(engine) => {
                    same = false;
                    checked.other_engines.push((composed.run.id.clone(), engine));
                    checked.add(LedgerProblemKind::OtherEngine, place.as_str(), other_engine_message(engine));
                }
                ReplayOutcome::NeedsSecret(keys) => {
                    let what =
                        format!("the prompt has secret values that are not recorded: {}", keys.join(", "));
                    checked.sealed.push((composed.run.id.clone(), keys));
                    checked.add(LedgerProblemKind::NeedsSecret, place.as_str(), what);
                }
            }
        }
        checked.same += usize::from(same);
        Ok(())
    }

    /// Compares the list of runs with the one derived from the records.
    fn verify_runs(
        &mut self,
        mut wanted: BTreeMap<u64, RunRow>,
        checked: &mut VerifyReport,
    ) -> Result<(), LedgerError> {
        let sql = if has_projects(&mut self.db)? {
            "SELECT seq, id, parent, task, agent, phase, role, recipe, started, ended, verdict, project, imported
             FROM runs ORDER BY seq"
        } else {
            "SELECT seq, id, parent, task, agent, phase, role, recipe, started, ended, verdict,
                    CAST(NULL AS TEXT), CAST(NULL AS BIGINT)
             FROM runs ORDER BY seq"
        };
        let rows = self.db.query(sql, &[])?;
        for row in rows {
            let Some(found) = checked.record_damage("runs", parse_run_row(row))? else { continue };
            match wanted.remove(&found.seq) {
                Some(row) if row == found => {}
                Some(row) => {
                    let what =
                        format!("its row differs from its records: {}", find_other_column(&row, &found));
                    checked.add_damage(format!("run {}", row.run.id), what);
                }
                None => checked.add_damage(format!("run {}", found.run.id), "it has no record"),
            }
        }
        for row in wanted.into_values() {
            checked.add_damage(format!("run {}", row.run.id), "it is not in the list of runs");
        }
        Ok(())
    }

    fn verify_blobs(&mut self, checked: &mut VerifyReport) -> Result<(), LedgerError> {
        let rows = self.db.query("SELECT sha256 FROM blobs ORDER BY sha256", &[])?;
        for mut row in rows {
            let Some(digest) = checked.record_damage("blobs", row.digest("blobs.sha256"))? else { continue };
            checked.blobs += 1;
            let blob = self.blob(digest);
            checked.record_damage("blobs", blob)?;
        }
        // A prompt that needs a text reports it too; once is enough.
        let mut seen = BTreeSet::new();
        checked.problems.retain(|problem| seen.insert(problem.to_string()));
        Ok(())
    }
}

fn other_engine_message(engine: u32) -> String {
    let own = callsheet_core::ENGINE_VERSION;
    let (age, hint) = match engine < own {
        true => ("older", ""),
        false => ("newer", "; the version of callsheet that made it can compose it again"),
    };
    format!(
        "version {engine} of the engine made it, which is {age} than this one ({own}): its texts and its SHA-256 are right, but it was not composed again{hint}"
    )
}

fn record_place(seq: u64) -> String {
    format!("record {seq}")
}

fn check_link(record: &StoredRecord, before: Option<&Digest>, checked: &mut VerifyReport) {
    let place = record_place(record.seq);
    if let Some(payload) = &record.payload
        && sha256(&[payload.as_bytes()]) != record.payload_sha256
    {
        checked.add_damage(place.as_str(), "its payload has another SHA-256");
    }
    match before {
        None => checked.add_damage(place, "the record before it is gone"),
        Some(before) if record.link().link_after(before) != record.chain => {
            checked.add_damage(place, "its link in the chain is broken");
        }
        Some(_) => {}
    }
}

/// Returns the first column in which two rows differ.
fn find_other_column(wanted: &RunRow, found: &RunRow) -> String {
    fn columns(row: &RunRow) -> [(&'static str, Option<&str>); 12] {
        let Run { id, parent, task, agent, phase, role, recipe, started, project, .. } = &row.run;
        [
            ("id", Some(id.as_str())),
            ("parent", parent.as_ref().map(Id::as_str)),
            ("task", task.as_deref()),
            ("agent", agent.as_deref()),
            ("phase", phase.as_deref()),
            ("role", role.as_deref()),
            ("recipe", Some(recipe)),
            ("started", Some(started)),
            ("ended", row.ended.as_deref()),
            ("verdict", row.verdict.as_deref()),
            ("project", project.as_deref()),
            ("imported", row.imported.then_some("1")),
        ]
    }
    let differs = columns(wanted).into_iter().zip(columns(found)).find(|(a, b)| a != b);
    differs.map_or("seq", |((name, _), _)| name).into()
}

/// State that all records together imply.
#[derive(Default)]
struct ExpectedRuns {
    /// Expected list of runs, by the number of their first record.
    runs: BTreeMap<u64, RunRow>,
    by_id: BTreeMap<String, u64>,
    /// Records without a payload.
    empty: Vec<(u64, Option<String>)>,
    removed: BTreeSet<String>,
}

impl ExpectedRuns {
    fn add_record(&mut self, record: &StoredRecord, event: Option<Event>, checked: &mut VerifyReport) {
        let of_run = record.run.as_ref().and_then(|run| self.by_id.get(run));
        let row = of_run.and_then(|seq| self.runs.get_mut(seq));
        match event {
            None => self.empty.push((record.seq, record.run.clone())),
            Some(Event::Composed(composed)) => {
                if record.run.as_deref() != Some(composed.run.id.as_str()) {
                    checked.add_damage(record_place(record.seq), "it names another run than its prompt");
                }
                self.by_id.insert(composed.run.id.to_string(), record.seq);
                let row = RunRow {
                    seq: record.seq,
                    run: composed.run,
                    ended: None,
                    verdict: None,
                    imported: false,
                    facts: None,
                };
                self.runs.insert(record.seq, row);
            }
            Some(Event::Exit(exit)) => {
                if let Some(row) = row {
                    row.ended = Some(exit.ended.name().into());
                }
            }
            Some(Event::Replied(replied)) => {
                if let (Some(row), Some(verdict)) = (row, replied.verdict) {
                    row.verdict = Some(verdict);
                }
            }
            Some(Event::Imported(_)) => {
                if let Some(row) = row {
                    row.imported = true;
                }
            }
            Some(Event::Removed(removed)) => {
                self.removed.extend(removed.runs.iter().map(ToString::to_string));
            }
            Some(
                Event::Delivered(_)
                | Event::Output(_)
                | Event::ChangedContents(_)
                | Event::ContextRecord(_)
                | Event::Observed(_)
                | Event::SubmissionRecord(_)
                | Event::Decided(_)
                | Event::FlowRecord(_),
            ) => {}
        }
    }

    fn check_removed(&self, checked: &mut VerifyReport) {
        for (seq, run) in &self.empty {
            if !run.as_ref().is_some_and(|run| self.removed.contains(run)) {
                checked.add_damage(
                    record_place(*seq),
                    "its payload is gone, and no record says that it was removed",
                );
            }
        }
    }
}
