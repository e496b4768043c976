//! The inbox: everything that waits for a person, then the runs in progress (live), then the last results.

use askama::Template;
use axum::extract::{Query, State};
use callsheet::Project;
use callsheet::error::Result;
use callsheet::flow::status::FlowView;
use callsheet::inbox::Inbox;
use callsheet::local_time::LocalClock;
use callsheet::run::task_reason::TaskSummary;
use callsheet::run::tasks::TaskStanding;
use callsheet::run_list::{RunList, RunQuery};
use callsheet::run_titles::RunTitles;
use callsheet_core::diag::Code;
use callsheet_core::record::RunOutcome;
use callsheet_store::RunRow;
use serde::Deserialize;

use super::layout::{PageLayout, PagePlace};
use super::run_item::RunItem;
use super::words::{OutcomeMark, encode_query};
use crate::shown_text::ShownText;
use crate::site::{PageResult, SiteState};

/// The runs of a list, unless more are asked for.
const FEW: usize = 50;

/// The most runs of a list.
const MOST: usize = 1000;

/// The filters of the inbox, as `callsheet log` has them.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct InboxQuery {
    agent: String,
    phase: String,
    role: String,
    task: String,
    flow: String,
    verdict: String,
    project: String,
    machine: String,
    outcome: String,
    failed: String,
    since: String,
    until: String,
    grep: String,
    limit: String,
}

impl InboxQuery {
    /// Returns the names and values of the filters that are set.
    fn given(&self) -> Vec<(&'static str, &str)> {
        let all = [
            ("agent", &self.agent),
            ("phase", &self.phase),
            ("role", &self.role),
            ("task", &self.task),
            ("flow", &self.flow),
            ("verdict", &self.verdict),
            ("project", &self.project),
            ("machine", &self.machine),
            ("outcome", &self.outcome),
            ("failed", &self.failed),
            ("since", &self.since),
            ("until", &self.until),
            ("grep", &self.grep),
        ];
        all.into_iter()
            .map(|(name, value)| (name, value.trim()))
            .filter(|(_, value)| !value.is_empty())
            .collect()
    }

    /// Checks whether filters are set that are not always visible.
    fn has_more_filters(&self) -> bool {
        self.given().iter().any(|(name, _)| !matches!(*name, "grep" | "agent" | "outcome" | "failed"))
    }

    fn limit(&self) -> usize {
        self.limit.parse().unwrap_or(FEW).clamp(1, MOST)
    }

    fn to_run_query(&self) -> RunQuery {
        let value = |text: &String| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
        RunQuery {
            agent: value(&self.agent),
            phase: value(&self.phase),
            role: value(&self.role),
            task: value(&self.task),
            flow: value(&self.flow),
            verdict: value(&self.verdict),
            project: value(&self.project),
            machine: value(&self.machine),
            outcome: value(&self.outcome),
            failed: value(&self.failed).is_some(),
            since: value(&self.since),
            until: value(&self.until),
            grep: value(&self.grep),
            limit: Some(self.limit()),
        }
    }

    /// Returns the address of the same list with more runs.
    fn more_address(&self) -> String {
        let mut address = format!("/?limit={}", (self.limit() * 4).min(MOST));
        for (name, value) in self.given() {
            address += &format!("&{name}={}", encode_query(value));
        }
        address
    }
}

/// Something that waits for a person.
#[derive(Debug)]
struct WaitingItem {
    kind: &'static str,
    mark: OutcomeMark,
    name: ShownText,
    address: String,
    title: ShownText,
    reason: ShownText,
    next: ShownText,
    age: String,
}

impl WaitingItem {
    fn from_flow(view: &FlowView) -> Self {
        let messages: Vec<&str> = view.waits.iter().map(|wait| wait.message.as_str()).collect();
        let (words, reason) = match messages.is_empty() {
            true => ("interrupted", "no process drives it".to_owned()),
            false => ("waits", messages.join("; ")),
        };
        Self {
            kind: "flow",
            mark: OutcomeMark { class: "warn", sign: "!", words },
            name: ShownText::new(&view.known.plan.name),
            address: format!("/flows/{}", view.known.id),
            title: ShownText::default(),
            reason: reason.into(),
            next: view.next.first().map(|step| ShownText::new(&step.command)).unwrap_or_default(),
            age: String::new(),
        }
    }

    fn from_task(standing: &TaskStanding, clock: &LocalClock) -> Option<Self> {
        let last = standing.task.runs.last()?;
        let TaskSummary { message, next } = standing.summarize(clock);
        Some(Self {
            kind: "task",
            mark: OutcomeMark::from_task(standing.status),
            name: last.name().into(),
            address: format!("/runs/{}", last.name()),
            title: ShownText::new(&standing.task.title),
            reason: message.into(),
            next: next.map(|step| step.command.into()).unwrap_or_default(),
            age: clock.age(&last.run.started),
        })
    }
}

/// The page.
#[derive(Debug, Template)]
#[template(path = "inbox.html")]
struct InboxPage {
    layout: PageLayout,
    query: InboxQuery,
    outcomes: Vec<&'static str>,
    problems: Vec<ShownText>,
    waiting: Vec<WaitingItem>,
    running: Vec<RunItem>,
    results: Vec<RunItem>,
    has_more: bool,
    has_more_waiting: bool,
    has_projects: bool,
}

impl InboxPage {
    fn read(project: &Project, query: InboxQuery) -> Result<Self> {
        let mut ledger = match project.read_ledger() {
            Err(error) if error.is_only(Code::LedgerNotThere) => {
                return Ok(Self::new(PageLayout::without_ledger(project, PagePlace::Inbox), query));
            }
            ledger => ledger?,
        };
        let clock = LocalClock::read();
        let layout = PageLayout::read(project, &mut ledger, PagePlace::Inbox)?;
        let mut page = Self { has_projects: project.all_projects, ..Self::new(layout, query) };
        let inbox = match project.read_inbox(&mut ledger, &page.query.to_run_query()) {
            // A filter with a typing error is shown beside the filters.
            Err(error) if error.is_only(Code::UsageBad) => {
                page.problems = error.diagnostics().iter().map(|diag| diag.to_string().into()).collect();
                let nothing = RunQuery { limit: Some(0), ..RunQuery::default() };
                Inbox {
                    recent: RunList { rows: Vec::new(), has_more: false },
                    ..project.read_inbox(&mut ledger, &nothing)?
                }
            }
            inbox => inbox?,
        };
        let mut titles = RunTitles::default();
        let mut items = |rows: &[RunRow]| {
            let item = |row| RunItem::new(row, &titles.title(&mut ledger, row), &clock);
            rows.iter().map(item).collect()
        };
        page.waiting = inbox.flows.iter().map(WaitingItem::from_flow).collect();
        page.waiting
            .extend(inbox.tasks.iter().filter_map(|standing| WaitingItem::from_task(standing, &clock)));
        page.has_more_waiting = inbox.has_more_tasks;
        page.running = items(&inbox.running);
        page.results = items(&inbox.recent.rows);
        page.has_more = inbox.recent.has_more;
        Ok(page)
    }

    fn new(layout: PageLayout, query: InboxQuery) -> Self {
        Self {
            layout,
            query,
            outcomes: RunOutcome::ALL.iter().map(|outcome| outcome.name()).collect(),
            problems: Vec::new(),
            waiting: Vec::new(),
            running: Vec::new(),
            results: Vec::new(),
            has_more: false,
            has_more_waiting: false,
            has_projects: false,
        }
    }
}

/// Answers with the inbox.
pub(crate) async fn show_inbox(State(site): State<SiteState>, Query(query): Query<InboxQuery>) -> PageResult {
    site.render(move |project| InboxPage::read(project, query)).await
}
