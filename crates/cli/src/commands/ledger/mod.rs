//! `callsheet ledger`: shows where ledgers are, and adopts or forgets them for this user.

mod adopt;

use callsheet::diagnostics::diagnostic_outputs;
use callsheet::error::CommandResult;
use callsheet::ledger::known_ledger::KnownLedger;
use callsheet::ledger::short_lived_diag;
use callsheet::output::{LedgerOutput, ListOutput};
use callsheet_core::diag::escape_invisible;
use callsheet_store::LedgerUrl;

use crate::context::CommandContext;
use crate::pages::ledger::known_line;
use adopt::{adopt, forget};

/// Show, list, adopt and forget ledgers
///
/// A ledger names programs to start. A ledger that callsheet created here is known; any other one is foreign:
/// until you adopt it, callsheet only reads it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: LedgerCommand,
}

#[derive(Debug, clap::Subcommand)]
enum LedgerCommand {
    /// Print the path or URL of this project's ledger
    Path,
    /// List the known ledgers
    List,
    /// Show the contents of a foreign ledger, and accept it if you agree
    ///
    /// Also accepts the present head of a ledger that was restored from a backup.
    Adopt {
        /// Agree without asking, to the ledger with this id
        #[arg(long, value_name = "ID")]
        yes: Option<String>,
    },
    /// Forget a missing ledger, so that callsheet can create a new one; removes nothing
    Forget {
        /// Agree without asking, to the ledger with this id
        #[arg(long, value_name = "ID")]
        yes: Option<String>,
    },
}

pub(crate) fn run(app: &CommandContext, args: &Args) -> CommandResult {
    match &args.command {
        LedgerCommand::Path => print_path(app),
        LedgerCommand::List => list(app),
        LedgerCommand::Adopt { yes } => adopt(app, yes.as_deref()),
        LedgerCommand::Forget { yes } => forget(app, yes.as_deref()),
    }
}

fn print_path(app: &CommandContext) -> CommandResult {
    // Without write access, the ledger of a project that already has an id can still be located.
    let place = match app.require_ledger_url() {
        Ok(place) => place,
        Err(failure) => app.ledger_url().ok().flatten().ok_or(failure)?,
    };
    let known = KnownLedger::from_url(&place)?;
    let warning = match &place {
        LedgerUrl::Sqlite(path) => short_lived_diag(path),
        _ => None,
    };
    if app.print.json {
        return app.print.print_json(&LedgerOutput {
            project: Some(app.project_name()?),
            diagnostics: diagnostic_outputs(warning.iter()),
            ..LedgerOutput::new(&known)
        });
    }
    app.print.print_diagnostics(warning.iter());
    app.print.print_page(&format!("{}\n", escape_invisible(known.shown())))
}

fn list(app: &CommandContext) -> CommandResult {
    let all = KnownLedger::list()?;
    app.print.print_output(
        || {
            all.iter()
                .filter(|known| known.entry().is_some())
                .map(LedgerOutput::new)
                .collect::<ListOutput<_>>()
        },
        || all.iter().filter_map(known_line).collect(),
    )
}
