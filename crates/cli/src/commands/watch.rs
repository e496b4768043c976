//! `callsheet watch`: prints records as they are appended, by any process.

use std::thread;
use std::time::Duration;

use callsheet_core::diag::Code;
use callsheet_core::record::watch_events;
use callsheet_store::{Ledger, StoredRecord};
use serde_json::{Value, json};

use crate::context::CommandContext;
use callsheet::error::{CommandResult, Result};

/// Print events as they happen, one JSON object per line, until interrupted
///
/// Prints every record of the ledger once, in the order of its number, whichever process appends it: `run.started`
/// (composed, delivered), `run.output`, `run.status_changed`, `check.status_changed`, `scope_violation.created`,
/// `scope_violation.decided`, `run.finished`, and `record.KIND` for any other record.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Begin after this number; 0 begins with the first record [default: only new records]
    #[arg(long, value_name = "SEQ")]
    since: Option<u64>,
}

/// Poll interval: too short for a person to notice, and nearly free.
const PAUSE: Duration = Duration::from_millis(50);

pub(crate) fn run(app: &CommandContext, args: &Args) -> CommandResult {
    let (mut ledger, was_there) = wait_for_ledger(app)?;
    let mut last = match args.since {
        Some(since) => since,
        None if was_there => ledger.head()?.seq,
        None => 0,
    };
    loop {
        let records = ledger.records_after(last, 256)?;
        if records.is_empty() {
            thread::sleep(PAUSE);
        }
        for record in records {
            last = record.seq;
            for event in read_events(&record)? {
                if !app.print.print_stream_value(&event)? {
                    return Ok(0);
                }
            }
        }
    }
}

/// Returns the events of a record, each with the record's number.
fn read_events(record: &StoredRecord) -> Result<Vec<Value>> {
    let told = match record.event()? {
        Some(event) => watch_events(&event),
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
fn wait_for_ledger(app: &CommandContext) -> Result<(Ledger, bool)> {
    let mut was_there = true;
    loop {
        match app.read_ledger() {
            Err(error) if error.is_only(Code::LedgerNotThere) => {
                thread::sleep(PAUSE);
            }
            opened => return Ok((opened?, was_there)),
        }
        was_there = false;
    }
}
