//! The cost limit of a day: the runs of the project since local midnight, those that run now included.

use std::time::{Duration, Instant};

use callsheet_core::diag::{Code, Diagnostic};
use callsheet_core::record::RunCost;
use callsheet_store::{LedgerError, day_start};

use super::cost::{cost_words, dollars};
use super::result::micro_dollars;
use crate::error::Result;
use crate::project::Project;

/// Shortest interval between two looks at the costs of other runs.
const LOOK: Duration = Duration::from_secs(5);

/// Configured limit, and the cost of the runs of this day that have ended.
#[derive(Debug)]
pub(crate) struct DayLimit {
    limit: u64,
    spent: RunCost,
    looked: Instant,
}

impl DayLimit {
    /// Reads the limit and the costs; `None` if no limit is configured.
    pub(crate) fn read(project: &Project) -> Result<Option<Self>> {
        let Some(limit) = project.config.max_cost_per_day.value.map(micro_dollars) else { return Ok(None) };
        Ok(Some(Self { limit, spent: spent_today(project)?, looked: Instant::now() }))
    }

    /// Refuses a run if the limit is reached.
    pub(crate) fn check(&self) -> Result<()> {
        if self.spent.microusd < self.limit {
            return Ok(());
        }
        let (spent, limit) = (cost_words(self.spent), dollars(self.limit));
        let message = format!("the cost limit was reached: the runs of today cost {spent} of {limit}");
        let hint = "wait for tomorrow, or raise `max_cost_per_day`; `callsheet stats --by day,agent` shows the costs";
        Err(Diagnostic::error(Code::CostLimit, message).hint(hint).into())
    }

    /// Returns why a run with this cost must end, if it must. Runs that ended meanwhile count.
    pub(crate) fn exceeded_reason(&mut self, project: &Project, cost: RunCost) -> Option<String> {
        if self.looked.elapsed() >= LOOK {
            self.looked = Instant::now();
            // A ledger that is locked now can be read at the next look.
            self.spent = spent_today(project).unwrap_or(self.spent);
        }
        let total = self.spent + cost;
        let (limit, words) = (dollars(self.limit), cost_words(total));
        (total.microusd > self.limit)
            .then(|| format!("over the cost limit of the day, {limit} (spent {words} today)"))
    }
}

fn spent_today(project: &Project) -> Result<RunCost> {
    let mut ledger = match project.read_ledger() {
        Err(error) if error.is_only(Code::LedgerNotThere) => return Ok(RunCost::default()),
        ledger => ledger?,
    };
    let filter = project.project_filter(&ledger)?;
    let spent: Result<_, LedgerError> = ledger.spent_since(filter.as_ref(), &day_start());
    let spent = spent?;
    Ok(RunCost { microusd: spent.microusd, is_estimate: spent.estimated_runs > 0 })
}
