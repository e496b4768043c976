//! `callsheet recover`: completes the records of runs whose callsheet died.

use callsheet::Diagnostics;
use callsheet::error::CommandResult;
use callsheet::output::RecoveryOutput;
use callsheet::run::end::RecoverReport;

use crate::context::CommandContext;
use crate::pages::result::print_result;

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
    let report = app.recover_runs(args.run.as_deref())?;
    let RecoverReport { recovered, running, refused } = &report;
    if app.print.json {
        app.print.print_json(&RecoveryOutput::from(&report))?;
    } else {
        for summary in recovered {
            print_result(app, summary, false)?;
        }
        let running: String = running.iter().map(|run| format!("run {run}  running\n")).collect();
        let is_empty = recovered.is_empty() && running.is_empty();
        app.print.print_page(if is_empty { "no unfinished runs\n" } else { &running })?;
    }
    if refused.is_empty() { Ok(0) } else { Err(Diagnostics(refused.clone()).into()) }
}
