//! `callsheet completions SHELL`: prints a completion script on standard output.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::CliArgs;
use crate::print::OutputPrinter;
use callsheet::error::CommandResult;

/// Print a completion script for a shell
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The shell
    shell: Shell,
}

pub(crate) fn run(print: &OutputPrinter, args: &Args) -> CommandResult {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut CliArgs::command(), "callsheet", &mut script);
    print.write_data(&script)?;
    Ok(0)
}
