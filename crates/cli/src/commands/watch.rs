//! `callsheet watch`: prints records as they are appended, by any process.

use callsheet::error::CommandResult;
use callsheet::events::{EventFollower, EventPosition};

use crate::context::CommandContext;

/// Print events as they happen, one JSON object per line, until interrupted
///
/// Prints every record of the ledger once, in order, whichever process appends it: `run.started`
/// (composed, delivered), `run.output`, `run.status_changed`, `check.status_changed`, `scope_violation.created`,
/// `scope_violation.decided`, `run.finished`, and `record.KIND` for any other record.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Start after this record, or after this event of it; 0 starts with the first record [default: new
    /// records only]
    #[arg(long, value_name = "SEQ[.INDEX]")]
    since: Option<String>,
}

pub(crate) fn run(app: &CommandContext, args: &Args) -> CommandResult {
    let since = args.since.as_deref().map(EventPosition::parse).transpose()?;
    let mut follower = EventFollower::open(app, since)?;
    loop {
        for event in follower.wait()? {
            if !app.print.print_stream_line(&event)? {
                return Ok(0);
            }
        }
    }
}
