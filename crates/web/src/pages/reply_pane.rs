//! The reply of a run: the claims that count, those that do not and why, and the agent's text.

use callsheet_core::record::{RecordedReply, RunSummary};
use callsheet_core::reply::{Outcome, ReplyProblem};

use crate::shown_text::ShownText;

/// The most lines of a reply on a page; the middle of a longer one is left out.
const MOST_LINES: usize = 1000;

/// The reply pane of a run.
#[derive(Debug, Default)]
pub(crate) struct ReplyPane {
    /// Whether there is a reply.
    pub(crate) is_there: bool,
    /// The result of the reply as a whole.
    pub(crate) outcome: &'static str,
    /// The class of the result.
    pub(crate) class: &'static str,
    /// The sign of the result.
    pub(crate) sign: &'static str,
    /// The claims that count.
    pub(crate) counted: Vec<(&'static str, ShownText)>,
    /// The claims that do not count, and other problems.
    pub(crate) refused: Vec<RefusedClaim>,
    /// Whether the beginning of the text is missing.
    pub(crate) is_cut: bool,
    /// The lines of the agent's text.
    pub(crate) lines: Vec<ReplyLine>,
    /// The number of lines in the middle that are left out.
    pub(crate) left_out: usize,
    /// The calls of tools that were denied.
    pub(crate) denied: Vec<ShownText>,
}

/// A claim that does not count, or another problem of a reply.
#[derive(Debug)]
pub(crate) struct RefusedClaim {
    /// The kind.
    pub(crate) code: &'static str,
    /// The description.
    pub(crate) message: ShownText,
    /// What the kind means.
    pub(crate) meaning: &'static str,
    /// The line in the agent's text; 0 for none.
    pub(crate) line: usize,
    /// The number of further problems of this kind.
    pub(crate) more: usize,
}

/// A line of the agent's text.
#[derive(Debug)]
pub(crate) struct ReplyLine {
    /// The number of the line, from 1.
    pub(crate) number: usize,
    /// Whether a problem is about it.
    pub(crate) is_marked: bool,
    /// Whether it belongs to the agent's last message.
    pub(crate) is_last: bool,
    /// The text.
    pub(crate) text: ShownText,
}

impl ReplyPane {
    /// Describes the reply of a run.
    pub(crate) fn new(summary: &RunSummary, refused: &[String]) -> Self {
        let denied = summary.exit.iter().flat_map(|exit| &exit.report.denied);
        let denied = denied.map(|call| callsheet::run::denials::denial_line(call).into()).collect();
        let Some(reply) = summary.reply() else { return Self { denied, ..Self::default() } };
        let (class, sign, outcome) = match reply.outcome {
            Outcome::None => ("quiet", "○", "no claim was asked for"),
            outcome if outcome.is_good() => ("good", "✓", outcome.name()),
            outcome => ("warn", "!", outcome.name()),
        };
        let mut pane = Self {
            is_there: true,
            outcome,
            class,
            sign,
            counted: list_counted(reply),
            refused: reply.problems.iter().map(RefusedClaim::new).collect(),
            is_cut: reply.text_cut,
            left_out: reply.text.lines().count().saturating_sub(MOST_LINES),
            lines: split_reply(reply),
            denied,
        };
        let submissions = refused.iter().map(|reason| RefusedClaim {
            code: "submission",
            message: ShownText::new(reason),
            meaning: "The submission was refused.",
            line: 0,
            more: 0,
        });
        pane.refused.extend(submissions);
        pane
    }
}

impl RefusedClaim {
    fn new(problem: &ReplyProblem) -> Self {
        Self {
            code: problem.code.name(),
            message: ShownText::new(&problem.message),
            meaning: problem.code.meaning(),
            line: problem.place.map_or(0, |place| place.line),
            more: problem.more,
        }
    }
}

fn list_counted(reply: &RecordedReply) -> Vec<(&'static str, ShownText)> {
    let mut counted: Vec<(&'static str, ShownText)> = Vec::new();
    counted.extend(reply.verdict.map(|verdict| ("verdict", verdict.name().into())));
    for (task, status) in &reply.tasks {
        counted.push(("task", format!("{task}: {}", status.name()).into()));
    }
    counted.extend(reply.questions.iter().map(|question| ("question", question.into())));
    let accepted = reply.submitted.iter().filter(|submitted| submitted.refused.is_empty());
    counted.extend(accepted.map(|submitted| ("submitted", ShownText::new(&submitted.tool))));
    counted
}

fn split_reply(reply: &RecordedReply) -> Vec<ReplyLine> {
    let marked: Vec<usize> = reply.problems.iter().filter_map(|problem| Some(problem.place?.line)).collect();
    let lines: Vec<&str> = reply.text.lines().collect();
    let last_from = reply.last_lines.map_or(usize::MAX, |count| lines.len().saturating_sub(count));
    let line = |(at, line): (usize, &&str)| ReplyLine {
        number: at + 1,
        // The places are in the whole text, of which the beginning may be missing.
        is_marked: !reply.text_cut && marked.contains(&(at + 1)),
        is_last: at >= last_from,
        text: ShownText::from_line(line),
    };
    let is_shown = |at: usize| {
        lines.len() <= MOST_LINES || at < MOST_LINES / 4 || at + MOST_LINES * 3 / 4 >= lines.len()
    };
    lines.iter().enumerate().filter(|(at, _)| is_shown(*at)).map(line).collect()
}
