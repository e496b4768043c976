//! `callsheet check`: reports every problem of the project's and the built-in files at once.

use callsheet_core::diag::Severity;
use callsheet_lint::check::check;
use serde_json::json;

use crate::app::AppContext;
use crate::failure::{CommandResult, FINDING};
use crate::print::diag_json;

pub(crate) fn run(app: &AppContext<'_>) -> CommandResult {
    let report = check(&app.disk(None), &app.config.layout());
    let errors = report.problems.iter().filter(|problem| problem.severity == Severity::Error).count();
    let exit = if errors > 0 { FINDING } else { 0 };
    if app.print.json {
        app.print.value(&json!({
            "files": report.files,
            "errors": errors,
            "problems": report.problems.iter().map(diag_json).collect::<Vec<_>>(),
        }))?;
        return Ok(exit);
    }
    for problem in &report.problems {
        app.print.line(&app.print.diag_for_stdout(problem))?;
    }
    let warnings = report.problems.len() - errors;
    app.print.say(&format!("{} files checked: {errors} errors, {warnings} warnings", report.files));
    Ok(exit)
}
