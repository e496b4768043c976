//! `callsheet man [COMMAND]`: prints a manual page on standard output.

use callsheet_core::diag::{Code, Diagnostic};
use clap::CommandFactory;

use crate::args::CliArgs;
use crate::print::OutputPrinter;
use callsheet::error::{CommandResult, usage_error};

/// Print the manual page of callsheet or of one command
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The command, such as run [default: callsheet itself]
    #[arg(value_name = "COMMAND")]
    command: Option<String>,
}

pub(crate) fn run(print: &OutputPrinter, args: &Args) -> CommandResult {
    let mut root = CliArgs::command();
    root.build();
    let command = match &args.command {
        None => root,
        Some(name) => {
            let found = root.find_subcommand(name).cloned();
            let known: Vec<&str> = root.get_subcommands().map(clap::Command::get_name).collect();
            found.ok_or_else(|| usage_error(format!("unknown command `{name}`")).suggest(name, known))?
        }
    };
    let mut page = Vec::new();
    clap_mangen::Man::new(command)
        .render(&mut page)
        .map_err(|error| Diagnostic::error(Code::OutputFailed, error.to_string()))?;
    print.write_data(&page)?;
    Ok(0)
}
