//! Retention: runs that nobody wants to keep leave their links in the chain, and take what only they needed with them.

use std::collections::BTreeSet;

use callsheet_core::record::{Digest, Event, Id, Removed, blobs_of, sha256};

use crate::clock::{days_ago, now};
use crate::db::Db;
use crate::error::Error;
use crate::ledger::{Draft, Ledger, append};
use crate::read::{Filter, ProjectFilter, RunRow, runs};
use crate::row::Param;

/// Which runs stay. A run that either rule keeps stays, and so does every run that it retries or continues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// Those of the last days.
    pub days: Option<u64>,
    /// The last ones.
    pub last: Option<usize>,
}

/// What was removed, or would be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    pub runs: Vec<Id>,
    pub records: u64,
    pub blobs: u64,
    pub bytes: u64,
    /// The record that says so; none where there was nothing to remove.
    pub seq: Option<u64>,
}

impl Ledger {
    /// The runs that `retention` does not keep. One that was handed to an agent and has not ended stays.
    pub fn expired(&mut self, retention: Retention) -> Result<Vec<Id>, Error> {
        self.expired_of(retention, None)
    }

    /// The same among the runs of one project.
    pub fn expired_of(
        &mut self,
        retention: Retention,
        project: Option<&ProjectFilter>,
    ) -> Result<Vec<Id>, Error> {
        expired(&mut self.db, retention, project)
    }

    /// Removes what `retention` does not keep, and appends a record that says so.
    pub fn sweep(&mut self, retention: Retention) -> Result<Swept, Error> {
        self.sweep_of(retention, None)
    }

    /// The same among the runs of one project.
    pub fn sweep_of(
        &mut self,
        retention: Retention,
        project: Option<&ProjectFilter>,
    ) -> Result<Swept, Error> {
        let swept = self.alone(|db, zip| {
            let mut swept = Swept { runs: expired(db, retention, project)?, ..Swept::default() };
            if swept.runs.is_empty() {
                return Ok(swept);
            }
            for run in &swept.runs {
                let run = [Param::Text(run.as_str())];
                let sql = "UPDATE records SET payload = NULL, packed = NULL WHERE run = $1";
                swept.records += db.execute(sql, &run)?;
                db.execute("DELETE FROM runs WHERE id = $1", &run)?;
            }
            let needed = needed(db)?;
            for (digest, bytes) in all_blobs(db)? {
                if !needed.contains(&digest) {
                    db.execute("DELETE FROM blobs WHERE sha256 = $1", &[Param::Bytes(&digest.0)])?;
                    swept.blobs += 1;
                    swept.bytes += bytes;
                }
            }
            let Swept { records, blobs, bytes, .. } = swept;
            let removed = Removed { why: rule(retention), runs: swept.runs.clone(), records, blobs, bytes };
            let event = Event::Removed(removed);
            let payload = event.payload().map_err(Error::Failed)?;
            let (at, sha256) = (now(), sha256(&[payload.as_bytes()]));
            let draft =
                Draft { run: None, flow: None, kind: event.kind(), at: &at, payload: Some(&payload), sha256 };
            swept.seq = Some(append(db, zip, &draft)?.seq);
            Ok(swept)
        })?;
        if swept.seq.is_some() {
            self.db.shrink()?;
        }
        Ok(swept)
    }
}

fn expired(db: &mut Db, retention: Retention, project: Option<&ProjectFilter>) -> Result<Vec<Id>, Error> {
    let rows = runs(db, &Filter { limit: usize::MAX, ..Filter::default() })?;
    let since = retention.days.map(days_ago);
    let is_own = |row: &RunRow| project.is_none_or(|project| project.takes(&row.run));
    let mut kept: BTreeSet<Id> =
        rows.iter().filter(|row| !is_own(row)).map(|row| row.run.id.clone()).collect();
    for (at, row) in rows.iter().filter(|row| is_own(row)).enumerate() {
        let young = since.as_ref().is_some_and(|since| row.run.started >= *since);
        if young || retention.last.is_some_and(|last| at < last) || is_running(db, row)? {
            kept.insert(row.run.id.clone());
        }
    }
    // The newest first, so a parent comes after all who point at it.
    for row in &rows {
        if let Some(parent) = row.run.parent.as_ref().filter(|_| kept.contains(&row.run.id)) {
            kept.insert(parent.clone());
        }
    }
    Ok(rows.into_iter().map(|row| row.run.id).filter(|id| !kept.contains(id)).collect())
}

fn is_running(db: &mut Db, row: &RunRow) -> Result<bool, Error> {
    if row.ended.is_some() {
        return Ok(false);
    }
    let sql = "SELECT seq FROM records WHERE run = $1 AND kind = 'delivered' LIMIT 1";
    Ok(!db.query(sql, &[Param::Text(row.run.id.as_str())])?.is_empty())
}

fn rule(retention: Retention) -> String {
    let days = retention.days.map(|days| format!("older than {days} days"));
    let last = retention.last.map(|last| format!("not among the last {last}"));
    [days, last].into_iter().flatten().collect::<Vec<_>>().join(" and ")
}

/// Every blob that a record that is left needs. Where one cannot be read nothing may be removed.
fn needed(db: &mut Db) -> Result<BTreeSet<Digest>, Error> {
    let mut needed = BTreeSet::new();
    let mut last = 0;
    loop {
        let page = crate::read::records_after(db, last, 256)?;
        let Some(newest) = page.last() else { return Ok(needed) };
        last = newest.seq;
        for record in page {
            if let Some(Event::Composed(composed)) = record.event()? {
                let blobs = blobs_of(&composed);
                needed
                    .extend(blobs.map_err(|lost| Error::damaged(format!("record {}: {lost}", record.seq)))?);
            }
        }
    }
}

fn all_blobs(db: &mut Db) -> Result<Vec<(Digest, u64)>, Error> {
    let rows = db.query("SELECT sha256, CAST(length(zstd) AS BIGINT) FROM blobs", &[])?;
    rows.into_iter()
        .map(|mut row| Ok((row.digest("blobs.sha256")?, row.int("blobs.zstd")?.unsigned_abs())))
        .collect()
}
