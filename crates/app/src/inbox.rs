//! The inbox of a person: first what waits, then what runs, then the last results.

use callsheet_core::record::RunOutcome;
use callsheet_core::record::task_status::TaskStatus;
use callsheet_store::{Ledger, RunFilter, RunRow};

use crate::error::Result;
use crate::flow::status::FlowView;
use crate::project::Project;
use crate::run::tasks::TaskStanding;
use crate::run_list::{RunList, RunQuery};

/// What a person looks at first.
#[derive(Debug)]
pub struct Inbox {
    /// Flows that wait for a person, the newest first.
    pub flows: Vec<FlowView>,
    /// Tasks that wait for a person, the newest first.
    pub tasks: Vec<TaskStanding>,
    /// Whether older tasks were not examined.
    pub has_more_tasks: bool,
    /// Runs that are not complete, the newest first.
    pub running: Vec<RunRow>,
    /// The last runs that a person asked for.
    pub recent: RunList,
}

/// Most tasks and running runs.
const MOST: usize = 20;

impl Project {
    /// Reads what waits, what runs, and the last runs that a query selects.
    pub fn read_inbox(&self, ledger: &mut Ledger, query: &RunQuery) -> Result<Inbox> {
        let recent = self.list_runs(ledger, query)?;
        let mut flows = self.open_flows(ledger)?;
        flows.retain(|flow| !flow.driven);
        let listed = self.list_tasks(false, Some(MOST))?;
        let waits = |standing: &TaskStanding| {
            matches!(standing.status, TaskStatus::NeedsReview | TaskStatus::Failed | TaskStatus::Ready)
        };
        let tasks = listed.tasks.into_iter().filter(waits).collect();
        let running = ledger.runs(&RunFilter {
            project: self.project_filter(ledger)?,
            own: true,
            outcome: Some(RunOutcome::Running),
            limit: MOST,
            ..RunFilter::default()
        })?;
        Ok(Inbox { flows, tasks, has_more_tasks: listed.has_more, running, recent })
    }
}
