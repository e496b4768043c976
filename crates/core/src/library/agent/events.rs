//! Patterns of an agent's own events: they prove that it started, which prompt it received, and its actions.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// An event has to have one of these words at each of these places. A place is a JSON pointer, in which `*` stands
/// for every item of a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct EventPattern(pub BTreeMap<String, Vec<String>>);

impl EventPattern {
    /// Checks whether `event` has one of the words at each place. An empty pattern fits no event.
    pub fn fits(&self, event: &Value) -> bool {
        !self.0.is_empty() && self.0.iter().all(|(place, words)| has(event, place, words))
    }
}

fn has(event: &Value, place: &str, words: &[String]) -> bool {
    match place.split_once("/*") {
        None => event
            .pointer(place)
            .and_then(Value::as_str)
            .is_some_and(|found| words.iter().any(|word| word == found)),
        Some((list, rest)) => {
            let items = event.pointer(list).and_then(Value::as_array);
            items.is_some_and(|items| items.iter().any(|item| has(item, rest, words)))
        }
    }
}

/// The events of an agent that prints a line of JSON for each.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct EventPatterns {
    /// It has begun to work on a prompt.
    pub accepted: Vec<EventPattern>,
    /// It repeats the prompt: one of the strings in the event is the prompt.
    pub echoed: Vec<EventPattern>,
    /// It uses a tool.
    pub acting: Vec<EventPattern>,
    /// It is done.
    pub ended: Vec<EventPattern>,
    /// Where an event tells the session's id.
    pub session: Vec<String>,
    /// Where the tokens that it read are told; the last event that has them counts.
    pub input_tokens: Vec<String>,
    /// Where the tokens that it wrote are told.
    pub output_tokens: Vec<String>,
    /// Where the cost so far is told, in dollars.
    pub cost_usd: Vec<String>,
}

/// The file in which an agent keeps what was said: a line of JSON for each event, the session's id in the name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TranscriptSpec {
    /// The variable that says where the agent's files are.
    pub variable: String,
    /// Where they are otherwise, below the user's home.
    pub home: String,
    /// The folder there, with the files or with folders of them.
    pub folder: String,
    /// The events that hold what it was told.
    pub echoed: Vec<EventPattern>,
}
