//! Sums over the runs of a ledger: one statement of SQL over the table of facts, on both engines.

use callsheet_core::record::RunOutcome;

use crate::db::DatabaseEngine;
use crate::error::LedgerError;
use crate::ledger::Ledger;
use crate::list::{ProjectFilter, RunFilter, add_project};
use crate::local_days::local_offsets;
use crate::migrate::has_facts;
use crate::query::QueryBuilder;
use crate::row::{SqlParam, SqlRow};

/// Property by which runs are grouped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StatsKey {
    /// Agent.
    Agent,
    /// Phase.
    Phase,
    /// Role.
    Role,
    /// Task: its id, else the id of its first run.
    Task,
    /// Local day of the start.
    Day,
    /// First template of the prompt, with its version.
    Template,
}

impl StatsKey {
    /// Every key.
    pub const ALL: &[Self] = &[Self::Agent, Self::Phase, Self::Role, Self::Task, Self::Day, Self::Template];

    /// Returns its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Phase => "phase",
            Self::Role => "role",
            Self::Task => "task",
            Self::Day => "day",
            Self::Template => "template",
        }
    }
}

/// Sums over a group of runs. Prompts that were only composed are not runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatsRow {
    /// Values of the keys, in the order in which they were asked for; `None` for runs without one.
    pub keys: Vec<Option<String>>,
    /// First line of a task of the group, if it is grouped by task.
    pub title: Option<String>,
    /// Number of runs.
    pub runs: u64,
    /// Number of runs by outcome, in the order of [`RunOutcome::ALL`], without those that are 0.
    pub outcomes: Vec<(RunOutcome, u64)>,
    /// Number of tasks of the group of which a run succeeded.
    pub succeeded_tasks: u64,
    /// Number of runs of these tasks in the group, up to the first that succeeded.
    pub runs_until_success: u64,
    /// Time of all runs in milliseconds; `None` if it is not known of any run.
    pub duration_ms: Option<u64>,
    /// Input tokens of all runs, cached ones included.
    pub input_tokens: Option<u64>,
    /// Input tokens that were read from a cache.
    pub cached_tokens: Option<u64>,
    /// Output tokens of all runs.
    pub output_tokens: Option<u64>,
    /// Cost of all runs in millionths of a dollar.
    pub cost_microusd: Option<u64>,
    /// Number of runs whose cost was estimated.
    pub estimated_runs: u64,
    /// Number of ended runs whose cost is not known.
    pub unpriced_runs: u64,
}

/// Cost of the runs of a project since a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpentCost {
    /// Cost in millionths of a dollar.
    pub microusd: u64,
    /// Number of runs whose cost was estimated.
    pub estimated_runs: u64,
    /// Number of ended runs whose cost is not known.
    pub unpriced_runs: u64,
}

/// Names of the columns of keys.
const COLUMNS: [&str; 6] = ["k0", "k1", "k2", "k3", "k4", "k5"];

impl Ledger {
    /// Sums over the runs that a filter selects by project, time, agent, phase, role, task and flow, grouped by `keys`. Without
    /// keys there is one group.
    pub fn stats(&mut self, filter: &RunFilter, keys: &[StatsKey]) -> Result<Vec<StatsRow>, LedgerError> {
        if !has_facts(&mut self.db)? {
            let message = "an older version wrote the ledger; a command that writes, such as `callsheet recover`, brings it up to date";
            return Err(LedgerError::Failed(message.into()));
        }
        let offsets = if keys.contains(&StatsKey::Day) {
            let first = match &filter.since {
                Some(since) => since.clone(),
                None => self.first_start()?,
            };
            local_offsets(&first)
        } else {
            Vec::new()
        };
        let until = filter.until.as_ref().map(|until| format!("{until}~"));
        let mut query = QueryBuilder::new("WITH base AS (SELECT f.seq, f.project, f.task_key, f.outcome");
        let is_sqlite = self.db.engine() == DatabaseEngine::Sqlite;
        for (key, column) in keys.iter().zip(COLUMNS) {
            // A value begins with `=`, and no value is an empty text: both engines join these quickly, unlike NULL.
            query.push(", COALESCE('=' || (");
            push_key(&mut query, *key, is_sqlite, &offsets);
            query.push("), '') AS ").push(column);
        }
        if keys.contains(&StatsKey::Task) {
            query.push(", substr(f.task_text, 1, 200) AS title");
        }
        for number in NUMBERS {
            query.push(number);
        }
        query
            .push(", f.cost_estimated FROM runs r JOIN run_facts f ON f.seq = r.seq WHERE f.outcome <> 'composed'")
            .and_text(" AND r.agent = ", filter.agent.as_deref())
            .and_text(" AND r.phase = ", filter.phase.as_deref())
            .and_text(" AND r.role = ", filter.role.as_deref())
            .and_text(" AND r.task = ", filter.task.as_deref())
            .and_text(" AND f.flow = ", filter.flow.as_ref().map(|flow| flow.as_str()))
            .and_text(" AND r.started >= ", filter.since.as_deref())
            .and_text(" AND r.started <= ", until.as_deref());
        add_project(&mut self.db, &mut query, filter.project.as_ref())?;
        // Runs without a task are in no partition: most of the work would be for them.
        query.push("), good AS (SELECT project, task_key");
        push_columns(&mut query, keys.len());
        query.push(", MIN(seq) AS first_good FROM base WHERE outcome = 'succeeded' AND task_key IS NOT NULL GROUP BY project, task_key");
        push_columns(&mut query, keys.len());
        query.push("), tries AS (SELECT COUNT(DISTINCT g.first_good) AS tasks, COUNT(*) AS tries");
        for column in &COLUMNS[..keys.len()] {
            query.push(", b.").push(column);
        }
        query.push(" FROM base b JOIN good g ON b.project = g.project AND b.task_key = g.task_key AND b.seq <= g.first_good");
        for column in &COLUMNS[..keys.len()] {
            query.push(" AND b.").push(column).push(" = g.").push(column);
        }
        for (at, column) in COLUMNS[..keys.len()].iter().enumerate() {
            query.push(if at == 0 { " GROUP BY b." } else { ", b." }).push(column);
        }
        query.push("), sums AS (SELECT COUNT(*) AS runs");
        push_columns(&mut query, keys.len());
        query.push(if keys.contains(&StatsKey::Task) {
            ", MAX(title) AS title"
        } else {
            ", CAST(NULL AS TEXT) AS title"
        });
        for (outcome, column) in RunOutcome::ALL.iter().zip(OUTCOME_COLUMNS) {
            query.push(", SUM(CASE WHEN outcome = ").bind(SqlParam::Text(outcome.name()));
            query.push(" THEN 1 ELSE 0 END) AS ").push(column);
        }
        query.push(
            ", CAST(SUM(duration_ms) AS BIGINT) AS duration_ms, CAST(SUM(input_tokens) AS BIGINT) AS input_tokens,
             CAST(SUM(cached_tokens) AS BIGINT) AS cached_tokens, CAST(SUM(output_tokens) AS BIGINT) AS output_tokens,
             CAST(SUM(cost_microusd) AS BIGINT) AS cost_microusd,
             SUM(CASE WHEN cost_estimated = 1 THEN 1 ELSE 0 END) AS estimated,
             SUM(CASE WHEN cost_microusd IS NULL AND outcome <> 'running' THEN 1 ELSE 0 END) AS unpriced FROM base",
        );
        for (at, column) in COLUMNS[..keys.len()].iter().enumerate() {
            query.push(if at == 0 { " GROUP BY " } else { ", " }).push(column);
        }
        query.push(") SELECT ");
        for column in &COLUMNS[..keys.len()] {
            query.push("s.").push(column).push(", ");
        }
        query.push("s.title, s.runs");
        for column in OUTCOME_COLUMNS.iter().take(RunOutcome::ALL.len()) {
            query.push(", s.").push(column);
        }
        query.push(
            ", t.tasks, t.tries, s.duration_ms, s.input_tokens, s.cached_tokens, s.output_tokens, s.cost_microusd,
             s.estimated, s.unpriced FROM sums s LEFT JOIN tries t ON 1 = 1",
        );
        for column in &COLUMNS[..keys.len()] {
            query.push(" AND s.").push(column).push(" = t.").push(column);
        }
        let rows = self.db.query_built(&query)?;
        let mut rows: Vec<StatsRow> =
            rows.into_iter().map(|row| parse_stats(row, keys.len())).collect::<Result<_, _>>()?;
        rows.retain(|row| row.runs > 0);
        sort_rows(&mut rows, keys);
        Ok(rows)
    }

    /// Returns the cost of the project's own runs that were started at `since` or later.
    pub fn spent_since(
        &mut self,
        project: Option<&ProjectFilter>,
        since: &str,
    ) -> Result<SpentCost, LedgerError> {
        if !has_facts(&mut self.db)? {
            return Ok(SpentCost::default());
        }
        let mut query = QueryBuilder::new(
            "SELECT CAST(SUM(CASE WHEN f.cost_microusd > 1000000000000000 THEN 1000000000000000
               ELSE f.cost_microusd END) AS BIGINT),
             SUM(CASE WHEN f.cost_estimated = 1 THEN 1 ELSE 0 END),
             SUM(CASE WHEN f.cost_microusd IS NULL AND f.outcome <> 'running' THEN 1 ELSE 0 END)
             FROM runs r JOIN run_facts f ON f.seq = r.seq
             WHERE f.outcome <> 'composed' AND r.imported IS NULL AND r.started >= ",
        );
        query.bind(SqlParam::Text(since));
        add_project(&mut self.db, &mut query, project)?;
        let Some(mut row) = self.db.query_built(&query)?.into_iter().next() else {
            return Ok(SpentCost::default());
        };
        let microusd = count(row.maybe_int("cost_microusd")?);
        let estimated_runs = count(row.maybe_int("estimated")?);
        Ok(SpentCost { microusd, estimated_runs, unpriced_runs: count(row.maybe_int("unpriced")?) })
    }

    fn first_start(&mut self) -> Result<String, LedgerError> {
        let row = self.db.query("SELECT MIN(started) FROM runs", &[])?.into_iter().next();
        Ok(row.map(|mut row| row.maybe_text("runs.started")).transpose()?.flatten().unwrap_or_default())
    }
}

/// The numbers that are added up, each within a limit, so that no sum overflows by the lie of one agent.
const NUMBERS: [&str; 5] = [
    ", CASE WHEN f.duration_ms > 1000000000000000 THEN 1000000000000000 ELSE f.duration_ms END AS duration_ms",
    ", CASE WHEN f.all_input_tokens > 1000000000000000 THEN 1000000000000000 ELSE f.all_input_tokens END AS input_tokens",
    ", CASE WHEN f.cached_tokens > 1000000000000000 THEN 1000000000000000 ELSE f.cached_tokens END AS cached_tokens",
    ", CASE WHEN f.output_tokens > 1000000000000000 THEN 1000000000000000 ELSE f.output_tokens END AS output_tokens",
    ", CASE WHEN f.cost_microusd > 1000000000000000 THEN 1000000000000000 ELSE f.cost_microusd END AS cost_microusd",
];

/// Names of the columns that count outcomes: more than there are outcomes.
const OUTCOME_COLUMNS: [&str; 24] = [
    "o0", "o1", "o2", "o3", "o4", "o5", "o6", "o7", "o8", "o9", "o10", "o11", "o12", "o13", "o14", "o15",
    "o16", "o17", "o18", "o19", "o20", "o21", "o22", "o23",
];

fn push_columns(query: &mut QueryBuilder<'_>, count: usize) {
    for column in &COLUMNS[..count] {
        query.push(", ").push(column);
    }
}

/// The day of a start, up to its offset. PostgreSQL refuses the year 0 and days that a month does not have, which a clock or an
/// import can bring; SQLite counts on from the last day that there is, and so does this.
const POSTGRES_DAY: &str = "CASE WHEN r.started >= '0001' THEN to_char(
    CAST(substr(r.started, 1, 8) || LEAST(substr(r.started, 9, 2), '28') || substr(r.started, 11, 9) AS timestamp)
    + GREATEST(CAST(substr(r.started, 9, 2) AS INTEGER) - 28, 0) * interval '1 day' + (";

/// Appends the expression of a key.
fn push_key<'p>(
    query: &mut QueryBuilder<'p>,
    key: StatsKey,
    is_sqlite: bool,
    offsets: &'p [crate::local_days::LocalOffset],
) {
    match key {
        StatsKey::Agent => query.push("r.agent"),
        StatsKey::Phase => query.push("r.phase"),
        StatsKey::Role => query.push("r.role"),
        StatsKey::Task => query.push("COALESCE(r.task, f.task_key)"),
        StatsKey::Template => query.push("f.template || '@' || COALESCE(f.template_version, '')"),
        StatsKey::Day => {
            query.push(if is_sqlite { "date(substr(r.started, 1, 19), CAST((" } else { POSTGRES_DAY });
            push_offset(query, offsets);
            query.push(if is_sqlite {
                ") AS TEXT) || ' seconds')"
            } else {
                ") * interval '1 second', 'YYYY-MM-DD') END"
            })
        }
    };
}

fn push_offset<'p>(query: &mut QueryBuilder<'p>, offsets: &'p [crate::local_days::LocalOffset]) {
    let changes = offsets.iter().filter(|offset| offset.until.is_some());
    if changes.clone().next().is_some() {
        query.push("CASE");
    }
    for offset in changes.clone() {
        query.and_text(" WHEN r.started < ", offset.until.as_deref());
        query.push(" THEN CAST(").bind(SqlParam::Int(offset.seconds)).push(" AS BIGINT)");
    }
    let last = offsets.last().map_or(0, |offset| offset.seconds);
    let has_changes = changes.clone().next().is_some();
    query
        .push(if has_changes { " ELSE CAST(" } else { "CAST(" })
        .bind(SqlParam::Int(last))
        .push(" AS BIGINT)");
    if has_changes {
        query.push(" END");
    }
}

fn count(number: Option<i64>) -> u64 {
    number.unwrap_or(0).unsigned_abs()
}

fn parse_stats(mut row: SqlRow, keys: usize) -> Result<StatsRow, LedgerError> {
    let mut key = || Ok(row.text("stats.key")?.strip_prefix('=').map(str::to_owned));
    let keys = (0..keys).map(|_| key()).collect::<Result<Vec<_>, LedgerError>>()?;
    let title = row.maybe_text("stats.title")?;
    let title =
        title.and_then(|title| title.lines().next().map(str::to_owned)).filter(|title| !title.is_empty());
    let mut number = || row.maybe_int("stats.number");
    let runs = count(number()?);
    let mut outcomes = Vec::new();
    for outcome in RunOutcome::ALL {
        let runs = count(number()?);
        if runs > 0 {
            outcomes.push((*outcome, runs));
        }
    }
    let sum = |number: Option<i64>| number.map(i64::unsigned_abs);
    Ok(StatsRow {
        keys,
        title,
        runs,
        outcomes,
        succeeded_tasks: count(number()?),
        runs_until_success: count(number()?),
        duration_ms: sum(number()?),
        input_tokens: sum(number()?),
        cached_tokens: sum(number()?),
        output_tokens: sum(number()?),
        cost_microusd: sum(number()?),
        estimated_runs: count(number()?),
        unpriced_runs: count(number()?),
    })
}

/// Sorts groups by their keys: the newest day first, runs without a value last.
fn sort_rows(rows: &mut [StatsRow], keys: &[StatsKey]) {
    rows.sort_by(|one, other| {
        let pairs = keys.iter().zip(one.keys.iter().zip(&other.keys));
        let order = pairs.map(|(key, (one, other))| {
            let order = one.is_none().cmp(&other.is_none());
            let (first, second) = if *key == StatsKey::Day { (other, one) } else { (one, other) };
            order.then_with(|| first.cmp(second))
        });
        order.fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then)
    });
}
