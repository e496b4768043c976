//! Facts of a run that lists show, derived from the records of the run.
//!
//! They have a table of their own, which is no part of the chain and is not exported. `facts_table` writes it.

use callsheet_core::record::{ChecksOutcome, Composed, Event, Id, Run, RunOutcome, RunStatus, RunSummary};
use callsheet_core::request::fact::CheckResult;

use crate::db::DatabaseConnection;
use crate::error::LedgerError;
use crate::ledger::read_blob;
use crate::read::{StoredRecord, parse_record};
use crate::row::{SqlParam, SqlRow};

/// Version of the rules by which facts follow from records. It goes up when the same records lead to other facts:
/// then the rows of older versions are derived again when a ledger is opened for writing.
pub(crate) const FACT_RULES: i64 = 1;

/// Facts of a run that lists show. All but the number are derived from its records, and `verify` derives them again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredFacts {
    /// Number of the run in its project, by which a person names it: `r42`. It is given once and never reused.
    pub number: u64,
    /// The task that the run belongs to: its id, else the id of the first run from which it was made. `None` for a run of a
    /// flow, and for an imported one.
    pub task_key: Option<String>,
    /// 1 for a first run, 2 for its retry or continuation, and so on.
    pub attempt: u64,
    /// Flow that started it.
    pub flow: Option<Id>,
    /// Beginning of the task's text, with the title first; see [`callsheet_core::record::MOST_TASK_TEXT`].
    pub task_text: String,
    /// First template or profile of the prompt.
    pub template: Option<String>,
    /// Beginning of the SHA-256 of this template.
    pub template_version: Option<String>,
    /// Profile that it was composed for.
    pub profile: Option<String>,
    /// Model that the agent named, else the one that was asked for.
    pub model: Option<String>,
    /// File name of the program that was started in place of the agent's own.
    pub program: Option<String>,
    /// Machine that started it, else the one that composed it.
    pub host: Option<String>,
    /// Status of the process.
    pub status: RunStatus,
    /// Outcome.
    pub outcome: RunOutcome,
    /// Whether a person closed the task after this run.
    pub closed: bool,
    /// Result of all checks together.
    pub checks: ChecksOutcome,
    /// Number of checks that passed.
    pub checks_passed: u64,
    /// Number of checks that were planned or run.
    pub checks_total: u64,
    /// Number of changed files; `None` if it is not known.
    pub changed_files: Option<u64>,
    /// Time at which the end was recorded.
    pub ended_at: Option<String>,
    /// Duration in milliseconds.
    pub duration_ms: Option<u64>,
    /// Input tokens that the agent reported.
    pub input_tokens: Option<u64>,
    /// Output tokens that the agent reported.
    pub output_tokens: Option<u64>,
    /// Input tokens that were read from a cache, by the agent's report.
    pub cached_tokens: Option<u64>,
    /// Cost in millionths of a dollar: as the agent reported it, else as it was estimated.
    pub cost_microusd: Option<u64>,
    /// All input tokens, cached ones included.
    pub all_input_tokens: Option<u64>,
    /// Whether the cost was estimated.
    pub cost_estimated: bool,
}

impl StoredFacts {
    /// Returns the first line of the task's text.
    pub fn title(&self) -> &str {
        self.task_text.lines().next().unwrap_or_default()
    }

    /// Facts of a run whose records cannot be read: `verify` reports the damage, and the run stays in the lists.
    fn unreadable() -> Self {
        Self {
            number: 0,
            task_key: None,
            attempt: 1,
            flow: None,
            task_text: String::new(),
            template: None,
            template_version: None,
            profile: None,
            model: None,
            program: None,
            host: None,
            status: RunStatus::Failed,
            outcome: RunOutcome::Lost,
            closed: false,
            checks: ChecksOutcome::None,
            checks_passed: 0,
            checks_total: 0,
            changed_files: None,
            ended_at: None,
            duration_ms: None,
            input_tokens: None,
            output_tokens: None,
            cached_tokens: None,
            cost_microusd: None,
            all_input_tokens: None,
            cost_estimated: false,
        }
    }

    /// Sets the facts that come from the prompt alone.
    fn set_prompt(&mut self, composed: &Composed, db: &mut DatabaseConnection) {
        let is_template = |path: &str| path.split('/').any(|part| part == "templates" || part == "profiles");
        let template = composed
            .output
            .origins
            .iter()
            .find(|origin| origin.source.as_ref().is_some_and(|source| is_template(source.path())));
        self.template = template.map(|origin| origin.label());
        self.template_version = template.map(|origin| origin.version.clone());
        self.profile = composed.profile.as_ref().map(|profile| profile.name.clone());
        self.host = composed.made_by.as_ref().map(|made_by| made_by.host.clone());
        self.task_text = composed.task_text(&mut |digest| read_blob(db, digest).ok().flatten());
        if let Some(launch) = &composed.launch {
            self.model = launch.options.model.clone();
            let program = launch.options.program.first();
            self.program = program.map(|path| path.rsplit('/').next().unwrap_or(path).to_owned());
            self.host = Some(launch.host.clone()).filter(|host| !host.is_empty()).or(self.host.take());
            self.flow = launch.flow.get("flow").and_then(|flow| Id::parse(flow));
        }
        for text in
            [&mut self.profile, &mut self.model, &mut self.program, &mut self.host].into_iter().flatten()
        {
            // PostgreSQL keeps no NUL.
            *text = text.replace('\0', "\u{fffd}");
        }
    }

    /// Sets the facts that come from all records.
    fn set_summary(&mut self, summary: &RunSummary) {
        let checks = summary.observed.as_ref().map_or(&[][..], |observed| &observed.checks);
        let planned = summary.launch.as_ref().map_or(0, |launch| launch.options.checks.len());
        let passed = checks.iter().filter(|check| check.result == CheckResult::Passed).count();
        let seen = summary.observed.as_ref().and_then(|observed| observed.worktree.as_ref());
        self.status = summary.status();
        self.outcome = summary.outcome();
        self.closed = summary.is_task_closed();
        self.checks = summary.checks_outcome();
        self.checks_passed = passed as u64;
        self.checks_total = checks.len().max(planned) as u64;
        self.changed_files = seen.map(|seen| seen.changed.len() as u64);
        if let Some(exit) = &summary.exit {
            let report = &exit.report;
            self.duration_ms = exit.duration_ms.map(fit);
            self.input_tokens = report.input_tokens.map(fit);
            self.output_tokens = report.output_tokens.map(fit);
            self.cached_tokens = report.cached_tokens.map(fit);
            self.all_input_tokens = report.token_counts().map(|tokens| fit(tokens.input));
            let cost = exit.cost();
            self.cost_microusd = cost.map(|cost| fit(cost.microusd));
            self.cost_estimated = cost.is_some_and(|cost| cost.is_estimate);
            // The model that the agent names is the one that it used.
            let named = report.model.as_ref().map(|model| model.replace('\0', "\u{fffd}"));
            self.model = named.or(self.model.take());
        }
    }
}

/// Limits a number to what a column takes.
fn fit(number: u64) -> u64 {
    number.min(i64::MAX as u64)
}

/// Place of a run among the runs from which it was made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RunLineage {
    pub(crate) task_key: Option<String>,
    pub(crate) attempt: u64,
}

impl RunLineage {
    /// Returns the place of a run, by the place of the run that it retries or continues.
    pub(crate) fn new(run: &Run, parent: Option<(Self, bool)>, is_listed: bool) -> Self {
        let attempt = parent.as_ref().map_or(1, |(parent, _)| parent.attempt.saturating_add(1));
        let inherited = parent.filter(|(_, has_task)| !has_task).and_then(|(parent, _)| parent.task_key);
        let own = || inherited.unwrap_or_else(|| run.id.to_string());
        Self { task_key: is_listed.then(|| run.task.clone().unwrap_or_else(own)), attempt }
    }
}

/// Kinds of records that facts depend on, besides `imported`.
pub(crate) const fn has_facts_of(event: &Event) -> bool {
    matches!(
        event,
        Event::Composed(_)
            | Event::Exit(_)
            | Event::Observed(_)
            | Event::Replied(_)
            | Event::Decided(_)
            | Event::Imported(_)
    )
}

/// Derives the facts of a run from its records, without its number and its lineage.
pub(crate) fn derive_facts(db: &mut DatabaseConnection, run: &Id) -> Result<StoredFacts, LedgerError> {
    let rows = db.query(
        "SELECT seq, run, flow, kind, at, payload, packed, payload_sha256, chain FROM records
         WHERE run = $1 AND kind IN ('composed', 'exit', 'observed', 'replied', 'decided') ORDER BY seq",
        &[SqlParam::Text(run.as_str())],
    )?;
    let records: Vec<StoredRecord> = rows.into_iter().map(parse_record).collect::<Result<_, _>>()?;
    derive_from_records(db, &records)?
        .ok_or_else(|| LedgerError::damaged(format!("run {run} has no record of its prompt")))
}

/// The same, or the facts of an unreadable run.
pub(crate) fn derive_or_unreadable(
    db: &mut DatabaseConnection,
    run: &Id,
) -> Result<StoredFacts, LedgerError> {
    match derive_facts(db, run) {
        Err(LedgerError::Damaged(_)) => Ok(StoredFacts::unreadable()),
        derived => derived,
    }
}

fn derive_from_records(
    db: &mut DatabaseConnection,
    records: &[StoredRecord],
) -> Result<Option<StoredFacts>, LedgerError> {
    let mut facts = StoredFacts::unreadable();
    let mut events = Vec::new();
    for record in records {
        let Some(event) = record.event()? else { continue };
        match &event {
            Event::Composed(composed) => facts.set_prompt(composed, db),
            Event::Exit(_) if facts.ended_at.is_none() => facts.ended_at = Some(record.at.clone()),
            _ => {}
        }
        events.push(event);
    }
    Ok(RunSummary::from_events(events).map(|summary| {
        facts.set_summary(&summary);
        facts
    }))
}

/// Derives the facts of a run of which only its prompt is recorded.
pub(crate) fn derive_from_prompt(db: &mut DatabaseConnection, composed: &Composed) -> StoredFacts {
    let mut facts = StoredFacts::unreadable();
    facts.set_prompt(composed, db);
    if let Some(summary) = RunSummary::from_events([Event::Composed(composed.clone())]) {
        facts.set_summary(&summary);
    }
    facts
}

/// Parses the columns from `number` on; `None` if there is no row.
pub(crate) fn parse_facts(row: &mut SqlRow, seq: u64) -> Result<Option<StoredFacts>, LedgerError> {
    let place = |column: &str| format!("run_facts.{column} of {seq}");
    let Some(number) = row.maybe_int(&place("number"))? else { return Ok(None) };
    let count = |number: i64| number.unsigned_abs();
    let mut text = |column: &str| row.maybe_text(&place(column));
    let task_key = text("task_key")?;
    let attempt = count(row.int(&place("attempt"))?);
    let flow = match row.maybe_text(&place("flow"))?.as_deref().map(Id::parse) {
        Some(None) => return Err(LedgerError::damaged(format!("{} is not an id", place("flow")))),
        flow => flow.flatten(),
    };
    let task_text = row.text(&place("task_text"))?;
    let [template, template_version, profile, model, program, host] =
        ["template", "template_version", "profile", "model", "program", "host"]
            .map(|name| row.maybe_text(&place(name)));
    let status = word(RunStatus::ALL, |word| word.name(), &place("status"), &row.text(&place("status"))?)?;
    let outcome =
        word(RunOutcome::ALL, |word| word.name(), &place("outcome"), &row.text(&place("outcome"))?)?;
    let closed = match row.int(&place("closed"))? {
        0 => false,
        1 => true,
        _ => return Err(LedgerError::damaged(format!("{} is not 0 or 1", place("closed")))),
    };
    let checks =
        word(ChecksOutcome::ALL, |word| word.name(), &place("checks"), &row.text(&place("checks"))?)?;
    let (checks_passed, checks_total) =
        (count(row.int(&place("checks_passed"))?), count(row.int(&place("checks_total"))?));
    let changed_files = row.maybe_int(&place("changed_files"))?.map(count);
    let ended_at = row.maybe_text(&place("ended_at"))?;
    let [duration_ms, input_tokens, output_tokens, cached_tokens, cost_microusd, all_input_tokens] = [
        "duration_ms",
        "input_tokens",
        "output_tokens",
        "cached_tokens",
        "cost_microusd",
        "all_input_tokens",
    ]
    .map(|name| row.maybe_int(&place(name)).map(|number| number.map(count)));
    Ok(Some(StoredFacts {
        number: count(number),
        task_key,
        attempt,
        flow,
        task_text,
        template: template?,
        template_version: template_version?,
        profile: profile?,
        model: model?,
        program: program?,
        host: host?,
        status,
        outcome,
        closed,
        checks,
        checks_passed,
        checks_total,
        changed_files,
        ended_at,
        duration_ms: duration_ms?,
        input_tokens: input_tokens?,
        output_tokens: output_tokens?,
        cached_tokens: cached_tokens?,
        cost_microusd: cost_microusd?,
        all_input_tokens: all_input_tokens?,
        cost_estimated: match row.int(&place("cost_estimated"))? {
            0 => false,
            1 => true,
            _ => return Err(LedgerError::damaged(format!("{} is not 0 or 1", place("cost_estimated")))),
        },
    }))
}

fn word<T: Copy>(
    all: &[T],
    name: impl Fn(T) -> &'static str,
    place: &str,
    found: &str,
) -> Result<T, LedgerError> {
    let known = all.iter().copied().find(|word| name(*word) == found);
    known.ok_or_else(|| LedgerError::damaged(format!("{place} is not a known word")))
}
