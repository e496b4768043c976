//! The answers of the model, as data.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The answers of the mock: for each user text, the steps of the turn that it begins.
///
/// A step is found by the text and by the number of tool results after it, never by counting requests: the
/// CLIs make more requests than one expects. A request without a matching step gets an error that says why.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// The turns; the first that matches a user text answers it.
    #[serde(default)]
    pub turns: Vec<Turn>,
}

/// The text that begins a turn, and the steps that follow it.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Turn {
    /// The whole user text, byte for byte.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Instead of `user`: words that the user text contains.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub marker: Option<String>,
    /// The answers: one to the text, and one after each tool result.
    pub steps: Vec<Step>,
}

/// One answer of the model: any of a thought, a text and a call; or a failure.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Step {
    /// The delay before the answer, in milliseconds.
    pub delay_ms: u64,
    /// The thought of the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thought: Option<String>,
    /// The text of the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Candidates, best first: the first tool that the request offers is called.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub call: Vec<Call>,
    /// The failure that replaces the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fail: Option<Failure>,
}

/// Names under which a tool may be offered, and the arguments for it.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Call {
    /// The names, best first.
    pub tools: Vec<String>,
    /// The arguments of the call.
    pub args: Value,
}

/// The way in which a request fails.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum Failure {
    /// An error of the API: a status, a body, and headers besides the usual ones.
    Status {
        /// The status of HTTP.
        status: u16,
        /// The body.
        body: Value,
        /// More headers.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        headers: BTreeMap<String, String>,
    },
    /// The connection ends without an answer.
    Drop,
}

impl Script {
    /// Creates a script without turns.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the steps for exactly this user text.
    #[must_use]
    pub fn on(mut self, user: &str, steps: impl IntoIterator<Item = Step>) -> Self {
        let steps = steps.into_iter().collect();
        self.turns.push(Turn { user: Some(user.to_owned()), marker: None, steps });
        self
    }

    /// Adds the steps for a user text that contains `marker`.
    #[must_use]
    pub fn on_marker(mut self, marker: &str, steps: impl IntoIterator<Item = Step>) -> Self {
        let steps = steps.into_iter().collect();
        self.turns.push(Turn { user: None, marker: Some(marker.to_owned()), steps });
        self
    }

    pub(crate) fn find_turn(&self, text: &str) -> Option<&Turn> {
        self.turns.iter().find(|turn| turn.begins_with(text))
    }
}

impl Turn {
    fn begins_with(&self, text: &str) -> bool {
        let user = self.user.as_deref().is_some_and(|user| {
            // Copilot puts the time before the user's text and trims whitespace at its end.
            let dated = text.strip_prefix("<current_datetime>").and_then(|rest| rest.split_once("\n\n"));
            user == text || dated.is_some_and(|(_, said)| said == user.trim_end())
        });
        user || self.marker.as_deref().is_some_and(|marker| text.contains(marker))
    }
}

impl Step {
    /// Returns an answer with a text.
    pub fn text(text: &str) -> Self {
        Self { text: Some(text.to_owned()), ..Self::default() }
    }

    /// Returns a call of the first of these tools that is offered.
    pub fn call(tools: &[&str], args: Value) -> Self {
        Self::default().or_call(tools, args)
    }

    /// Adds candidates, for tools that take other arguments.
    #[must_use]
    pub fn or_call(mut self, tools: &[&str], args: Value) -> Self {
        let tools = tools.iter().map(|&tool| tool.to_owned()).collect();
        self.call.push(Call { tools, args });
        self
    }

    /// Returns an error whose body is valid in all protocols.
    pub fn error(status: u16, message: &str) -> Self {
        let kind = if status < 500 { "invalid_request_error" } else { "api_error" };
        let state = if status < 500 { "INVALID_ARGUMENT" } else { "INTERNAL" };
        let error = json!({ "type": kind, "code": status, "status": state, "message": message });
        let body = json!({ "type": "error", "error": error });
        let headers = BTreeMap::new();
        Self { fail: Some(Failure::Status { status, body, headers }), ..Self::default() }
    }

    /// Returns a failure that ends the connection without an answer.
    pub fn drop_connection() -> Self {
        Self { fail: Some(Failure::Drop), ..Self::default() }
    }

    /// Adds a thought to the answer.
    #[must_use]
    pub fn thinking(mut self, thought: &str) -> Self {
        self.thought = Some(thought.to_owned());
        self
    }

    /// Delays the answer.
    #[must_use]
    pub fn after_ms(mut self, delay_ms: u64) -> Self {
        self.delay_ms = delay_ms;
        self
    }
}
