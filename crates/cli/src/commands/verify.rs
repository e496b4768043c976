//! `callsheet verify`: proves that recorded prompts result from their recorded requests and sources.

use callsheet::error::CommandResult;
use callsheet::ledger::verify::{VerifyOptions, problem_code};
use callsheet::output::VerificationOutput;

use crate::context::CommandContext;
use crate::pages::verify::report_page;

/// Compose recorded prompts again from their recorded sources, and compare every byte
///
/// Reports all problems, not only the first. Exits with 8 if a record was changed or is missing, else with 1
/// if a prompt differs, else with 12 if a prompt needs a secret value, else with 11 if another version of the
/// engine composed a prompt.
#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("what").required(true).multiple(true).args(["run", "all", "file", "head"])))]
pub(crate) struct Args {
    /// The runs: `r42`, `last`, `last~1`, a task's id for its newest run, or the beginning of a run's id
    #[arg(conflicts_with_all = ["all", "file"])]
    run: Vec<String>,
    /// Verify every run, and the chain of all records
    #[arg(long, conflicts_with = "file")]
    all: bool,
    /// Verify an export instead of the ledger; - reads standard input
    #[arg(long, value_name = "FILE")]
    file: Option<String>,
    /// With --all or --file, also verify every stored text and the database itself
    #[arg(long)]
    read_data: bool,
    /// Verify that the ledger still contains this head, which an earlier `verify` printed
    #[arg(long, value_name = "SEQ:CHAIN", conflicts_with = "file")]
    head: Option<String>,
    /// Give the secret value KEY from a file; - reads standard input
    #[arg(long, value_name = "KEY=PATH")]
    set_secret: Vec<String>,
    /// Give the secret value KEY from the environment variable NAME
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
