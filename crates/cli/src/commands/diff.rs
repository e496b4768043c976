//! `callsheet diff`: shows the changes from one recorded prompt to another, and their causes.

use callsheet::error::CommandResult;
use callsheet::output::PromptDiffOutput;

use crate::context::CommandContext;
use crate::pages::diff::diff_page;
use callsheet::prompt_diff::{DiffSide, compare_sections};

/// Compare the prompts of two recorded runs, section by section, with the origin of each change
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The run: its id, the beginning of its id, last, or last~N for an earlier one
    from: String,
    /// The other run
    to: String,
}

pub(crate) fn run(app: &CommandContext, args: &Args) -> CommandResult {
    let mut ledger = app.read_ledger()?;
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
