//! Cost and outcomes: sums by agent, phase, role and day, each as bars with the table below.

use askama::Template;
use axum::extract::{Query, State};
use callsheet::Project;
use callsheet::error::Result;
use callsheet::output::{StatsGroupOutput, StatsOutput};
use callsheet::project::duration::duration_words;
use callsheet::run_list::RunQuery;
use callsheet_core::diag::Code;
use callsheet_core::record::RunOutcome;
use callsheet_store::StatsKey;
use serde::Deserialize;

use super::layout::{PageLayout, PagePlace};
use super::words::{OutcomeMark, cost_words, count_words};
use crate::shown_text::ShownText;
use crate::site::{PageResult, SiteState};
use crate::svg::plot::{PlotPicture, PlotRow};

/// The groups of the page.
const KEYS: [StatsKey; 4] = [StatsKey::Day, StatsKey::Agent, StatsKey::Phase, StatsKey::Role];

/// The most groups of a plot.
const MOST: usize = 40;

/// The time that the sums are about.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct CostsQuery {
    since: String,
    until: String,
}

/// A row of a table.
#[derive(Debug)]
struct GroupRow {
    name: ShownText,
    runs: u64,
    succeeded: u64,
    failed: u64,
    until_success: String,
    time: String,
    input: String,
    cached: String,
    output: String,
    cost: String,
}

/// Sums by one property.
#[derive(Debug)]
struct GroupView {
    name: &'static str,
    outcomes: String,
    costs: String,
    rows: Vec<GroupRow>,
    left_out: usize,
}

/// The page.
#[derive(Debug, Template)]
#[template(path = "costs.html")]
struct CostsPage {
    layout: PageLayout,
    query: CostsQuery,
    problems: Vec<ShownText>,
    total: GroupRow,
    groups: Vec<GroupView>,
}

impl GroupRow {
    fn new(group: &StatsGroupOutput) -> Self {
        let sum = |is_counted: fn(RunOutcome) -> bool| {
            let outcomes = RunOutcome::ALL.iter().filter(|outcome| is_counted(**outcome));
            outcomes.filter_map(|outcome| group.outcomes.get(outcome.name())).sum()
        };
        let tokens = |count: Option<u64>| count.map(count_words).unwrap_or_default();
        Self {
            name: group_name(group),
            runs: group.run_count,
            succeeded: sum(|outcome| outcome == RunOutcome::Succeeded),
            failed: sum(RunOutcome::is_failure),
            until_success: group.runs_until_success.map(|runs| format!("{runs:.1}")).unwrap_or_default(),
            time: group.duration_ms.map(duration_words).unwrap_or_default(),
            input: tokens(group.input_tokens),
            cached: group.cached_share.map(|share| format!("{:.0} %", share * 100.0)).unwrap_or_default(),
            output: tokens(group.output_tokens),
            cost: group.cost_microusd.map(|cost| cost_words(cost, group.cost_estimated)).unwrap_or_default(),
        }
    }
}

fn group_name(group: &StatsGroupOutput) -> ShownText {
    match group.key.values().next() {
        Some(Some(name)) => ShownText::new(name),
        Some(None) => "none".into(),
        None => "all".into(),
    }
}

impl GroupView {
    fn new(key: StatsKey, stats: &StatsOutput) -> Self {
        let name = key.name();
        let outcome_row = |group: &StatsGroupOutput| {
            let part = |outcome: &RunOutcome| {
                let count = *group.outcomes.get(outcome.name())?;
                let mark = OutcomeMark::new(*outcome);
                Some((mark.class, format!("{}: {count}", mark.words), count))
            };
            PlotRow {
                label: group_name(group).to_string(),
                parts: RunOutcome::ALL.iter().filter_map(part).collect(),
                words: group.run_count.to_string(),
            }
        };
        let cost_row = |group: &StatsGroupOutput| {
            let cost = group.cost_microusd.unwrap_or(0);
            let words = cost_words(cost, group.cost_estimated);
            PlotRow {
                label: group_name(group).to_string(),
                parts: vec![("cost", words.clone(), cost)],
                words,
            }
        };
        let picture = |title: &str, rows: Vec<PlotRow>| {
            PlotPicture::new(&format!("{title} by {name}"), &rows).render().unwrap_or_default()
        };
        Self {
            name,
            outcomes: picture("Runs", stats.items.iter().map(outcome_row).collect()),
            costs: match stats.items.iter().any(|group| group.cost_microusd.is_some()) {
                true => picture("Cost", stats.items.iter().map(cost_row).collect()),
                false => String::new(),
            },
            rows: stats.items.iter().map(GroupRow::new).collect(),
            left_out: stats.left_out_count,
        }
    }
}

impl CostsPage {
    fn read(project: &Project, query: CostsQuery) -> Result<Self> {
        let layout = match project.read_ledger() {
            Err(error) if error.is_only(Code::LedgerNotThere) => {
                let layout = PageLayout::without_ledger(project, PagePlace::Costs);
                return Ok(Self::empty(layout, query, Vec::new()));
            }
            ledger => PageLayout::read(project, &mut ledger?, PagePlace::Costs)?,
        };
        let value = |text: &str| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
        let runs = RunQuery { since: value(&query.since), until: value(&query.until), ..RunQuery::default() };
        let mut groups = Vec::new();
        let mut total = None;
        for key in KEYS {
            let report = match project.stats(&runs, &[key], Some(MOST)) {
                Err(error) if error.is_only(Code::UsageBad) => {
                    let problems = error.diagnostics().iter().map(|diag| diag.to_string().into()).collect();
                    return Ok(Self::empty(layout, query, problems));
                }
                report => report?,
            };
            let stats = StatsOutput::from(&report);
            total.get_or_insert_with(|| GroupRow::new(&stats.total));
            // A property that no run has tells nothing.
            let has_values = stats.items.iter().any(|group| group.key.values().any(Option::is_some));
            if has_values {
                groups.push(GroupView::new(key, &stats));
            }
        }
        let total = total.unwrap_or_else(empty_row);
        Ok(Self { layout, query, problems: Vec::new(), total, groups })
    }

    fn empty(layout: PageLayout, query: CostsQuery, problems: Vec<ShownText>) -> Self {
        Self { layout, query, problems, total: empty_row(), groups: Vec::new() }
    }
}

fn empty_row() -> GroupRow {
    GroupRow {
        name: "all".into(),
        runs: 0,
        succeeded: 0,
        failed: 0,
        until_success: String::new(),
        time: String::new(),
        input: String::new(),
        cached: String::new(),
        output: String::new(),
        cost: String::new(),
    }
}

/// Answers with costs and outcomes.
pub(crate) async fn show_costs(State(site): State<SiteState>, Query(query): Query<CostsQuery>) -> PageResult {
    site.render(move |project| CostsPage::read(project, query)).await
}
