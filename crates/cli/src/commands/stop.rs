//! `callsheet stop`: stops a run from another process.

use callsheet::error::CommandResult;

use crate::context::CommandContext;
use crate::pages::result::print_result;

/// Stop a running agent and all its child processes (SIGTERM, then SIGKILL), even if its callsheet was killed
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The run: `r42`, `last`, `last~1`, a task's id for its newest run, or the beginning of the run's id
    #[arg(value_name = "RUN")]
    run: String,
}

pub(crate) fn run(app: &CommandContext, args: &Args) -> CommandResult {
    print_result(app, &app.stop_run(&args.run)?, false)
}
