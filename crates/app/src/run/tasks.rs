//! Tasks in the ledger: groups of runs that belong together.

use std::collections::{BTreeMap, BTreeSet};

use callsheet_core::diag::{Code, Diagnostic};
use callsheet_core::record::task_status::{TaskCheckout, TaskReason, TaskStatus, derive_task_status};
use callsheet_core::record::{Id, RunSummary};
use callsheet_run::{Git, host_name};
use callsheet_store::{Ledger, RunFilter, RunRow};

use super::{is_driven, is_pane_alive};
use crate::error::Result;
use crate::project::Project;
use crate::project::state::RunDir;

/// Runs that belong together, the oldest first.
#[derive(Debug)]
pub struct TaskRuns {
    /// Id of the task, else of the first run.
    pub name: String,
    /// The runs of the task.
    pub runs: Vec<RunSummary>,
}

impl TaskRuns {
    /// Returns one of its runs.
    pub fn find_run(&self, id: &Id) -> Result<&RunSummary> {
        let gone = || Diagnostic::error(Code::RunNotFound, format!("run {id} no longer exists")).into();
        self.runs.iter().find(|run| run.run.id == *id).ok_or_else(gone)
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
}

impl Project {
    /// Returns a task by its name or by one of its runs.
    pub fn find_task(&self, name: &str) -> Result<TaskRuns> {
        let mut ledger = self.read_ledger()?;
        let project = self.project_filter(&ledger)?;
        let filter =
            RunFilter { project, own: true, task: Some(name.into()), limit: 1, ..RunFilter::default() };
        let of_task = ledger.runs(&filter)?.into_iter().next();
        let row = match of_task {
            Some(row) => row,
            None => self.find_run(&mut ledger, name).map_err(|_| {
                let message = format!("no task or run named `{name}`");
                Diagnostic::error(Code::TaskNotFound, message)
                    .hint("run `callsheet status` to list tasks, `callsheet log` to list runs")
            })?,
        };
        find_task(self, &mut ledger, &row)
    }

    /// Returns the tasks of the newest runs, at most `limit`, the newest first.
    pub fn newest_tasks(&self, limit: usize) -> Result<Vec<TaskRuns>> {
        newest_tasks(self, &mut self.read_ledger()?, limit)
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
    // Another project may have a task of the same name.
    let project = project.sibling_filter(run);
    let filter = RunFilter {
        project,
        own: !row.imported,
        task: run.task.clone(),
        limit: usize::MAX,
        ..RunFilter::default()
    };
    let mut rows = ledger.runs(&filter)?;
    rows.reverse();
    if run.task.is_none() {
        rows.retain(|row| row.run.task.is_none());
        let family = related_runs(&rows, &run.id);
        rows.retain(|row| family.contains(&row.run.id));
    }
    let name = match &run.task {
        Some(task) => task.clone(),
        None => rows.first().map_or_else(|| run.id.to_string(), |row| row.run.id.to_string()),
    };
    Ok(TaskRuns { name, runs: read_summaries(ledger, &rows)? })
}

fn newest_tasks(project: &Project, ledger: &mut Ledger, limit: usize) -> Result<Vec<TaskRuns>> {
    let filter = RunFilter {
        project: project.project_filter(ledger)?,
        own: true,
        limit: usize::MAX,
        ..RunFilter::default()
    };
    let rows = ledger.runs(&filter)?;
    let parents: BTreeMap<&Id, &Id> =
        rows.iter().filter_map(|row| Some((&row.run.id, row.run.parent.as_ref()?))).collect();
    let root = |run: &Id| find_root(run, |id| parents.get(id).copied()).to_string();
    // Tasks of two projects can have the same name.
    let mut order: Vec<(Option<&str>, String)> = Vec::new();
    let mut groups: BTreeMap<(Option<&str>, String), Vec<&RunRow>> = BTreeMap::new();
    for row in &rows {
        let name = row.run.task.clone().unwrap_or_else(|| root(&row.run.id));
        let key = (row.run.project.as_deref(), name);
        if !groups.contains_key(&key) {
            order.push(key.clone());
        }
        groups.entry(key).or_default().insert(0, row);
    }
    let mut tasks = Vec::new();
    for key in order {
        if tasks.len() >= limit {
            break;
        }
        let rows: Vec<RunRow> = groups.remove(&key).unwrap_or_default().into_iter().cloned().collect();
        let mut runs = read_summaries(ledger, &rows)?;
        // The runs of a flow belong to it, and `flow status` shows them.
        runs.retain(|run| run.launch.as_ref().is_none_or(|launch| launch.flow.is_empty()));
        if !runs.is_empty() {
            tasks.push(TaskRuns { runs, name: key.1 });
        }
    }
    Ok(tasks)
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
