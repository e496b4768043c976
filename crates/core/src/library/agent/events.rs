//! Patterns of an agent's own events: they prove that it started, which prompt it received, and its actions.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use serde_json::Value;

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
    /// The places of the cost so far, in dollars.
    pub cost_usd: Vec<String>,
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
