//! `callsheet completions SHELL`: a completion script on standard output.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::Cli;
use crate::failure::Outcome;
use crate::print::Print;

/// Print a completion script for a shell
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    shell: Shell,
}

pub(crate) fn run(print: &Print, args: &Args) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "callsheet", &mut script);
    print.data(&script)?;
    Ok(0)
}
