//! The attempts of a task side by side: facts in rows, and the differences of two prompts and of their results.

use askama::Template;
use axum::extract::{Path, Query, State};
use callsheet::Project;
use callsheet::error::Result;
use callsheet::local_time::LocalClock;
use callsheet::prompt_diff::{DiffSide, LineChange, compare_sections};
use callsheet::run::changes::{FileDiff, PatchBody, diff_runs};
use callsheet::run::task_reason::TaskSummary;
use callsheet::run_titles::RunTitles;
use callsheet_core::record::RunSummary;
use callsheet_core::request::fact::CheckResult;
use callsheet_store::Ledger;
use serde::Deserialize;

use super::change_pane::{DiffRow, parse_hunks};
use super::layout::{PageLayout, PagePlace};
use super::run_item::RunItem;
use super::words::OutcomeMark;
use crate::shown_text::ShownText;
use crate::site::{PageResult, SiteState};

/// The most lines of a difference.
const MOST_LINES: usize = 4000;

/// The two attempts to compare.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct AttemptsQuery {
    from: String,
    to: String,
}

/// A row of facts.
#[derive(Debug)]
struct FactRow {
    name: &'static str,
    values: Vec<ShownText>,
}

/// A line that only one prompt has.
#[derive(Debug)]
struct PromptRow {
    class: &'static str,
    sign: &'static str,
    text: ShownText,
    cause: ShownText,
}

/// A section of a prompt that differs.
#[derive(Debug)]
struct SectionView {
    name: ShownText,
    rows: Vec<PromptRow>,
}

/// A file that differs.
#[derive(Debug)]
struct FileView {
    path: ShownText,
    rows: Vec<DiffRow>,
    note: ShownText,
}

/// Two attempts and their differences.
#[derive(Debug)]
struct ComparisonView {
    from: ShownText,
    to: ShownText,
    sections: Vec<SectionView>,
    files: Vec<FileView>,
    code_note: ShownText,
}

/// The page.
#[derive(Debug, Template)]
#[template(path = "attempts.html")]
struct AttemptsPage {
    layout: PageLayout,
    task: ShownText,
    title: ShownText,
    mark: OutcomeMark,
    summary: ShownText,
    items: Vec<RunItem>,
    facts: Vec<FactRow>,
    has_checks: bool,
    has_costs: bool,
    comparison: Option<ComparisonView>,
}

impl AttemptsPage {
    fn read(project: &Project, task: &str, query: &AttemptsQuery) -> Result<Self> {
        let standing = project.task_standing(task)?;
        let mut ledger = project.read_ledger()?;
        let layout = PageLayout::read(project, &mut ledger, PagePlace::Other)?;
        let clock = LocalClock::read();
        let TaskSummary { message, .. } = standing.summarize(&clock);
        let runs = &standing.task.runs;
        let mut items = Vec::new();
        for run in runs {
            let row = ledger.find(run.run.id.as_str())?;
            items.push(RunItem::new(&row, &RunTitles::default().title(&mut ledger, &row), &clock));
        }
        let newest: Vec<&RunSummary> = runs.iter().rev().take(2).collect();
        let name = |given: &str, at: usize| match given.trim() {
            "" => newest.get(at).map(|run| run.name().to_owned()),
            given => Some(given.to_owned()),
        };
        let comparison = match (name(&query.from, 1), name(&query.to, 0)) {
            (Some(from), Some(to)) => Some(ComparisonView::read(project, &mut ledger, &from, &to)?),
            _ => None,
        };
        Ok(Self {
            layout,
            task: ShownText::new(&standing.task.name),
            title: ShownText::new(standing.task.title.lines().next().unwrap_or_default()),
            mark: OutcomeMark::from_task(standing.status),
            summary: message.into(),
            facts: list_facts(runs),
            has_checks: items.iter().any(|item| !item.checks.is_empty()),
            has_costs: items.iter().any(|item| !item.cost.is_empty()),
            items,
            comparison,
        })
    }
}

fn list_facts(runs: &[RunSummary]) -> Vec<FactRow> {
    let row = |name, value: &dyn Fn(&RunSummary) -> String| FactRow {
        name,
        values: runs.iter().map(|run| value(run).into()).collect(),
    };
    let mut rows = vec![
        row("end", &|run| run.exit.as_ref().map(|exit| exit.ended.name().to_owned()).unwrap_or_default()),
        row("verdict", &|run| {
            run.reply()
                .and_then(|reply| reply.verdict)
                .map(|verdict| verdict.name().to_owned())
                .unwrap_or_default()
        }),
        row("failed checks", &|run| {
            let checks = run.observed.iter().flat_map(|observed| &observed.checks);
            let failed = checks.filter(|check| check.result == CheckResult::Failed);
            failed.map(|check| check.name.clone()).collect::<Vec<_>>().join(", ")
        }),
        row("outside of the scope", &|run| {
            run.violations().iter().map(|it| it.path.clone()).collect::<Vec<_>>().join(", ")
        }),
        row("changed files", &|run| {
            let seen = run.observed.as_ref().and_then(|observed| observed.worktree.as_ref());
            seen.map(|seen| seen.changed.len().to_string()).unwrap_or_default()
        }),
        row("prompt", &|run| run.prompt_sha256.to_string().get(..12).unwrap_or_default().to_owned()),
    ];
    // A fact that no attempt has says nothing.
    rows.retain(|row| row.values.iter().any(|value| !value.is_empty()));
    rows
}

impl ComparisonView {
    fn read(project: &Project, ledger: &mut Ledger, from: &str, to: &str) -> Result<Self> {
        let sides = (DiffSide::new(project, ledger, from)?, DiffSide::new(project, ledger, to)?);
        let mut left = MOST_LINES;
        let sections = compare_sections(&sides.0, &sides.1)
            .into_iter()
            .map(|(name, lines)| SectionView {
                name: ShownText::new(name),
                rows: prompt_rows(&lines, &mut left),
            })
            .collect();
        let changes = (project.run_changes(ledger, from), project.run_changes(ledger, to));
        let (files, code_note) = match changes {
            (Ok(from), Ok(to)) => {
                let diffs = diff_runs(&from.kept, &to.kept);
                let note = if diffs.is_empty() { "Both left the same files." } else { "" };
                (diffs.iter().map(|diff| FileView::new(diff, &mut left)).collect(), note.into())
            }
            (Err(error), _) | (_, Err(error)) => (Vec::new(), error.to_string().into()),
        };
        Ok(Self { from: from.into(), to: to.into(), sections, files, code_note })
    }
}

fn prompt_rows(lines: &[LineChange], left: &mut usize) -> Vec<PromptRow> {
    let shown = lines.len().min(*left);
    *left -= shown;
    let mut cause = String::new();
    let mut rows = Vec::new();
    for line in &lines[..shown] {
        let (class, sign) = if line.insert { ("add", "+") } else { ("del", "−") };
        // The cause of several lines is said once.
        let said = line.explain();
        let shown = if said == cause { ShownText::default() } else { ShownText::new(&said) };
        cause = said;
        rows.push(PromptRow { class, sign, text: ShownText::from_line(&line.line), cause: shown });
    }
    rows
}

impl FileView {
    fn new(diff: &FileDiff, left: &mut usize) -> Self {
        let (rows, note) = match &diff.body {
            PatchBody::Omitted(why) => (Vec::new(), ShownText::new(why.reason())),
            PatchBody::Lines { hunks, .. } if hunks.lines().count() > *left => {
                (Vec::new(), "too many lines for this page: `callsheet diff --code` shows them".into())
            }
            PatchBody::Lines { hunks, .. } => (parse_hunks(hunks), ShownText::default()),
        };
        *left -= rows.len().min(*left);
        Self { path: ShownText::new(&diff.path), rows, note }
    }
}

/// Answers with the attempts of a task.
pub(crate) async fn show_attempts(
    State(site): State<SiteState>,
    Path(task): Path<String>,
    Query(query): Query<AttemptsQuery>,
) -> PageResult {
    site.render(move |project| AttemptsPage::read(project, &task, &query)).await
}
