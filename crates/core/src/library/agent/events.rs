//! Patterns of an agent's own events: they prove that it started, which prompt it received, and its actions.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::FaultPattern;

/// The words of an event by place: the event must have one of the words at each place. A place is a JSON pointer, in
/// which `*` matches every item of a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct EventPattern(pub BTreeMap<String, Vec<String>>);

impl EventPattern {
    /// Checks whether `event` has one of the words at each place. An empty pattern fits no event.
    pub fn matches(&self, event: &Value) -> bool {
        !self.0.is_empty() && self.0.iter().all(|(place, words)| has_word_at(event, place, words))
    }
}

fn has_word_at(event: &Value, place: &str, words: &[String]) -> bool {
    match place.split_once("/*") {
        None => event
            .pointer(place)
            .and_then(Value::as_str)
            .is_some_and(|found| words.iter().any(|word| word == found)),
        Some((list, rest)) => {
            let items = event.pointer(list).and_then(Value::as_array);
            items.is_some_and(|items| items.iter().any(|item| has_word_at(item, rest, words)))
        }
    }
}

/// The event patterns of an agent that prints one line of JSON for each event.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct EventPatterns {
    /// Events that prove that the agent began to work on a prompt.
    pub accepted: Vec<EventPattern>,
    /// Events in which the agent repeats the prompt: one of the strings in the event is the prompt.
    pub echoed: Vec<EventPattern>,
    /// Events in which the agent uses a tool.
    pub acting: Vec<EventPattern>,
    /// Events that prove that the agent is done.
    pub ended: Vec<EventPattern>,
    /// The places of the session's id.
    pub session: Vec<String>,
    /// The places of the input token count; the last event that has it counts.
    pub input_tokens: Vec<String>,
    /// The places of the output token count.
    pub output_tokens: Vec<String>,
    /// The places of the number of input tokens that were read from a cache.
    pub cached_tokens: Vec<String>,
    /// The places of the cost so far, in dollars.
    pub cost_usd: Vec<String>,
    /// Events in which the agent calls a tool.
    pub tools: Vec<ToolPattern>,
    /// Events that report tool calls which were not allowed.
    pub denied: Vec<ToolPattern>,
    /// Events in which the model answers: a text, a thought or a call. The first one after a result begins a turn.
    pub answered: Vec<EventPattern>,
    /// Events with the result of a tool, for the model.
    pub results: Vec<EventPattern>,
    /// Events with the tokens and the cost of a part of the work, which add up.
    pub usage: Vec<UsagePattern>,
    /// Events and lines of standard error by which the agent reports that its model does not answer.
    pub faults: Vec<FaultPattern>,
    /// The verbs for people by the names of tools: `read_file = "Read"`.
    pub verbs: BTreeMap<String, String>,
}

/// An event with the tokens and the cost of a part of the work.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct UsagePattern {
    /// The event.
    pub when: Option<EventPattern>,
    /// The place of the id of the part, if several events report the same part.
    pub id: Option<String>,
    /// The place of the input token count.
    pub input_tokens: Option<String>,
    /// The place of the output token count.
    pub output_tokens: Option<String>,
    /// The place of the number of input tokens that were read from a cache.
    pub cached_tokens: Option<String>,
    /// The place of the cost in dollars.
    pub cost_usd: Option<String>,
}

impl UsagePattern {
    /// Returns all places.
    pub(super) fn places(&self) -> impl Iterator<Item = &String> {
        let when = self.when.iter().flat_map(|EventPattern(places)| places.keys());
        let places = [&self.id, &self.input_tokens, &self.output_tokens, &self.cached_tokens, &self.cost_usd];
        when.chain(places.into_iter().flatten())
    }
}

/// An event that reports tool calls.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct ToolPattern {
    /// The event.
    pub when: Option<EventPattern>,
    /// The place of a list of calls; without it, the event is one call.
    pub each: Option<String>,
    /// The calls in the list.
    pub item: Option<EventPattern>,
    /// The place of the tool's name in a call, or the name itself.
    pub name: String,
    /// The places of what it is called with, such as a command or a path; the first text counts.
    pub detail: Vec<String>,
}

/// A call of a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ToolCall {
    /// The name of the tool.
    pub tool: String,
    /// What it is called with, such as a command or a path.
    #[serde(default)]
    pub detail: Option<String>,
}

/// The most characters of a name or a detail.
const MOST_CHARS: usize = 500;

impl ToolPattern {
    /// Returns the calls that an event reports.
    pub fn find_calls(&self, event: &Value) -> Vec<ToolCall> {
        if self.when.as_ref().is_some_and(|when| !when.matches(event)) {
            return Vec::new();
        }
        let list = self.each.as_ref().map(|each| event.pointer(each).and_then(Value::as_array));
        let items = match &list {
            None => core::slice::from_ref(event),
            Some(None) => &[],
            Some(Some(items)) => &items[..],
        };
        let cut = |text: &str| text.chars().take(MOST_CHARS).collect::<String>();
        let call = |item: &Value| {
            let tool = match self.name.starts_with('/') {
                true => item.pointer(&self.name)?.as_str()?,
                false => &self.name,
            };
            let detail = self.detail.iter().find_map(|place| item.pointer(place)?.as_str());
            Some(ToolCall { tool: cut(tool), detail: detail.map(cut) })
        };
        let is_call = |item: &&Value| self.item.as_ref().is_none_or(|pattern| pattern.matches(item));
        items.iter().filter(is_call).filter_map(call).collect()
    }

    /// Returns all places.
    pub(super) fn places(&self) -> impl Iterator<Item = &String> {
        let patterns = self.when.iter().chain(&self.item).flat_map(|EventPattern(places)| places.keys());
        patterns.chain(&self.each).chain(&self.detail)
    }
}

/// The transcript file of an agent: a line of JSON for each event, the session's id in the file name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TranscriptSpec {
    /// The environment variable that holds the directory of the agent's files.
    pub variable: String,
    /// The directory of these files if the variable is not set, below the user's home.
    pub home: String,
    /// The folder in that directory that contains the files, or folders of them.
    pub folder: String,
    /// The events that hold the agent's input.
    pub echoed: Vec<EventPattern>,
}
