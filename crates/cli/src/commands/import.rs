//! `callsheet import`: adds an export to the ledger.

use callsheet::output::ImportOutput;
use callsheet_store::ImportReport;

use crate::context::CommandContext;
use callsheet::compose::input_reader::open_input;
use callsheet::error::CommandResult;

/// Add what an export holds to the ledger
///
/// Everything in the file is checked first; where anything is wrong nothing is added. Runs that are there already are
/// left alone. An empty ledger that gets a whole one has the same numbers and the same chain: so a ledger moves from
/// SQLite to PostgreSQL and back.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What `export` wrote; - reads standard input
    file: String,
}

pub(crate) fn run(app: &CommandContext, args: &Args) -> CommandResult {
    let mut file = open_input(app, &args.file)?;
    let report = app.import(&mut *file)?;
    let ImportReport { runs, records, known, same_chain } = report;
    let chain = if same_chain { ", with the same chain" } else { "" };
    app.print.print_output(
        || ImportOutput::from(&report),
        || format!("added: runs {runs}, records {records}{chain}; known already: {known}\n"),
    )?;
    if same_chain {
        app.print.print_note("type `callsheet ledger adopt` to go on with it");
    }
    Ok(0)
}
