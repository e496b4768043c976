//! What each CLI prints: which events carry text, which one begins a stream, which one ends it, and which report an error.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ops::Range;

use sha2::{Digest as _, Sha256};

use super::json::{FieldValue, JsonReader, Want, Wanted};
use super::sink::Kept;
use super::{StreamDoubts, StreamText};
use crate::agent::OutputFormat;

pub(super) const fn wanted(format: OutputFormat) -> Wanted {
    match format {
        OutputFormat::Text => &[],
        OutputFormat::ClaudeStreamJson => &[
            ("/type", Want::Word),
            ("/subtype", Want::Word),
            ("/is_error", Want::Word),
            ("/error", Want::Word),
            ("/stop_reason", Want::Word),
            ("/parent_tool_use_id", Want::Word),
            ("/result", Want::Text),
            ("/message", Want::Inside),
            ("/message/id", Want::Word),
            ("/message/model", Want::Word),
            ("/message/content", Want::TextOrInside),
            ("/message/content/*", Want::Inside),
            ("/message/content/*/type", Want::Word),
            ("/message/content/*/text", Want::Text),
        ],
        OutputFormat::CodexJsonl => &[
            ("/type", Want::Word),
            ("/message", Want::Word),
            ("/error", Want::Inside),
            ("/error/message", Want::Word),
            ("/item", Want::Inside),
            ("/item/id", Want::Word),
            ("/item/type", Want::Word),
            ("/item/text", Want::Text),
        ],
        OutputFormat::GeminiStreamJson => &[
            ("/type", Want::Word),
            ("/session_id", Want::Word),
            ("/role", Want::Word),
            ("/content", Want::Text),
            ("/delta", Want::Word),
            ("/status", Want::Word),
            ("/message", Want::Word),
            ("/error", Want::Inside),
            ("/error/message", Want::Word),
        ],
        OutputFormat::CopilotJsonl => &[
            ("/type", Want::Word),
            ("/exitCode", Want::Word),
            ("/data", Want::Inside),
            ("/data/messageId", Want::Word),
            ("/data/parentToolCallId", Want::Word),
            ("/data/content", Want::Text),
            ("/data/deltaContent", Want::Text),
            ("/data/message", Want::Word),
        ],
        OutputFormat::OpencodeJson => &[
            ("/type", Want::Word),
            ("/part", Want::Inside),
            ("/part/messageID", Want::Word),
            ("/part/reason", Want::Word),
            ("/part/synthetic", Want::Word),
            ("/part/text", Want::Text),
            ("/error", Want::Inside),
            ("/error/name", Want::Word),
            ("/error/data", Want::Inside),
            ("/error/data/message", Want::Word),
        ],
    }
}

/// What the events said so far.
#[derive(Debug)]
pub(super) struct Events {
    text: Kept,
    /// The line ends at the end of the text, up to two.
    newlines: usize,
    /// The message that the text may go on in.
    open: Option<String>,
    last_message: Range<usize>,
    last_part: Range<usize>,
    /// How many events there were that only streams of this format have.
    pub(super) known: usize,
    begun: bool,
    ended: bool,
    /// A step is begun and not finished.
    in_step: bool,
    /// Hashes of messages whose pieces have come and whose whole has not.
    pieces: BTreeMap<String, Sha256>,
    doubts: StreamDoubts,
}

/// Well above the number of messages that a CLI writes at the same time.
const MOST_PIECES: usize = 100;

/// How the tags of markers begin.
const TAGS: [&str; 4] = ["<review", "</review", "<task_status", "</task_status"];
const MOST_TAG: usize = 16;

/// An event of a stream.
struct Event<'j> {
    json: &'j mut JsonReader,
    /// A text of the agent is not a string, so that nobody knows what it says.
    is_unreadable: bool,
}

impl Event<'_> {
    fn value(&self, path: &str) -> Option<&FieldValue> {
        self.json.fields.iter().find(|field| field.path == path).map(|field| &field.value)
    }

    fn word(&self, path: &str) -> Option<&str> {
        match self.value(path) {
            Some(FieldValue::Word(word)) => Some(word),
            _ => None,
        }
    }

    /// A text that the agent said. One that is there and is not a string makes the event unreadable.
    fn text(&mut self, path: &str) -> Option<Range<usize>> {
        match self.value(path) {
            Some(FieldValue::Text(range)) => Some(range.clone()),
            None | Some(FieldValue::Null) => None,
            Some(_) => {
                self.is_unreadable = true;
                None
            }
        }
    }

    fn is_given(&self, path: &str) -> bool {
        self.value(path).is_some_and(|value| !matches!(value, FieldValue::Null))
    }

    fn is_true(&self, path: &str) -> bool {
        matches!(self.value(path), Some(FieldValue::True))
    }
}

impl Events {
    pub(super) fn new(text: Kept) -> Self {
        Self {
            text,
            newlines: 0,
            open: None,
            last_message: 0..0,
            last_part: 0..0,
            known: 0,
            begun: false,
            ended: false,
            in_step: false,
            pieces: BTreeMap::new(),
            doubts: StreamDoubts::default(),
        }
    }

    pub(super) const fn is_begun(&self) -> bool {
        self.begun
    }

    /// Takes the object that was read as an event; what is wrong with it, if anything.
    pub(super) fn take(&mut self, format: OutputFormat, json: &mut JsonReader) -> Option<&'static str> {
        let mut event = Event { json, is_unreadable: false };
        let Some(kind) = event.word("/type").map(ToString::to_string) else {
            return Some("the object has no type");
        };
        if self.ended {
            self.doubts.incomplete.get_or_insert("the stream goes on after its end");
        }
        match format {
            OutputFormat::Text => {}
            OutputFormat::ClaudeStreamJson => self.claude(&kind, &mut event),
            OutputFormat::CodexJsonl => self.codex(&kind, &mut event),
            OutputFormat::GeminiStreamJson => self.gemini(&kind, &mut event),
            OutputFormat::CopilotJsonl => self.copilot(&kind, &mut event),
            OutputFormat::OpencodeJson => self.opencode(&kind, &mut event),
        }
        if event.is_unreadable {
            self.doubts.conflict.get_or_insert("a message has a form that cannot be read");
        }
        // Codex reports what it tries again as an error as well.
        if reports_failure(&kind) && (format, kind.as_str()) != (OutputFormat::CodexJsonl, "error") {
            self.fail(None, &kind);
        }
        None
    }

    pub(super) fn finish(mut self, format: OutputFormat) -> StreamText<Vec<u8>> {
        // Claude prints one object alone if it is asked to.
        let is_one_object = format == OutputFormat::ClaudeStreamJson && self.known == 1 && self.ended;
        if !self.begun && !is_one_object {
            self.doubts.incomplete.get_or_insert("the stream has no beginning");
        }
        if !self.ended {
            self.doubts.incomplete.get_or_insert("the stream has no end");
        }
        if !self.pieces.is_empty() {
            self.doubts.incomplete.get_or_insert("pieces of a message came without the whole");
        }
        self.doubts.is_too_long |= self.text.is_over;
        StreamText::of(self.text, self.doubts)
    }

    fn begin(&mut self) {
        if self.begun {
            self.doubts.conflict.get_or_insert("the stream begins twice");
        } else if self.known > 0 {
            self.doubts.incomplete.get_or_insert("the stream begins after its first events");
        }
        self.begun = true;
    }

    fn end(&mut self) {
        self.known += 1;
        if self.ended {
            self.doubts.conflict.get_or_insert("the stream ends twice");
        }
        self.ended = true;
        self.open = None;
    }

    fn fail(&mut self, why: Option<&str>, otherwise: &str) {
        self.doubts.failed.get_or_insert_with(|| why.unwrap_or(otherwise).to_string());
    }

    /// A message begins of which the whole has to come.
    fn begin_pieces(&mut self, id: String) -> Option<&mut Sha256> {
        if self.pieces.len() == MOST_PIECES && !self.pieces.contains_key(&id) {
            self.doubts.incomplete.get_or_insert("too many messages are not complete");
            return None;
        }
        Some(self.pieces.entry(id).or_default())
    }

    /// Appends a text of the agent: to the open message if that has this id, else as a new message, a paragraph apart.
    fn say(&mut self, id: Option<&str>, event: &mut Event<'_>, range: Range<usize>) {
        if range.is_empty() {
            return;
        }
        if id.is_none() || self.open.as_deref() != id {
            let missing = if self.text.len() == 0 { 0 } else { 2 - self.newlines };
            if self.is_split(event, &range) {
                self.doubts.conflict.get_or_insert("a marker is split over two messages");
            }
            self.text.push(&b"\n\n"[..missing]);
            self.last_message = self.text.len()..self.text.len();
            self.open = id.map(ToString::to_string);
        }
        let start = self.text.len();
        let (text, mut newlines) = (&mut self.text, if start == 0 { 2 } else { self.newlines });
        event.json.texts.each(range, |piece| {
            let ends = piece.iter().rev().take_while(|byte| **byte == b'\n').count();
            newlines = (if ends == piece.len() { newlines + ends } else { ends }).min(2);
            text.push(piece);
        });
        text.is_over |= event.json.texts.is_over;
        self.newlines = newlines;
        self.last_message.end = self.text.len();
        self.last_part = start..self.text.len();
    }

    /// Whether the last message and the next one would make a tag of a marker, put together.
    fn is_split(&mut self, event: &mut Event<'_>, next: &Range<usize>) -> bool {
        let (mut end, mut start) = (Vec::new(), Vec::new());
        let last = self.last_message.clone();
        self.text
            .each(last.end.saturating_sub(MOST_TAG).max(last.start)..last.end, |piece| end.extend(piece));
        event.json.texts.each(next.start..next.end.min(next.start + MOST_TAG), |piece| start.extend(piece));
        end.make_ascii_lowercase();
        start.make_ascii_lowercase();
        TAGS.into_iter().any(|tag| {
            (1..tag.len()).any(|at| {
                let (before, after) = tag.as_bytes().split_at(at);
                end.ends_with(before) && start.starts_with(after)
            })
        })
    }

    fn claude(&mut self, kind: &str, event: &mut Event<'_>) {
        match kind {
            "system" if event.word("/subtype") == Some("init") => self.begin(),
            "user" if !event.is_given("/parent_tool_use_id") => self.open = None,
            "assistant" if event.value("/message").is_some() => {
                self.known += 1;
                if !event.is_given("/parent_tool_use_id") {
                    self.claude_message(event);
                }
            }
            "result" => {
                self.end();
                self.claude_result(event);
            }
            _ => {}
        }
    }

    fn claude_message(&mut self, event: &mut Event<'_>) {
        // The text of an error is a message of a model that does not exist.
        if event.is_given("/error") || event.word("/message/model") == Some("<synthetic>") {
            let why = event.word("/error").map(ToString::to_string);
            return self.fail(why.as_deref(), "a message of the stream is an error");
        }
        let id = event.word("/message/id").map(ToString::to_string);
        if id.is_none() {
            self.open = None;
        }
        // Parts of a message without an id belong together as well.
        let id = id.unwrap_or_default();
        match event.value("/message/content") {
            None | Some(FieldValue::Null | FieldValue::List) => {}
            Some(_) => {
                if let Some(text) = event.text("/message/content") {
                    self.say(Some(&id), event, text);
                }
            }
        }
        let count = event.json.fields.len();
        let mut at = 0;
        while at < count {
            let part = event.json.fields[at].part;
            let mut end = at;
            let (mut is_text, mut text) = (None, None);
            while end < count && event.json.fields[end].part == part {
                let field = &event.json.fields[end];
                match (field.path, &field.value) {
                    ("/message/content/*/type", FieldValue::Word(kind)) => is_text = Some(kind == "text"),
                    ("/message/content/*/text", FieldValue::Text(range)) => text = Some(range.clone()),
                    ("/message/content/*/text", _) => event.is_unreadable = true,
                    _ => {}
                }
                end += 1;
            }
            // What is said in a part of another kind, or of none, may be anything.
            let is_text = is_text.unwrap_or_else(|| {
                event.is_unreadable |= part > 0;
                false
            });
            event.is_unreadable |= text.is_some() && !is_text;
            match text.filter(|_| is_text) {
                _ if part == 0 => {}
                Some(text) => self.say(Some(&id), event, text),
                None => self.open = None,
            }
            at = end;
        }
        if id.is_empty() {
            self.open = None;
        }
    }

    fn claude_result(&mut self, event: &mut Event<'_>) {
        let is_good = matches!(event.value("/is_error"), Some(FieldValue::False))
            && event.word("/subtype").is_none_or(|subtype| subtype == "success");
        let result = event.text("/result").unwrap_or_default();
        if !is_good {
            let mut why = String::new();
            event.json.texts.each(result.start..result.end.min(result.start + 1000), |piece| {
                why.push_str(&String::from_utf8_lossy(piece));
            });
            let why = Some(why).filter(|why| !why.is_empty());
            let subtype = event.word("/subtype").map(ToString::to_string);
            self.doubts.failed = None;
            return self.fail(why.as_deref(), subtype.as_deref().unwrap_or("error"));
        }
        let stopped = event
            .word("/stop_reason")
            .filter(|why| !matches!(*why, "end_turn" | "stop_sequence" | "tool_use"));
        if let Some(why) = stopped {
            self.doubts.failed.get_or_insert_with(|| why.to_string());
        }
        if result.is_empty() {
            return;
        }
        let lasts = [self.last_part.clone(), self.last_message.clone()];
        let is_last =
            lasts.into_iter().any(|last| self.text.equals(last, &mut event.json.texts, result.clone()));
        if !is_last {
            if self.begun || self.text.len() > 0 {
                self.doubts.conflict.get_or_insert("the result is not what the last message says");
            }
            self.say(None, event, result);
        }
    }

    fn codex(&mut self, kind: &str, event: &mut Event<'_>) {
        match kind {
            "thread.started" => self.begin(),
            "item.started" | "item.updated" if event.word("/item/type") == Some("agent_message") => {
                let id = event.word("/item/id").unwrap_or_default().to_string();
                self.begin_pieces(id);
            }
            "item.completed" if event.value("/item").is_some() => {
                self.known += 1;
                self.pieces.remove(event.word("/item/id").unwrap_or_default());
                if event.word("/item/type") == Some("agent_message")
                    && let Some(text) = event.text("/item/text")
                {
                    self.say(None, event, text);
                }
            }
            "turn.completed" => self.end(),
            "turn.failed" => {
                self.end();
                let why = event.word("/error/message").map(ToString::to_string);
                self.doubts.failed = None;
                self.fail(why.as_deref(), "the turn failed");
            }
            "error" => {
                let why = event.word("/message");
                if !why.is_some_and(is_reconnecting) {
                    let why = why.map(ToString::to_string);
                    self.fail(why.as_deref(), "error");
                }
            }
            _ => {}
        }
    }

    fn gemini(&mut self, kind: &str, event: &mut Event<'_>) {
        match kind {
            "init" if event.is_given("/session_id") => self.begin(),
            "message" if event.word("/role") == Some("assistant") => {
                self.known += 1;
                let Some(text) = event.text("/content") else { return };
                let is_delta = event.is_true("/delta");
                if !is_delta {
                    self.open = None;
                }
                self.say(is_delta.then_some("delta"), event, text);
            }
            "message" if event.word("/role") != Some("user") => event.is_unreadable = true,
            "message" | "tool_use" | "tool_result" => self.open = None,
            "error" => {
                let why = event.word("/message").map(ToString::to_string);
                self.fail(why.as_deref(), "error");
            }
            "result" if event.is_given("/status") => {
                self.end();
                if event.word("/status") != Some("success") {
                    let why = event.word("/error/message").map(ToString::to_string);
                    self.doubts.failed = None;
                    self.fail(why.as_deref(), "error");
                }
            }
            _ => {}
        }
    }

    fn copilot(&mut self, kind: &str, event: &mut Event<'_>) {
        let is_own = !event.is_given("/data/parentToolCallId");
        match kind {
            "session.error" | "abort" => {
                let why = event.word("/data/message").map(ToString::to_string);
                self.fail(why.as_deref(), "session error");
            }
            "assistant.message_delta" if is_own => {
                let id = event.word("/data/messageId").unwrap_or_default().to_string();
                if let Some(text) = event.text("/data/deltaContent").filter(|text| !text.is_empty())
                    && let Some(hash) = self.begin_pieces(id)
                {
                    event.json.texts.each(text, |piece| hash.update(piece));
                }
            }
            "assistant.message" if event.value("/data").is_some() => {
                self.known += 1;
                if let Some(text) = event.text("/data/content").filter(|_| is_own) {
                    let id = event.word("/data/messageId").unwrap_or_default();
                    if let Some(pieces) = self.pieces.remove(id) {
                        let mut whole = Sha256::new();
                        event.json.texts.each(text.clone(), |piece| whole.update(piece));
                        if whole.finalize() != pieces.finalize() {
                            self.doubts.conflict.get_or_insert("a message is not what its pieces said");
                        }
                    }
                    self.say(None, event, text);
                }
            }
            "result" if event.is_given("/exitCode") => {
                self.end();
                if !matches!(event.value("/exitCode"), Some(FieldValue::Number(code)) if code == "0") {
                    self.fail(None, "the CLI ended with an error");
                }
            }
            kind if kind.starts_with("session.") && !self.begun => self.begin(),
            _ => {}
        }
    }

    fn opencode(&mut self, kind: &str, event: &mut Event<'_>) {
        let is_part = event.value("/part").is_some();
        match kind {
            "step_start" if is_part => {
                if self.in_step {
                    self.doubts.incomplete.get_or_insert("a step of the stream has no end");
                }
                if !self.begun {
                    self.begin();
                }
                (self.in_step, self.open) = (true, None);
            }
            "text" if is_part => {
                self.known += 1;
                if let Some(text) = event.text("/part/text").filter(|_| !event.is_true("/part/synthetic")) {
                    let id = event.word("/part/messageID").map(ToString::to_string);
                    self.say(id.as_deref(), event, text);
                }
            }
            "tool_use" | "reasoning" => self.open = None,
            "step_finish" if is_part => {
                if !core::mem::take(&mut self.in_step) {
                    self.doubts.incomplete.get_or_insert("a step of the stream has no beginning");
                }
                self.open = None;
                match event.word("/part/reason") {
                    Some("tool-calls") => self.known += 1,
                    Some("stop") => self.end(),
                    why => {
                        let why = why.map(ToString::to_string);
                        self.end();
                        self.fail(why.as_deref(), "a step ended without a reason");
                    }
                }
            }
            "error" if event.value("/error").is_some() => {
                self.known += 1;
                let why = event.word("/error/data/message").or_else(|| event.word("/error/name"));
                let why = why.map(ToString::to_string);
                self.fail(why.as_deref(), "error");
            }
            _ => {}
        }
    }
}

/// Whether events of this type say that something failed, whatever the CLI is: `session.error`, `turn.failed`.
fn reports_failure(kind: &str) -> bool {
    const WORDS: [&str; 5] = ["error", "errors", "failed", "abort", "aborted"];
    let last = kind.rsplit(['.', '_', '-', ':', '/']).next().unwrap_or_default();
    WORDS.iter().any(|word| last.eq_ignore_ascii_case(word))
}

/// Codex reports a lost connection that it tries again as an error; an error that it gives up on ends the turn as failed.
fn is_reconnecting(message: &str) -> bool {
    let counts = message.strip_prefix("Reconnecting... ").and_then(|rest| rest.split(' ').next());
    let is_number = |number: &str| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    counts.and_then(|counts| counts.split_once('/')).is_some_and(|(at, of)| is_number(at) && is_number(of))
}
