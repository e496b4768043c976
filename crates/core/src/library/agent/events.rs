//! Patterns of an agent's own events: they prove that it started, which prompt it received, and its actions.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Agent, FaultPattern};
use crate::library::allowed_command::AllowedCommand;
use crate::library::command_words::split_words;

/// The words of an event by place: the event must have one of the words at each place; a word that ends in `*` is the
/// beginning of a text. A place is a JSON pointer, in which `*` matches every item of a list.
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
            .is_some_and(|found| words.iter().any(|word| fits_word(found, word))),
        Some((list, rest)) => {
            let items = event.pointer(list).and_then(Value::as_array);
            items.is_some_and(|items| items.iter().any(|item| has_word_at(item, rest, words)))
        }
    }
}

fn fits_word(found: &str, word: &str) -> bool {
    word.strip_suffix('*').map_or(word == found, |start| found.starts_with(start))
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
    /// The places of the number of input tokens that were written to a cache, if the input tokens do not include them.
    pub cache_written_tokens: Vec<String>,
    /// The places of the number of all tokens. Those beyond input and output are thoughts, which are paid for as output.
    pub total_tokens: Vec<String>,
    /// Whether the number of input tokens includes those that were read from a cache.
    pub input_includes_cached: bool,
    /// The places of the model's name.
    pub model: Vec<String>,
    /// The places of the version of the agent's program; the first event that has it counts.
    pub version: Vec<String>,
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
    /// Events with the tokens and the cost of a part of the work, which add up; events with the sum replace them.
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
    /// The place of the number of input tokens that were written to a cache, if the input tokens do not include them.
    pub cache_written_tokens: Option<String>,
    /// The place of the number of all tokens.
    pub total_tokens: Option<String>,
    /// The place of the cost in dollars.
    pub cost_usd: Option<String>,
}

impl EventPatterns {
    /// Returns whether some event has the number of tokens.
    pub fn has_tokens(&self) -> bool {
        let has_part = |part: &UsagePattern| part.input_tokens.is_some() || part.output_tokens.is_some();
        !self.input_tokens.is_empty() || !self.output_tokens.is_empty() || self.usage.iter().any(has_part)
    }

    /// Returns whether some event has the cost.
    pub fn has_cost(&self) -> bool {
        !self.cost_usd.is_empty() || self.usage.iter().any(|part| part.cost_usd.is_some())
    }
}

impl UsagePattern {
    /// Returns all places.
    pub(super) fn places(&self) -> impl Iterator<Item = &String> {
        let when = self.when.iter().flat_map(|EventPattern(places)| places.keys());
        let places = [
            &self.id,
            &self.input_tokens,
            &self.output_tokens,
            &self.cached_tokens,
            &self.cache_written_tokens,
            &self.total_tokens,
            &self.cost_usd,
        ];
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
    /// The place of the call's id. A denied call without a name is the earlier call with the same id.
    pub id: Option<String>,
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
    /// The command that would have to be allowed for a denied call, such as `pytest *`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow: Option<String>,
}

/// The most characters of a name, a detail or an id.
const MOST_CHARS: usize = 500;

fn cut(text: &str) -> String {
    text.chars().take(MOST_CHARS).collect()
}

impl ToolCall {
    /// Returns the command that would have to be allowed to `agent` so that it can make this call. Returns `None` if the
    /// call is not a command of plain words, or if no permission of a single command would do.
    pub fn find_missing_permission(&self, agent: &Agent) -> Option<AllowedCommand> {
        let is_shell = agent.tools.shell.as_ref().is_some_and(|shell| *shell == self.tool);
        let line = self.detail.as_ref().filter(|line| is_shell && line.chars().count() < MOST_CHARS)?;
        let words = split_words(line).ok()?;
        // The narrowest command that the agent's rules can express.
        let shorter =
            (1..=words.len()).rev().filter_map(|len| AllowedCommand::from_words(&words[..len], true));
        let is_whole = AllowedCommand::from_words(&words, true).is_some();
        shorter
            .filter(|_| is_whole)
            .find(|command| agent.check_command(command).is_ok_and(|rule| rule.is_some()))
    }
}

impl ToolPattern {
    /// Returns the calls that an event reports.
    pub fn find_calls(&self, event: &Value) -> Vec<ToolCall> {
        self.find_items(event).into_iter().filter_map(|item| self.read_call(item)).collect()
    }

    /// Returns the calls that an event reports, each with its id. Leaves out calls without one.
    pub fn find_identified_calls(&self, event: &Value) -> Vec<(String, ToolCall)> {
        let items = self.find_items(event).into_iter();
        items.filter_map(|item| Some((self.read_id(item)?, self.read_call(item)?))).collect()
    }

    /// Returns the ids of the calls that an event reports.
    pub fn find_ids(&self, event: &Value) -> Vec<String> {
        self.find_items(event).into_iter().filter_map(|item| self.read_id(item)).collect()
    }

    fn read_id(&self, item: &Value) -> Option<String> {
        item.pointer(self.id.as_ref()?)?.as_str().map(cut)
    }

    fn read_call(&self, item: &Value) -> Option<ToolCall> {
        let tool = match self.name.starts_with('/') {
            true => item.pointer(&self.name)?.as_str()?,
            false => &self.name,
        };
        let detail = self.detail.iter().find_map(|place| item.pointer(place)?.as_str());
        Some(ToolCall { tool: cut(tool), detail: detail.map(cut), allow: None })
    }

    /// Returns the parts of an event that report a call.
    fn find_items<'e>(&self, event: &'e Value) -> Vec<&'e Value> {
        if self.when.as_ref().is_some_and(|when| !when.matches(event)) {
            return Vec::new();
        }
        let list = self.each.as_ref().map(|each| event.pointer(each).and_then(Value::as_array));
        let items = match &list {
            None => core::slice::from_ref(event),
            Some(None) => &[],
            Some(Some(items)) => &items[..],
        };
        let is_call = |item: &&Value| self.item.as_ref().is_none_or(|pattern| pattern.matches(item));
        items.iter().filter(is_call).collect()
    }

    /// Returns all places.
    pub(super) fn places(&self) -> impl Iterator<Item = &String> {
        let patterns = self.when.iter().chain(&self.item).flat_map(|EventPattern(places)| places.keys());
        patterns.chain(&self.each).chain(&self.detail).chain(&self.id)
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
    /// The events that hold the agent's system prompt, and with it the shared part of a prompt.
    #[serde(default)]
    pub shared: Vec<EventPattern>,
}
