//! `callsheet ledger adopt` and `forget`, each after a person's agreement.

use callsheet::error::{CommandResult, Result, usage_error};
use callsheet::output::{AdoptionOutput, ForgottenOutput};
use callsheet_core::diag::{Code, Diagnostic, escape_invisible};
use callsheet_core::record::Id;

use crate::context::{CommandContext, read_yes};
use crate::pages::ledger::adoption_page;

pub(crate) fn adopt(app: &CommandContext, yes: Option<&str>) -> CommandResult {
    let mut found = app.inspect_ledger()?;
    if !app.print.json {
        app.print.print_page(&adoption_page(&found))?;
    }
    if !found.is_known {
        let what = "Do you want to record and start runs with this ledger?";
        found.adopt(app, |id| require_agreement(app, what, id, yes))?;
    }
    if app.print.json {
        return app.print.print_json(&AdoptionOutput::from(&found));
    }
    app.print.print_status(if found.is_known { "the ledger is already known" } else { "adopted" });
    Ok(0)
}

pub(crate) fn forget(app: &CommandContext, yes: Option<&str>) -> CommandResult {
    let entry = app.forget_lost_ledger(|entry| {
        let what = format!("Forget the ledger at {}?", escape_invisible(&entry.place));
        require_agreement(app, &what, &entry.id, yes)
    })?;
    if app.print.json {
        return app.print.print_json(&ForgottenOutput::from(&entry));
    }
    app.print.print_status(&format!("forgotten: {}", escape_invisible(&entry.place)));
    Ok(0)
}

/// Requires a person's agreement to `what` for the ledger with this id: typed at a terminal, or given by
/// naming the id.
fn require_agreement(app: &CommandContext, what: &str, id: &Id, yes: Option<&str>) -> Result<()> {
    match yes {
        Some(yes) if yes == id.as_str() => return Ok(()),
        Some(yes) => {
            let error = usage_error(format!("the ledger's id is not `{yes}`"));
            return Err(error.hint("run `callsheet ledger adopt` to see it").into());
        }
        None => {}
    }
    if app.print.can_ask() && read_yes(&app.print, what)? {
        return Ok(());
    }
    let hint = format!("accept it at a terminal, or add `--yes {id}`");
    Err(Diagnostic::error(Code::LedgerForeign, "a person must accept this ledger").hint(hint).into())
}
