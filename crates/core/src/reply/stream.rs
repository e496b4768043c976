//! Streams: what an agent said, taken out of the events that its CLI prints.
//!
//! Only what the agent itself said as text is taken: no thoughts, no arguments or results of tools, no words of
//! sub-agents, no text of an error. Whatever else an event carries is not looked at.

use alloc::borrow::Cow;
use alloc::string::{String, ToString};

use serde_json::Value;

use crate::agent::OutputFormat;

pub(super) struct Stream<'o> {
    pub(super) text: Cow<'o, [u8]>,
    /// What the stream says went wrong in the end.
    pub(super) failed: Option<String>,
    /// How many lines are no events.
    pub(super) noise: usize,
}

/// What the agent said in `output`. An output that is no stream of that kind is taken as it is.
pub(super) fn agent_text(output: &[u8], format: OutputFormat) -> Stream<'_> {
    let read = match format {
        OutputFormat::Text => return Stream { text: Cow::Borrowed(output), failed: None, noise: 0 },
        OutputFormat::ClaudeStreamJson => claude,
        OutputFormat::CodexJsonl => codex,
        OutputFormat::GeminiStreamJson => gemini,
        OutputFormat::CopilotJsonl => copilot,
    };
    let mut events = Events::default();
    let mut noise = 0;
    for line in String::from_utf8_lossy(output).lines().map(str::trim).filter(|line| !line.is_empty()) {
        let event = line.starts_with('{').then(|| serde_json::from_str::<Value>(line).ok()).flatten();
        match event.as_ref().and_then(|event| Some((event, event.get("type")?.as_str()?))) {
            Some((event, kind)) => read(&mut events, kind, event),
            None => noise += 1,
        }
    }
    // Events among other lines may be something that a text quotes, unless they begin as a stream does.
    if !events.begun && (noise > 0 || !events.known) {
        return Stream { text: Cow::Borrowed(output), failed: None, noise: 0 };
    }
    let text = match events.last {
        Some(last) if events.text.is_empty() => last,
        _ => events.text,
    };
    Stream { text: Cow::Owned(text.into_bytes()), failed: events.failed, noise }
}

#[derive(Default)]
struct Events {
    text: String,
    /// The event that begins every stream of this kind was there.
    begun: bool,
    /// An event was there that only streams of this kind have.
    known: bool,
    /// The text goes on where it ended.
    going_on: bool,
    /// The text of the end, for outputs that have nothing else.
    last: Option<String>,
    failed: Option<String>,
}

impl Events {
    /// A message of its own: a paragraph apart from the one before.
    fn message(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        for newline in ["\n", "\n\n"] {
            if !self.text.is_empty() && !self.text.ends_with(newline) {
                self.text.push('\n');
            }
        }
        self.text.push_str(text);
    }

    fn fail(&mut self, why: Option<&Value>, otherwise: &str) {
        self.failed = Some(why.and_then(Value::as_str).unwrap_or(otherwise).to_string());
    }
}

fn word<'e>(event: &'e Value, path: &str) -> Option<&'e str> {
    event.pointer(path).and_then(Value::as_str)
}

fn is_given(event: &Value, path: &str) -> bool {
    event.pointer(path).is_some_and(|value| !value.is_null())
}

fn claude(events: &mut Events, kind: &str, event: &Value) {
    match kind {
        "system" => events.begun |= word(event, "/subtype") == Some("init"),
        "assistant" if event.get("message").is_some_and(Value::is_object) => {
            events.known = true;
            let is_own = !is_given(event, "/parent_tool_use_id");
            // The text of an error comes as a message of a model that does not exist.
            let is_error = is_given(event, "/error") || word(event, "/message/model") == Some("<synthetic>");
            if !is_own || is_error {
                return;
            }
            match event.pointer("/message/content") {
                Some(Value::String(text)) => events.message(text),
                Some(Value::Array(parts)) => {
                    let texts = parts.iter().filter(|part| word(part, "/type") == Some("text"));
                    texts.filter_map(|part| word(part, "/text")).for_each(|text| events.message(text));
                }
                _ => {}
            }
        }
        "result" if is_given(event, "/is_error") => {
            events.known = true;
            events.failed = None;
            if event.pointer("/is_error") == Some(&Value::Bool(false)) {
                events.last = word(event, "/result").map(String::from);
            } else {
                events.fail(event.get("result"), word(event, "/subtype").unwrap_or("error"));
            }
        }
        _ => {}
    }
}

fn codex(events: &mut Events, kind: &str, event: &Value) {
    match kind {
        "thread.started" => events.begun = true,
        "item.completed" => {
            events.known = true;
            if word(event, "/item/type") == Some("agent_message")
                && let Some(text) = word(event, "/item/text")
            {
                events.message(text);
            }
        }
        "turn.completed" => events.failed = None,
        // Events of type `error` are told on the way too, where a connection is tried again.
        "turn.failed" => events.fail(event.pointer("/error/message"), "the turn failed"),
        _ => {}
    }
}

fn gemini(events: &mut Events, kind: &str, event: &Value) {
    let goes_on = core::mem::take(&mut events.going_on);
    match kind {
        "init" => events.begun |= is_given(event, "/session_id"),
        "message" if word(event, "/role") == Some("assistant") => {
            events.known = true;
            let Some(text) = word(event, "/content") else { return };
            let is_delta = event.get("delta") == Some(&Value::Bool(true));
            if goes_on && is_delta {
                events.text.push_str(text)
            } else {
                events.message(text)
            }
            events.going_on = is_delta;
        }
        "result" if is_given(event, "/status") => {
            events.known = true;
            if word(event, "/status") != Some("success") {
                events.fail(event.pointer("/error/message"), "error");
            }
        }
        _ => {}
    }
}

fn copilot(events: &mut Events, kind: &str, event: &Value) {
    match kind {
        "session.error" => events.fail(event.pointer("/data/message"), "session error"),
        "assistant.message" => {
            events.known = true;
            if !is_given(event, "/data/parentToolCallId")
                && let Some(text) = word(event, "/data/content")
            {
                events.message(text);
            }
        }
        "result" if is_given(event, "/exitCode") => {
            events.known = true;
            match event.get("exitCode").and_then(Value::as_i64) {
                Some(0) => events.failed = None,
                _ if events.failed.is_none() => events.fail(None, "the CLI ended with an error"),
                _ => {}
            }
        }
        kind => events.begun |= kind.starts_with("session."),
    }
}
