//! `callsheet verify`: proves that recorded prompts result from their recorded requests and sources.

use callsheet::error::CommandResult;
use callsheet::ledger::verify::{VerifyOptions, problem_code};
use callsheet::output::VerificationOutput;

use crate::context::CommandContext;
use crate::pages::verify::report_page;

/// Compose recorded prompts again from what was kept, and compare every byte
///
/// Everything is verified, whatever is found on the way. Exits with 8 if something in the ledger was changed or is gone,
/// else with 1 if a prompt differs, else with 12 if a secret value is needed to verify one, else with 11 if another
/// version of the engine made one.
#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("what").required(true).multiple(true).args(["run", "all", "file", "head"])))]
pub(crate) struct Args {
    /// Runs by their ids, the beginnings of them, or last
    #[arg(conflicts_with_all = ["all", "file"])]
    run: Vec<String>,
    /// Every run, and the chain of all records
    #[arg(long, conflicts_with = "file")]
    all: bool,
    /// An export instead of a ledger; - reads standard input
    #[arg(long, value_name = "FILE")]
    file: Option<String>,
    /// With --all or --file: every text that is kept too, and the database itself
    #[arg(long)]
    read_data: bool,
    /// A head that was told before: the ledger must still lead to it
    #[arg(long, value_name = "SEQ:CHAIN", conflicts_with = "file")]
    head: Option<String>,
    /// A value that was marked as secret, read from a file; - reads standard input
    #[arg(long, value_name = "KEY=PATH")]
    set_secret: Vec<String>,
    /// The same, read from the environment variable NAME
    #[arg(long, value_name = "KEY=NAME")]
    set_secret_env: Vec<String>,
}

pub(crate) fn run(app: &CommandContext, args: &Args) -> CommandResult {
    let report = app.verify(&VerifyOptions {
        runs: args.run.clone(),
        all: args.all,
        file: args.file.clone(),
        read_data: args.read_data,
        head: args.head.clone(),
        set_secret: args.set_secret.clone(),
        set_secret_env: args.set_secret_env.clone(),
    })?;
    app.print.print_output(|| VerificationOutput::from(&report), || report_page(&app.print, &report))?;
    Ok(report.worst().map_or(0, |worst| problem_code(worst).exit_code()))
}
