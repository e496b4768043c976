//! `callsheet stop`: stops a run from another process.

use callsheet::error::CommandResult;
use callsheet::output::RunResultOutput;

use crate::context::CommandContext;
use crate::pages::result::result_page;

/// Stop a running agent and all its child processes (SIGTERM, then SIGKILL), even if its callsheet was killed
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The run: its id, the beginning of its id, or `last`
    #[arg(value_name = "RUN")]
    run: String,
}

pub(crate) fn run(app: &CommandContext, args: &Args) -> CommandResult {
    let summary = app.stop_run(&args.run)?;
    app.print.print_output(|| RunResultOutput::from(&summary), || result_page(&app.print, &summary))
}
