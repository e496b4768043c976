//! `callsheet diff`: shows the changes from one recorded prompt to another, and their causes.

use callsheet::error::CommandResult;
use callsheet::output::PromptDiffOutput;
use callsheet::run::changes::diff_runs;

use crate::context::CommandContext;
use crate::pages::diff::diff_page;
use crate::pages::patch::print_patch;
use callsheet::prompt_diff::{DiffSide, compare_sections};

/// Compare the prompts of two recorded runs, section by section, with the origin of each change
///
/// With --code, compares the files that the runs left, and prints a patch.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The run: `r42`, `last`, `last~1`, a task's id for its newest run, or the beginning of the run's id
    from: String,
    /// The other run
    to: String,
    /// Compare the files that the runs left, instead of their prompts
    #[arg(long)]
    code: bool,
}

pub(crate) fn run(app: &CommandContext, args: &Args) -> CommandResult {
    let mut ledger = app.read_ledger()?;
    if args.code {
        let from = app.run_changes(&mut ledger, &args.from)?;
        let to = app.run_changes(&mut ledger, &args.to)?;
        return print_patch(
            app,
            &to.summary.run.id,
            Some(&from.summary.run.id),
            &diff_runs(&from.kept, &to.kept),
        );
    }
    let from = DiffSide::new(app, &mut ledger, &args.from)?;
    let to = DiffSide::new(app, &mut ledger, &args.to)?;
    let sections = compare_sections(&from, &to);
    app.print
        .print_output(|| PromptDiffOutput::new(&from, &to, &sections), || diff_page(&app.print, &sections))?;
    if sections.is_empty() {
        let is_same = from.text == to.text;
        app.print.print_status(if is_same {
            "the same bytes"
        } else {
            "the same lines, with other line ends"
        });
    }
    Ok(0)
}
