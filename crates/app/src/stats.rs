//! Statistics of runs, grouped as a person asks.

use callsheet_store::{StatsKey, StatsRow};

use crate::error::Result;
use crate::project::Project;
use crate::run_list::RunQuery;

/// Statistics of runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatsReport {
    /// The properties by which the runs are grouped.
    pub by: Vec<StatsKey>,
    /// First time of the start, as records hold it.
    pub since: Option<String>,
    /// Last time of the start.
    pub until: Option<String>,
    /// The groups.
    pub rows: Vec<StatsRow>,
    /// Number of groups that are left out.
    pub left_out: usize,
    /// All runs together.
    pub total: StatsRow,
}

impl Project {
    /// Sums over the runs that a person asks for, in at most `limit` groups.
    pub fn stats(&self, query: &RunQuery, by: &[StatsKey], limit: Option<usize>) -> Result<StatsReport> {
        let mut ledger = self.read_ledger()?;
        let filter = self.run_filter(&mut ledger, query)?;
        let total = ledger.stats(&filter, &[])?.into_iter().next().unwrap_or_default();
        let mut rows = if by.is_empty() { Vec::new() } else { ledger.stats(&filter, by)? };
        let left_out = rows.len().saturating_sub(limit.unwrap_or(usize::MAX));
        rows.truncate(rows.len() - left_out);
        Ok(StatsReport { by: by.to_vec(), since: filter.since, until: filter.until, rows, left_out, total })
    }
}
