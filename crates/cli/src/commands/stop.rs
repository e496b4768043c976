//! `callsheet stop`: stops a run from another process.

use std::thread;
use std::time::{Duration, Instant};

use callsheet_core::diag::{Code, Diagnostic};
use callsheet_core::request::fact::EndReason;
use callsheet_run::{ProcessTrace, grace_period};

use crate::context::CommandContext;
use crate::pages::result::result_page;
use callsheet::error::CommandResult;
use callsheet::project::state::RunDir;
use callsheet::run::{close_pane, is_driven, recover, result_json};
use callsheet_run::host_name;

/// Stop a running agent and all its child processes (SIGTERM, then SIGKILL), also if its callsheet died
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A run: its id, the beginning of it, or `last`
    #[arg(value_name = "RUN")]
    run: String,
}

/// Longer than an agent's grace period plus the time for the records that follow.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) fn run(app: &CommandContext, args: &Args) -> CommandResult {
    let mut ledger = app.write_ledger()?;
    let id = app.find_own_run(&mut ledger, &args.run)?.run.id;
    let refused = |message: String| Diagnostic::error(Code::RunRefused, message);
    let account = ledger.run_summary(&id)?;
    let launch = account.launch.clone().filter(|_| !account.is_complete());
    let launch = launch.ok_or_else(|| refused(format!("run {id} is not running")))?;
    if launch.host != host_name() {
        return Err(refused(format!("run {id} runs on another machine: {}", launch.host)).into());
    }
    let run_dir = RunDir::from_run(&id)?;
    if let Some(pane) = run_dir.pane() {
        close_pane(&pane)?;
        recover(app, &mut ledger, &id, EndReason::Stopped, "its terminal was closed by `callsheet stop`")?;
    } else if is_driven(&id) {
        run_dir.request_stop()?;
        let begun = Instant::now();
        while is_driven(&id) && begun.elapsed() < PATIENCE {
            thread::sleep(Duration::from_millis(50));
        }
    } else {
        ProcessTrace::open(id.as_str(), run_dir.dir()).terminate(grace_period());
        recover(app, &mut ledger, &id, EndReason::Lost, "its callsheet died")?;
    }
    let account = ledger.run_summary(&id)?;
    if account.exit.is_none() {
        let hint = "its callsheet was told, and ends it as soon as it can";
        return Err(refused(format!("run {id} has not ended yet")).hint(hint).into());
    }
    app.print.print_output(|| result_json(&account), || result_page(&app.print, &account))
}
