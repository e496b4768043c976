//! Flows: the list of them, and one with its graph, its reasons to wait, its runs and its events.

use askama::Template;
use axum::extract::{Path, State};
use callsheet::Project;
use callsheet::error::Result;
use callsheet::event_words::EventNarrator;
use callsheet::events::EventOutput;
use callsheet::flow::status::{FlowView, run_word};
use callsheet::local_time::LocalClock;
use callsheet::output::{FlowOutput, FlowStatusOutput, WaitReasonOutput, WaitWord};
use callsheet::project::duration::duration_words;
use callsheet_core::diag::Code;
use callsheet_core::flow::{FlowCondition, read_graph};
use callsheet_core::record::ChecksOutcome;
use callsheet_store::Ledger;

use super::layout::{PageLayout, PagePlace};
use super::words::{OutcomeMark, cost_words};
use crate::action_forms::ActionForm;
use crate::shown_text::ShownText;
use crate::site::{PageResult, SiteState};
use crate::svg::graph::GraphPicture;

/// The most events of a flow that a page names.
const MOST_EVENTS: usize = 300;

/// A flow in the list.
#[derive(Debug)]
struct FlowItem {
    address: String,
    name: ShownText,
    definition: ShownText,
    request: ShownText,
    mark: OutcomeMark,
    place: ShownText,
    reason: ShownText,
    cost: String,
    age: String,
    ago: String,
}

/// The list of flows.
#[derive(Debug, Template)]
#[template(path = "flows.html")]
struct FlowsPage {
    layout: PageLayout,
    flows: Vec<FlowItem>,
}

/// A reason why a flow waits.
#[derive(Debug)]
struct WaitView {
    message: ShownText,
    run: ShownText,
    to: ShownText,
    details: Vec<ShownText>,
    lacks: Vec<LackView>,
}

/// A missing word of evidence.
#[derive(Debug)]
struct LackView {
    need: ShownText,
    message: ShownText,
    output: Vec<ShownText>,
}

/// A run of the flow.
#[derive(Debug)]
struct LaneRow {
    phase: ShownText,
    round: u32,
    lane: ShownText,
    name: ShownText,
    address: String,
    agent: ShownText,
    mark: Option<OutcomeMark>,
    reply: &'static str,
    checks: &'static str,
    checks_class: &'static str,
    time: String,
    cost: String,
}

impl LaneRow {
    fn describe_reply(&self) -> ShownText {
        format!("{} in {} replied: {}", self.name, self.phase, self.reply).into()
    }
}

/// An event of the flow.
#[derive(Debug)]
struct EventRow {
    at: ShownText,
    time: ShownText,
    words: ShownText,
}

/// A decision that a person can make.
#[derive(Debug)]
struct ChoiceView {
    word: &'static str,
    label: &'static str,
    class: &'static str,
    needs_text: bool,
}

/// The page of a flow.
#[derive(Debug, Template)]
#[template(path = "flow.html")]
pub(crate) struct FlowPage {
    layout: PageLayout,
    id: String,
    item: FlowItem,
    round: u32,
    driven: bool,
    graph: String,
    waits: Vec<WaitView>,
    questions: Vec<ShownText>,
    choices: Vec<ChoiceView>,
    form: Option<ActionForm>,
    runs: Vec<LaneRow>,
    events: Vec<EventRow>,
    decisions: Vec<ShownText>,
    next: Vec<(ShownText, ShownText)>,
}

fn condition_mark(state: FlowCondition, driven: bool) -> OutcomeMark {
    let (class, sign) = match state {
        FlowCondition::Done => ("good", "✓"),
        FlowCondition::Rejected => ("bad", "✕"),
        FlowCondition::Waiting => ("warn", "!"),
        FlowCondition::Stopped => ("warn", "‖"),
        _ if driven => ("live", "●"),
        _ => ("warn", "!"),
    };
    OutcomeMark { class, sign, words: state.name() }
}

impl FlowItem {
    fn new(flow: &FlowOutput, clock: &LocalClock) -> Self {
        let messages: Vec<&str> = flow.waits_for.iter().map(|wait| wait.message.as_str()).collect();
        Self {
            address: format!("/flows/{}", flow.flow),
            name: ShownText::new(&flow.name),
            definition: ShownText::new(&flow.definition),
            request: ShownText::new(flow.request.lines().next().unwrap_or_default()),
            mark: condition_mark(flow.state, flow.driven),
            place: ShownText::new(&flow.phase),
            reason: messages.join("; ").into(),
            cost: cost_words(flow.cost_microusd, flow.cost_estimated),
            age: clock.age(&flow.started_at),
            ago: clock.ago(&flow.started_at),
        }
    }
}

impl WaitView {
    fn new(wait: &WaitReasonOutput, runs: &[LaneRow], ids: &[String]) -> Self {
        let name = |id: &str| ids.iter().position(|known| known == id).map(|at| runs[at].name.clone());
        Self {
            message: ShownText::new(&wait.message),
            run: wait.run.as_ref().and_then(|run| name(run.as_str())).unwrap_or_default(),
            to: wait.to.as_ref().map(ShownText::from).unwrap_or_default(),
            details: match (wait.code, wait.lacks.is_empty()) {
                // The reply of the last run is the reason for a decision.
                (WaitWord::Decision, _) => runs.last().map(LaneRow::describe_reply).into_iter().collect(),
                (_, true) => wait.details.iter().map(ShownText::from).collect(),
                (_, false) => Vec::new(),
            },
            lacks: wait
                .lacks
                .iter()
                .map(|lack| LackView {
                    need: ShownText::new(&lack.need),
                    message: ShownText::new(&lack.message),
                    output: lack.output.iter().map(|line| ShownText::from_line(line)).collect(),
                })
                .collect(),
        }
    }
}

/// Lists the decisions that a person can make, as the next commands offer them.
fn list_choices(flow: &FlowOutput) -> Vec<ChoiceView> {
    let known = [
        ("flow resume", "resume", "Resume", false),
        ("flow decide answer", "answer", "Answer", true),
        ("flow decide approve", "approve", "Approve", false),
        ("flow decide changes", "changes", "Request changes", true),
        ("flow decide reject", "reject", "Reject", false),
    ];
    let is_offered = |command: &str| flow.next.iter().any(|step| step.command.contains(command));
    let offered = known.into_iter().filter(|(command, ..)| is_offered(command));
    let choice = |(at, (_, word, label, needs_text))| ChoiceView {
        word,
        label,
        class: if at == 0 { "primary" } else { "" },
        needs_text,
    };
    offered.enumerate().map(choice).collect()
}

impl FlowPage {
    /// Reads a flow.
    pub(crate) fn read(
        project: &Project,
        ledger: &mut Ledger,
        layout: PageLayout,
        view: &FlowView,
        form: Option<ActionForm>,
    ) -> Result<Self> {
        let runs = view.read_runs(ledger)?;
        let status = FlowStatusOutput::new(project, view, &runs);
        let graph = read_graph(&view.known.plan.definition, Some(&view.known.state));
        let rows: Vec<LaneRow> = status
            .items
            .iter()
            .zip(&runs)
            .map(|(item, run)| {
                let name = run_word(&item.run, run.summary.as_ref());
                let (checks, checks_class) = match item.checks {
                    Some(ChecksOutcome::Passed) => ("✓ passed", "good"),
                    Some(ChecksOutcome::Failed) => ("✕ failed", "bad"),
                    Some(ChecksOutcome::Pending) => ("… pending", "warn"),
                    _ => ("", ""),
                };
                LaneRow {
                    phase: ShownText::new(&item.phase),
                    round: item.round,
                    lane: ShownText::new(&item.lane),
                    address: format!("/runs/{name}"),
                    name: name.into(),
                    agent: item.agent.as_ref().map(ShownText::from).unwrap_or_default(),
                    mark: item.outcome.map(OutcomeMark::new),
                    reply: item.reply.map(|reply| reply.name()).unwrap_or_default(),
                    checks,
                    checks_class,
                    time: item.duration_ms.map(duration_words).unwrap_or_default(),
                    cost: item
                        .cost_microusd
                        .map(|cost| cost_words(cost, item.cost_estimated))
                        .unwrap_or_default(),
                }
            })
            .collect();
        let ids: Vec<String> = status.items.iter().map(|item| item.run.clone()).collect();
        let flow = &status.flow;
        let clock = LocalClock::read();
        let decided = flow.decisions.iter().map(|it| {
            let at = clock.clock_time(&it.at);
            format!("{at}  {} ({})", it.decision, it.by.name()).into()
        });
        Ok(Self {
            layout,
            id: flow.flow.to_string(),
            item: FlowItem::new(flow, &clock),
            round: flow.round,
            driven: flow.driven,
            graph: GraphPicture::new(&graph).render().unwrap_or_default(),
            waits: flow.waits_for.iter().map(|wait| WaitView::new(wait, &rows, &ids)).collect(),
            questions: flow.questions.iter().map(ShownText::from).collect(),
            choices: list_choices(flow),
            form,
            runs: rows,
            events: read_events(project, ledger, view)?,
            decisions: decided.collect(),
            next: flow
                .next
                .iter()
                .map(|step| (ShownText::new(&step.command), ShownText::new(&step.purpose)))
                .collect(),
        })
    }
}

fn read_events(project: &Project, ledger: &mut Ledger, view: &FlowView) -> Result<Vec<EventRow>> {
    let (mut narrator, clock) = (EventNarrator::new(project), LocalClock::read());
    let mut rows = Vec::new();
    let records = ledger.records_of_flow(&view.known.id)?;
    for record in records.iter().skip(records.len().saturating_sub(MOST_EVENTS)) {
        for event in EventOutput::from_record(record)? {
            for words in narrator.describe_event(&event) {
                let at = clock.clock_time(&event.at);
                rows.push(EventRow { at: ShownText::new(&event.at), time: at.into(), words: words.into() });
            }
        }
    }
    Ok(rows)
}

/// Answers with the list of flows.
pub(crate) async fn show_flows(State(site): State<SiteState>) -> PageResult {
    site.render(|project| {
        let mut ledger = match project.read_ledger() {
            Err(error) if error.is_only(Code::LedgerNotThere) => {
                let layout = PageLayout::without_ledger(project, PagePlace::Flows);
                return Ok(FlowsPage { layout, flows: Vec::new() });
            }
            ledger => ledger?,
        };
        let layout = PageLayout::read(project, &mut ledger, PagePlace::Flows)?;
        let views = project.all_flows(&mut ledger)?;
        let clock = LocalClock::read();
        let flows = views.iter().map(|view| FlowItem::new(&FlowOutput::new(project, view), &clock)).collect();
        Ok(FlowsPage { layout, flows })
    })
    .await
}

/// Answers with a flow.
pub(crate) async fn show_flow(State(site): State<SiteState>, Path(flow): Path<String>) -> PageResult {
    let form = site.new_form()?;
    site.render(move |project| {
        let mut ledger = project.read_ledger()?;
        let layout = PageLayout::read(project, &mut ledger, PagePlace::Flows)?;
        let view = project.flow_view(&mut ledger, Some(&flow))?;
        FlowPage::read(project, &mut ledger, layout, &view, Some(form))
    })
    .await
}
