//! `callsheet doctor`: checks that everything `run` needs is installed, and suggests fixes.

use callsheet::error::{CommandResult, FINDING};
use callsheet::output::{DoctorOutput, ListOutput};
use callsheet::run::doctor::DoctorState;

use crate::context::CommandContext;
use crate::pages::doctor::doctor_page;

pub(crate) fn run(app: &CommandContext) -> CommandResult {
    let found = app.examine()?;
    app.print.print_output(
        || found.iter().map(DoctorOutput::from).collect::<ListOutput<_>>(),
        || doctor_page(&app.print, &found),
    )?;
    Ok(if found.iter().any(|finding| finding.state == DoctorState::Bad) { FINDING } else { 0 })
}
