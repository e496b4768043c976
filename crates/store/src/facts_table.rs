//! The table of facts: one row per run, written in the transaction of the records that it is derived from.

use callsheet_core::record::{Event, Id, Run};

use crate::db::{DatabaseConnection, DatabaseEngine};
use crate::error::LedgerError;
use crate::facts::{
    FACT_RULES, RunLineage, StoredFacts, derive_from_prompt, derive_or_unreadable, has_facts_of,
};
use crate::ledger::{Ledger, to_seq};
use crate::read::PAGE;
use crate::row::{SqlParam, SqlRow};

impl Ledger {
    /// Derives the facts of all runs again. Their numbers stay.
    pub fn reindex(&mut self) -> Result<usize, LedgerError> {
        self.with_write_lock(|db, _| {
            db.execute("DELETE FROM run_facts WHERE seq NOT IN (SELECT seq FROM runs)", &[])?;
            derive_rows(db, i64::MAX)
        })
    }
}

/// Gives every run its facts and its number: for a ledger of a version without them.
pub(crate) fn fill_facts(db: &mut DatabaseConnection) -> Result<(), LedgerError> {
    // A file has one owner, who may have renamed the project; a server has many projects.
    let is_file = db.engine() == DatabaseEngine::Sqlite;
    let together = std::mem::replace(&mut db.numbers_together, is_file);
    let filled = derive_rows(db, FACT_RULES);
    db.numbers_together = together;
    filled.map(drop)
}

/// Returns whether the first or the last row was derived by older rules. All rows are derived again at once, so the first one is old if
/// any is, unless an older version wrote the last ones.
pub(crate) fn has_old_facts(db: &mut DatabaseConnection) -> Result<bool, LedgerError> {
    let ends = [
        "SELECT rules FROM run_facts ORDER BY seq LIMIT 1",
        "SELECT rules FROM run_facts ORDER BY seq DESC LIMIT 1",
    ];
    for sql in ends {
        for mut row in db.query(sql, &[])? {
            if row.int("run_facts.rules")? < FACT_RULES {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Derives the rows that are missing, and those of rules before `rules`, the oldest run first. Returns their number.
fn derive_rows(db: &mut DatabaseConnection, rules: i64) -> Result<usize, LedgerError> {
    let (mut last, mut derived) = (0, 0);
    loop {
        let rows = db.query(
            "SELECT r.seq, r.id, r.parent, r.task, r.project, r.imported, f.number
             FROM runs r LEFT JOIN run_facts f ON f.seq = r.seq
             WHERE r.seq > $1 AND (f.seq IS NULL OR f.rules < $2) ORDER BY r.seq LIMIT $3",
            &[SqlParam::Int(last), SqlParam::Int(rules), SqlParam::Int(PAGE as i64)],
        )?;
        if rows.is_empty() {
            return Ok(derived);
        }
        for mut row in rows {
            let seq = row.int("runs.seq")?;
            let (run, imported) = parse_relations(&mut row, seq)?;
            let number = row.maybe_int("run_facts.number")?;
            let mut facts = derive_or_unreadable(db, &run.id)?;
            set_lineage(db, &run, imported, &mut facts)?;
            match number {
                Some(_) => update_facts(db, seq, &facts)?,
                None => insert_facts(db, seq, run.project.as_deref(), facts)?,
            }
            (last, derived) = (seq, derived + 1);
        }
    }
}

/// Parses the columns of `runs` that lineage depends on.
fn parse_relations(row: &mut SqlRow, seq: i64) -> Result<(Run, bool), LedgerError> {
    let damaged = || LedgerError::damaged(format!("runs.id of {seq} is not an id"));
    let id = Id::parse(&row.text("runs.id")?).ok_or_else(damaged)?;
    let mut run = Run::restore(id, "", "");
    run.parent = row.maybe_text("runs.parent")?.and_then(|parent| Id::parse(&parent));
    run.task = row.maybe_text("runs.task")?;
    run.project = row.maybe_text("runs.project")?;
    Ok((run, row.maybe_int("runs.imported")?.is_some()))
}

/// Updates the facts of a run for a record.
pub(crate) fn index_facts(
    db: &mut DatabaseConnection,
    seq: u64,
    run: &Id,
    event: &Event,
) -> Result<(), LedgerError> {
    if !has_facts_of(event) {
        return Ok(());
    }
    if let Event::Composed(composed) = event {
        let run = &composed.run;
        let mut facts = derive_from_prompt(db, composed);
        set_lineage(db, run, false, &mut facts)?;
        return insert_facts(db, seq as i64, run.project.as_deref(), facts);
    }
    let sql = "SELECT seq, id, parent, task, project, imported FROM runs WHERE id = $1";
    let Some(mut row) = db.query(sql, &[SqlParam::Text(run.as_str())])?.into_iter().next() else {
        return Ok(());
    };
    let seq = row.int("runs.seq")?;
    let (run, imported) = parse_relations(&mut row, seq)?;
    let mut facts = derive_or_unreadable(db, &run.id)?;
    set_lineage(db, &run, imported, &mut facts)?;
    update_facts(db, seq, &facts)
}

fn set_lineage(
    db: &mut DatabaseConnection,
    run: &Run,
    imported: bool,
    facts: &mut StoredFacts,
) -> Result<(), LedgerError> {
    let parent = match &run.parent {
        Some(parent) => read_lineage(db, parent)?,
        None => None,
    };
    let lineage = RunLineage::new(run, parent, facts.flow.is_none() && !imported);
    (facts.task_key, facts.attempt) = (lineage.task_key, lineage.attempt);
    Ok(())
}

/// Returns the place of a run among its ancestors, and whether it names a task.
fn read_lineage(db: &mut DatabaseConnection, run: &Id) -> Result<Option<(RunLineage, bool)>, LedgerError> {
    let rows = db.query(
        "SELECT f.task_key, f.attempt, r.task FROM runs r JOIN run_facts f ON f.seq = r.seq WHERE r.id = $1",
        &[SqlParam::Text(run.as_str())],
    )?;
    let Some(mut row) = rows.into_iter().next() else { return Ok(None) };
    let task_key = row.maybe_text("run_facts.task_key")?;
    let attempt = row.int("run_facts.attempt")?.unsigned_abs();
    Ok(Some((RunLineage { task_key, attempt }, row.maybe_text("runs.task")?.is_some())))
}

/// Takes the next number of a project. A run without a project, and every run of a ledger of one owner, gets a number that no
/// run has.
fn take_number(db: &mut DatabaseConnection, project: &str) -> Result<i64, LedgerError> {
    let all = db.numbers_together || project.is_empty();
    let mut row = db
        .query(
            "SELECT MAX(last) FROM run_numbers WHERE CAST($1 AS BIGINT) = 1 OR project = $2 OR project = ''",
            &[SqlParam::Int(all.into()), SqlParam::Text(project)],
        )?
        .into_iter()
        .next()
        .ok_or_else(|| LedgerError::damaged("run_numbers cannot be read"))?;
    let number = row.maybe_int("run_numbers.last")?.unwrap_or(0).saturating_add(1);
    let row = [SqlParam::Int(number), SqlParam::Text(project)];
    if db.execute("UPDATE run_numbers SET last = $1 WHERE project = $2", &row)? == 0 {
        db.execute("INSERT INTO run_numbers (last, project) VALUES ($1, $2)", &row)?;
    }
    Ok(number)
}

fn insert_facts(
    db: &mut DatabaseConnection,
    seq: i64,
    project: Option<&str>,
    mut facts: StoredFacts,
) -> Result<(), LedgerError> {
    let project = project.unwrap_or_default();
    facts.number = to_seq(take_number(db, project)?);
    let own = [
        SqlParam::Int(seq),
        SqlParam::Int(FACT_RULES),
        SqlParam::Text(project),
        SqlParam::Int(facts.number as i64),
    ];
    let flow = facts.flow.as_ref().map(Id::as_str);
    let row: Vec<SqlParam<'_>> = own.into_iter().chain(derived_columns(&facts, flow)).collect();
    db.execute(
        "INSERT INTO run_facts (seq, rules, project, number, task_key, attempt, flow, task_text, template,
           template_version, profile, model, program, host, status, outcome, failed, closed, checks, checks_passed,
           checks_total, changed_files, ended_at, duration_ms, input_tokens, output_tokens, cached_tokens,
           cost_microusd, all_input_tokens, cost_estimated)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20,
           $21, $22, $23, $24, $25, $26, $27, $28, $29, $30)",
        &row,
    )
    .map(drop)
}

fn update_facts(db: &mut DatabaseConnection, seq: i64, facts: &StoredFacts) -> Result<(), LedgerError> {
    let flow = facts.flow.as_ref().map(Id::as_str);
    let mut row: Vec<SqlParam<'_>> = derived_columns(facts, flow).into_iter().collect();
    row.extend([SqlParam::Int(FACT_RULES), SqlParam::Int(seq)]);
    db.execute(
        "UPDATE run_facts SET task_key = $1, attempt = $2, flow = $3, task_text = $4, template = $5, template_version = $6,
           profile = $7, model = $8, program = $9, host = $10, status = $11, outcome = $12,
           failed = $13, closed = $14, checks = $15, checks_passed = $16, checks_total = $17,
           changed_files = $18, ended_at = $19, duration_ms = $20, input_tokens = $21,
           output_tokens = $22, cached_tokens = $23, cost_microusd = $24, all_input_tokens = $25,
           cost_estimated = $26, rules = $27 WHERE seq = $28",
        &row,
    )
    .map(drop)
}

/// Returns the columns that are derived, in the order of both statements.
fn derived_columns<'f>(facts: &'f StoredFacts, flow: Option<&'f str>) -> [SqlParam<'f>; 26] {
    let text = |text: &'f Option<String>| SqlParam::text_or_null(text.as_deref());
    let count = |number: u64| SqlParam::Int(i64::try_from(number).unwrap_or(i64::MAX));
    let maybe = |number: Option<u64>| number.map_or(SqlParam::Null, count);
    [
        text(&facts.task_key),
        count(facts.attempt),
        SqlParam::text_or_null(flow),
        SqlParam::Text(&facts.task_text),
        text(&facts.template),
        text(&facts.template_version),
        text(&facts.profile),
        text(&facts.model),
        text(&facts.program),
        text(&facts.host),
        SqlParam::Text(facts.status.name()),
        SqlParam::Text(facts.outcome.name()),
        SqlParam::Int(facts.outcome.is_failure().into()),
        SqlParam::Int(facts.closed.into()),
        SqlParam::Text(facts.checks.name()),
        count(facts.checks_passed),
        count(facts.checks_total),
        maybe(facts.changed_files),
        text(&facts.ended_at),
        maybe(facts.duration_ms),
        maybe(facts.input_tokens),
        maybe(facts.output_tokens),
        maybe(facts.cached_tokens),
        maybe(facts.cost_microusd),
        maybe(facts.all_input_tokens),
        SqlParam::Int(facts.cost_estimated.into()),
    ]
}
