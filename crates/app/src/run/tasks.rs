//! Tasks in the ledger: groups of runs that belong together.

use std::collections::BTreeSet;

use callsheet_core::diag::{Code, Diagnostic};
use callsheet_core::record::task_status::{TaskCheckout, TaskReason, TaskStatus, derive_task_status};
use callsheet_core::record::{Decided, Id, RunSummary, TaskDecision};
use callsheet_run::{Git, host_name};
use callsheet_store::{Ledger, RunFilter, RunRow};

use super::{is_driven, is_pane_alive};
use crate::error::Result;
use crate::project::Project;
use crate::project::state::RunDir;

/// Runs that belong together, the oldest first.
#[derive(Debug)]
pub struct TaskRuns {
    /// Id of the task, else the name of the first run.
    pub name: String,
    /// Id of the task, else of the first run: it identifies the task in its project.
    pub key: String,
    /// Beginning of the task's text, by the first run.
    pub title: String,
    /// The runs of the task.
    pub runs: Vec<RunSummary>,
}

/// Where a task stands.
#[derive(Debug)]
pub struct TaskStanding {
    /// The task.
    pub task: TaskRuns,
    /// Its status.
    pub status: TaskStatus,
    /// Why it has this status.
    pub reasons: Vec<TaskReason>,
}

/// Tasks, the newest first.
#[derive(Debug)]
pub struct TaskList {
    /// The tasks.
    pub tasks: Vec<TaskStanding>,
    /// Whether older tasks were not examined.
    pub has_more: bool,
}

/// The most tasks that are examined for each one that is listed: most of them are done.
const EXAMINED: usize = 10;

impl TaskRuns {
    /// Returns one of its runs.
    pub fn find_run(&self, id: &Id) -> Result<&RunSummary> {
        let gone = || Diagnostic::error(Code::RunNotFound, format!("run {id} no longer exists")).into();
        self.runs.iter().find(|run| run.run.id == *id).ok_or_else(gone)
    }

    /// Returns the decision by which a person closed the task, if it is closed.
    pub fn closed(&self) -> Option<&Decided> {
        let last = self.runs.last().filter(|run| run.is_task_closed())?;
        last.decisions().iter().rev().find(|it| TaskDecision::from_decided(it) == Some(TaskDecision::Close))
    }

    /// Returns the task's status, with the reasons.
    pub fn status(&self, project: &Project) -> (TaskStatus, Vec<TaskReason>) {
        let git = Git::open(&project.dir).ok().flatten();
        derive_task_status(
            &self.runs,
            &mut TaskCheckout {
                has_commit: &mut |commit| git.as_ref().is_some_and(|git| git.has_commit(commit)),
                has_contents: &mut |worktree, since, contents| match worktree {
                    None => git.as_ref().is_some_and(|git| git.has_contents(since, contents)),
                    Some(worktree) => {
                        let git = Git::open(worktree.as_ref()).ok().flatten();
                        git.is_some_and(|git| git.has_contents(since, contents))
                    }
                },
            },
        )
    }

    fn judge(self, project: &Project) -> TaskStanding {
        let (status, reasons) = self.status(project);
        TaskStanding { task: self, status, reasons }
    }
}

impl TaskStanding {
    /// Checks whether a person still has to do something about the task.
    pub fn is_open(&self) -> bool {
        self.status != TaskStatus::Done && self.task.closed().is_none()
    }
}

impl Project {
    /// Returns a task by its id or by one of its runs.
    pub fn find_task(&self, name: &str) -> Result<TaskRuns> {
        let mut ledger = self.read_ledger()?;
        let row = self.find_task_row(&mut ledger, name)?;
        find_task(self, &mut ledger, &row)
    }

    /// Returns where a task stands, by its id or by one of its runs.
    pub fn task_standing(&self, name: &str) -> Result<TaskStanding> {
        Ok(self.find_task(name)?.judge(self))
    }

    /// Returns the newest run of the task with this id, else the run with this name.
    pub(super) fn find_task_row(&self, ledger: &mut Ledger, name: &str) -> Result<RunRow> {
        let project = self.project_filter(ledger)?;
        let filter =
            RunFilter { project, own: true, task: Some(name.into()), limit: 1, ..RunFilter::default() };
        match ledger.runs(&filter)?.into_iter().next() {
            Some(row) => Ok(row),
            None => Ok(self.find_run(ledger, name).map_err(|_| {
                let message = format!("no task or run named `{name}`");
                Diagnostic::error(Code::TaskNotFound, message)
                    .hint("run `callsheet status` to list tasks, `callsheet log` to list runs")
            })?),
        }
    }

    /// Returns the newest open tasks, at most `limit`, or also those that are done or closed. A list of open tasks examines at most ten
    /// times as many tasks as it may hold.
    pub fn list_tasks(&self, all: bool, limit: Option<usize>) -> Result<TaskList> {
        let mut ledger = self.read_ledger()?;
        let project = self.project_filter(&ledger)?;
        let limit = limit.unwrap_or(usize::MAX);
        let (mut tasks, mut before, mut examined) = (Vec::new(), None, 0_usize);
        let most = if all { limit } else { limit.saturating_mul(EXAMINED) };
        loop {
            let page = limit.saturating_sub(tasks.len()).saturating_add(1).min(100);
            let rows = ledger.newest_of_tasks(project.as_ref(), all, before, page)?;
            if rows.is_empty() {
                return Ok(TaskList { tasks, has_more: false });
            }
            for row in rows {
                if tasks.len() >= limit || examined >= most {
                    return Ok(TaskList { tasks, has_more: true });
                }
                (before, examined) = (Some(row.seq), examined + 1);
                let standing = find_task(self, &mut ledger, &row)?.judge(self);
                if all || standing.is_open() {
                    tasks.push(standing);
                }
            }
        }
    }
}

/// Checks whether an unfinished run of this machine has neither a driving process nor a live terminal.
pub fn is_lost(run: &RunSummary) -> bool {
    let here = run.launch.as_ref().is_some_and(|launch| launch.host == host_name());
    let pane = || RunDir::from_run(&run.run.id).ok().and_then(|run_dir| run_dir.pane());
    !run.is_complete() && here && !is_driven(&run.run.id) && !pane().as_ref().is_some_and(is_pane_alive)
}

/// Returns the task of a run, with all its runs. A run without a task belongs to the runs from which it was
/// made.
pub(super) fn find_task(project: &Project, ledger: &mut Ledger, row: &RunRow) -> Result<TaskRuns> {
    let run = &row.run;
    let facts = row.facts.as_ref();
    // Another project may have a task of the same name.
    let mut filter = RunFilter {
        project: project.sibling_filter(run),
        own: !row.imported,
        limit: usize::MAX,
        ..RunFilter::default()
    };
    let key = facts.and_then(|facts| facts.task_key.clone());
    match (&key, &run.task) {
        (Some(_), Some(task)) | (None, Some(task)) => filter.task = Some(task.clone()),
        (Some(key), None) => filter.task_key = Some(key.clone()),
        (None, None) => {}
    }
    let mut rows = ledger.runs(&filter)?;
    rows.reverse();
    // The runs of a flow belong to it, and `flow status` shows them.
    let is_flow = |row: &RunRow| row.facts.as_ref().is_some_and(|facts| facts.flow.is_some());
    if !is_flow(row) {
        rows.retain(|row| !is_flow(row));
    }
    if run.task.is_none() && key.is_none() {
        rows.retain(|row| row.run.task.is_none());
        let family = related_runs(&rows, &run.id);
        rows.retain(|row| family.contains(&row.run.id));
    }
    let first = rows.first().unwrap_or(row);
    let name = run.task.clone().unwrap_or_else(|| first.name());
    let key = run.task.clone().unwrap_or_else(|| first.run.id.to_string());
    let title = first.facts.as_ref().map(|facts| facts.title().to_owned()).unwrap_or_default();
    Ok(TaskRuns { name, key, title, runs: read_summaries(ledger, &rows)? })
}

/// Returns the first of the runs from which `run` was made. In a foreign ledger, runs can be made from each
/// other.
fn find_root<'r>(run: &'r Id, parent: impl Fn(&Id) -> Option<&'r Id>) -> &'r Id {
    let mut seen = BTreeSet::from([run]);
    let mut root = run;
    while let Some(next) = parent(root).filter(|next| seen.insert(*next)) {
        root = next;
    }
    root
}

fn read_summaries(ledger: &mut Ledger, rows: &[RunRow]) -> Result<Vec<RunSummary>> {
    rows.iter().map(|row| Ok(ledger.run_summary(&row.run.id)?)).collect()
}

/// Returns the root of the runs from which `run` was made, with all its descendants.
fn related_runs(rows: &[RunRow], run: &Id) -> BTreeSet<Id> {
    let parent = |id: &Id| rows.iter().find(|row| row.run.id == *id).and_then(|row| row.run.parent.as_ref());
    let mut family = BTreeSet::from([find_root(run, parent).clone()]);
    // A parent is older than its children, so one pass finds all.
    for row in rows {
        if row.run.parent.as_ref().is_some_and(|parent| family.contains(parent)) {
            family.insert(row.run.id.clone());
        }
    }
    family
}
