//! `callsheet watch`: prints records as they are appended, by any process.

use callsheet::error::CommandResult;
use callsheet::event_words::EventNarrator;
use callsheet::events::{EventFollower, EventPosition};

use crate::context::CommandContext;

/// Print events as they happen, until interrupted
///
/// Prints a line for every event of the ledger, in order, whichever process appends it: local time, run or flow, and what
/// happened. With `--json`, every event once as one object per line: `run.started` (composed, delivered), `run.output`,
/// `run.status_changed`, `check.status_changed`, `scope_violation.created`, `scope_violation.decided`, `run.finished`,
/// `flow.EVENT`, and `record.KIND` for any other record.
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
    let mut narrator = EventNarrator::new(app);
    loop {
        for event in follower.wait()? {
            let is_read = match app.print.json {
                true => app.print.print_stream_line(&event)?,
                false => app.print.print_text_lines(&narrator.lines(&event))?,
            };
            if !is_read {
                return Ok(0);
            }
        }
    }
}
