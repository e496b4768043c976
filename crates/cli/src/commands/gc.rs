//! `callsheet gc`: retention.

use callsheet_store::{Retention, Swept};
use serde_json::json;

use crate::app::App;
use crate::failure::Outcome;
use crate::ledger::failure;

/// Remove old runs of this project from the ledger
///
/// A run stays if either rule keeps it, if a run that stays points at it, or if it was handed to an agent and has not
/// ended. Texts that only removed runs needed go too. The chain stays whole, and a record says what was removed.
#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("rule").required(true).multiple(true).args(["keep_days", "keep_last"])))]
pub(crate) struct Args {
    /// Keep the runs of the last days
    #[arg(long, value_name = "N")]
    keep_days: Option<u64>,
    /// Keep the last runs
    #[arg(long, value_name = "N")]
    keep_last: Option<usize>,
    /// Only say which runs would be removed
    #[arg(long)]
    dry_run: bool,
}

pub(crate) fn run(app: &App<'_>, args: &Args) -> Outcome {
    let mut ledger = if args.dry_run { app.read_ledger()? } else { app.write_ledger()? };
    let project = app.runs_of(&ledger)?;
    let project = project.as_ref();
    let retention = Retention { days: args.keep_days, last: args.keep_last };
    let swept = match args.dry_run {
        true => Swept { runs: ledger.expired_of(retention, project).map_err(failure)?, ..Swept::default() },
        false => ledger.sweep_of(retention, project).map_err(failure)?,
    };
    if app.print.json {
        let mut object = json!({ "runs": swept.runs, "dry_run": args.dry_run });
        if !args.dry_run {
            object["records"] = swept.records.into();
            object["blobs"] = swept.blobs.into();
            object["bytes"] = swept.bytes.into();
            object["seq"] = json!(swept.seq);
        }
        return app.print.value(&object);
    }
    for run in &swept.runs {
        app.print.line(&format!("{}{run}", if args.dry_run { "would remove " } else { "removed " }))?;
    }
    let Swept { runs, records, blobs, bytes, .. } = &swept;
    if args.dry_run {
        app.print.say(&format!("runs that would be removed: {}", runs.len()));
    } else {
        let runs = runs.len();
        app.print.say(&format!("removed: runs {runs}, payloads {records}, texts {blobs} ({bytes} bytes)"));
    }
    Ok(0)
}
