//! The protocols of language models: parse requests and write answers. Connections are left to the server.

mod anthropic;
mod chat;
mod gemini;
mod responses;

use serde_json::Value;

use crate::exchange::WireAnswer;

/// A protocol of a model's API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// Anthropic Messages.
    Anthropic,
    /// OpenAI Responses.
    Responses,
    /// OpenAI Chat Completions.
    Chat,
    /// Gemini `generateContent` and `streamGenerateContent`.
    Gemini,
}

/// An item of a request's conversation, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConversationItem {
    /// A text of the user, or of the CLI in the user's place.
    User(String),
    /// An answer of the model without a tool call.
    Said,
    /// An answer of the model with a tool call.
    Called,
    /// The result of a tool call.
    Result,
}

/// A tool that a request offers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OfferedTool {
    /// The name.
    pub name: String,
    /// The namespace: Codex puts the tools of an MCP server into one.
    pub namespace: Option<String>,
    /// Whether it takes a text instead of an object.
    pub freeform: bool,
}

/// One answer of a model: any of a thought, a text and a call.
#[derive(Debug, Clone, Copy)]
pub struct ModelTurn<'a> {
    /// The name of the model.
    pub model: &'a str,
    /// The number of calls before this one, for ids that are the same in every run.
    pub serial: usize,
    /// The thought.
    pub thought: Option<&'a str>,
    /// The text.
    pub text: Option<&'a str>,
    /// The called tool and its arguments.
    pub call: Option<(&'a OfferedTool, &'a Value)>,
}

impl Protocol {
    /// All protocols.
    pub const ALL: [Self; 4] = [Self::Anthropic, Self::Responses, Self::Chat, Self::Gemini];

    /// Returns the protocol of a POST request with this path, or `None` if the request is not one to a model.
    pub fn from_path(path: &str) -> Option<Self> {
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

    /// Returns the conversation of a request's body, in order.
    pub fn items(self, body: &Value) -> Vec<ConversationItem> {
        match self {
            Self::Anthropic => anthropic::items(body),
            Self::Responses => responses::items(body),
            Self::Chat => chat::items(body),
            Self::Gemini => gemini::items(body),
        }
    }

    /// Returns the tools that a request's body offers.
    pub fn tools(self, body: &Value) -> Vec<OfferedTool> {
        match self {
            Self::Anthropic => anthropic::tools(body),
            Self::Responses => responses::tools(body),
            Self::Chat => chat::tools(body),
            Self::Gemini => gemini::tools(body),
        }
    }

    /// Checks whether the answer to a request must be a stream of events.
    pub fn is_streaming(self, path: &str, body: &Value) -> bool {
        match self {
            Self::Gemini => path.contains(":streamGenerateContent"),
            _ => body["stream"] == true,
        }
    }

    /// Returns the answer: server-sent events, or one object.
    pub fn write_answer(self, turn: &ModelTurn<'_>, stream: bool) -> WireAnswer {
        let body = self.write_body(turn, stream);
        if stream { WireAnswer::events(body) } else { WireAnswer::json(200, body) }
    }

    fn write_body(self, turn: &ModelTurn<'_>, stream: bool) -> String {
        match (self, stream) {
            (Self::Anthropic, true) => anthropic::events(turn),
            (Self::Anthropic, false) => anthropic::message(turn).to_string(),
            (Self::Responses, true) => responses::events(turn),
            (Self::Responses, false) => responses::response(turn).to_string(),
            (Self::Chat, true) => chat::events(turn),
            (Self::Chat, false) => chat::completion(turn).to_string(),
            (Self::Gemini, true) => gemini::events(turn),
            (Self::Gemini, false) => gemini::content(turn).to_string(),
        }
    }
}

impl OfferedTool {
    fn named(name: &Value) -> Self {
        Self { name: string_value(name), ..Self::default() }
    }

    /// Checks whether `wanted` names this tool. A tool in a namespace has its own name, and the two names
    /// with two underscores between.
    pub fn has_name(&self, wanted: &str) -> bool {
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
