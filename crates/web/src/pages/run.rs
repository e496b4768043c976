//! One run: a strip of its facts, and panes in step: timeline, prompt, change, log and reply.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Path, State};
use callsheet::Project;
use callsheet::error::Result;
use callsheet::flow::run_view::RunView;
use callsheet::local_time::LocalClock;
use callsheet::paths::shell_word;
use callsheet::project::duration::duration_words;
use callsheet::run::agent_version::agent_version_words;
use callsheet::run::next_steps::next_steps;
use callsheet::run::tasks::is_lost;
use callsheet::run_titles::RunTitles;
use callsheet_core::record::{LogStream, RunSummary};
use callsheet_core::request::fact::{CheckResult, CheckRun};
use callsheet_store::{Ledger, RunRow};

use super::change_pane::ChangePane;
use super::context_pane::ContextPane;
use super::layout::{PageLayout, PagePlace};
use super::log_pane::{LogIndexes, LogPane};
use super::prompt_pane::PromptPane;
use super::reply_pane::ReplyPane;
use super::run_item::{RunItem, agent_words};
use super::timeline_pane::{TimelineItem, read_timeline};
use super::words::{cost_words, count_words};
use crate::action_forms::ActionForm;
use crate::shown_text::ShownText;
use crate::site::{PageResult, SiteState};

/// A fact of the strip.
#[derive(Debug)]
struct StripFact {
    name: &'static str,
    class: &'static str,
    value: ShownText,
    /// More about it, in smaller type.
    more: ShownText,
}

/// A check of a run.
#[derive(Debug)]
struct CheckView {
    name: ShownText,
    class: &'static str,
    sign: &'static str,
    result: &'static str,
    command: ShownText,
    time: String,
    output: Vec<ShownText>,
}

/// A command that a person can type next.
#[derive(Debug)]
struct NextView {
    command: ShownText,
    purpose: ShownText,
}

/// The page.
#[derive(Debug, Template)]
#[template(path = "run.html")]
pub(crate) struct RunPage {
    layout: PageLayout,
    form: Option<ActionForm>,
    can_rerun: bool,
    id: String,
    item: RunItem,
    is_running: bool,
    is_lost: bool,
    end_reason: ShownText,
    facts: Vec<StripFact>,
    parent: ShownText,
    flow: String,
    checks: Vec<CheckView>,
    next: Vec<NextView>,
    timeline: Vec<TimelineItem>,
    prompt: PromptPane,
    /// The newest recorded probe of the prompt.
    context: Option<ContextPane>,
    change: ChangePane,
    log: LogPane,
    reply: ReplyPane,
}

impl RunPage {
    /// Reads a run.
    pub(crate) fn read(
        project: &Project,
        ledger: &mut Ledger,
        logs: &LogIndexes,
        layout: PageLayout,
        form: Option<ActionForm>,
        row: RunRow,
    ) -> Result<Self> {
        let id = row.run.id.clone();
        let view = RunView::read(ledger, row)?;
        let summary = &view.summary;
        let is_running = summary.launch.is_some() && !summary.is_complete();
        let details = project.result_details(summary)?;
        let log = logs.with_index(project, ledger, &id, LogStream::Stderr, |err, ledger| {
            logs.with_index(project, ledger, &id, LogStream::Stdout, |out, ledger| match layout.inline {
                None => LogPane::read((out, err), ledger, is_running),
                Some(_) => LogPane::read_ends(out, err, ledger),
            })
        })?;
        let step = |step: callsheet::run::next_steps::NextStep| NextView {
            command: step.command.into(),
            purpose: step.purpose.into(),
        };
        let why = summary.exit.as_ref().and_then(|exit| exit.why.as_ref());
        let checks = summary.observed.iter().flat_map(|observed| &observed.checks);
        let title = RunTitles::default().title(ledger, &view.row);
        let parent = view.row.run.parent.as_ref().map(|parent| run_name(ledger, parent.as_str()));
        Ok(Self {
            layout,
            form,
            can_rerun: summary.launch.is_some() && !view.row.imported,
            item: RunItem::new(&view.row, &title, &LocalClock::read()),
            is_running,
            is_lost: is_running && is_lost(summary),
            end_reason: why.map(ShownText::from).unwrap_or_default(),
            facts: list_facts(&view),
            parent: parent.map(ShownText::from).unwrap_or_default(),
            flow: view
                .row
                .facts
                .as_ref()
                .and_then(|facts| facts.flow.as_ref())
                .map(ToString::to_string)
                .unwrap_or_default(),
            checks: checks.map(CheckView::new).collect(),
            next: next_steps(summary).into_iter().map(step).collect(),
            timeline: read_timeline(project, ledger, &id)?,
            prompt: PromptPane::read(ledger, &id)?,
            context: ContextPane::read(project, ledger, &id)?,
            change: ChangePane::new(summary, &details.diffs),
            log,
            reply: ReplyPane::new(summary, &view.refused),
            id: id.to_string(),
        })
    }
}

/// Returns the name by which a person calls a run; its id if the ledger has lost it.
fn run_name(ledger: &mut Ledger, id: &str) -> String {
    ledger.find(id).map_or_else(|_| id.to_owned(), |row| row.name())
}

impl CheckView {
    fn new(check: &CheckRun) -> Self {
        let (class, sign) = match check.result {
            CheckResult::Passed => ("good", "✓"),
            CheckResult::Failed => ("bad", "✕"),
            _ => ("warn", "…"),
        };
        let words: Vec<String> = check.argv.iter().map(|word| shell_word(word)).collect();
        Self {
            name: ShownText::new(&check.name),
            class,
            sign,
            result: check.result.name(),
            command: words.join(" ").into(),
            time: duration_words(check.duration_ms),
            output: check.output.trim_end().lines().map(ShownText::from_line).collect(),
        }
    }
}

/// Collects the facts of the strip.
#[derive(Default)]
struct StripFacts(Vec<StripFact>);

impl StripFacts {
    fn push(
        &mut self,
        name: &'static str,
        class: &'static str,
        value: impl Into<ShownText>,
        more: impl Into<ShownText>,
    ) {
        let (value, more) = (value.into(), more.into());
        if !value.is_empty() {
            self.0.push(StripFact { name, class, value, more });
        }
    }
}

fn list_facts(view: &RunView) -> Vec<StripFact> {
    let (row, summary) = (&view.row, &view.summary);
    let stored = row.facts.as_ref();
    let mut facts = StripFacts::default();
    let model = stored.and_then(|facts| facts.model.clone()).unwrap_or_default();
    facts.push("agent", "", agent_words(row), agent_version_words(summary).unwrap_or_default());
    facts.push("model", "", model, "");
    let phase = [row.run.phase.as_deref(), row.run.role.as_deref()];
    facts.push("phase", "", phase.into_iter().flatten().collect::<Vec<_>>().join(" · "), "");
    push_checks(&mut facts, summary);
    push_scope(&mut facts, summary);
    if let Some(ms) = stored.and_then(|facts| facts.duration_ms) {
        facts.push("time", "", duration_words(ms), "");
    }
    push_tokens(&mut facts, summary);
    if let Some(micros) = stored.and_then(|facts| facts.cost_microusd) {
        let is_estimate = stored.is_some_and(|facts| facts.cost_estimated);
        facts.push("cost", "", cost_words(micros, is_estimate), if is_estimate { "estimated" } else { "" });
    }
    let attempt = stored.map_or(1, |facts| facts.attempt);
    if attempt > 1 {
        facts.push("attempt", "", attempt.to_string(), "");
    }
    let made_by = view.composed.made_by.as_ref();
    let user = made_by.map(|made_by| made_by.user.clone()).unwrap_or_default();
    facts.push("machine", "", stored.and_then(|facts| facts.host.clone()).unwrap_or_default(), user);
    let receipts: Vec<&str> = summary.receipts.iter().map(|receipt| receipt.name()).collect();
    facts.push("delivered", "", receipts.last().copied().unwrap_or_default(), "");
    facts.0
}

fn push_checks(facts: &mut StripFacts, summary: &RunSummary) {
    let checks = summary.observed.as_ref().map_or(&[][..], |observed| &observed.checks);
    let planned = summary.launch.as_ref().map_or(0, |launch| launch.options.checks.len());
    let total = checks.len().max(planned);
    let passed = checks.iter().filter(|check| check.result == CheckResult::Passed).count();
    let (class, sign) = match () {
        () if total == 0 => return facts.push("checks", "quiet", "none", ""),
        () if passed == total => ("good", "✓"),
        () if checks.iter().any(|check| check.result == CheckResult::Failed) => ("bad", "✕"),
        () => ("warn", "…"),
    };
    facts.push("checks", class, format!("{sign} {passed}/{total}"), "");
}

fn push_scope(facts: &mut StripFacts, summary: &RunSummary) {
    let Some(launch) = &summary.launch else { return };
    if launch.options.no_scope {
        return facts.push("scope", "warn", "! not checked", "");
    }
    let violations = summary.violations();
    let open = violations.iter().filter(|violation| !violation.decision.is_accepted()).count();
    let globs = launch.scope.write.join(" ");
    match (open, violations.len()) {
        (0, 0) if summary.observed.is_none() => facts.push("scope", "quiet", "not known yet", globs),
        (0, 0) => facts.push("scope", "good", "✓ kept", globs),
        (0, all) => facts.push("scope", "good", format!("✓ {all} decided"), globs),
        (open, _) => facts.push("scope", "bad", format!("✕ {open} outside"), globs),
    }
}

fn push_tokens(facts: &mut StripFacts, summary: &RunSummary) {
    let Some(report) = summary.exit.as_ref().map(|exit| &exit.report) else { return };
    let Some(tokens) = report.token_counts() else { return };
    let (input, output) = (count_words(tokens.input), count_words(report.output_tokens.unwrap_or(0)));
    let share = report.cached_tokens.filter(|_| tokens.input > 0).map(|cached| cached * 100 / tokens.input);
    let cached = share.map(|share| format!("{share} % cached")).unwrap_or_default();
    facts.push("tokens", "", format!("{input} in, {output} out"), cached);
}

/// Answers with a run.
pub(crate) async fn show_run(State(site): State<SiteState>, Path(run): Path<String>) -> PageResult {
    let logs = Arc::clone(&site.logs);
    let form = site.new_form()?;
    site.render(move |project| {
        let mut ledger = project.read_ledger()?;
        let layout = PageLayout::read(project, &mut ledger, PagePlace::Other)?;
        let row = project.find_run(&mut ledger, &run)?;
        RunPage::read(project, &mut ledger, &logs, layout, Some(form), row)
    })
    .await
}
