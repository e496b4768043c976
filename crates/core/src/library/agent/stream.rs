//! The event stream of an agent: which events carry its text, begin and end the stream, or report an error.
//!
//! Only the description: the stage `reply` reads a stream by it.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

/// The output of an agent. Plain text is read in every format.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct OutputSpec {
    /// The name of the format. Without a `stream`, it is `text`, or the format of a shipped agent.
    pub format: Option<String>,
    /// The events of the format; without them, the output is a text.
    pub stream: Option<StreamSpec>,
}

/// A stream of events: each line is a JSON object. A place in an event is a JSON pointer without escapes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct StreamSpec {
    /// The place of an event's type; `/type` if it is empty.
    pub type_at: String,
    /// The places at which a vital event reports an error by a value that is not empty.
    pub errors: Vec<String>,
    /// The places at which a vital event reports an error by a word such as `failed` or `cancelled`.
    pub states: Vec<String>,
    /// The reasons for which a message may stop.
    pub good_stops: Vec<String>,
    /// Whether the event that ends the stream may be the only one.
    pub may_be_one_event: bool,
    /// The events; the first entry that fits an event applies to it.
    pub events: Vec<EventRule>,
}

/// The meaning of some events of a stream. An event that no rule fits is unknown: a marker in it is a doubt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct EventRule {
    /// The types of the events; `*` at the start or the end of a type is any text, `#` is a number.
    pub types: Vec<String>,
    /// Tests of the values at some places; all of them must hold.
    pub when: BTreeMap<String, ValueTest>,
    /// Whether the event begins the stream.
    pub begins: Option<BeginRule>,
    /// Whether the event ends the stream.
    pub ends: bool,
    /// Whether the event begins or ends a step, which must have both.
    pub step: Option<StepRule>,
    /// Whether only streams of this format have the event.
    pub counts: bool,
    /// Whether the event reports on the agent's own work, so that an error in it is an error of the agent.
    pub vital: bool,
    /// Whether the event remains unknown.
    pub unknown: bool,
    /// Whether a text in the event cannot be attributed: it is a doubt.
    pub unreadable: bool,
    /// Whether the next text is a new message.
    pub closes: bool,
    /// The place of the agent's text.
    pub text: Option<String>,
    /// Whether the event says nothing besides this text.
    pub only_text: bool,
    /// The list with the agent's text in parts.
    pub parts: Option<PartsSpec>,
    /// The place of the id of a message: texts of one id are one message.
    pub message: Option<String>,
    /// Whether the text continues the text of the event before.
    pub continues: bool,
    /// The place of a piece of a text, whose whole must follow.
    pub piece: Option<String>,
    /// Whether the event announces a text that must follow.
    pub announces: bool,
    /// The place of the id of a text that comes in pieces or is announced; one at a time without it.
    pub whole: Option<String>,
    /// The place at which the event repeats the last text.
    pub repeats: Option<String>,
    /// The place of the reason for which a message stopped.
    pub stop: Option<String>,
    /// The place of a word that may report a failure.
    pub state: Option<String>,
    /// The failure that the event reports.
    pub fails: Option<FailureRule>,
    /// Whether the event reports an error that the agent overcomes by itself.
    pub retried: bool,
}

/// A test of a value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum ValueTest {
    /// The value is this one.
    Bool(bool),
    /// The value is this number.
    Number(i64),
    /// The value is one of these words, with `*` and `#` as in `types`.
    Words(Vec<String>),
    /// The value has another property.
    Other(OtherTest),
}

/// A test by which a value is absent, or is not one of some words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct OtherTest {
    /// Whether there is a value other than `null`.
    pub given: Option<bool>,
    /// The value is a word, and none of these.
    pub not: Vec<String>,
    /// The value is one of these words, or no word.
    pub absent_or: Vec<String>,
}

/// How an event begins a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum BeginRule {
    /// A stream has one such event.
    Once,
    /// The first of such events begins the stream.
    First,
}

/// How an event bounds a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum StepRule {
    /// The step begins.
    Begins,
    /// The step ends.
    Ends,
}

/// A failure that an event reports.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct FailureRule {
    /// The places of the reason; the first that has one counts.
    pub why: Vec<String>,
    /// The reason if there is none in the event.
    pub otherwise: String,
    /// Whether the reason says more than that of an earlier failure.
    pub replaces: bool,
}

/// A list of parts, some of which hold the agent's text. The list may also be the text itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PartsSpec {
    /// The place of the list in the event.
    pub at: String,
    /// The place of a part's type, in the part.
    pub type_at: String,
    /// The place of a part's text, in the part.
    pub text: String,
    /// The types of the parts that hold a text.
    pub texts: Vec<String>,
    /// The types of other known parts.
    pub others: Vec<String>,
}

impl PartsSpec {
    /// Returns the place of each part.
    pub(crate) fn item(&self) -> String {
        format!("{}/*", self.at)
    }
}

/// The most places and words of a stream: well above those of every shipped agent.
const MOST_PLACES: usize = 200;
const MOST_WORDS: usize = 400;
/// The most bytes of a place or a word.
const MOST_BYTES: usize = 200;

impl StreamSpec {
    /// Returns the place of an event's type.
    pub(crate) fn type_place(&self) -> &str {
        if self.type_at.is_empty() { "/type" } else { &self.type_at }
    }

    /// Returns the places of values that are read as words.
    pub(crate) fn word_places(&self) -> impl Iterator<Item = &str> {
        let rules = self.events.iter().flat_map(|rule| {
            let single = [&rule.message, &rule.whole, &rule.stop, &rule.state];
            let why = rule.fails.iter().flat_map(|fails| &fails.why);
            rule.when.keys().chain(single.into_iter().flatten()).chain(why)
        });
        let all = self.errors.iter().chain(&self.states).chain(rules);
        core::iter::once(self.type_place()).chain(all.map(String::as_str))
    }

    /// Returns the places of values that are texts of any length.
    pub(crate) fn text_places(&self) -> impl Iterator<Item = &str> {
        let rules = self.events.iter().flat_map(|rule| [&rule.text, &rule.piece, &rule.repeats]);
        rules.flatten().map(String::as_str)
    }

    /// Returns the lists of parts.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &PartsSpec> {
        self.events.iter().filter_map(|rule| rule.parts.as_ref())
    }

    /// Returns everything that is wrong with it, each with a hint.
    pub(super) fn find_problems(&self) -> Vec<(String, &'static str)> {
        let mut found = Vec::new();
        let parts = self.parts().flat_map(|parts| [&parts.at, &parts.type_at, &parts.text]);
        let places: Vec<&str> =
            self.word_places().chain(self.text_places()).chain(parts.map(String::as_str)).collect();
        for place in &places {
            let mut steps = place.split('/').skip(1);
            if !place.starts_with('/') || steps.any(|step| step.is_empty() || step == "*") {
                let message = format!("`{place}` is not a JSON pointer");
                found.push((message, "a pointer begins with a slash, such as `/type`"));
            }
        }
        let tests = |test: &ValueTest| match test {
            ValueTest::Words(words) => words.clone(),
            ValueTest::Other(other) => [other.not.clone(), other.absent_or.clone()].concat(),
            ValueTest::Bool(_) | ValueTest::Number(_) => Vec::new(),
        };
        let of_rules = self.events.iter().flat_map(|rule| {
            let parts = rule.parts.iter().flat_map(|parts| parts.texts.iter().chain(&parts.others));
            let tested = rule.when.values().flat_map(tests);
            rule.types.iter().chain(parts).cloned().chain(tested).collect::<Vec<_>>()
        });
        let words: Vec<String> = of_rules.chain(self.good_stops.iter().cloned()).collect();
        for word in words.iter().filter(|word| inner_text(word).contains('*')) {
            let message = format!("`{word}` has a `*` inside");
            found.push((message, "put it at the start or at the end of the word"));
        }
        if self.events.iter().any(|rule| rule.types.is_empty()) {
            let message = "an event of `output.stream` has no `types`".to_string();
            found.push((message, "name the types of the event; `*` is any type"));
        }
        let is_long = |text: &str| text.len() > MOST_BYTES;
        let long = places.iter().any(|place| is_long(place)) || words.iter().any(|word| is_long(word));
        if places.len() > MOST_PLACES || words.len() > MOST_WORDS || long {
            let message = format!(
                "`output.stream` has more than {MOST_PLACES} places or {MOST_WORDS} words, or one of them has \
                 more than {MOST_BYTES} bytes"
            );
            found.push((message, "describe the events that matter to a reply"));
        }
        found
    }
}

/// Returns the pattern without the `*` at its start or end.
fn inner_text(pattern: &str) -> &str {
    let pattern = pattern.strip_prefix('*').unwrap_or(pattern);
    pattern.strip_suffix('*').unwrap_or(pattern)
}

/// Checks whether one of the patterns fits `word`.
pub(crate) fn fits_any(patterns: &[String], word: &str) -> bool {
    patterns.iter().any(|pattern| fits(pattern, word))
}

fn fits(pattern: &str, word: &str) -> bool {
    match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
        (None, None) => strip_pattern(pattern, word) == Some(""),
        (None, Some(start)) => strip_pattern(start, word).is_some(),
        (Some(_), _) if pattern.len() == 1 => true,
        (Some(end), None) => word.char_indices().any(|(at, _)| strip_pattern(end, &word[at..]) == Some("")),
        (Some(_), Some(_)) => {
            let middle = inner_text(pattern);
            middle.is_empty()
                || word.char_indices().any(|(at, _)| strip_pattern(middle, &word[at..]).is_some())
        }
    }
}

/// Returns the rest of `word` after `pattern`, in which `#` is one or more digits.
fn strip_pattern<'w>(pattern: &str, mut word: &'w str) -> Option<&'w str> {
    for (at, part) in pattern.split('#').enumerate() {
        if at > 0 {
            let rest = word.trim_start_matches(|c: char| c.is_ascii_digit());
            word = if rest.len() < word.len() { rest } else { return None };
        }
        word = word.strip_prefix(part)?;
    }
    Some(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_start_end_numbers() {
        for (pattern, word, expected) in [
            ("a", "a", true),
            ("a", "ab", false),
            ("", "", true),
            ("*", "", true),
            ("*", "anything", true),
            ("a.*", "a.b", true),
            ("a.*", "a", false),
            ("*_use", "tool_use", true),
            ("*_use", "_use_", false),
            ("*l_u*", "tool_use", true),
            ("*x*", "tool_use", false),
            ("try #/#", "try 1/50", true),
            ("try #/#", "try 1/", false),
            ("try #/# *", "try 1/5 (soon)", true),
            ("try #/# *", "try one/5 (soon)", false),
        ] {
            assert_eq!(fits(pattern, word), expected, "{pattern} {word}");
        }
    }
}
