//! `callsheet log`: lists the recorded runs, newest first.

use callsheet::error::{CommandResult, Result};
use callsheet::local_time::LocalClock;
use callsheet::output::{ListOutput, RunItemOutput};
use callsheet::run_list::RunQuery;
use callsheet::run_titles::RunTitles;
use callsheet_store::RunRow;

use crate::context::CommandContext;
use crate::pages::counted;
use crate::pages::log::runs_page;

/// List recorded runs, the newest first
///
/// TIME is an age (90s, 30m, 2h, 3d), today, yesterday, a date (2026-01-31), or a date and a time (2026-01-31T12:00). Times
/// are local; a final Z means UTC.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only runs of this task
    #[arg(long, value_name = "ID")]
    task: Option<String>,
    /// Only runs of this flow: its folder, its id or the beginning of its id
    #[arg(long, value_name = "FLOW")]
    flow: Option<String>,
    /// Only runs of this agent
    #[arg(short, long, value_name = "NAME")]
    agent: Option<String>,
    /// Only runs of this phase
    #[arg(short, long, value_name = "NAME")]
    phase: Option<String>,
    /// Only runs of this role
    #[arg(long, value_name = "NAME")]
    role: Option<String>,
    /// Only runs with this outcome, such as failed_checks
    #[arg(long, value_name = "OUTCOME")]
    outcome: Option<String>,
    /// Only runs that failed: their command did not exit with 0
    #[arg(long)]
    failed: bool,
    /// Only runs with this verdict, such as PASS
    #[arg(long, value_name = "VERDICT")]
    verdict: Option<String>,
    /// Only runs whose prompt was composed on this machine
    #[arg(long, value_name = "NAME")]
    machine: Option<String>,
    /// Only runs that started then or later
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Only runs that started then or earlier; a day counts to its end
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// Only runs whose task has this text: in its id, or in the first 400 characters of its title and text; case does not
    /// matter
    #[arg(long, value_name = "TEXT")]
    grep: Option<String>,
    /// List at most N runs
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: usize,
    /// List all runs
    #[arg(long, conflicts_with = "limit")]
    all: bool,
}

pub(crate) fn run(app: &CommandContext, args: &Args) -> CommandResult {
    let mut ledger = app.read_ledger()?;
    let query = RunQuery {
        agent: args.agent.clone(),
        phase: args.phase.clone(),
        role: args.role.clone(),
        task: args.task.clone(),
        flow: args.flow.clone(),
        verdict: args.verdict.clone(),
        machine: args.machine.clone(),
        project: None,
        outcome: args.outcome.clone(),
        failed: args.failed,
        since: args.since.clone(),
        until: args.until.clone(),
        grep: args.grep.clone(),
        limit: (!args.all).then_some(args.limit),
    };
    let list = app.list_runs(&mut ledger, &query)?;
    if app.print.json {
        let items = list.rows.iter().map(|row| RunItemOutput::read(&mut ledger, row));
        return app.print.print_json(&items.collect::<Result<ListOutput<_>>>()?);
    }
    let mut titles = RunTitles::default();
    let rows = list.rows.into_iter().map(|row| (titles.title(&mut ledger, &row), row));
    let rows: Vec<(RunRow, String)> = rows.map(|(title, row)| (row, title)).collect();
    app.print.print_page(&runs_page(&app.print, &rows, &LocalClock::read(), app.all_projects))?;
    if list.has_more {
        let newest = counted(rows.len(), "run");
        app.print.print_status(&format!("only the newest {newest} are listed; add `--all` or `--limit N`"));
    }
    Ok(0)
}
