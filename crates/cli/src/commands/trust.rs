//! `callsheet trust`: records or revokes consent to everything that a project's files would execute or leak.

use callsheet::output::TrustOutput;
use callsheet_core::diag::{Code, escape_invisible};
use callsheet_core::record::DecidedBy;

use crate::context::{CommandContext, ask_consent};
use callsheet::error::CommandResult;
use callsheet::project::person::refuse_below_guard;
use callsheet::project::trust::{is_trusted, trust_required_error};

/// Trust this project's files to start programs, run checks, set variables or choose a ledger
///
/// Shows all requests and asks you. Your consent covers exactly these requests: if one of them changes,
/// callsheet asks again. It is stored in your state directory, where no repository can reach it. No agent,
/// and no other process below a guard, can consent for you.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Trust the project without asking
    #[arg(long)]
    yes: bool,
    /// Show the requests, and whether you trust them; change nothing
    #[arg(long, conflicts_with_all = ["yes", "revoke"])]
    show: bool,
    /// Revoke your trust
    #[arg(long, conflicts_with = "yes")]
    revoke: bool,
}

pub(crate) fn run(app: &CommandContext, args: &Args) -> CommandResult {
    let wishes = app.trust_requests()?;
    let mut trusted = is_trusted(&app.dir, &wishes);
    if args.revoke {
        refuse_below_guard()?;
        let had = app.distrust()?;
        app.print.print_status(if had { "trust revoked" } else { "this project was not trusted" });
        trusted = false;
    } else if !args.show && !trusted && !wishes.is_empty() {
        let agreed = match app.require_person(args.yes) {
            Ok(DecidedBy::Terminal) if !args.yes => !app.print.json && ask_consent(&app.print, &wishes)?,
            Ok(_) => true,
            Err(error) if error.is_only(Code::PersonRequired) => false,
            Err(failure) => return Err(failure),
        };
        if !agreed {
            return Err(trust_required_error(&wishes));
        }
        app.trust(&wishes)?;
        trusted = true;
    }
    let head = match (wishes.is_empty(), trusted) {
        (true, _) => "nothing in this project needs trust",
        (false, true) => "trusted:",
        (false, false) => "not trusted:",
    };
    let lines = wishes.iter().map(|wish| format!("  {}\n", escape_invisible(&wish.shown)));
    app.print.print_output(
        || TrustOutput::new(&wishes, trusted),
        || format!("{head}\n{}", lines.collect::<String>()),
    )
}
