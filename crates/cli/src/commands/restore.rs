//! `callsheet revert` and `callsheet apply`: take the changes of a run back, or make them in another checkout.

use callsheet::error::CommandResult;
use callsheet::output::RestoreOutput;
use callsheet::run::changes::RestoreReport;
use callsheet_core::diag::escape_invisible;

use crate::context::CommandContext;
use crate::pages::counted;

const REVERT_EXAMPLES: &str = "Examples:
  callsheet revert last
  callsheet revert last src/login.rs";

/// Undo the changes of a run in its worktree, or in this project if the worktree is gone
///
/// Every file gets the contents and the mode that it had before the run. If a file was edited after the run, callsheet names it
/// and writes nothing. Commits stay as they are.
#[derive(Debug, clap::Args)]
#[command(after_help = REVERT_EXAMPLES)]
pub(crate) struct RevertArgs {
    #[command(flatten)]
    files: FileArgs,
}

const APPLY_EXAMPLES: &str = "Examples:
  callsheet apply last
  callsheet apply -C ../other last src/login.rs";

/// Apply the changes of a run to this project
///
/// Every file gets the contents and the mode that it had after the run, also if the worktree of the run is gone. If a file is not
/// as it was before the run, callsheet names it and writes nothing.
#[derive(Debug, clap::Args)]
#[command(after_help = APPLY_EXAMPLES)]
pub(crate) struct ApplyArgs {
    #[command(flatten)]
    files: FileArgs,
}

#[derive(Debug, clap::Args)]
struct FileArgs {
    /// The run: `r42`, `last`, `last~1`, a task's id for its newest run, or the beginning of the run's id
    #[arg(value_name = "RUN")]
    run: String,
    /// Only these files, by the paths that the run reports
    #[arg(value_name = "PATH")]
    paths: Vec<String>,
}

pub(crate) fn revert(app: &CommandContext, RevertArgs { files }: &RevertArgs) -> CommandResult {
    print_report(app, &app.revert_changes(&files.run, &files.paths)?, "reverted")
}

pub(crate) fn apply(app: &CommandContext, ApplyArgs { files }: &ApplyArgs) -> CommandResult {
    print_report(app, &app.apply_changes(&files.run, &files.paths)?, "applied")
}

fn print_report(app: &CommandContext, report: &RestoreReport, done: &str) -> CommandResult {
    if app.print.json {
        return app.print.print_json(&RestoreOutput::from(report));
    }
    for file in &report.files {
        let word = match (file.written, file.exists) {
            (false, _) => "unchanged",
            (true, true) => "wrote",
            (true, false) => "removed",
        };
        app.print.print_status(&format!("{word} {}", escape_invisible(&file.path)));
    }
    let count = report.files.iter().filter(|file| file.written).count();
    let dir = report.dir.display().to_string();
    let place = if report.dir == app.dir { String::new() } else { format!(" in {}", escape_invisible(&dir)) };
    app.print.print_status(&format!("{done} {}{place}", counted(count, "file")));
    Ok(0)
}
