//! `callsheet check`: reports every problem of the project's and the built-in files at once.

use callsheet_core::diag::Severity;
use callsheet_lint::check::check;
use serde_json::json;

use crate::context::CommandContext;
use callsheet::diagnostics::diagnostic_json;
use callsheet::error::{CommandResult, FINDING};

pub(crate) fn run(app: &CommandContext) -> CommandResult {
    let report = check(&app.disk(None), &app.config.layout());
    let errors = report.problems.iter().filter(|problem| problem.severity == Severity::Error).count();
    let exit = if errors > 0 { FINDING } else { 0 };
    if app.print.json {
        app.print.print_value(&json!({
            "files": report.files,
            "errors": errors,
            "problems": report.problems.iter().map(diagnostic_json).collect::<Vec<_>>(),
        }))?;
        return Ok(exit);
    }
    for problem in &report.problems {
        app.print.print_line(&app.print.render_for_stdout(problem))?;
    }
    let warnings = report.problems.len() - errors;
    app.print.print_status(&format!("{} files checked: {errors} errors, {warnings} warnings", report.files));
    Ok(exit)
}
