//! `callsheet export`: writes a file that can be verified without the ledger that it came from.

use std::path::PathBuf;

use callsheet::error::CommandResult;
use callsheet::session::write::resolve_output;
use callsheet::transfer::ExportContents;

use crate::context::CommandContext;

/// Write recorded runs with everything that they need into one file, one JSON object per line
///
/// `verify --file` proves it on any machine, `import` adds it to another ledger.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A run's id, the beginning of one, last, or last~N for earlier ones
    #[arg(required_unless_present = "all")]
    run: Option<String>,
    /// The whole ledger
    #[arg(long, conflicts_with = "run")]
    all: bool,
    /// Write to a file, which only its owner can read, instead of standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// The prompt's digest and what it was made of as an in-toto statement instead; without any text
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
