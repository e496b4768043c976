//! `callsheet doctor`: checks that everything `run` needs is installed, and suggests fixes.

use callsheet::error::{CommandResult, FINDING};
use callsheet::output::{DoctorOutput, ListOutput};
use callsheet::run::doctor::DoctorState;

use crate::context::CommandContext;
use crate::pages::doctor::doctor_page;

/// Check that everything `run` needs is installed, and suggest fixes
///
/// Exits with 1 if a required program is missing, or if a CLI behaves otherwise than its agent's file says.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Also start the CLI of each agent with an empty home and a server in the place of its model, and compare its request with
    /// the agent's file
    #[arg(long)]
    probe: bool,
}

pub(crate) fn run(app: &CommandContext, args: &Args) -> CommandResult {
    let mut found = app.examine()?;
    if args.probe {
        found.extend(app.examine_contexts()?);
    }
    app.print.print_output(
        || found.iter().map(DoctorOutput::from).collect::<ListOutput<_>>(),
        || doctor_page(&app.print, &found),
    )?;
    Ok(if found.iter().any(|finding| finding.state == DoctorState::Bad) { FINDING } else { 0 })
}
