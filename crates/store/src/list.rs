//! Lists runs, the newest first. A list takes as long as its page, whatever the length of the ledger.

use callsheet_core::record::{Id, Run, RunOutcome};

use crate::db::DatabaseConnection;
use crate::error::LedgerError;
use crate::facts::{StoredFacts, parse_facts};
use crate::ledger::{Ledger, to_seq};
use crate::list_older::{add_older_facts, list_older_runs};
use crate::migrate::has_facts;
use crate::query::QueryBuilder;
use crate::row::{SqlParam, SqlRow};

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
    /// Facts for lists; `None` only if the ledger has lost them.
    pub facts: Option<StoredFacts>,
}

impl RunRow {
    /// Returns the name by which a person calls the run in its project: `r42`, or its id if it has no number.
    pub fn name(&self) -> String {
        self.facts.as_ref().map_or_else(|| self.run.id.to_string(), |facts| format!("r{}", facts.number))
    }
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
    /// Role of the run.
    pub role: Option<String>,
    /// Task of the run.
    pub task: Option<String>,
    /// Task of the run, as [`StoredFacts::task_key`] names it.
    pub task_key: Option<String>,
    /// Flow of the run.
    pub flow: Option<Id>,
    /// Verdict of the reply.
    pub verdict: Option<String>,
    /// Outcome of the run.
    pub outcome: Option<RunOutcome>,
    /// Only runs with an outcome that is a failure.
    pub failed: bool,
    /// Machine that composed the prompt.
    pub machine: Option<String>,
    /// Number of the run in its project.
    pub number: Option<u64>,
    /// First start time, or its beginning.
    pub since: Option<String>,
    /// Last start time, or its beginning.
    pub until: Option<String>,
    /// Text that the kept beginning of the task's text, or the task's id, contains, in any case.
    pub grep: Option<String>,
    /// Only runs before the one with this first record, to continue a list.
    pub before: Option<u64>,
    /// Most runs to return.
    pub limit: usize,
}

impl RunFilter {
    /// Returns whether the filter selects a run, apart from its limit.
    pub fn is_match(&self, row: &RunRow) -> bool {
        let run = &row.run;
        let same = |wanted: &Option<String>, found: Option<&str>| {
            wanted.as_deref().is_none_or(|wanted| found == Some(wanted))
        };
        // A longer text with the same beginning sorts behind it, so a day is before every time of that day.
        let is_early = |until: &String| run.started.as_str() <= format!("{until}~").as_str();
        self.project.as_ref().is_none_or(|project| project.is_match(run))
            && !(self.own && row.imported)
            && same(&self.agent, run.agent.as_deref())
            && same(&self.phase, run.phase.as_deref())
            && same(&self.role, run.role.as_deref())
            && same(&self.task, run.task.as_deref())
            && same(&self.verdict, row.verdict.as_deref())
            && self.since.as_ref().is_none_or(|since| run.started >= *since)
            && self.until.as_ref().is_none_or(is_early)
            && self.before.is_none_or(|before| row.seq < before)
            && (!self.needs_facts() || row.facts.as_ref().is_some_and(|facts| self.is_fact_match(run, facts)))
    }

    fn is_fact_match(&self, run: &Run, facts: &StoredFacts) -> bool {
        self.task_key.as_ref().is_none_or(|key| facts.task_key.as_ref() == Some(key))
            && self.flow.as_ref().is_none_or(|flow| facts.flow.as_ref() == Some(flow))
            && self.outcome.is_none_or(|outcome| facts.outcome == outcome)
            && (!self.failed || facts.outcome.is_failure())
            && self.machine.as_ref().is_none_or(|machine| facts.host.as_ref() == Some(machine))
            && self.number.is_none_or(|number| facts.number == number)
            && self.grep.as_ref().is_none_or(|text| contains_text(text, run, facts))
    }

    /// Returns whether it selects by facts.
    pub(crate) fn needs_facts(&self) -> bool {
        self.task_key.is_some()
            || self.flow.is_some()
            || self.outcome.is_some()
            || self.failed
            || self.machine.is_some()
            || self.number.is_some()
            || self.grep.is_some()
    }
}

/// Checks whether the text of a run contains another, in any case.
fn contains_text(text: &str, run: &Run, facts: &StoredFacts) -> bool {
    let text = text.to_lowercase();
    let has = |found: &str| found.to_lowercase().contains(&text);
    has(&facts.task_text) || run.task.as_deref().is_some_and(has)
}

impl Ledger {
    /// Returns the runs that a filter selects, the newest first.
    pub fn runs(&mut self, filter: &RunFilter) -> Result<Vec<RunRow>, LedgerError> {
        let mut rows = list_runs(&mut self.db, filter)?;
        add_older_facts(&mut self.db, &mut rows)?;
        Ok(rows)
    }

    /// Returns the newest run of each task, the newest first: the tasks of the project, without the runs of flows. With `closed`,
    /// also the tasks that a person closed. `before` continues a list.
    pub fn newest_of_tasks(
        &mut self,
        project: Option<&ProjectFilter>,
        closed: bool,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<RunRow>, LedgerError> {
        if !has_facts(&mut self.db)? {
            return self.newest_of_older_tasks(project, closed, before, limit);
        }
        let mut query = QueryBuilder::new(RUNS);
        query.push(" WHERE f.task_key IS NOT NULL");
        if !closed {
            query.push(" AND f.closed = 0");
        }
        query.push(
            " AND NOT EXISTS (SELECT 1 FROM run_facts g
              WHERE g.project = f.project AND g.task_key = f.task_key AND g.seq > f.seq)",
        );
        add_project(&mut self.db, &mut query, project)?;
        if let Some(before) = before {
            query.push(" AND f.seq < ").bind(SqlParam::Int(before as i64));
        }
        query.push(" ORDER BY f.seq DESC LIMIT ").bind(limit_param(limit));
        self.db.query_built(&query)?.into_iter().map(parse_run_row).collect()
    }

    /// Returns the values that the runs of a project have in a column, in order.
    pub fn known_values(
        &mut self,
        column: RunColumn,
        project: Option<&ProjectFilter>,
    ) -> Result<Vec<String>, LedgerError> {
        let mut values = Vec::new();
        let mut last = String::new();
        // One step through the index per value, however many runs have it.
        while let Some(value) = next_value(&mut self.db, column, &last)? {
            last.clone_from(&value);
            let mut filter = RunFilter { project: project.cloned(), limit: 1, ..RunFilter::default() };
            *column.field(&mut filter) = Some(value.clone());
            if project.is_none() || !list_runs(&mut self.db, &filter)?.is_empty() {
                values.push(value);
            }
        }
        Ok(values)
    }
}

/// Column of the list of runs whose values a person can select by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunColumn {
    /// Name of the agent.
    Agent,
    /// Name of the phase.
    Phase,
    /// Name of the role.
    Role,
    /// Id of the task.
    Task,
    /// Verdict of the reply.
    Verdict,
    /// Machine that composed the prompt.
    Machine,
}

impl RunColumn {
    /// Returns the field of a filter that selects by this column.
    pub fn field(self, filter: &mut RunFilter) -> &mut Option<String> {
        match self {
            Self::Agent => &mut filter.agent,
            Self::Phase => &mut filter.phase,
            Self::Role => &mut filter.role,
            Self::Task => &mut filter.task,
            Self::Verdict => &mut filter.verdict,
            Self::Machine => &mut filter.machine,
        }
    }
}

fn next_value(
    db: &mut DatabaseConnection,
    column: RunColumn,
    last: &str,
) -> Result<Option<String>, LedgerError> {
    let sql = match column {
        RunColumn::Agent => "SELECT MIN(agent) FROM runs WHERE agent > $1",
        RunColumn::Phase => "SELECT MIN(phase) FROM runs WHERE phase > $1",
        RunColumn::Role => "SELECT MIN(role) FROM runs WHERE role > $1",
        RunColumn::Task => "SELECT MIN(task) FROM runs WHERE task > $1",
        RunColumn::Verdict => "SELECT MIN(verdict) FROM runs WHERE verdict > $1",
        RunColumn::Machine => "SELECT MIN(host) FROM run_facts WHERE host > $1",
    };
    let row = db.query(sql, &[SqlParam::Text(last)])?.into_iter().next();
    Ok(row.map(|mut row| row.maybe_text("runs")).transpose()?.flatten())
}

/// Columns of a run and of its facts, in the order of [`parse_run_row`].
const RUNS: &str = "SELECT r.seq, r.id, r.parent, r.task, r.agent, r.phase, r.role, r.recipe, r.started, r.ended,
    r.verdict, r.project, r.imported, f.number, f.task_key, f.attempt, f.flow, f.task_text, f.template,
    f.template_version, f.profile, f.model, f.program, f.host, f.status, f.outcome, f.closed, f.checks, f.checks_passed,
    f.checks_total, f.changed_files, f.ended_at, f.duration_ms, f.input_tokens, f.output_tokens, f.cached_tokens,
    f.cost_microusd, f.all_input_tokens, f.cost_estimated
    FROM runs r LEFT JOIN run_facts f ON f.seq = r.seq";

fn limit_param<'p>(limit: usize) -> SqlParam<'p> {
    SqlParam::Int(i64::try_from(limit).unwrap_or(i64::MAX))
}

/// Appends the condition for a project. Returns whether it selects one project alone, in which runs have the order of their numbers.
pub(crate) fn add_project<'p>(
    db: &mut DatabaseConnection,
    query: &mut QueryBuilder<'p>,
    project: Option<&'p ProjectFilter>,
) -> Result<bool, LedgerError> {
    let Some(project) = project else { return Ok(false) };
    query.push(" AND f.project ");
    // One value keeps the order of the index.
    let has_unnamed =
        project.unnamed && !db.query("SELECT seq FROM run_facts WHERE project = '' LIMIT 1", &[])?.is_empty();
    match has_unnamed {
        true => query.push("IN ('', ").bind(SqlParam::Text(&project.name)).push(")"),
        false => query.push("= ").bind(SqlParam::Text(&project.name)),
    };
    Ok(!has_unnamed)
}

/// Number of runs that a search for a text reads at once.
const GREP_PAGE: usize = 500;

/// Lists runs. Those of a ledger of an older version may lack their facts.
pub(crate) fn list_runs(db: &mut DatabaseConnection, filter: &RunFilter) -> Result<Vec<RunRow>, LedgerError> {
    if !has_facts(db)? {
        return list_older_runs(db, filter);
    }
    if filter.grep.is_none() {
        return query_runs(db, filter);
    }
    // The two engines compare letters differently, so the text is searched here.
    let mut found = Vec::new();
    let mut page = RunFilter { grep: None, limit: GREP_PAGE, ..filter.clone() };
    while found.len() < filter.limit {
        let rows = query_runs(db, &page)?;
        let Some(last) = rows.last() else { break };
        page.before = Some(last.seq);
        found.extend(rows.into_iter().filter(|row| filter.is_match(row)).take(filter.limit - found.len()));
    }
    Ok(found)
}

fn query_runs(db: &mut DatabaseConnection, filter: &RunFilter) -> Result<Vec<RunRow>, LedgerError> {
    let until = filter.until.as_ref().map(|until| format!("{until}~"));
    let mut query = QueryBuilder::new(RUNS);
    query
        .push(" WHERE r.seq > 0")
        .and_text(" AND r.agent = ", filter.agent.as_deref())
        .and_text(" AND r.phase = ", filter.phase.as_deref())
        .and_text(" AND r.role = ", filter.role.as_deref())
        .and_text(" AND r.task = ", filter.task.as_deref())
        .and_text(" AND r.verdict = ", filter.verdict.as_deref())
        .and_text(" AND f.task_key = ", filter.task_key.as_deref())
        .and_text(" AND f.flow = ", filter.flow.as_ref().map(Id::as_str))
        .and_text(" AND f.host = ", filter.machine.as_deref())
        .and_text(" AND f.outcome = ", filter.outcome.map(RunOutcome::name));
    if let Some(since) = &filter.since {
        // The first such run ends the way back through the list.
        query.push(" AND r.started >= ").bind(SqlParam::Text(since));
        query.push(" AND r.seq >= (SELECT MIN(seq) FROM runs WHERE started >= ").bind(SqlParam::Text(since));
        query.push(")");
    }
    query.and_text(" AND r.started <= ", until.as_deref());
    if filter.own {
        query.push(" AND r.imported IS NULL");
    }
    if filter.failed || filter.outcome.is_some_and(RunOutcome::is_failure) {
        query.push(" AND f.failed = 1");
    }
    if let Some(number) = filter.number {
        query.push(" AND f.number = ").bind(SqlParam::Int(i64::try_from(number).unwrap_or(i64::MAX)));
    }
    let is_one = add_project(db, &mut query, filter.project.as_ref())?;
    if let Some(before) = filter.before {
        query.push(" AND r.seq < ").bind(SqlParam::Int(before as i64));
    }
    // The column of the index that leads keeps its order.
    query.push(match (is_one, filter.needs_facts()) {
        (true, false) => " ORDER BY f.number DESC LIMIT ",
        (_, true) => " ORDER BY f.seq DESC LIMIT ",
        (false, false) => " ORDER BY r.seq DESC LIMIT ",
    });
    query.bind(limit_param(filter.limit));
    db.query_built(&query)?.into_iter().map(parse_run_row).collect()
}

/// Parses the columns of a run, and those of its facts if there are more columns.
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
    let facts = if row.is_at_end() { None } else { parse_facts(&mut row, seq)? };
    Ok(RunRow { seq, run, ended, verdict, imported, facts })
}
