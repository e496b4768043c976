//! `callsheet gc`: removes old runs from the ledger by a retention policy.

use callsheet::output::SweepOutput;
use callsheet_core::diag::{Code, Diagnostic};
use callsheet_store::{RetentionPolicy, SweepReport, now};

use crate::context::CommandContext;
use callsheet::error::CommandResult;

/// Remove old runs of this project from the ledger
///
/// Keeps a run if a rule keeps it, if it or its flow has not ended, or if a kept run points at it. Also
/// removes the texts that only removed runs need. The chain stays whole, and a record names the removed runs.
/// If the clock is implausible, removes no run by its age.
#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("rule").required(true).multiple(true).args(["keep_days", "keep_last"])))]
pub(crate) struct Args {
    /// Keep the runs of the last N days
    #[arg(long, value_name = "N")]
    keep_days: Option<u64>,
    /// Keep the last N runs
    #[arg(long, value_name = "N")]
    keep_last: Option<usize>,
    /// Print the runs that would be removed, and remove nothing
    #[arg(long)]
    dry_run: bool,
}

pub(crate) fn run(app: &CommandContext, args: &Args) -> CommandResult {
    let policy = RetentionPolicy { days: args.keep_days, last: args.keep_last };
    let swept = app.sweep(policy, args.dry_run)?;
    if swept.clock_is_wrong {
        let hint = "set the clock, or use `--keep-last` without `--keep-days`";
        app.print.print_diagnostics([&Diagnostic::warning(
            Code::ClockWrong,
            format!("the clock says {}, which cannot be right; no run was removed by age", now()),
        )
        .hint(hint)]);
    }
    if app.print.json {
        return app.print.print_json(&SweepOutput::new(&swept, args.dry_run));
    }
    let verb = if args.dry_run { "would remove" } else { "removed" };
    app.print.print_page(&swept.runs.iter().map(|run| format!("{verb} {run}\n")).collect::<String>())?;
    let SweepReport { records, blobs, bytes, .. } = &swept;
    let (runs, unfinished) = (swept.runs.len(), swept.unfinished.len());
    if unfinished > 0 {
        app.print.print_status(&format!(
            "unfinished runs kept: {unfinished} (run `callsheet recover` if callsheet was killed)"
        ));
    }
    app.print.print_status(&match args.dry_run {
        true => format!("would remove runs: {runs}"),
        false => format!("removed: runs {runs}, payloads {records}, texts {blobs} ({bytes} bytes)"),
    });
    Ok(0)
}
