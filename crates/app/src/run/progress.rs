//! Progress of a run for a person: elapsed time, last event, tokens and cost so far.

use std::sync::Mutex;
use std::time::Instant;

use callsheet_core::delivery::receipt::AgentReport;
use callsheet_core::diag::escape_invisible;
use serde_json::Value;

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

    pub(crate) fn set_event(&self, line: &str, report: &AgentReport) {
        let Some(event) = summarize_line(line) else { return };
        if let Ok(mut seen) = self.seen.lock() {
            *seen = (event, report.clone());
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

/// Summarizes a line: the kind of a JSON event, or the beginning of a text.
fn summarize_line(line: &str) -> Option<String> {
    let line = line.trim();
    let value: Option<Value> = line.starts_with('{').then(|| serde_json::from_str(line).ok()).flatten();
    let words = match &value {
        Some(value) => {
            let word = |key: &str| value.get(key).and_then(Value::as_str);
            let item = value.pointer("/item/type").and_then(Value::as_str);
            [word("type"), word("subtype"), item, word("tool_name")]
                .into_iter()
                .flatten()
                .collect::<Vec<_>>()
                .join(" ")
        }
        None => line.chars().take(MOST_CHARS).collect(),
    };
    let words: String = escape_invisible(&words).chars().take(MOST_CHARS).collect();
    (!words.is_empty()).then_some(words)
}
