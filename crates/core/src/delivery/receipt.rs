//! Receipts: proofs that a prompt arrived, each with its evidence.

use alloc::collections::{BTreeSet, VecDeque};
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::usage::PartialUsage;
use crate::library::agent::{Agent, AgentFault, EventPattern, ToolCall, ToolPattern};
use crate::text::json_weight::json_weight;
use crate::text::word_enum::word_enum;

word_enum! {
    /// The proof that a prompt arrived, from the weakest to the strongest.
    #[non_exhaustive]
    DeliveryReceipt {
        /// The agent's process exists.
        Spawned "spawned",
        /// The agent reported that it begins.
        Accepted "accepted",
        /// The agent repeated the prompt, or stored it as input in its transcript.
        Echoed "echoed",
        /// The agent used a tool.
        Acting "acting",
    }
}

/// Values that an agent's events have reported so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AgentReport {
    /// The id of the session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The tokens of the input.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<u64>,
    /// The tokens of the output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u64>,
    /// The tokens of the input that were read from a cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cached_tokens: Option<u64>,
    /// All tokens of the input, cached ones included. Older versions did not record it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub all_input_tokens: Option<u64>,
    /// The tokens beyond input and output, such as thoughts; they are paid for as output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thought_tokens: Option<u64>,
    /// The cost in dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// The name of the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The number of times that the model answered: with a text, or with calls whose results it got.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turns: Option<u64>,
    /// Whether the agent reported that it is done.
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    pub ended: bool,
    /// The tool calls that were not allowed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub denied: Vec<ToolCall>,
}

/// The most calls of a run that are reported as not allowed.
const MOST_DENIED: usize = 20;

/// The most calls whose ids are kept.
const MOST_CALLS: usize = 64;

/// The longest line that is examined: long enough to echo a prompt; a longer line proves nothing.
const MAX_LINE: usize = 32 * 1024 * 1024;
/// The most weight of an event that is parsed: a list of zeroes takes forty times its size in memory.
const MAX_WEIGHT: usize = 1 << 18;

/// Parses an event, unless it is too heavy.
fn parse_event(line: &str) -> Option<Value> {
    // Most lines are too short to be too heavy.
    let is_light = line.len() <= MAX_WEIGHT / 2 || json_weight(line) <= MAX_WEIGHT;
    is_light.then(|| serde_json::from_str(line).ok()).flatten()
}

/// Reads an agent's output as it is printed.
#[derive(Debug)]
pub struct ReceiptWatcher<'a> {
    agent: &'a Agent,
    /// The prompt exactly as it was delivered, without its shared part.
    prompt: &'a str,
    /// The part of the prompt in the agent's system prompt; empty if there is none.
    shared: &'a str,
    /// Whether the transcript has held the prompt, and its shared part.
    held: (bool, bool),
    line: String,
    /// Whether the current line is too long to keep.
    skipping: bool,
    seen: BTreeSet<DeliveryReceipt>,
    /// The values that the events have reported so far.
    pub report: AgentReport,
    /// The last tool call that the events have reported.
    pub last_call: Option<ToolCall>,
    /// The last calls with their ids: a stream may report a denial only by the id.
    calls: VecDeque<(String, ToolCall)>,
    /// The last report that the model does not answer; `None` if it has answered since.
    pub fault: Option<AgentFault>,
    /// The number of such reports in a row with the same reason.
    pub fault_count: u32,
    /// Whether the next answer of the model begins a turn.
    begins_turn: bool,
    used: PartialUsage,
}

impl<'a> ReceiptWatcher<'a> {
    /// Creates a watcher for the delivery of `prompt` to `agent`.
    pub fn new(agent: &'a Agent, prompt: &'a str) -> Self {
        let (line, seen, report) = (String::new(), BTreeSet::new(), AgentReport::default());
        Self {
            agent,
            prompt,
            shared: "",
            held: (false, true),
            line,
            skipping: false,
            seen,
            report,
            last_call: None,
            calls: VecDeque::new(),
            fault: None,
            fault_count: 0,
            begins_turn: true,
            used: PartialUsage::default(),
        }
    }

    /// Also requires a proof that `shared` arrived, a part of the prompt in the agent's system prompt.
    #[must_use]
    pub fn with_shared(mut self, shared: &'a str) -> Self {
        self.shared = shared;
        self.held.1 = shared.is_empty();
        self
    }

    /// Reads the next piece of standard output; `is_partial` is set if its line continues. Returns the newly
    /// proven receipts.
    pub fn read_output(&mut self, text: &str, is_partial: bool) -> Vec<DeliveryReceipt> {
        self.skipping |= self.line.len() + text.len() > MAX_LINE;
        if !self.skipping {
            self.line.push_str(text);
        }
        if is_partial {
            return Vec::new();
        }
        let line = core::mem::take(&mut self.line);
        if core::mem::take(&mut self.skipping) { Vec::new() } else { self.read_line(&line) }
    }

    fn read_line(&mut self, line: &str) -> Vec<DeliveryReceipt> {
        let events = &self.agent.events;
        let event = line.trim_start().starts_with('{').then(|| parse_event(line)).flatten();
        let Some(event) = event else { return Vec::new() };
        let fits = |patterns: &[EventPattern]| patterns.iter().any(|pattern| pattern.matches(&event));
        let first = |places: &[String]| places.iter().find_map(|place| event.pointer(place));
        if let Some(session) = first(&events.session).and_then(Value::as_str) {
            self.report.session.get_or_insert_with(|| session.to_string());
        }
        if let Some(sum) = self.used.add_event(events, &event) {
            self.report.take_counts(&sum);
        }
        self.report.read_usage(events, &event);
        self.report.ended |= fits(&events.ended);
        let calls = |patterns: &[ToolPattern]| -> Vec<ToolCall> {
            patterns.iter().flat_map(|pattern| pattern.find_calls(&event)).collect()
        };
        self.last_call = calls(&events.tools).pop().or(self.last_call.take());
        if fits(&events.results) {
            self.begins_turn = true;
        }
        let faults: Vec<AgentFault> =
            events.faults.iter().filter_map(|pattern| pattern.find_in_event(&event)).take(1).collect();
        if faults.is_empty() && fits(&events.answered) {
            self.fault = None;
            self.fault_count = 0;
            if core::mem::take(&mut self.begins_turn) {
                self.report.turns = Some(self.report.turns.unwrap_or(0) + 1);
            }
        }
        faults.into_iter().for_each(|fault| self.note_fault(fault));
        let left = MOST_DENIED - self.report.denied.len().min(MOST_DENIED);
        let denied = self.find_denied(&event);
        self.report.denied.extend(denied.into_iter().take(left));
        for call in events.tools.iter().flat_map(|pattern| pattern.find_identified_calls(&event)) {
            self.calls.truncate(MOST_CALLS - 1);
            self.calls.push_front(call);
        }
        // The stream does not repeat a system prompt.
        let echoed = || self.shared.is_empty() && fits(&events.echoed) && self.is_echo(&event);
        let proven = [
            (DeliveryReceipt::Accepted, fits(&events.accepted)),
            (DeliveryReceipt::Echoed, echoed()),
            (DeliveryReceipt::Acting, fits(&events.acting)),
        ];
        let new = proven.into_iter().filter(|(receipt, is)| *is && !self.seen.contains(receipt));
        let new: Vec<DeliveryReceipt> = new.map(|(receipt, _)| receipt).collect();
        self.seen.extend(&new);
        new
    }

    /// Returns the calls that an event reports as denied, each with the permission that it lacks.
    fn find_denied(&self, event: &Value) -> Vec<ToolCall> {
        let mut denied = Vec::new();
        for pattern in &self.agent.events.denied {
            if pattern.name.is_empty() {
                let known = |id: String| {
                    self.calls.iter().find(|(known, _)| *known == id).map(|(_, call)| call.clone())
                };
                denied.extend(pattern.find_ids(event).into_iter().filter_map(known));
            } else {
                denied.extend(pattern.find_calls(event));
            }
        }
        for call in &mut denied {
            call.allow = call.find_missing_permission(self.agent).map(|command| command.to_string());
        }
        denied
    }

    /// Reads a line of standard error.
    pub fn read_error_line(&mut self, line: &str) {
        let mut patterns = self.agent.events.faults.iter();
        if let Some(fault) = patterns.find_map(|pattern| pattern.find_in_line(line)) {
            self.note_fault(fault);
        }
    }

    fn note_fault(&mut self, mut fault: AgentFault) {
        let before = self.fault.take();
        let is_same = before.as_ref().is_some_and(|before| before.is_same_as(&fault));
        self.fault_count = if is_same { self.fault_count.saturating_add(1) } else { 1 };
        // Some agents report an attempt in several lines.
        if let Some(before) = before.filter(|before| before.kind == fault.kind) {
            fault.attempt = fault.attempt.or(before.attempt);
            fault.until_s = fault.until_s.or(before.until_s);
            fault.until_clock = fault.until_clock.or(before.until_clock);
        }
        self.fault = Some(fault);
    }

    /// Reads a line of the agent's own transcript. Returns whether the transcript now holds the prompt as its input, and the
    /// shared part in the system prompt.
    pub fn is_transcript_echo(&mut self, line: &str) -> bool {
        let Some(transcript) = &self.agent.transcript else { return false };
        let Some(event) = parse_event(line) else { return false };
        let fits = |patterns: &[EventPattern]| patterns.iter().any(|pattern| pattern.matches(&event));
        self.held.0 |= fits(&transcript.echoed) && self.is_echo(&event);
        self.held.1 |= fits(&transcript.shared) && holds_text(&event, &|text| text == self.shared);
        self.held == (true, true) && self.seen.insert(DeliveryReceipt::Echoed)
    }

    fn is_echo(&self, event: &Value) -> bool {
        holds_text(event, &|text| {
            text == self.prompt || (self.agent.prompt.trims_end && text == self.prompt.trim_end())
        })
    }
}

/// Checks whether a text in `event` is the one that `is_it` recognizes.
fn holds_text(event: &Value, is_it: &dyn Fn(&str) -> bool) -> bool {
    match event {
        Value::String(text) => is_it(text),
        Value::Array(items) => items.iter().any(|item| holds_text(item, is_it)),
        Value::Object(map) => map.values().any(|value| holds_text(value, is_it)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heavy_event_is_not_parsed() {
        let event =
            |item: &str, count: usize| alloc::format!("{{\"a\":[{}]}}", alloc::vec![item; count].join(","));
        let texts = alloc::format!("\"{}\"", ",[{\\\"".repeat(MAX_WEIGHT));
        for (line, is_read) in [
            (event("0", MAX_WEIGHT - 3), true),
            (event("0", MAX_WEIGHT - 2), false),
            (event("{}", MAX_WEIGHT / 3 - 1), true),
            (event("{}", MAX_WEIGHT / 3), false),
            (event(&texts, 2), true),
        ] {
            assert_eq!(parse_event(&line).is_some(), is_read, "{} bytes", line.len());
        }
    }
}
