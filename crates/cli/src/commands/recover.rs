//! `callsheet recover`: completes the records of runs whose callsheet died.

use callsheet::Diagnostics;
use callsheet::error::CommandResult;
use callsheet::output::RecoveryOutput;
use callsheet::run::end::RecoverReport;

use crate::context::CommandContext;
use crate::pages::result::result_page;

/// Complete the records of runs whose callsheet was killed
///
/// Records the changes in the worktree and the agent's output. The end of such a run is unknown, and its
/// checks stay pending. Skips active runs. Refuses a run whose processes are still running (9): stop them
/// with `callsheet stop`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The run, even if it still works in a terminal: its id, the beginning of its id, or `last` [default:
    /// all runs of this machine]
    #[arg(value_name = "RUN")]
    run: Option<String>,
}

pub(crate) fn run(app: &CommandContext, args: &Args) -> CommandResult {
    let report = app.recover_runs(args.run.as_deref())?;
    let RecoverReport { recovered, running, refused } = &report;
    let page = || {
        let recovered = recovered.iter().map(|summary| result_page(&app.print, summary));
        let page: String =
            recovered.chain(running.iter().map(|run| format!("run {run}  running\n"))).collect();
        if page.is_empty() { "no unfinished runs\n".into() } else { page }
    };
    app.print.print_output(|| RecoveryOutput::from(&report), page)?;
    if refused.is_empty() { Ok(0) } else { Err(Diagnostics(refused.clone()).into()) }
}
