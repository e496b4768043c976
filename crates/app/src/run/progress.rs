//! Progress of a run for a person: elapsed time, last event, tokens and cost so far.

use std::sync::Mutex;
use std::time::Instant;

use callsheet_core::delivery::receipt::AgentReport;
use callsheet_core::diag::escape_invisible;
use callsheet_core::library::agent::ToolCall;

#[derive(Debug)]
pub(crate) struct RunProgress {
    name: String,
    begun: Instant,
    seen: Mutex<(String, AgentReport)>,
}

/// Most characters of the last event.
const MOST_CHARS: usize = 60;

impl RunProgress {
    pub(crate) fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), begun: Instant::now(), seen: Mutex::default() }
    }

    /// Shows the agent's last tool call, or the last line of an agent that prints text. Events in JSON are for programs.
    pub(crate) fn set_event(&self, line: &str, call: Option<&ToolCall>, report: &AgentReport) {
        let line = line.trim();
        let shown = match call {
            Some(call) => call
                .detail
                .as_ref()
                .map_or_else(|| call.tool.clone(), |detail| format!("{}: {detail}", call.tool)),
            None if line.is_empty() || line.starts_with('{') => String::new(),
            None => line.to_owned(),
        };
        let shown = shown.lines().next().unwrap_or_default();
        if let Ok(mut seen) = self.seen.lock() {
            if !shown.is_empty() {
                seen.0 = escape_invisible(shown).chars().take(MOST_CHARS).collect();
            }
            seen.1.clone_from(report);
        }
    }

    /// Shows work beside the agent, such as a check.
    pub(crate) fn set_activity(&self, what: String) {
        if let Ok(mut seen) = self.seen.lock() {
            seen.0 = what;
        }
    }

    pub(crate) fn render_line(&self) -> String {
        let seconds = self.begun.elapsed().as_secs();
        let mut line = format!("{}  {}:{:02}", self.name, seconds / 60, seconds % 60);
        if let Ok(seen) = self.seen.lock() {
            let (event, report) = &*seen;
            if !event.is_empty() {
                line += &format!("  {event}");
            }
            if report.input_tokens.is_some() || report.output_tokens.is_some() {
                let tokens = (report.input_tokens.unwrap_or(0), report.output_tokens.unwrap_or(0));
                line += &format!("  {} tokens in, {} out", tokens.0, tokens.1);
            }
            if let Some(cost) = report.cost_usd {
                line += &format!("  ${cost:.2}");
            }
        }
        line
    }
}
