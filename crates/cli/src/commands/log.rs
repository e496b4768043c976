//! `callsheet log`: lists the recorded runs, newest first.

use callsheet::error::{CommandResult, Result, usage_error};
use callsheet::output::{ListOutput, RunItemOutput};
use callsheet_store::RunFilter;

use crate::context::CommandContext;
use crate::pages::log::runs_page;

/// List recorded runs, the newest first
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only runs of this agent
    #[arg(short, long, value_name = "NAME")]
    agent: Option<String>,
    /// Only runs of this phase
    #[arg(short, long, value_name = "NAME")]
    phase: Option<String>,
    /// Only runs of this task
    #[arg(long, value_name = "ID")]
    task: Option<String>,
    /// Only runs with this verdict, such as PASS
    #[arg(long, value_name = "VERDICT")]
    verdict: Option<String>,
    /// Only runs from then on, such as 2026-01-31 or 2026-01-31T12:00 (UTC)
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Only runs up to then
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// The most runs that are listed
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: usize,
}

pub(crate) fn run(app: &CommandContext, args: &Args) -> CommandResult {
    for time in args.since.iter().chain(&args.until) {
        if !is_time(time) {
            return Err(usage_error(format!(
                "invalid time `{time}`: expected a value such as 2026-01-31T12:00"
            ))
            .into());
        }
    }
    let mut ledger = app.read_ledger()?;
    let filter = RunFilter {
        project: app.project_filter(&ledger)?,
        own: false,
        agent: args.agent.clone(),
        phase: args.phase.clone(),
        task: args.task.clone(),
        verdict: args.verdict.clone(),
        since: args.since.clone(),
        until: args.until.clone(),
        limit: args.limit,
        ..RunFilter::default()
    };
    let rows = ledger.runs(&filter)?;
    if !app.print.json {
        return app.print.print_page(&runs_page(&app.print, &rows));
    }
    let items = rows.iter().map(|row| RunItemOutput::read(&mut ledger, row));
    app.print.print_json(&items.collect::<Result<ListOutput<_>>>()?)
}

/// Checks whether a text is a time in UTC, or the beginning of one from the year on.
fn is_time(text: &str) -> bool {
    const FORM: &[u8] = b"0000-00-00T00:00:00.000000";
    let text = text.strip_suffix('Z').unwrap_or(text).as_bytes();
    let fits = |(byte, form): (&u8, &u8)| byte == form || *form == b'0' && byte.is_ascii_digit();
    (4..=FORM.len()).contains(&text.len()) && text.iter().zip(FORM).all(fits)
}
