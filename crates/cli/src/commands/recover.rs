//! `callsheet recover`: completes the records of runs whose callsheet died.

use callsheet_core::diag::{Code, Diagnostics};
use callsheet_core::record::{Id, RunSummary};
use callsheet_core::request::fact::EndReason;
use callsheet_store::{Ledger, LedgerError, RunRow};
use serde_json::json;

use crate::context::CommandContext;
use crate::pages::result::result_page;
use callsheet::error::CommandResult;
use callsheet::project::state::{RunDir, unfinished_runs};
use callsheet::run::{is_driven, is_pane_alive, recover, result_json};

/// Complete the records of runs whose callsheet died
///
/// Records everything that is still known: the changes in the worktree, and the agent's words. The end of the run was not
/// observed, and its checks stay pending. Active runs are left alone. Nothing is recorded while processes of a run live (9):
/// `callsheet stop` ends them.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// One run, also if it works on in a terminal: its id, the beginning of it, or `last` [default: all of this machine]
    #[arg(value_name = "RUN")]
    run: Option<String>,
}

pub(crate) fn run(app: &CommandContext, args: &Args) -> CommandResult {
    let mut ledger = app.write_ledger()?;
    let runs = match &args.run {
        Some(run) => vec![app.find_own_run(&mut ledger, run)?.run.id],
        None => find_unfinished_runs(app, &mut ledger)?,
    };
    let (mut recovered, mut going): (Vec<RunSummary>, Vec<Id>) = Default::default();
    let mut refused: Option<Diagnostics> = None;
    for run in runs {
        let in_terminal = RunDir::from_run(&run)?.pane();
        let lives = in_terminal.as_ref().is_some_and(is_pane_alive);
        if is_driven(&run) || lives && args.run.is_none() {
            going.push(run);
            continue;
        }
        let why = match (in_terminal, lives) {
            (None, _) => "its callsheet died",
            (Some(_), false) => "its terminal is closed",
            (Some(_), true) => "nobody watches its terminal",
        };
        match recover(app, &mut ledger, &run, EndReason::Lost, why) {
            Ok(account) => recovered.extend(account),
            // A refused run does not prevent the recovery of the others.
            Err(failure) if is_refused(&failure) => {
                going.push(run);
                refused.get_or_insert_with(|| Diagnostics(Vec::new())).0.extend(failure.0);
            }
            Err(failure) => return Err(failure),
        }
    }
    let page = || {
        let recovered = recovered.iter().map(|account| result_page(&app.print, account));
        let page: String = recovered.chain(going.iter().map(|run| format!("run {run}  running\n"))).collect();
        if page.is_empty() { "no run was left unfinished\n".into() } else { page }
    };
    let recovered_json = || recovered.iter().map(result_json).collect::<Vec<_>>();
    app.print.print_output(|| json!({ "recovered": recovered_json(), "running": going }), page)?;
    refused.map_or(Ok(0), Err)
}

/// Checks whether the recovery was refused, because processes of the run are alive.
fn is_refused(failure: &Diagnostics) -> bool {
    failure.0.iter().all(|diag| diag.code == Code::RunRefused)
}

/// Returns the unfinished runs that this ledger knows and that belong to this project.
fn find_unfinished_runs(app: &CommandContext, ledger: &mut Ledger) -> Result<Vec<Id>, Diagnostics> {
    let project = app.project_filter(ledger)?;
    let is_own =
        |row: &RunRow| !row.imported && project.as_ref().is_none_or(|project| project.is_match(&row.run));
    let mut known = Vec::new();
    for run in unfinished_runs()? {
        match ledger.find(run.as_str()) {
            Ok(row) if is_own(&row) => known.push(row.run.id),
            Ok(_) | Err(LedgerError::NoRun(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(known)
}
