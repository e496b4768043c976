//! `callsheet export`: writes a file that can be verified without the ledger that it came from.

use std::path::PathBuf;

use callsheet::error::CommandResult;
use callsheet::session::write::resolve_output;
use callsheet::transfer::ExportContents;

use crate::context::CommandContext;

/// Write recorded runs and their sources to one file, one JSON object per line
///
/// `verify --file` checks the file on any machine; `import` adds it to another ledger.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The run: `r42`, `last`, `last~1`, a task's id for its newest run, or the beginning of the run's id
    #[arg(required_unless_present = "all")]
    run: Option<String>,
    /// Export the whole ledger
    #[arg(long, conflicts_with = "run")]
    all: bool,
    /// Write to a file that only its owner can read, instead of standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Write the digests of the prompt and its sources as an in-toto statement, without any text
    #[arg(long, conflicts_with = "all")]
    in_toto: bool,
}

pub(crate) fn run(app: &CommandContext, args: &Args) -> CommandResult {
    let contents = match args.run.clone() {
        None => ExportContents::Ledger,
        Some(run) if args.in_toto => ExportContents::Statement(run),
        Some(run) => ExportContents::Run(run),
    };
    match resolve_output(&app.here, args.out.as_deref())? {
        Some(out) => app.export_to_file(&contents, &out)?,
        None => app.export(&contents, &mut app.print.stdout_writer())?,
    }
    Ok(0)
}
