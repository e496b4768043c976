//! A run as a row of a list.

use callsheet::local_time::LocalClock;
use callsheet::project::duration::duration_words;
use callsheet_core::record::{ChecksOutcome, RunOutcome};
use callsheet_store::{RunRow, StoredFacts};

use super::words::{OutcomeMark, cost_words};
use crate::shown_text::ShownText;

/// A run in a list.
#[derive(Debug)]
pub(crate) struct RunItem {
    /// The name by which a person calls it.
    pub(crate) name: ShownText,
    /// The address of its page.
    pub(crate) address: String,
    /// Its outcome.
    pub(crate) mark: OutcomeMark,
    /// The verdict of its reply.
    pub(crate) verdict: ShownText,
    /// The id of the task.
    pub(crate) task: ShownText,
    /// The title, by which a person recognizes it.
    pub(crate) title: ShownText,
    /// The agent, and the program in its place.
    pub(crate) agent: ShownText,
    /// The phase.
    pub(crate) phase: ShownText,
    /// The passed checks of all.
    pub(crate) checks: String,
    /// The class of the checks.
    pub(crate) checks_class: &'static str,
    /// The number of changed files.
    pub(crate) files: String,
    /// How long it took; empty while it runs.
    pub(crate) time: String,
    /// The cost.
    pub(crate) cost: String,
    /// How long ago it started.
    pub(crate) age: String,
    /// How long ago it started, in a sentence.
    pub(crate) ago: String,
    /// When it started.
    pub(crate) started: ShownText,
    /// The project.
    pub(crate) project: ShownText,
}

impl RunItem {
    /// Describes a run of a list.
    pub(crate) fn new(row: &RunRow, title: &str, clock: &LocalClock) -> Self {
        let facts = row.facts.as_ref();
        let text = |text: Option<&str>| text.map(ShownText::new).unwrap_or_default();
        let number = |number: Option<u64>| number.map(|number| number.to_string()).unwrap_or_default();
        let (checks, checks_class) = facts.map(describe_checks).unwrap_or_default();
        Self {
            name: row.name().into(),
            address: format!("/runs/{}", row.name()),
            mark: OutcomeMark::new(facts.map_or(RunOutcome::Lost, |facts| facts.outcome)),
            verdict: text(row.verdict.as_deref()),
            task: text(row.run.task.as_deref()),
            title: ShownText::new(title),
            agent: agent_words(row).into(),
            phase: text(row.run.phase.as_deref()),
            checks,
            checks_class,
            files: number(facts.and_then(|facts| facts.changed_files)),
            time: facts.and_then(|facts| facts.duration_ms).map(duration_words).unwrap_or_default(),
            cost: facts
                .and_then(|facts| Some(cost_words(facts.cost_microusd?, facts.cost_estimated)))
                .unwrap_or_default(),
            age: clock.age(&row.run.started),
            ago: clock.ago(&row.run.started),
            started: ShownText::new(&row.run.started),
            project: text(row.run.project.as_deref()),
        }
    }
}

fn describe_checks(facts: &StoredFacts) -> (String, &'static str) {
    let count = format!("{}/{}", facts.checks_passed, facts.checks_total);
    match facts.checks {
        ChecksOutcome::None => (String::new(), ""),
        ChecksOutcome::Passed => (format!("✓ {count}"), "good"),
        ChecksOutcome::Pending => (format!("… {count}"), "warn"),
        ChecksOutcome::Failed => (format!("✕ {count}"), "bad"),
    }
}

/// Returns the agent, and the program that was started in its place.
pub(crate) fn agent_words(row: &RunRow) -> String {
    let agent = row.run.agent.as_deref().filter(|agent| !matches!(*agent, "base" | "command"));
    let program = row.facts.as_ref().and_then(|facts| facts.program.as_deref());
    match (agent, program) {
        (Some(agent), Some(program)) => format!("{agent} ({program})"),
        (agent, program) => agent.or(program).unwrap_or_default().to_owned(),
    }
}
