//! `callsheet check`: reports every problem of the project's and the built-in files at once.

use callsheet_lint::check::check;

use crate::context::CommandContext;
use crate::pages::{count_line, findings_page};
use callsheet::error::{CommandResult, FINDING};
use callsheet::output::LintOutput;

pub(crate) fn run(app: &CommandContext) -> CommandResult {
    let report = check(&app.disk(None), &app.config.layout());
    let errors = report.error_count();
    app.print.print_output(|| LintOutput::from(&report), || findings_page(&app.print, &report.problems))?;
    let warnings = report.problems.len() - errors;
    app.print.print_status(&count_line(report.files, "file", errors, warnings));
    Ok(if errors > 0 { FINDING } else { 0 })
}
