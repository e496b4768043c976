//! Statistics of runs.

use std::collections::BTreeMap;

use callsheet_store::{StatsKey, StatsRow};
use schemars::JsonSchema;
use serde::Serialize;

use crate::stats::StatsReport;

/// Statistics of runs.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct StatsOutput {
    /// The properties by which the runs are grouped: `agent`, `phase`, `role`, `task`, `day`, `template`.
    pub by: Vec<String>,
    /// The first time of a run's start.
    pub since_at: Option<String>,
    /// The last time of a run's start.
    pub until_at: Option<String>,
    /// The groups: sorted by their properties, the newest day first.
    pub items: Vec<StatsGroupOutput>,
    /// The number of groups that are left out.
    pub left_out_count: usize,
    /// All runs together.
    pub total: StatsGroupOutput,
}

/// A group of runs. Prompts that were only composed are not runs.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct StatsGroupOutput {
    /// The properties of the group; `null` for runs without one.
    pub key: BTreeMap<String, Option<String>>,
    /// The first line of the task, if the runs are grouped by task.
    pub title: Option<String>,
    /// The number of runs.
    pub run_count: u64,
    /// The number of runs by outcome; outcomes that no run has are left out.
    pub outcomes: BTreeMap<String, u64>,
    /// The number of tasks of which a run of the group succeeded.
    pub succeeded_task_count: u64,
    /// The average number of runs of these tasks up to the first that succeeded.
    pub runs_until_success: Option<f64>,
    /// The time of all runs.
    pub duration_ms: Option<u64>,
    /// The tokens of the input, cached ones included.
    pub input_tokens: Option<u64>,
    /// The tokens of the input that were read from a cache.
    pub cached_tokens: Option<u64>,
    /// The cached part of the input, from 0 to 1.
    pub cached_share: Option<f64>,
    /// The tokens of the output.
    pub output_tokens: Option<u64>,
    /// The cost in millionths of a dollar, of the runs whose cost is known.
    pub cost_microusd: Option<u64>,
    /// Whether the cost of a run is an estimate.
    pub cost_estimated: bool,
    /// The number of runs whose cost is an estimate.
    pub estimated_run_count: u64,
    /// The number of ended runs whose cost is not known.
    pub unpriced_run_count: u64,
}

/// Returns the average number of runs until a task succeeded.
pub fn runs_until_success(row: &StatsRow) -> Option<f64> {
    (row.succeeded_tasks > 0).then(|| row.runs_until_success as f64 / row.succeeded_tasks as f64)
}

/// Returns the cached part of the input.
pub fn cached_share(row: &StatsRow) -> Option<f64> {
    let input = row.input_tokens.filter(|input| *input > 0)?;
    Some((row.cached_tokens.unwrap_or(0) as f64 / input as f64).min(1.0))
}

impl StatsGroupOutput {
    fn new(by: &[StatsKey], row: &StatsRow) -> Self {
        let key = by.iter().zip(&row.keys).map(|(key, value)| (key.name().to_owned(), value.clone()));
        Self {
            key: key.collect(),
            title: row.title.clone(),
            run_count: row.runs,
            outcomes: row.outcomes.iter().map(|(outcome, runs)| (outcome.name().to_owned(), *runs)).collect(),
            succeeded_task_count: row.succeeded_tasks,
            runs_until_success: runs_until_success(row),
            duration_ms: row.duration_ms,
            input_tokens: row.input_tokens,
            cached_tokens: row.cached_tokens,
            cached_share: cached_share(row),
            output_tokens: row.output_tokens,
            cost_microusd: row.cost_microusd,
            cost_estimated: row.estimated_runs > 0,
            estimated_run_count: row.estimated_runs,
            unpriced_run_count: row.unpriced_runs,
        }
    }
}

impl From<&StatsReport> for StatsOutput {
    fn from(report: &StatsReport) -> Self {
        let group = |row: &StatsRow| StatsGroupOutput::new(&report.by, row);
        Self {
            by: report.by.iter().map(|key| key.name().to_owned()).collect(),
            since_at: report.since.clone(),
            until_at: report.until.clone(),
            items: report.rows.iter().map(group).collect(),
            left_out_count: report.left_out,
            total: StatsGroupOutput::new(&[], &report.total),
        }
    }
}
