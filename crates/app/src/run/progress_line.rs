//! Renders the progress of a run as one line that fits its terminal.

use callsheet_core::delivery::receipt::AgentReport;
use callsheet_core::library::agent::AgentFault;

use super::progress::RunActivity;
use crate::text_width::{shorten_end, shorten_middle, text_width, visible_line};

/// The parts of a progress line.
#[derive(Debug)]
pub(crate) struct ProgressView<'v> {
    pub(crate) name: &'v str,
    pub(crate) seconds: u64,
    pub(crate) activity: &'v RunActivity,
    pub(crate) fault: Option<&'v AgentFault>,
    pub(crate) report: &'v AgentReport,
}

/// The columns that the activity keeps before turns and tokens are shown.
const LEAST_ACTIVITY: usize = 24;

/// The columns of the name, if the line is too short for all of it.
const LEAST_NAME: usize = 12;

const GAP: &str = "  ";

/// Renders a line of at most `width` columns. Elapsed time and cost stay, turns and tokens go first, then the middle of a
/// path and the end of a command.
pub(crate) fn render_progress(view: &ProgressView<'_>, width: usize) -> String {
    let elapsed = match view.seconds {
        seconds if seconds < 3600 => format!("{}:{:02}", seconds / 60, seconds % 60),
        seconds => format!("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60),
    };
    let cost = view.report.cost_usd.map(|cost| format!("{GAP}${cost:.2}")).unwrap_or_default();
    let name = visible_line(view.name);
    let room = width.saturating_sub(text_width(&elapsed) + text_width(&cost) + GAP.len());
    let most = if text_width(&name) + LEAST_ACTIVITY > room { LEAST_NAME.max(room / 3) } else { room };
    let head = format!("{}{GAP}{elapsed}", shorten_middle(&name, most.min(room)));
    let left = width.saturating_sub(text_width(&head) + text_width(&cost));
    // The reason why nothing happens is more important than counts.
    let most_kept = if view.fault.is_some() { left } else { LEAST_ACTIVITY };
    let least = activity_width(view).min(most_kept);
    let mut counts = counts(view.report);
    while !counts.is_empty() && text_width(&counts.concat()) + least + GAP.len() > left {
        counts.pop();
    }
    let counts = counts.concat();
    let activity = render_activity(view, left.saturating_sub(text_width(&counts) + GAP.len()));
    let gap = if activity.is_empty() { "" } else { GAP };
    shorten_end(&format!("{head}{gap}{activity}{counts}{cost}"), width)
}

/// Returns turns and tokens, each with a gap in front, the most important first.
fn counts(report: &AgentReport) -> Vec<String> {
    let mut parts = Vec::new();
    parts.extend(
        report.turns.map(|turns| format!("{GAP}{turns} {}", if turns == 1 { "turn" } else { "turns" })),
    );
    if report.input_tokens.is_some() || report.output_tokens.is_some() {
        let [input, output] =
            [report.input_tokens, report.output_tokens].map(|count| short_count(count.unwrap_or(0)));
        parts.push(format!("{GAP}{input} tokens in, {output} out"));
    }
    parts
}

/// Renders a count: `950`, `12.3k`, `4.5M`.
fn short_count(count: u64) -> String {
    match count {
        0..1000 => count.to_string(),
        1000..1_000_000 => format!("{}.{}k", count / 1000, count / 100 % 10),
        _ => format!("{}.{}M", count / 1_000_000, count / 100_000 % 10),
    }
}

fn activity_width(view: &ProgressView<'_>) -> usize {
    text_width(&render_activity(view, usize::MAX))
}

fn render_activity(view: &ProgressView<'_>, width: usize) -> String {
    if let Some(fault) = view.fault {
        return shorten_end(&format!("retrying: {}", fault.words()), width);
    }
    match view.activity {
        RunActivity::Call { verb, detail } if !detail.is_empty() => {
            let path = shorten_middle(detail, width.saturating_sub(text_width(verb) + 1));
            shorten_end(&format!("{verb} {path}"), width)
        }
        other => shorten_end(&other.words(), width),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_keeps_time_and_cost() {
        let report = AgentReport {
            turns: Some(3),
            input_tokens: Some(12_345),
            output_tokens: Some(678),
            cost_usd: Some(0.125),
            ..AgentReport::default()
        };
        let activity =
            RunActivity::Call { verb: "Read".into(), detail: "crates/app/src/run/progress_line.rs".into() };
        let mut view =
            ProgressView { name: "claude", seconds: 83, activity: &activity, fault: None, report: &report };
        let lines: Vec<String> =
            [120, 80, 40, 12].iter().map(|width| render_progress(&view, *width)).collect();
        assert_eq!(
            lines,
            [
                "claude  1:23  Read crates/app/src/run/progress_line.rs  3 turns  12.3k tokens in, 678 out  $0.12",
                "claude  1:23  Read c…/progress_line.rs  3 turns  12.3k tokens in, 678 out  $0.12",
                "claude  1:23  Read …gress_line.rs  $0.12",
                "  1:23  $0.…",
            ]
        );
        let fault = AgentFault {
            kind: callsheet_core::library::agent::FaultKind::Overloaded,
            status: Some(529),
            attempt: Some(3),
            delay_ms: None,
            until_s: None,
            until_clock: None,
        };
        view.fault = Some(&fault);
        assert_eq!(render_progress(&view, 60), "claude  1:23  retrying: 529 overloaded, attempt 3  $0.12");
    }
}
