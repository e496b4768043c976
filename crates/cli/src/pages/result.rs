//! Renders the result of a run: its outcome, why, and what to type next.

use std::fmt::Write as _;

use callsheet::error::CommandResult;
use callsheet::output::RunResultOutput;
use callsheet::paths::shell_word;
pub(crate) use callsheet::project::duration::duration_words;
use callsheet::run::changes::FileDiff;
use callsheet::run::cost::{cost_words, dollars};
use callsheet::run::denials::denial_line;
use callsheet::run::next_steps::{ResultDetails, next_steps};
use callsheet::run::result::{ChangeAttribution, attribution, exit_code, micro_dollars};
use callsheet_core::diag::escape_invisible;
use callsheet_core::record::{ChecksOutcome, Exit, RecordedReply, RunOutcome, RunSummary};
use callsheet_core::request::fact::{ChangedFile, CheckResult, CheckRun, EndReason};

use super::{counted, next_page};
use crate::context::CommandContext;
use crate::print::{OutputPrinter, TextStyle};

/// The lines of a reply and of a failed check that a page shows without `--full`.
const FEW_LINES: usize = 6;

/// The characters of a line that a page shows without `--full`.
const LONG_LINE: usize = 200;

/// Prints the result of a run.
pub(crate) fn print_result(app: &CommandContext, summary: &RunSummary, is_full: bool) -> CommandResult {
    if app.print.json {
        return app.print.print_json(&RunResultOutput::from(summary));
    }
    app.print.print_page(&result_page(&app.print, summary, &app.result_details(summary)?, is_full))
}

/// Renders the result of a run.
pub(crate) fn result_page(
    print: &OutputPrinter,
    summary: &RunSummary,
    details: &ResultDetails,
    is_full: bool,
) -> String {
    let mut page =
        ResultPage { print, text: String::new(), most: if is_full { usize::MAX } else { FEW_LINES } };
    page.headline(summary);
    page.delivery(summary);
    if let Some(exit) = &summary.exit {
        page.usage(exit);
    }
    page.changes(summary, details);
    page.checks(summary);
    page.reply(summary);
    for call in summary.exit.iter().flat_map(|exit| &exit.report.denied) {
        page.row("denied", &denial_line(call));
    }
    page.lines("stderr", details.errors.iter().map(String::as_str));
    page.next(summary);
    page.text
}

struct ResultPage<'p> {
    print: &'p OutputPrinter,
    text: String,
    /// The most lines of a text.
    most: usize,
}

impl ResultPage<'_> {
    fn row(&mut self, name: &str, text: &str) {
        let _ = writeln!(self.text, "  {name:<10} {}", escape_invisible(text));
    }

    /// Shows lines below a name, each after a bar.
    fn lines<'l>(&mut self, name: &str, lines: impl Iterator<Item = &'l str>) {
        let width = if self.most == usize::MAX { usize::MAX } else { LONG_LINE };
        for (at, line) in lines.enumerate() {
            let end = line.char_indices().nth(width).map(|(end, _)| end);
            let line = end.map_or_else(|| line.to_owned(), |end| format!("{}…", &line[..end]));
            self.row(if at == 0 { name } else { "" }, &format!("│ {line}"));
        }
    }

    fn headline(&mut self, summary: &RunSummary) {
        let outcome = summary.outcome();
        let paint = match exit_code(summary) {
            0 if outcome == RunOutcome::NothingChanged => TextStyle::Yellow,
            0 => TextStyle::Green,
            _ => TextStyle::Red,
        };
        let mut head = self.print.paint(paint, outcome.words()).into_owned();
        if let Some(exit) = &summary.exit {
            head += &end_words(summary, exit);
        }
        let _ = writeln!(self.text, "run {}  {head}", summary.name());
    }

    fn delivery(&mut self, summary: &RunSummary) {
        let receipts: Vec<&str> = summary.receipts.iter().map(|receipt| receipt.name()).collect();
        let receipts = if receipts.is_empty() { "not delivered".into() } else { receipts.join(", ") };
        self.row("delivered", &receipts);
        if let Some(launch) = summary.launch.as_ref().filter(|launch| launch.own_worktree) {
            self.row("worktree", &launch.worktree);
        }
    }

    fn usage(&mut self, exit: &Exit) {
        let report = &exit.report;
        let mut parts = Vec::new();
        parts.extend(exit.duration_ms.map(duration_words));
        let cached = report.cached_tokens.filter(|count| *count > 0).map(|count| format!(", {count} cached"));
        if let Some(tokens) = report.input_tokens {
            parts.push(format!("{tokens} tokens in{}", cached.unwrap_or_default()));
        }
        parts.extend(report.output_tokens.map(|tokens| format!("{tokens} out")));
        parts.extend(exit.cost().map(cost_words));
        if !parts.is_empty() {
            self.row("took", &parts.join(", "));
        }
    }

    fn changes(&mut self, summary: &RunSummary, details: &ResultDetails) {
        let Some(observed) = &summary.observed else { return };
        match &observed.worktree {
            None => self.row("changed", "not known"),
            Some(seen) if seen.changed.is_empty() => self.row("changed", "nothing"),
            Some(seen) => {
                self.row("changed", &total_line(seen.changed.len(), &details.diffs));
                for file in &seen.changed {
                    self.row("", &change_line(file, &details.diffs));
                }
            }
        }
        for unseen in observed.worktree.iter().flat_map(|seen| &seen.unseen) {
            let before = if unseen.before { ", as before" } else { "" };
            self.row("unseen", &format!("{} ({}{before})", unseen.path, unseen.why));
        }
        for moved in observed.worktree.iter().flat_map(|seen| &seen.commits) {
            let to = moved.to.as_deref().map_or("gone", |to| to.get(..12).unwrap_or(to));
            let elsewhere = if moved.elsewhere { ", of another worktree" } else { "" };
            self.row("commits", &format!("{} {to} ({} new{elsewhere})", moved.name, moved.new));
        }
        for file in observed.worktree.iter().flat_map(|seen| &seen.elsewhere) {
            self.row("elsewhere", &format!("{} ({}, in the main checkout)", file.path, file.change.name()));
        }
        for violation in summary.violations() {
            self.row("violation", &format!("{} ({})", violation.path, violation.decision.name()));
        }
        for path in &observed.uncertain {
            self.row("uncertain", &format!("{path}: run {} may write it", observed.shared_with.join(" or ")));
        }
        let is_pending = summary.violations().iter().any(|violation| !violation.decision.is_accepted());
        if is_pending && attribution(summary) == ChangeAttribution::Checkout {
            let run = summary.name();
            self.row(
                "note",
                &format!("if you made the change yourself: `callsheet decide {run} PATH --mine`"),
            );
        }
    }

    fn checks(&mut self, summary: &RunSummary) {
        let Some(observed) = &summary.observed else { return };
        if summary.checks_outcome() == ChecksOutcome::None {
            self.row("checks", "none");
            return;
        }
        for check in &observed.checks {
            self.row("check", &check_line(check));
            if check.result != CheckResult::Passed {
                let lines: Vec<&str> = check.output.trim_end().lines().collect();
                let start = lines.len().saturating_sub(self.most);
                self.lines("", lines[start..].iter().copied());
            }
        }
    }

    fn reply(&mut self, summary: &RunSummary) {
        let Some(reply) = summary.reply() else { return };
        self.row("reply", reply.outcome.name());
        for problem in &reply.problems {
            self.row("", &problem.message);
        }
        for question in &reply.questions {
            self.row("question", question);
        }
        self.last_words(reply, summary.name());
    }

    /// Shows the first lines of the agent's last message, or the last lines of a text without messages.
    fn last_words(&mut self, reply: &RecordedReply, run: &str) {
        let lines: Vec<&str> = reply.text.trim().lines().collect();
        let message = reply.last_lines.filter(|count| (1..=lines.len()).contains(count));
        let is_all = self.most == usize::MAX;
        let from = match message {
            Some(count) if !is_all => lines.len() - count,
            _ => lines.len().saturating_sub(self.most),
        };
        let end = lines.len().min(from.saturating_add(self.most));
        self.lines("said", lines[from..end].iter().copied());
        let hidden = lines.len() - (end - from);
        if hidden > 0 {
            self.row("", &format!("… {}: `callsheet show {run} --full`", counted(hidden, "more line")));
        }
    }

    fn next(&mut self, summary: &RunSummary) {
        self.text += &next_page(self.print, &next_steps(summary));
    }
}

/// Says more about the end of an agent than the outcome does.
fn end_words(summary: &RunSummary, exit: &Exit) -> String {
    let options = summary.launch.as_ref().map(|launch| &launch.options);
    let limit = options.and_then(|options| options.timeout_ms);
    let most = options.and_then(|options| options.max_cost_usd);
    let is_over = |most: u64| exit.cost().is_none_or(|cost| cost.microusd > most);
    let words = match (exit.ended, exit.code, exit.signal) {
        (EndReason::Timeout, ..) => limit.map(|limit| format!("after {}", duration_words(limit))),
        (EndReason::Cost, ..) => most.map(micro_dollars).filter(|most| is_over(*most)).map(|most| {
            let spent = exit.cost().map(|cost| format!(" (spent {})", cost_words(cost)));
            format!("{}{}", dollars(most), spent.unwrap_or_default())
        }),
        (EndReason::Exited, Some(0), _) if summary.outcome() != RunOutcome::AgentFailed => None,
        (EndReason::Exited, Some(code), _) => Some(format!("exit code {code}")),
        (EndReason::Signaled, _, Some(signal)) => Some(format!("signal {signal}")),
        (EndReason::Unstarted, ..) => Some("it could not be started".to_owned()),
        _ => None,
    };
    // The limit of the day is in no option of the run.
    let why = exit.why.as_ref().filter(|_| exit.ended != EndReason::Cost || words.is_none());
    let why = why.map(|why| escape_invisible(why).into_owned());
    match (words, why) {
        (Some(words), Some(why)) => format!(": {words} ({why})"),
        (Some(words), None) | (None, Some(words)) => format!(": {words}"),
        (None, None) => String::new(),
    }
}

fn check_line(check: &CheckRun) -> String {
    let mut line = format!("{} {}", check.name, check.result.name());
    if check.result != CheckResult::Passed {
        let command: Vec<String> = check.argv.iter().map(|word| shell_word(word)).collect();
        line += &format!(": `{}`", command.join(" "));
        line += &check.exit_code.map(|code| format!(", exit code {code}")).unwrap_or_default();
    }
    if check.duration_ms > 0 {
        line += &format!(" ({})", duration_words(check.duration_ms));
    }
    line
}

fn total_line(files: usize, diffs: &[FileDiff]) -> String {
    if diffs.is_empty() {
        return counted(files, "file");
    }
    let counts = diffs.iter().filter_map(FileDiff::line_counts);
    let (added, removed) =
        counts.fold((0, 0), |(added, removed), (more, less)| (added + more, removed + less));
    format!("{}, +{added} -{removed}", counted(files, "file"))
}

fn change_line(file: &ChangedFile, diffs: &[FileDiff]) -> String {
    let counts = diffs.iter().find(|diff| diff.path == file.path).and_then(FileDiff::line_counts);
    let counts = counts.map(|(added, removed)| format!(", +{added} -{removed}")).unwrap_or_default();
    let from = file.from.as_ref().map(|from| format!(" from {from}")).unwrap_or_default();
    format!("{} ({}{from}{counts})", file.path, file.change.name())
}
