//! Verifies the facts of runs: derives them again from the records, and compares them with the table.

use std::collections::BTreeMap;

use callsheet_core::record::{Id, RunOutcome};

use crate::error::LedgerError;
use crate::facts::{FACT_RULES, RunLineage, StoredFacts, derive_facts};
use crate::ledger::Ledger;
use crate::list::{RunFilter, list_runs};
use crate::migrate::has_facts;
use crate::row::SqlParam;
use crate::verify::{LedgerProblemKind, VerifyReport};

/// Number of runs that are read at once.
const PAGE: usize = 500;

impl Ledger {
    /// Compares the facts of all runs with those derived from the records. A number is in no record: it must be one that was given.
    pub(crate) fn verify_facts(&mut self, checked: &mut VerifyReport) -> Result<(), LedgerError> {
        if !has_facts(&mut self.db)? {
            return Ok(());
        }
        let rules = self.read_rules(checked)?;
        let given = self.read_numbers()?;
        let mut rows = Vec::new();
        let mut page = RunFilter { limit: PAGE, ..RunFilter::default() };
        loop {
            let listed = list_runs(&mut self.db, &page);
            let Some(listed) = checked.record_damage("run_facts", listed)? else { return Ok(()) };
            let Some(last) = listed.last() else { break };
            page.before = Some(last.seq);
            rows.extend(listed);
        }
        let mut lines: BTreeMap<Id, (RunLineage, bool)> = BTreeMap::new();
        for row in rows.into_iter().rev() {
            let place = format!("run {}", row.run.id);
            // The damage of its records is reported where they are read.
            let Ok(mut wanted) = derive_facts(&mut self.db, &row.run.id) else { continue };
            let parent = row.run.parent.as_ref().and_then(|parent| lines.get(parent)).cloned();
            let line = RunLineage::new(&row.run, parent, wanted.flow.is_none() && !row.imported);
            (wanted.task_key, wanted.attempt) = (line.task_key.clone(), line.attempt);
            lines.insert(row.run.id.clone(), (line, row.run.task.is_some()));
            let project = row.run.project.clone().unwrap_or_default();
            let Some(found) = row.facts else {
                checked.add_damage(place, "it has no facts in the list of runs");
                continue;
            };
            let number = found.number;
            wanted.number = number;
            let newer = rules.get(&row.seq).is_some_and(|(rules, _)| *rules > FACT_RULES);
            if newer {
                let what = "a newer version derived its facts: they were not compared with its records";
                checked.add(LedgerProblemKind::OtherEngine, place.as_str(), what);
            }
            let is_current = rules.get(&row.seq).is_some_and(|(rules, _)| *rules == FACT_RULES);
            if is_current && wanted != found {
                let mut both = columns(&wanted).into_iter().zip(columns(&found));
                let name = both.find(|(a, b)| a != b).map_or("number", |((name, _), _)| name);
                checked.add_damage(place.as_str(), format!("its facts differ from its records: {name}"));
            }
            let known = rules.get(&row.seq).is_some_and(|(_, of)| *of == project);
            if !known || number == 0 || number > given.get(&project).copied().unwrap_or(0) {
                checked.add_damage(place, format!("its name r{number} was not given to it"));
            }
        }
        Ok(())
    }

    /// Returns the version of the rules and the project of each row, and reports rows without a run.
    fn read_rules(
        &mut self,
        checked: &mut VerifyReport,
    ) -> Result<BTreeMap<u64, (i64, String)>, LedgerError> {
        let mut rules = BTreeMap::new();
        let sql = "SELECT f.seq, f.rules, f.project, f.failed, f.outcome, r.id
             FROM run_facts f LEFT JOIN runs r ON r.seq = f.seq";
        for mut row in self.db.query(sql, &[])? {
            let seq = row.int("run_facts.seq")?.unsigned_abs();
            let version = row.int("run_facts.rules")?;
            let project = row.text("run_facts.project")?;
            let failed = row.int("run_facts.failed")?;
            let outcome = row.text("run_facts.outcome")?;
            if row.maybe_text("runs.id")?.is_none() {
                checked.add_damage(format!("run_facts of {seq}"), "there is no such run");
            }
            let known = RunOutcome::ALL.iter().find(|word| word.name() == outcome);
            if version == FACT_RULES && known.is_some_and(|known| i64::from(known.is_failure()) != failed) {
                checked
                    .add_damage(format!("run_facts of {seq}"), "its facts differ from its records: failed");
            }
            rules.insert(seq, (version, project));
        }
        Ok(rules)
    }

    fn read_numbers(&mut self) -> Result<BTreeMap<String, u64>, LedgerError> {
        let rows =
            self.db.query("SELECT project, last FROM run_numbers WHERE last > $1", &[SqlParam::Int(0)])?;
        rows.into_iter()
            .map(|mut row| {
                Ok((row.text("run_numbers.project")?, row.int("run_numbers.last")?.unsigned_abs()))
            })
            .collect()
    }
}

/// Returns the columns that are derived, as texts.
fn columns(facts: &StoredFacts) -> Vec<(&'static str, String)> {
    let StoredFacts {
        number: _,
        task_key,
        attempt,
        flow,
        task_text,
        template,
        template_version,
        profile,
        model,
        program,
        host,
        status,
        outcome,
        closed,
        checks,
        checks_passed,
        checks_total,
        changed_files,
        ended_at,
        duration_ms,
        input_tokens,
        output_tokens,
        cached_tokens,
        cost_microusd,
        all_input_tokens,
        cost_estimated,
    } = facts;
    vec![
        ("task_key", format!("{task_key:?}")),
        ("attempt", format!("{attempt:?}")),
        ("flow", format!("{flow:?}")),
        ("task_text", task_text.clone()),
        ("template", format!("{template:?}")),
        ("template_version", format!("{template_version:?}")),
        ("profile", format!("{profile:?}")),
        ("model", format!("{model:?}")),
        ("program", format!("{program:?}")),
        ("host", format!("{host:?}")),
        ("status", format!("{status:?}")),
        ("outcome", format!("{outcome:?}")),
        ("closed", format!("{closed:?}")),
        ("checks", format!("{checks:?}")),
        ("checks_passed", format!("{checks_passed:?}")),
        ("checks_total", format!("{checks_total:?}")),
        ("changed_files", format!("{changed_files:?}")),
        ("ended_at", format!("{ended_at:?}")),
        ("duration_ms", format!("{duration_ms:?}")),
        ("input_tokens", format!("{input_tokens:?}")),
        ("output_tokens", format!("{output_tokens:?}")),
        ("cached_tokens", format!("{cached_tokens:?}")),
        ("cost_microusd", format!("{cost_microusd:?}")),
        ("all_input_tokens", format!("{all_input_tokens:?}")),
        ("cost_estimated", format!("{cost_estimated:?}")),
    ]
}
