//! `callsheet watch`: prints records as they are appended, by any process.

use std::thread;
use std::time::Duration;

use callsheet_core::diag::{Code, Diagnostics};
use callsheet_core::record::told;
use callsheet_store::{Ledger, StoredRecord};
use serde_json::{Value, json};

use crate::app::AppContext;
use crate::failure::CommandResult;
use crate::ledger::failure;

/// Print what happens as it happens, one JSON object per line, until interrupted
///
/// Every record of the ledger is told once, in the order of its number, whichever process appends it: `run.started` (composed,
/// delivered), `run.output`, `run.status_changed`, `check.status_changed`, `scope_violation.created`,
/// `scope_violation.decided`, `run.finished`, and as `record.KIND` what is none of these.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Begin behind this number; 0 is the first record [default: what is new]
    #[arg(long, value_name = "SEQ")]
    since: Option<u64>,
}

/// Poll interval: too short for a person to notice, and nearly free.
const PAUSE: Duration = Duration::from_millis(50);

pub(crate) fn run(app: &AppContext<'_>, args: &Args) -> CommandResult {
    let (mut ledger, was_there) = wait(app)?;
    let mut last = match args.since {
        Some(since) => since,
        None if was_there => ledger.head().map_err(failure)?.seq,
        None => 0,
    };
    loop {
        let records = ledger.records_after(last, 256).map_err(failure)?;
        if records.is_empty() {
            thread::sleep(PAUSE);
        }
        for record in records {
            last = record.seq;
            for event in events(&record)? {
                if !app.print.stream(&event)? {
                    return Ok(0);
                }
            }
        }
    }
}

/// Returns the events of a record, each with the record's number.
fn events(record: &StoredRecord) -> Result<Vec<Value>, Diagnostics> {
    let told = match record.event().map_err(failure)? {
        Some(event) => told(&event),
        None => vec![("record.emptied", json!({ "kind": record.kind }))],
    };
    let event = |(name, data): (&str, Value)| {
        json!({
            "seq": record.seq, "event": name, "at": record.at, "run": record.run, "flow": record.flow, "data": data,
        })
    };
    Ok(told.into_iter().map(event).collect())
}

/// Waits for the ledger, and returns it with whether it existed from the start.
fn wait(app: &AppContext<'_>) -> Result<(Ledger, bool), Diagnostics> {
    let mut was_there = true;
    loop {
        match app.read_ledger() {
            Err(Diagnostics(diags)) if diags.iter().all(|diag| diag.code == Code::LedgerNotThere) => {
                thread::sleep(PAUSE);
            }
            opened => return Ok((opened?, was_there)),
        }
        was_there = false;
    }
}
