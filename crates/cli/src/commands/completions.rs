//! `callsheet completions SHELL`: prints a completion script on standard output.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::CliArgs;
use crate::complete;
use crate::print::OutputPrinter;
use callsheet::error::CommandResult;

/// Print a completion script for a shell: `source <(callsheet completions bash)`
///
/// In bash, zsh and fish it also completes runs, tasks, flows, roles, agents, phases, recipes and templates of the project. It
/// starts nothing, and needs no trust.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The shell
    shell: Shell,
}

pub(crate) fn run(print: &OutputPrinter, args: &Args) -> CommandResult {
    if let Some(script) = complete::script(args.shell) {
        print.write_data(script.as_bytes())?;
        return Ok(0);
    }
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut CliArgs::command(), "callsheet", &mut script);
    print.write_data(&script)?;
    Ok(0)
}
