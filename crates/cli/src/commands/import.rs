//! `callsheet import`: adds an export to the ledger.

use callsheet::output::ImportOutput;
use callsheet_store::ImportReport;

use crate::context::CommandContext;
use callsheet::compose::input_reader::open_input;
use callsheet::error::CommandResult;

/// Add the runs of an export to the ledger
///
/// Checks the whole file first, and adds nothing if anything is wrong. Skips the runs that the ledger already
/// has. Importing a whole ledger into an empty one keeps its numbers and its chain: so a ledger moves from
/// SQLite to PostgreSQL and back.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A file that `export` wrote; - reads standard input
    file: String,
}

pub(crate) fn run(app: &CommandContext, args: &Args) -> CommandResult {
    let mut file = open_input(app, &args.file)?;
    let report = app.import(&mut *file)?;
    let ImportReport { runs, records, known, same_chain } = report;
    let chain = if same_chain { ", with the same chain" } else { "" };
    app.print.print_output(
        || ImportOutput::from(&report),
        || format!("added: runs {runs}, records {records}{chain}; already known: {known}\n"),
    )?;
    if same_chain {
        app.print.print_note("run `callsheet ledger adopt` to use it");
    }
    Ok(0)
}
