//! `callsheet stats`: sums over the runs of the project.

use callsheet::error::CommandResult;
use callsheet::output::StatsOutput;
use callsheet::run_list::RunQuery;
use callsheet_store::StatsKey;
use clap::ValueEnum;
use clap::builder::PossibleValue;

use crate::context::CommandContext;
use crate::pages::stats::stats_page;

/// Show how many runs succeeded, and their time, tokens and cost
///
/// Includes the runs of flows, but not prompts that were only composed. The mark ~ means that a cost is estimated from tokens
/// and prices.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Group the runs by these properties, in this order
    #[arg(long, value_name = "KEYS", value_delimiter = ',')]
    by: Vec<StatsKeyArg>,
    /// Only runs that started then or later: 2h, today, yesterday, 2026-01-31 or 2026-01-31T12:00
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Only runs that started then or earlier
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// Show all groups instead of the first 50
    #[arg(long)]
    all: bool,
}

#[derive(Clone, Copy, Debug)]
struct StatsKeyArg(StatsKey);

impl ValueEnum for StatsKeyArg {
    fn value_variants<'a>() -> &'a [Self] {
        const ALL: [StatsKeyArg; 6] = [
            StatsKeyArg(StatsKey::Agent),
            StatsKeyArg(StatsKey::Phase),
            StatsKeyArg(StatsKey::Role),
            StatsKeyArg(StatsKey::Task),
            StatsKeyArg(StatsKey::Day),
            StatsKeyArg(StatsKey::Template),
        ];
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.0.name()))
    }
}

/// The most groups without `--all`.
const MOST_GROUPS: usize = 50;

pub(crate) fn run(app: &CommandContext, args: &Args) -> CommandResult {
    let query = RunQuery { since: args.since.clone(), until: args.until.clone(), ..RunQuery::default() };
    let mut by: Vec<StatsKey> = Vec::new();
    for key in args.by.iter().map(|key| key.0) {
        if !by.contains(&key) {
            by.push(key);
        }
    }
    let limit = if args.all { None } else { Some(MOST_GROUPS) };
    let report = app.stats(&query, &by, limit)?;
    if app.print.json {
        return app.print.print_json(&StatsOutput::from(&report));
    }
    app.print.print_page(&stats_page(&app.print, &report))
}
