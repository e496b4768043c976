//! Lists the runs of a ledger that is only read and whose schema has no facts: derives them when they are needed.

use std::collections::BTreeSet;

use callsheet_core::record::{Id, Run};

use crate::db::{DatabaseConnection, DatabaseEngine};
use crate::error::LedgerError;
use crate::facts::{RunLineage, StoredFacts, derive_or_unreadable};
use crate::ledger::Ledger;
use crate::list::{ProjectFilter, RunFilter, RunRow, parse_run_row};
use crate::migrate::{has_facts, has_projects};
use crate::row::SqlParam;

/// Number of runs that are read at once.
const PAGE: i64 = 500;

impl Ledger {
    /// The same as [`Ledger::newest_of_tasks`], for a ledger without facts.
    pub(crate) fn newest_of_older_tasks(
        &mut self,
        project: Option<&ProjectFilter>,
        closed: bool,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<RunRow>, LedgerError> {
        let mut seen = BTreeSet::new();
        let mut found = Vec::new();
        let mut filter =
            RunFilter { project: project.cloned(), limit: PAGE as usize, ..RunFilter::default() };
        loop {
            let rows = self.runs(&filter)?;
            let Some(last) = rows.last() else { return Ok(found) };
            filter.before = Some(last.seq);
            for row in rows {
                let Some(facts) = &row.facts else { continue };
                let Some(key) = &facts.task_key else { continue };
                if !seen.insert((row.run.project.clone(), key.clone())) || facts.closed && !closed {
                    continue;
                }
                if before.is_none_or(|before| row.seq < before) {
                    found.push(row);
                }
                if found.len() >= limit {
                    return Ok(found);
                }
            }
        }
    }
}

/// Lists runs, with their facts only if the filter needs them.
pub(crate) fn list_older_runs(
    db: &mut DatabaseConnection,
    filter: &RunFilter,
) -> Result<Vec<RunRow>, LedgerError> {
    let sql = if has_projects(db)? {
        "SELECT seq, id, parent, task, agent, phase, role, recipe, started, ended, verdict, project, imported
         FROM runs WHERE seq < $1 ORDER BY seq DESC LIMIT $2"
    } else {
        "SELECT seq, id, parent, task, agent, phase, role, recipe, started, ended, verdict,
                CAST(NULL AS TEXT), CAST(NULL AS BIGINT)
         FROM runs WHERE seq < $1 ORDER BY seq DESC LIMIT $2"
    };
    let mut found = Vec::new();
    let mut before = filter.before.and_then(|before| i64::try_from(before).ok()).unwrap_or(i64::MAX);
    while found.len() < filter.limit {
        let rows = db.query(sql, &[SqlParam::Int(before), SqlParam::Int(PAGE)])?;
        let mut rows: Vec<RunRow> = rows.into_iter().map(parse_run_row).collect::<Result<_, _>>()?;
        let Some(last) = rows.last() else { break };
        before = last.seq as i64;
        if filter.needs_facts() {
            add_older_facts(db, &mut rows)?;
        }
        let left = filter.limit - found.len();
        found.extend(rows.into_iter().filter(|row| filter.is_match(row)).take(left));
    }
    Ok(found)
}

/// Derives the facts that rows lack because the schema is older. The numbers are those that the migration will give.
pub(crate) fn add_older_facts(db: &mut DatabaseConnection, rows: &mut [RunRow]) -> Result<(), LedgerError> {
    if rows.iter().all(|row| row.facts.is_some()) || has_facts(db)? {
        return Ok(());
    }
    for row in rows.iter_mut().filter(|row| row.facts.is_none()) {
        let mut facts = derive_or_unreadable(db, &row.run.id)?;
        let lineage = derive_lineage(db, &row.run, row.imported, &facts)?;
        (facts.task_key, facts.attempt) = (lineage.task_key, lineage.attempt);
        facts.number = count_number(db, row)?;
        row.facts = Some(facts);
    }
    Ok(())
}

/// Returns the place of a run among the runs from which it was made. In a foreign ledger, runs can be made from each other.
fn derive_lineage(
    db: &mut DatabaseConnection,
    run: &Run,
    imported: bool,
    facts: &StoredFacts,
) -> Result<RunLineage, LedgerError> {
    let mut line = vec![(run.clone(), facts.flow.is_none() && !imported)];
    let mut seen = BTreeSet::from([run.id.clone()]);
    while let Some(parent) = line.last().and_then(|(run, _)| run.parent.clone()) {
        let Some(parent) = find_older_run(db, &parent)?.filter(|parent| seen.insert(parent.run.id.clone()))
        else {
            break;
        };
        let is_listed = !parent.imported && derive_or_unreadable(db, &parent.run.id)?.flow.is_none();
        line.push((parent.run, is_listed));
    }
    let mut lineage = None;
    for (run, is_listed) in line.into_iter().rev() {
        lineage = Some((RunLineage::new(&run, lineage, is_listed), run.task.is_some()));
    }
    Ok(lineage.map(|(lineage, _)| lineage).unwrap_or_default())
}

pub(crate) fn find_older_run(db: &mut DatabaseConnection, run: &Id) -> Result<Option<RunRow>, LedgerError> {
    let sql = if has_projects(db)? {
        "SELECT seq, id, parent, task, agent, phase, role, recipe, started, ended, verdict, project, imported
         FROM runs WHERE id = $1"
    } else {
        "SELECT seq, id, parent, task, agent, phase, role, recipe, started, ended, verdict,
                CAST(NULL AS TEXT), CAST(NULL AS BIGINT)
         FROM runs WHERE id = $1"
    };
    db.query(sql, &[SqlParam::Text(run.as_str())])?.into_iter().next().map(parse_run_row).transpose()
}

pub(crate) fn count_number(db: &mut DatabaseConnection, row: &RunRow) -> Result<u64, LedgerError> {
    let seq = SqlParam::Int(row.seq as i64);
    let rows = match (db.engine(), &row.run.project) {
        (DatabaseEngine::Postgres, Some(project)) => db.query(
            "SELECT CAST(COUNT(*) AS BIGINT) FROM runs WHERE seq <= $1 AND (project = $2 OR project IS NULL)",
            &[seq, SqlParam::Text(project)],
        )?,
        _ => db.query("SELECT CAST(COUNT(*) AS BIGINT) FROM runs WHERE seq <= $1", &[seq])?,
    };
    let row = rows.into_iter().next();
    Ok(row.map(|mut row| row.int("runs")).transpose()?.unwrap_or(0).unsigned_abs())
}
