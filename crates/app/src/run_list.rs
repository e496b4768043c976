//! Lists of runs: what a person asks for, checked against the values that there are.

use std::collections::BTreeSet;

use callsheet_core::diag::{Diagnostic, Diagnostics};
use callsheet_core::list_names;
use callsheet_core::record::RunOutcome;
use callsheet_store::{Ledger, ProjectFilter, RunColumn, RunFilter, RunRow};

use crate::error::{Result, usage_error};
use crate::flow::find::{find_recorded, is_in_project, read_all};
use crate::local_time::LocalClock;
use crate::project::Project;

/// The runs that a person asks for, in the person's words.
#[derive(Clone, Debug, Default)]
pub struct RunQuery {
    /// Name of the agent.
    pub agent: Option<String>,
    /// Name of the phase.
    pub phase: Option<String>,
    /// Name of the role.
    pub role: Option<String>,
    /// Id of the task.
    pub task: Option<String>,
    /// Name or id of the flow.
    pub flow: Option<String>,
    /// Name of the project, where the runs of every project count.
    pub project: Option<String>,
    /// Machine that composed the prompt.
    pub machine: Option<String>,
    /// Verdict of the reply.
    pub verdict: Option<String>,
    /// Word of the outcome.
    pub outcome: Option<String>,
    /// Only runs whose command ended with another exit code than 0.
    pub failed: bool,
    /// First time of the start: `2h`, `yesterday`, `2026-01-31`.
    pub since: Option<String>,
    /// Last time of the start.
    pub until: Option<String>,
    /// Text of the task.
    pub grep: Option<String>,
    /// Most runs; `None` for all.
    pub limit: Option<usize>,
}

/// Runs, the newest first.
#[derive(Clone, Debug)]
pub struct RunList {
    /// The runs.
    pub rows: Vec<RunRow>,
    /// Whether there are more than the limit.
    pub has_more: bool,
}

impl Project {
    /// Lists the runs that a person asks for. Refuses values that no run has and that nothing in the library is called, all of them at once.
    pub fn list_runs(&self, ledger: &mut Ledger, query: &RunQuery) -> Result<RunList> {
        let mut filter = self.run_filter(ledger, query)?;
        let limit = query.limit.unwrap_or(usize::MAX);
        filter.limit = limit.saturating_add(1);
        let mut rows = ledger.runs(&filter)?;
        let has_more = rows.len() > limit;
        rows.truncate(limit);
        Ok(RunList { rows, has_more })
    }

    /// Returns the filter for the runs that a person asks for, without a limit.
    pub fn run_filter(&self, ledger: &mut Ledger, query: &RunQuery) -> Result<RunFilter> {
        let project = match self.project_filter(ledger)? {
            None => query.project.clone().map(|name| ProjectFilter { name, unnamed: false }),
            own => own,
        };
        let mut wrong = Vec::new();
        let clock = LocalClock::read();
        let mut time = |text: Option<&String>, parse: &dyn Fn(&str) -> Result<String, Diagnostic>| {
            text.and_then(|text| parse(text).map_err(|error| wrong.push(error)).ok())
        };
        let since = time(query.since.as_ref(), &|text| clock.since(text));
        let until = time(query.until.as_ref(), &|text| clock.until(text));
        let outcome = query.outcome.as_deref().and_then(|word| parse_outcome(word, &mut wrong));
        for (name, column, value) in [
            ("agent", RunColumn::Agent, &query.agent),
            ("phase", RunColumn::Phase, &query.phase),
            ("role", RunColumn::Role, &query.role),
            ("task", RunColumn::Task, &query.task),
            ("verdict", RunColumn::Verdict, &query.verdict),
            ("machine", RunColumn::Machine, &query.machine),
        ] {
            let Some(value) = value else { continue };
            wrong.extend(self.check_value(ledger, (name, column), value, project.as_ref())?);
        }
        let flow = match &query.flow {
            None => None,
            Some(name) => match find_recorded(self, ledger, Some(name)) {
                Ok(known) => Some(known.id),
                Err(error) => {
                    let flows = read_all(self, ledger)?;
                    let flows = flows.iter().filter(|known| is_in_project(known, project.as_ref()));
                    let names: Vec<&str> = flows.map(|known| known.plan.name.as_str()).collect();
                    let suggest = |diag: Diagnostic| diag.suggest(name, names.iter().copied());
                    wrong.extend(error.into_diagnostics().0.into_iter().map(suggest));
                    None
                }
            },
        };
        if !wrong.is_empty() {
            return Err(Diagnostics(wrong).into());
        }
        Ok(RunFilter {
            project,
            agent: query.agent.clone(),
            phase: query.phase.clone(),
            role: query.role.clone(),
            task: query.task.clone(),
            flow,
            verdict: query.verdict.clone(),
            machine: query.machine.clone(),
            outcome,
            failed: query.failed,
            since,
            until,
            grep: query.grep.clone(),
            ..RunFilter::default()
        })
    }

    /// Returns an error if no run has a value and nothing in the library is called like it.
    fn check_value(
        &self,
        ledger: &mut Ledger,
        (name, column): (&str, RunColumn),
        value: &str,
        project: Option<&ProjectFilter>,
    ) -> Result<Option<Diagnostic>> {
        let mut filter = RunFilter { project: project.cloned(), limit: 1, ..RunFilter::default() };
        *column.field(&mut filter) = Some(value.to_owned());
        if !ledger.runs(&filter)?.is_empty() {
            return Ok(None);
        }
        let mut known: BTreeSet<String> = ledger.known_values(column, project)?.into_iter().collect();
        known.extend(self.library_names(column));
        if known.contains(value) {
            return Ok(None);
        }
        let error = usage_error(format!("no run has the {name} `{value}`"));
        let error = error.suggest(value, known.iter().map(String::as_str));
        Ok(Some(match known.len() {
            0 => error,
            1..=20 => error.hint(format!("known: {}", Vec::from_iter(known).join(", "))),
            more => error.hint(format!("there are {more} others")),
        }))
    }

    fn library_names(&self, column: RunColumn) -> Vec<String> {
        let (disk, layout) = (self.disk(None), self.config.layout());
        match column {
            RunColumn::Agent => list_names(&disk, "agents", &layout),
            RunColumn::Phase => {
                let templates = list_names(&disk, "templates/system", &layout);
                templates.iter().filter_map(|name| name.strip_prefix("BASE-")).map(str::to_owned).collect()
            }
            RunColumn::Role => list_names(&disk, "profiles", &layout),
            RunColumn::Task | RunColumn::Verdict | RunColumn::Machine => Vec::new(),
        }
    }
}

/// Parses an outcome, as data spells it or as pages show it.
fn parse_outcome(word: &str, wrong: &mut Vec<Diagnostic>) -> Option<RunOutcome> {
    let plain = word.to_ascii_lowercase().replace([' ', '-'], "_");
    let known = RunOutcome::ALL.iter().find(|known| known.name() == plain || known.words() == word);
    if known.is_none() {
        let names: Vec<&str> = RunOutcome::ALL.iter().map(|known| known.name()).collect();
        let error = usage_error(format!("unknown outcome `{word}`")).suggest(&plain, names.iter().copied());
        wrong.push(error.hint(format!("outcomes: {}", names.join(", "))));
    }
    known.copied()
}
