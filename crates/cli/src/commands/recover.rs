//! `callsheet recover`: completes the records of runs whose callsheet died.

use callsheet::Diagnostics;
use callsheet::error::CommandResult;
use callsheet::output::RecoveryOutput;
use callsheet::run::end::RecoverReport;

use crate::context::CommandContext;
use crate::pages::result::print_result;

/// Complete the records of runs whose callsheet was killed
///
/// Records the changes in the worktree and the agent's output. The end of such a run is unknown, and its
/// checks stay pending. Skips active runs. Refuses a run whose processes are still running (9): stop them
/// with `callsheet stop`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The run, even if it still works in a terminal: `r42`, `last`, `last~1`, a task's id for its newest run, or the
    /// beginning of the run's id [default: all runs of this machine]
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
