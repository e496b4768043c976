//! Retention: removes runs with the texts that only they needed, and keeps their links in the chain.

use std::collections::{BTreeMap, BTreeSet};

use callsheet_core::diag::counted;
use callsheet_core::flow;
use callsheet_core::record::{Digest, Event, Id, LaunchRecord, Removed};
use serde_json::Value;

use crate::clock::{days_after, days_before, is_possible, now};
use crate::db::DatabaseConnection;
use crate::error::LedgerError;
use crate::ledger::{Ledger, append_event};
use crate::list::{ProjectFilter, RunFilter, RunRow, list_runs};
use crate::read::{for_each_record, records_of, records_of_flow};
use crate::row::SqlParam;

/// Rules for the runs to keep. A run stays if either rule keeps it. An unfinished run and a run of an
/// unfinished flow stay too, and so does every run that one of these retries or continues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RetentionPolicy {
    /// Keeps the runs of the last days.
    pub days: Option<u64>,
    /// Keeps this many of the newest runs.
    pub last: Option<usize>,
}

/// Result of a sweep, or of its preview.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SweepReport {
    /// Removed runs.
    pub runs: Vec<Id>,
    /// Runs that neither rule keeps, but that stay because they or their flows have not ended.
    pub unfinished: Vec<Id>,
    /// Whether the clock cannot be right, so that no run was removed because of its age.
    pub clock_is_wrong: bool,
    /// Number of records whose payload was removed.
    pub records: u64,
    /// Number of removed texts.
    pub blobs: u64,
    /// Compressed size of the removed texts.
    pub bytes: u64,
    /// Number of the record about the removal; `None` if nothing was removed.
    pub seq: Option<u64>,
}

impl Ledger {
    /// Returns the runs, optionally of one project, that [`Self::sweep_project`] would remove.
    pub fn preview_project_sweep(
        &mut self,
        retention: RetentionPolicy,
        project: Option<&ProjectFilter>,
    ) -> Result<SweepReport, LedgerError> {
        self.read_snapshot(|ledger| find_expired(&mut ledger.db, retention, project, &now()))
    }

    /// Removes the runs, optionally of one project, that `retention` does not keep, and appends a record about
    /// it. The same transaction decides and removes, so no run that is recorded meanwhile is lost.
    pub fn sweep_project(
        &mut self,
        retention: RetentionPolicy,
        project: Option<&ProjectFilter>,
    ) -> Result<SweepReport, LedgerError> {
        let swept = self.with_write_lock(|db, zip| {
            let at = now();
            let mut swept = find_expired(db, retention, project, &at)?;
            if swept.runs.is_empty() {
                return Ok(swept);
            }
            for run in &swept.runs {
                let run = [SqlParam::Text(run.as_str())];
                let sql = "UPDATE records SET payload = NULL, packed = NULL WHERE run = $1";
                swept.records += db.execute(sql, &run)?;
                let sql = "DELETE FROM run_facts WHERE seq = (SELECT seq FROM runs WHERE id = $1)";
                db.execute(sql, &run)?;
                db.execute("DELETE FROM runs WHERE id = $1", &run)?;
            }
            let needed = find_needed_blobs(db)?;
            for (digest, bytes) in list_all_blobs(db)? {
                if !needed.contains(&digest) {
                    db.execute("DELETE FROM blobs WHERE sha256 = $1", &[SqlParam::Bytes(&digest.0)])?;
                    swept.blobs += 1;
                    swept.bytes += bytes;
                }
            }
            let SweepReport { records, blobs, bytes, .. } = swept;
            let removed =
                Removed { why: retention_rule(retention), runs: swept.runs.clone(), records, blobs, bytes };
            let event = Event::Removed(removed);
            let payload = event.payload().map_err(|why| LedgerError::Failed(why.to_string()))?;
            swept.seq = Some(append_event(db, zip, (None, None), &event, &payload, &at)?.seq);
            Ok(swept)
        })?;
        if swept.seq.is_some() {
            match self.db.shrink() {
                // The runs are removed. The next sweep returns the space.
                Err(LedgerError::Locked | LedgerError::NoAnswer(_)) => {}
                done => done?,
            }
        }
        Ok(swept)
    }
}

fn find_expired(
    db: &mut DatabaseConnection,
    retention: RetentionPolicy,
    project: Option<&ProjectFilter>,
    now: &str,
) -> Result<SweepReport, LedgerError> {
    let rows = list_runs(db, &RunFilter { limit: usize::MAX, ..RunFilter::default() })?;
    let right = check_times(&rows, now);
    let ages = trusted_times(&rows, &right, now);
    let since = retention.days.and_then(|days| days_before(now, days));
    let clock_is_wrong = retention.days.is_some() && !rows.is_empty() && is_clock_wrong(&rows, &right, now);
    let mut swept = SweepReport { clock_is_wrong, ..SweepReport::default() };
    let mut flows = BTreeMap::new();
    let is_own = |row: &RunRow| project.is_none_or(|project| project.is_match(&row.run));
    let mut kept: BTreeSet<Id> =
        rows.iter().filter(|row| !is_own(row)).map(|row| row.run.id.clone()).collect();
    let own = rows.iter().zip(ages).filter(|(row, _)| is_own(row));
    for (at, (row, started)) in own.enumerate() {
        let young = clock_is_wrong || since.as_deref().is_some_and(|since| started >= since);
        if young || retention.last.is_some_and(|last| at < last) {
            kept.insert(row.run.id.clone());
        } else if is_unfinished(db, row, &mut flows)? {
            kept.insert(row.run.id.clone());
            swept.unfinished.push(row.run.id.clone());
        }
    }
    // The newest first, so a parent comes after all runs that point at it.
    for row in &rows {
        if let Some(parent) = row.run.parent.as_ref().filter(|_| kept.contains(&row.run.id)) {
            kept.insert(parent.clone());
        }
    }
    swept.runs = rows.into_iter().map(|row| row.run.id).filter(|id| !kept.contains(id)).collect();
    Ok(swept)
}

/// Returns for each run whether its time can be right. Numbers are in order, but clocks may not be: a time is
/// wrong if it is impossible, before that of an earlier run, or after `now`.
fn check_times(rows: &[RunRow], now: &str) -> Vec<bool> {
    let mut latest = "";
    let mut right = vec![false; rows.len()];
    // The newest come first.
    for (row, right) in rows.iter().zip(&mut right).rev() {
        let started = row.run.started.as_str();
        *right = is_possible(started) && started >= latest && started <= now;
        if *right {
            latest = started;
        }
    }
    right
}

/// Returns the trusted start of each run. A run with a wrong time counts as started with the next run whose
/// time is right, or now.
fn trusted_times<'r>(rows: &'r [RunRow], right: &[bool], now: &'r str) -> Vec<&'r str> {
    let mut next = now;
    let times = rows.iter().zip(right).map(|(row, right)| {
        if *right {
            next = &row.run.started;
        }
        next
    });
    times.collect()
}

/// A longer step of time does not count at once.
const STEP_DAYS: u64 = 400;
/// Days after such a step until it counts.
const AFTER_DAYS: u64 = 7;

/// Returns whether the clock cannot be right, judged by the ledger: its time is impossible, or a long step of
/// time precedes it or the last runs.
fn is_clock_wrong(rows: &[RunRow], right: &[bool], now: &str) -> bool {
    if !is_possible(now) {
        return true;
    }
    let times = rows.iter().zip(right).filter(|(_, right)| **right).map(|(row, _)| row.run.started.as_str());
    let mut later = now;
    for time in times {
        if days_before(now, AFTER_DAYS).is_some_and(|before| later < before.as_str()) {
            return false;
        }
        if days_after(time, STEP_DAYS).is_some_and(|latest| later > latest.as_str()) {
            return true;
        }
        later = time;
    }
    false
}

/// Returns whether more may be recorded of a run: its program was or will be started and its final records
/// are missing, or its flow has not ended.
fn is_unfinished(
    db: &mut DatabaseConnection,
    row: &RunRow,
    flows: &mut BTreeMap<String, bool>,
) -> Result<bool, LedgerError> {
    let id = &row.run.id;
    let damaged = || LedgerError::damaged(format!("run {id} has no record of its prompt"));
    let sql = "SELECT kind FROM records WHERE run = $1 AND kind IN ('delivered', 'exit', 'observed')";
    let mut kinds = BTreeSet::new();
    for mut kind in db.query(sql, &[SqlParam::Text(id.as_str())])? {
        kinds.insert(kind.text("records.kind")?);
    }
    let composed = records_of(db, id, Some("composed"))?.into_iter().next().ok_or_else(damaged)?;
    let Some(Event::Composed(composed)) = composed.event()? else { return Err(damaged()) };
    let Some(LaunchRecord { flow, .. }) = &composed.launch else {
        return Ok(kinds.contains("delivered") && !kinds.contains("exit"));
    };
    if !kinds.contains("exit") || !kinds.contains("observed") {
        return Ok(true);
    }
    let Some(flow) = flow.get("flow").and_then(|flow| Id::parse(flow)) else { return Ok(false) };
    if let Some(goes_on) = flows.get(flow.as_str()) {
        return Ok(*goes_on);
    }
    let goes_on = !has_flow_ended(db, &flow)?;
    flows.insert(flow.to_string(), goes_on);
    Ok(goes_on)
}

/// Returns whether a flow has ended. An unreadable flow has not, so that nothing of it is removed.
fn has_flow_ended(db: &mut DatabaseConnection, flow: &Id) -> Result<bool, LedgerError> {
    let mut events = Vec::new();
    for record in records_of_flow(db, flow)? {
        events.extend(record.flow_record()?.map(|record| record.event));
    }
    let Some(flow::FlowEvent::Started { more, .. }) = events.first() else { return Ok(false) };
    let definition = more.get("definition").cloned().unwrap_or(Value::Null);
    let Ok(definition) = serde_json::from_value::<flow::Flow>(definition) else { return Ok(false) };
    Ok(flow::fold_events(&definition, &events).has_ended())
}

fn retention_rule(retention: RetentionPolicy) -> String {
    let days = retention.days.map(|days| format!("older than {}", counted(days, "day")));
    let last = retention.last.map(|last| format!("not among the last {last}"));
    [days, last].into_iter().flatten().collect::<Vec<_>>().join(" and ")
}

/// Returns every blob that a remaining record needs. Fails if a record cannot be read, because then nothing
/// may be removed.
fn find_needed_blobs(db: &mut DatabaseConnection) -> Result<BTreeSet<Digest>, LedgerError> {
    let mut needed = BTreeSet::new();
    for_each_record(db, None, |_, record| {
        if let Some(event) = record.event()? {
            let damaged = |lost| LedgerError::damaged(format!("record {}: {lost}", record.seq));
            needed.extend(event.texts().map_err(damaged)?);
        }
        Ok(())
    })?;
    Ok(needed)
}

fn list_all_blobs(db: &mut DatabaseConnection) -> Result<Vec<(Digest, u64)>, LedgerError> {
    let rows = db.query("SELECT sha256, CAST(length(zstd) AS BIGINT) FROM blobs", &[])?;
    rows.into_iter()
        .map(|mut row| Ok((row.digest("blobs.sha256")?, row.int("blobs.zstd")?.unsigned_abs())))
        .collect()
}
