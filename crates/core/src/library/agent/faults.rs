//! Patterns by which an agent reports that its model does not answer: it retries, or gives up.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::EventPattern;
use crate::text::word_enum::word_enum;

word_enum! {
    /// The reason why a model does not answer.
    FaultKind {
        /// The key or the login was refused.
        Authentication "authentication",
        /// A quota or a rate limit is used up.
        Quota "quota",
        /// The servers of the model are overloaded or fail.
        Overloaded "overloaded",
        /// The connection was lost.
        Connection "connection",
    }
}

impl FaultKind {
    /// Returns the kind that a status of HTTP stands for; `None` if a retry does not help.
    pub const fn from_status(status: u64) -> Option<Self> {
        match status {
            401 | 403 => Some(Self::Authentication),
            429 => Some(Self::Quota),
            408 | 500..=599 => Some(Self::Overloaded),
            _ => None,
        }
    }

    /// Returns the words for people.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Authentication => "authentication failed",
            Self::Quota => "rate limited",
            Self::Overloaded => "overloaded",
            Self::Connection => "connection lost",
        }
    }
}

/// An event, or a line of standard error, by which an agent reports that its model does not answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct FaultPattern {
    /// The event; without it, a line of standard error.
    pub when: Option<EventPattern>,
    /// The place of the text that `says` describes.
    pub text: Option<String>,
    /// The forms of the text or line, of which one must fit from its beginning on. `{status}`, `{attempt}`, `{delay_ms}`,
    /// `{delay_s}`, `{until_s}` (seconds since 1970) and `{until_clock}` (a local time) are values, `{}` is any text.
    pub says: Vec<String>,
    /// The kind, if no status says it.
    pub kind: Option<FaultKind>,
    /// The places of the status of HTTP.
    pub status: Vec<String>,
    /// The places of the number of the attempt.
    pub attempt: Vec<String>,
    /// Whether the first attempt has the number 0.
    pub attempt_from_zero: bool,
    /// The places of the delay until the next attempt, in milliseconds.
    pub delay_ms: Vec<String>,
    /// The places of the time at which a quota is available again, in seconds since 1970.
    pub until_s: Vec<String>,
}

/// A report of an agent that its model does not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentFault {
    /// The reason.
    pub kind: FaultKind,
    /// The status of HTTP.
    pub status: Option<u64>,
    /// The number of the attempt, from 1.
    pub attempt: Option<u64>,
    /// The delay until the next attempt, in milliseconds.
    pub delay_ms: Option<u64>,
    /// When a quota is available again, in seconds since 1970.
    pub until_s: Option<u64>,
    /// The same as a local time in the agent's words, such as `10:01 AM`.
    pub until_clock: Option<String>,
}

impl AgentFault {
    /// Returns the fault in words: `529 overloaded, attempt 3`.
    pub fn words(&self) -> String {
        let mut words = String::new();
        if let Some(status) = self.status {
            words += &alloc::format!("{status} ");
        }
        words += self.kind.words();
        if let Some(attempt) = self.attempt {
            words += &alloc::format!(", attempt {attempt}");
        }
        words
    }

    /// Checks whether both have the same reason.
    pub fn is_same_as(&self, other: &Self) -> bool {
        (self.kind, self.status) == (other.kind, other.status)
    }
}

impl FaultPattern {
    /// Returns the fault that an event reports.
    pub fn find_in_event(&self, event: &Value) -> Option<AgentFault> {
        let when = self.when.as_ref()?;
        if !when.matches(event) {
            return None;
        }
        let mut values = FaultValues::default();
        if !self.says.is_empty() {
            let text = event.pointer(self.text.as_deref()?)?.as_str()?;
            values = self.match_forms(text)?;
        }
        let number = |places: &[String]| places.iter().find_map(|place| event.pointer(place)?.as_u64());
        values.status = number(&self.status).or(values.status);
        values.attempt = number(&self.attempt).or(values.attempt);
        values.delay_ms = number(&self.delay_ms).or(values.delay_ms);
        values.until_s = number(&self.until_s).or(values.until_s);
        self.to_fault(values)
    }

    /// Returns the fault that a line of standard error reports.
    pub fn find_in_line(&self, line: &str) -> Option<AgentFault> {
        if self.when.is_some() || self.says.is_empty() {
            return None;
        }
        self.to_fault(self.match_forms(line.trim())?)
    }

    fn match_forms(&self, text: &str) -> Option<FaultValues> {
        self.says.iter().find_map(|form| match_form(form, text))
    }

    fn to_fault(&self, values: FaultValues) -> Option<AgentFault> {
        let kind = match values.status {
            Some(status) => FaultKind::from_status(status)?,
            None => self.kind.unwrap_or(FaultKind::Connection),
        };
        let FaultValues { status, attempt, delay_ms, until_s, until_clock } = values;
        let attempt = attempt.map(|attempt| attempt.saturating_add(u64::from(self.attempt_from_zero)));
        Some(AgentFault { kind, status, attempt, delay_ms, until_s, until_clock })
    }

    /// Returns all places.
    pub(super) fn places(&self) -> impl Iterator<Item = &String> {
        let numbers = [&self.status, &self.attempt, &self.delay_ms, &self.until_s].into_iter().flatten();
        let when = self.when.iter().flat_map(|EventPattern(places)| places.keys());
        when.chain(&self.text).chain(numbers)
    }

    /// Returns the problem of a pattern that fits nothing, or everything.
    pub(super) fn find_problem(&self) -> Option<&'static str> {
        let is_open = |form: &String| form.trim().is_empty() || form.starts_with('{');
        match (&self.when, &self.text, self.says.is_empty()) {
            (None, _, true) => Some("a fault needs an event in `when`, or a form of a line in `says`"),
            (None, Some(_), _) => Some("a line of standard error has no place `text`"),
            (Some(_), None, false) => Some("`says` needs the place `text` of an event"),
            _ if self.says.iter().any(is_open) => Some("a form of a fault begins with words"),
            _ => None,
        }
    }
}

/// Values of a form.
#[derive(Default)]
struct FaultValues {
    status: Option<u64>,
    attempt: Option<u64>,
    delay_ms: Option<u64>,
    until_s: Option<u64>,
    until_clock: Option<String>,
}

/// Reads the values of a text in this form. Each hole is as short as possible.
fn match_form(form: &str, text: &str) -> Option<FaultValues> {
    let mut values = FaultValues::default();
    let (mut form, mut text) = (form, text);
    loop {
        let Some((words, rest)) = form.split_once('{') else {
            return text.starts_with(form).then_some(values);
        };
        text = text.strip_prefix(words)?;
        let (hole, after) = rest.split_once('}')?;
        let next = after.split('{').next().unwrap_or_default();
        let end = if next.is_empty() { text.len() } else { text.find(next)? };
        let (value, left) = text.split_at(end);
        let number = || value.trim().parse::<u64>().ok();
        match hole {
            "status" => values.status = Some(number()?),
            "attempt" => values.attempt = Some(number()?),
            "delay_ms" => values.delay_ms = Some(number()?),
            "delay_s" => values.delay_ms = Some(number()?.saturating_mul(1000)),
            "until_s" => values.until_s = Some(number()?),
            "until_clock" => values.until_clock = Some(value.trim().trim_end_matches('.').into()),
            _ => {}
        }
        (form, text) = (after, left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn form_fits_only_its_texts() {
        let form = "Reconnecting... {attempt}/{} (unexpected status {status} {}";
        let fits = match_form(form, "Reconnecting... 2/5 (unexpected status 503 Service Unavailable: x)");
        let fits = fits.unwrap();
        assert_eq!((fits.attempt, fits.status), (Some(2), Some(503)));
        for text in ["", "Reconnecting", "Reconnecting... x/5 (unexpected status 503 a", "{\"a\": 1}"] {
            assert!(match_form(form, text).is_none(), "{text}");
        }
        let clock = match_form("Limit{} at {until_clock}", "Limit. Try again at 10:01 AM.").unwrap();
        assert_eq!(clock.until_clock.as_deref(), Some("10:01 AM"));
    }

    #[test]
    fn status_decides_kind_of_fault() {
        let pattern = FaultPattern { says: alloc::vec!["status {status}".into()], ..Default::default() };
        let kinds = [(401, "authentication"), (403, "authentication"), (429, "quota"), (529, "overloaded")];
        for (status, kind) in kinds {
            let fault = pattern.find_in_line(&alloc::format!("status {status}")).unwrap();
            assert_eq!((fault.kind.name(), fault.status), (kind, Some(status)));
        }
        assert_eq!(pattern.find_in_line("status 400"), None);
    }
}
