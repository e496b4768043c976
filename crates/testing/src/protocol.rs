//! The protocols of language models: parse requests and write answers.

mod anthropic;
mod chat;
mod gemini;
mod responses;

use serde_json::Value;

/// A protocol of a model's API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Anthropic,
    Responses,
    Chat,
    Gemini,
}

/// An item of a request's conversation, in order.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Item {
    User(String),
    Said,
    Called,
    Result,
}

/// A tool that a request offers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Tool {
    pub(crate) name: String,
    /// The namespace: Codex puts the tools of an MCP server into one.
    pub(crate) namespace: Option<String>,
    /// Whether it takes a text instead of an object.
    pub(crate) freeform: bool,
}

/// The answer of the model.
#[derive(Debug)]
pub(crate) struct Answer<'a> {
    pub(crate) model: &'a str,
    /// The number of calls before this one, for ids that are the same in every run.
    pub(crate) serial: usize,
    pub(crate) thought: Option<&'a str>,
    pub(crate) text: Option<&'a str>,
    pub(crate) call: Option<(&'a Tool, &'a Value)>,
}

impl Protocol {
    pub(crate) fn from_path(path: &str) -> Option<Self> {
        let path = path.split('?').next().unwrap_or_default();
        if path.ends_with("/v1/messages") {
            Some(Self::Anthropic)
        } else if path.ends_with("/responses") {
            Some(Self::Responses)
        } else if path.ends_with("/chat/completions") {
            Some(Self::Chat)
        } else if path.ends_with(":generateContent") || path.ends_with(":streamGenerateContent") {
            Some(Self::Gemini)
        } else {
            None
        }
    }

    pub(crate) fn items(self, body: &Value) -> Vec<Item> {
        match self {
            Self::Anthropic => anthropic::items(body),
            Self::Responses => responses::items(body),
            Self::Chat => chat::items(body),
            Self::Gemini => gemini::items(body),
        }
    }

    pub(crate) fn tools(self, body: &Value) -> Vec<Tool> {
        match self {
            Self::Anthropic => anthropic::tools(body),
            Self::Responses => responses::tools(body),
            Self::Chat => chat::tools(body),
            Self::Gemini => gemini::tools(body),
        }
    }

    pub(crate) fn is_streaming(self, path: &str, body: &Value) -> bool {
        match self {
            Self::Gemini => path.contains(":streamGenerateContent"),
            _ => body["stream"] == true,
        }
    }

    /// Returns the body of the answer: server-sent events, or one object.
    pub(crate) fn write_body(self, answer: &Answer<'_>, stream: bool) -> String {
        match (self, stream) {
            (Self::Anthropic, true) => anthropic::events(answer),
            (Self::Anthropic, false) => anthropic::message(answer).to_string(),
            (Self::Responses, true) => responses::events(answer),
            (Self::Responses, false) => responses::response(answer).to_string(),
            (Self::Chat, true) => chat::events(answer),
            (Self::Chat, false) => chat::completion(answer).to_string(),
            (Self::Gemini, true) => gemini::events(answer),
            (Self::Gemini, false) => gemini::content(answer).to_string(),
        }
    }
}

impl Tool {
    fn named(name: &Value) -> Self {
        Self { name: string_value(name), ..Self::default() }
    }

    /// Checks whether `wanted` names this tool. A tool in a namespace has its own name, and the two names
    /// with two underscores between.
    pub(crate) fn has_name(&self, wanted: &str) -> bool {
        let inside = |namespace: &String| {
            wanted.strip_prefix(namespace.trim_end_matches('_')).and_then(|rest| rest.strip_prefix("__"))
                == Some(&self.name)
        };
        self.name == wanted || self.namespace.as_ref().is_some_and(inside)
    }
}

fn as_list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn string_value(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Returns the texts of a content that is a string, or a list of parts with a `text`.
fn content_texts(content: &Value) -> Vec<String> {
    match content {
        Value::String(text) => vec![text.clone()],
        _ => as_list(content).iter().filter_map(|part| part["text"].as_str()).map(str::to_owned).collect(),
    }
}

/// Splits a text as models send it: at any character, so that no reader can rely on whole words.
fn split_text(text: &str) -> Vec<&str> {
    let size = (text.len() / 8).max(12);
    let mut rest = text;
    let mut pieces = Vec::new();
    while !rest.is_empty() {
        let (piece, left) = rest.split_at(rest.ceil_char_boundary(size));
        pieces.push(piece);
        rest = left;
    }
    pieces
}

/// Returns one server-sent event whose name is the `type` of its data.
fn typed_event(data: &Value) -> String {
    format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap_or_default())
}

fn event(data: &Value) -> String {
    format!("data: {data}\n\n")
}
