//! Reads the events of each CLI: which of them carry text, begin a stream, end it or report an error.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ops::Range;

use sha2::{Digest as _, Sha256};

use super::json::{FieldValue, JsonReader, WantedFields, WantedForm};
use super::sink::BoundedText;
use super::{StreamDoubts, StreamText};
use crate::library::agent::OutputFormat;

pub(super) const fn wanted_fields(format: OutputFormat) -> WantedFields {
    match format {
        OutputFormat::Text => &[],
        OutputFormat::ClaudeStreamJson => &[
            ("/type", WantedForm::Word),
            ("/subtype", WantedForm::Word),
            ("/is_error", WantedForm::Word),
            ("/error", WantedForm::Word),
            ("/errors", WantedForm::Word),
            ("/api_error_status", WantedForm::Word),
            ("/terminal_reason", WantedForm::Word),
            ("/status", WantedForm::Word),
            ("/stop_reason", WantedForm::Word),
            ("/parent_tool_use_id", WantedForm::Word),
            ("/event", WantedForm::Inside),
            ("/event/type", WantedForm::Word),
            ("/event/delta", WantedForm::Inside),
            ("/event/delta/type", WantedForm::Word),
            ("/event/delta/text", WantedForm::Text),
            ("/event/delta/stop_reason", WantedForm::Word),
            ("/result", WantedForm::Text),
            ("/message", WantedForm::Inside),
            ("/message/id", WantedForm::Word),
            ("/message/role", WantedForm::Word),
            ("/message/model", WantedForm::Word),
            ("/message/error", WantedForm::Word),
            ("/message/stop_reason", WantedForm::Word),
            ("/message/content", WantedForm::TextOrInside),
            ("/message/content/*", WantedForm::Inside),
            ("/message/content/*/type", WantedForm::Word),
            ("/message/content/*/text", WantedForm::Text),
        ],
        OutputFormat::CodexJsonl => &[
            ("/type", WantedForm::Word),
            ("/message", WantedForm::Word),
            ("/status", WantedForm::Word),
            ("/error", WantedForm::Inside),
            ("/error/message", WantedForm::Word),
            ("/errors", WantedForm::Word),
            ("/item", WantedForm::Inside),
            ("/item/status", WantedForm::Word),
            ("/item/error", WantedForm::Word),
            ("/item/errors", WantedForm::Word),
            ("/item/id", WantedForm::Word),
            ("/item/type", WantedForm::Word),
            ("/item/text", WantedForm::Text),
        ],
        OutputFormat::GeminiStreamJson => &[
            ("/type", WantedForm::Word),
            ("/session_id", WantedForm::Word),
            ("/role", WantedForm::Word),
            ("/content", WantedForm::Text),
            ("/delta", WantedForm::Word),
            ("/status", WantedForm::Word),
            ("/message", WantedForm::Word),
            ("/error", WantedForm::Inside),
            ("/error/message", WantedForm::Word),
            ("/errors", WantedForm::Word),
        ],
        OutputFormat::CopilotJsonl => &[
            ("/type", WantedForm::Word),
            ("/exitCode", WantedForm::Word),
            ("/status", WantedForm::Word),
            ("/outcome", WantedForm::Word),
            ("/error", WantedForm::Word),
            ("/errors", WantedForm::Word),
            ("/data", WantedForm::Inside),
            ("/data/status", WantedForm::Word),
            ("/data/outcome", WantedForm::Word),
            ("/data/result", WantedForm::Word),
            ("/data/error", WantedForm::Word),
            ("/data/errors", WantedForm::Word),
            ("/data/messageId", WantedForm::Word),
            ("/data/parentToolCallId", WantedForm::Word),
            ("/data/content", WantedForm::Text),
            ("/data/deltaContent", WantedForm::Text),
            ("/data/message", WantedForm::Word),
        ],
        OutputFormat::OpencodeJson => &[
            ("/type", WantedForm::Word),
            ("/status", WantedForm::Word),
            ("/errors", WantedForm::Word),
            ("/part", WantedForm::Inside),
            ("/part/type", WantedForm::Word),
            ("/part/status", WantedForm::Word),
            ("/part/error", WantedForm::Word),
            ("/part/errors", WantedForm::Word),
            ("/part/messageID", WantedForm::Word),
            ("/part/reason", WantedForm::Word),
            ("/part/synthetic", WantedForm::Word),
            ("/part/text", WantedForm::Text),
            ("/error", WantedForm::Inside),
            ("/error/name", WantedForm::Word),
            ("/error/data", WantedForm::Inside),
            ("/error/data/message", WantedForm::Word),
        ],
    }
}

/// The text and the state of a stream, collected from its events so far.
#[derive(Debug)]
pub(super) struct EventCollector {
    text: BoundedText,
    /// The number of line ends at the end of the text, at most two.
    newlines: usize,
    /// The message that the next text may continue.
    open: Option<String>,
    last_message: Range<usize>,
    last_part: Range<usize>,
    /// The number of events that only streams of this format have.
    pub(super) known: usize,
    /// Whether the stream had an event of a type that this format has.
    pub(super) is_seen: bool,
    /// Why the last message of the agent stopped, if it did not reach its end.
    stopped: Option<String>,
    begun: bool,
    ended: bool,
    /// Whether a step is begun and not finished.
    in_step: bool,
    /// Hashes of messages whose pieces have arrived, but not the whole.
    pieces: BTreeMap<String, Sha256>,
    doubts: StreamDoubts,
}

/// Well above the number of messages that a CLI writes at the same time.
const MOST_PIECES: usize = 100;

/// The key of pieces that do not name their message.
const STREAM: &str = "stream";

/// The beginnings of marker tags.
const TAGS: [&str; 4] = ["<review", "</review", "<task_status", "</task_status"];
const MOST_TAG: usize = 16;

/// An event of a stream.
struct StreamEvent<'j> {
    json: &'j mut JsonReader,
    /// A text of the agent is not a string, so its content is unknown.
    is_unreadable: bool,
    /// The meaning of the event is known: its text is taken, or it holds no words of the agent.
    is_understood: bool,
    /// The event says nothing besides the text that was taken.
    is_text_alone: bool,
    /// The event reports on the agent's own work, so that an error in it is an error of the agent.
    is_vital: bool,
}

impl StreamEvent<'_> {
    const fn mark_understood(&mut self) {
        self.is_understood = true;
    }

    /// Checks whether the value at `path` exists and is not empty: not `null`, `false`, `0`, `""`, `[]` or
    /// `{}`.
    fn is_filled(&self, path: &str) -> bool {
        match self.value(path) {
            None | Some(FieldValue::Null | FieldValue::False | FieldValue::Empty) => false,
            Some(FieldValue::Word(word)) => !word.is_empty(),
            Some(FieldValue::Text(range)) => !range.is_empty(),
            Some(FieldValue::Number(number)) => number != "0",
            Some(FieldValue::True | FieldValue::List | FieldValue::Other) => true,
        }
    }

    /// Returns the error that the event reports in its fields.
    fn find_error(&self) -> Option<String> {
        const ERRORS: [&str; 10] = [
            "/error",
            "/errors",
            "/api_error_status",
            "/message/error",
            "/item/error",
            "/item/errors",
            "/data/error",
            "/data/errors",
            "/part/error",
            "/part/errors",
        ];
        const STATES: [&str; 9] = [
            "/status",
            "/outcome",
            "/terminal_reason",
            "/item/status",
            "/data/status",
            "/data/outcome",
            "/data/result",
            "/part/status",
            "/part/reason",
        ];
        let error = ERRORS.into_iter().find(|path| self.is_filled(path));
        let error = error.map(|path| self.word(path).unwrap_or("an event reports an error").to_string());
        error.or_else(|| {
            let mut states = STATES.into_iter().filter_map(|path| self.word(path));
            states.find(|state| reports_failure(state)).map(ToString::to_string)
        })
    }

    fn value(&self, path: &str) -> Option<&FieldValue> {
        self.json.fields.iter().find(|field| field.path == path).map(|field| &field.value)
    }

    fn word(&self, path: &str) -> Option<&str> {
        match self.value(path) {
            Some(FieldValue::Word(word)) => Some(word),
            _ => None,
        }
    }

    /// Returns a text of the agent. A value that exists and is not a string makes the event unreadable.
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

impl EventCollector {
    pub(super) fn new(text: BoundedText) -> Self {
        Self {
            text,
            newlines: 0,
            open: None,
            last_message: 0..0,
            last_part: 0..0,
            known: 0,
            is_seen: false,
            stopped: None,
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

    /// Takes the object that was read as an event. Returns its fault, if it has one.
    pub(super) fn take(&mut self, format: OutputFormat, json: &mut JsonReader) -> Option<&'static str> {
        let mut event = StreamEvent {
            json,
            is_unreadable: false,
            is_understood: false,
            is_text_alone: false,
            is_vital: false,
        };
        let Some(kind) = event.word("/type").map(ToString::to_string) else {
            return Some("the object has no type");
        };
        if self.ended {
            self.doubts.incomplete.get_or_insert("the stream goes on after its end");
        }
        match format {
            OutputFormat::Text => {}
            OutputFormat::ClaudeStreamJson => self.take_claude(&kind, &mut event),
            OutputFormat::CodexJsonl => self.take_codex(&kind, &mut event),
            OutputFormat::GeminiStreamJson => self.take_gemini(&kind, &mut event),
            OutputFormat::CopilotJsonl => self.take_copilot(&kind, &mut event),
            OutputFormat::OpencodeJson => self.take_opencode(&kind, &mut event),
        }
        if event.is_unreadable {
            self.doubts.conflict.get_or_insert("a message has a form that cannot be read");
        }
        self.is_seen |= event.is_understood;
        let is_marked = if event.is_understood {
            event.is_text_alone && event.json.is_marked_elsewhere
        } else {
            event.json.is_marked
        };
        if is_marked {
            self.doubts.conflict.get_or_insert("a marker is in an event that is not known");
        }
        if let Some(why) = event.find_error().filter(|_| event.is_vital) {
            self.fail(Some(&why), &kind);
        }
        // Codex also reports an error if it retries.
        if reports_failure(&kind) && (format, kind.as_str()) != (OutputFormat::CodexJsonl, "error") {
            self.fail(None, &kind);
        }
        None
    }

    pub(super) fn finish(mut self, format: OutputFormat) -> StreamText<Vec<u8>> {
        // Claude prints one object alone if requested.
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
        StreamText::new(self.text, self.doubts)
    }

    /// Returns the failure that the stream reports.
    pub(super) fn into_failure(self) -> Option<String> {
        self.doubts.failed
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

    /// Begins a message whose whole text must follow.
    fn begin_pieces(&mut self, id: String) -> Option<&mut Sha256> {
        if self.pieces.len() == MOST_PIECES && !self.pieces.contains_key(&id) {
            self.doubts.incomplete.get_or_insert("too many messages are not complete");
            return None;
        }
        Some(self.pieces.entry(id).or_default())
    }

    /// Appends a text of the agent: to the open message if it has this id, otherwise as a new message, a
    /// paragraph apart.
    fn append_text(&mut self, id: Option<&str>, event: &mut StreamEvent<'_>, range: Range<usize>) {
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
        event.json.texts.for_each_piece(range, |piece| {
            let ends = piece.iter().rev().take_while(|byte| **byte == b'\n').count();
            newlines = (if ends == piece.len() { newlines + ends } else { ends }).min(2);
            text.push(piece);
        });
        text.is_over |= event.json.texts.is_over;
        self.newlines = newlines;
        self.last_message.end = self.text.len();
        self.last_part = start..self.text.len();
    }

    /// Checks whether the last message and the next one, joined, would form a marker tag.
    fn is_split(&mut self, event: &mut StreamEvent<'_>, next: &Range<usize>) -> bool {
        let (mut end, mut start) = (Vec::new(), Vec::new());
        let last = self.last_message.clone();
        self.text.for_each_piece(last.end.saturating_sub(MOST_TAG).max(last.start)..last.end, |piece| {
            end.extend(piece)
        });
        event
            .json
            .texts
            .for_each_piece(next.start..next.end.min(next.start + MOST_TAG), |piece| start.extend(piece));
        end.make_ascii_lowercase();
        start.make_ascii_lowercase();
        TAGS.into_iter().any(|tag| {
            (1..tag.len()).any(|at| {
                let (before, after) = tag.as_bytes().split_at(at);
                end.ends_with(before) && start.starts_with(after)
            })
        })
    }

    fn take_claude(&mut self, kind: &str, event: &mut StreamEvent<'_>) {
        const SYSTEM: [&str; 17] = [
            "init",
            "status",
            "thinking_tokens",
            "compact_boundary",
            "microcompact_boundary",
            "hook_started",
            "hook_progress",
            "hook_response",
            "task_started",
            "task_progress",
            "task_updated",
            "task_notification",
            "api_retry",
            "api_error",
            "files_persisted",
            "local_command_output",
            "session_state_changed",
        ];
        let is_own = !event.is_given("/parent_tool_use_id");
        match kind {
            "system" => {
                let subtype = event.word("/subtype").unwrap_or_default().to_string();
                event.is_understood = SYSTEM.contains(&subtype.as_str());
                if subtype == "init" {
                    self.begin();
                } else if reports_failure(&subtype) {
                    self.fail(None, &subtype);
                }
            }
            "user" => {
                event.is_understood = event.word("/message/role").is_none_or(|role| role == "user");
                if is_own {
                    self.open = None;
                }
            }
            "assistant" if event.value("/message").is_some() => {
                self.known += 1;
                event.mark_understood();
                if is_own {
                    event.is_vital = true;
                    self.stopped = event.word("/message/stop_reason").and_then(find_abnormal_stop);
                    self.take_claude_message(event);
                }
            }
            "stream_event" if is_own => self.take_claude_piece(event),
            "stream_event" => event.mark_understood(),
            "result" => {
                event.mark_understood();
                event.is_vital = true;
                self.end();
                self.take_claude_result(event);
                if let Some(why) = self.stopped.take() {
                    self.fail(Some(&why), &why);
                }
            }
            _ => {}
        }
    }

    /// Reads a piece of a message, whose whole text must follow.
    fn take_claude_piece(&mut self, event: &mut StreamEvent<'_>) {
        if let Some(why) = event.word("/event/delta/stop_reason") {
            self.stopped = find_abnormal_stop(why);
        }
        match event.word("/event/delta/type") {
            Some("text_delta") => {
                if let Some(text) = event.text("/event/delta/text")
                    && let Some(hash) = self.begin_pieces(STREAM.into())
                {
                    event.json.texts.for_each_piece(text, |piece| hash.update(piece));
                    event.mark_understood();
                }
            }
            Some("input_json_delta" | "thinking_delta" | "signature_delta" | "citations_delta") => {
                event.mark_understood();
            }
            _ => {}
        }
    }

    /// Checks whether the earlier pieces of a message say the same as the whole.
    fn compare_pieces(&mut self, id: &str, event: &mut StreamEvent<'_>, text: &Range<usize>) {
        let Some(pieces) = self.pieces.remove(id) else { return };
        let mut whole = Sha256::new();
        event.json.texts.for_each_piece(text.clone(), |piece| whole.update(piece));
        if whole.finalize() != pieces.finalize() {
            self.doubts.conflict.get_or_insert("a message is not what its pieces said");
        }
    }

    fn take_claude_message(&mut self, event: &mut StreamEvent<'_>) {
        // The text of an error comes as a message of a model that does not exist.
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
            // The message may have its text in a place that is not known.
            None | Some(FieldValue::Null) => event.is_understood = false,
            Some(FieldValue::List | FieldValue::Empty) => {}
            Some(_) => {
                if let Some(text) = event.text("/message/content") {
                    self.compare_pieces(STREAM, event, &text);
                    self.append_text(Some(&id), event, text);
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
                    ("/message/content/*/type", FieldValue::Word(kind)) => {
                        is_text = Some(kind == "text");
                        event.is_understood &= is_known_part(kind);
                    }
                    ("/message/content/*/text", FieldValue::Text(range)) => text = Some(range.clone()),
                    ("/message/content/*/text", _) => event.is_unreadable = true,
                    _ => {}
                }
                end += 1;
            }
            // The text of a part of another kind, or of none, may be anything.
            let is_text = is_text.unwrap_or_else(|| {
                event.is_unreadable |= part > 0;
                false
            });
            event.is_unreadable |= text.is_some() && !is_text;
            event.is_understood &= !is_text || text.is_some();
            match text.filter(|_| is_text) {
                _ if part == 0 => {}
                Some(text) => {
                    self.compare_pieces(STREAM, event, &text);
                    self.append_text(Some(&id), event, text);
                }
                None => self.open = None,
            }
            at = end;
        }
        if id.is_empty() {
            self.open = None;
        }
    }

    fn take_claude_result(&mut self, event: &mut StreamEvent<'_>) {
        let is_good = matches!(event.value("/is_error"), Some(FieldValue::False))
            && event.word("/subtype").is_none_or(|subtype| subtype == "success");
        let result = event.text("/result").unwrap_or_default();
        if !is_good {
            let mut why = String::new();
            event.json.texts.for_each_piece(result.start..result.end.min(result.start + 1000), |piece| {
                why.push_str(&String::from_utf8_lossy(piece));
            });
            let why = Some(why).filter(|why| !why.is_empty());
            let subtype = event.word("/subtype").map(ToString::to_string);
            self.doubts.failed = None;
            return self.fail(why.as_deref(), subtype.as_deref().unwrap_or("error"));
        }
        if let Some(why) = event.word("/stop_reason").and_then(find_abnormal_stop) {
            self.fail(Some(&why), &why);
        }
        if result.is_empty() {
            return;
        }
        let lasts = [self.last_part.clone(), self.last_message.clone()];
        let is_last = lasts
            .into_iter()
            .any(|last| self.text.has_same_bytes(last, &mut event.json.texts, result.clone()));
        if !is_last {
            if self.begun || self.text.len() > 0 {
                self.doubts.conflict.get_or_insert("the result is not what the last message says");
            }
            self.append_text(None, event, result);
        }
    }

    fn take_codex(&mut self, kind: &str, event: &mut StreamEvent<'_>) {
        // Items without words of the agent.
        const ITEMS: [&str; 8] = [
            "reasoning",
            "command_execution",
            "file_change",
            "mcp_tool_call",
            "collab_tool_call",
            "web_search",
            "todo_list",
            "error",
        ];
        match kind {
            "thread.started" => {
                event.mark_understood();
                self.begin();
            }
            "turn.started" => event.mark_understood(),
            "item.started" | "item.updated" => {
                event.is_understood = event.word("/item/type").is_some_and(|kind| ITEMS.contains(&kind));
                if event.word("/item/type") == Some("agent_message") {
                    event.mark_understood();
                    let id = event.word("/item/id").unwrap_or_default().to_string();
                    self.begin_pieces(id);
                }
            }
            "item.completed" if event.value("/item").is_some() => {
                self.known += 1;
                self.pieces.remove(event.word("/item/id").unwrap_or_default());
                event.is_understood = event.word("/item/type").is_some_and(|kind| ITEMS.contains(&kind));
                if event.word("/item/type") == Some("agent_message") {
                    event.is_vital = true;
                    if let Some(text) = event.text("/item/text") {
                        (event.is_understood, event.is_text_alone) = (true, true);
                        self.append_text(None, event, text);
                    }
                }
            }
            "turn.completed" => {
                event.mark_understood();
                event.is_vital = true;
                self.end();
            }
            "turn.failed" => {
                event.mark_understood();
                self.end();
                let why = event.word("/error/message").map(ToString::to_string);
                self.doubts.failed = None;
                self.fail(why.as_deref(), "the turn failed");
            }
            "error" => {
                event.mark_understood();
                let why = event.word("/message");
                if !why.is_some_and(is_reconnecting) {
                    let why = why.map(ToString::to_string);
                    self.fail(why.as_deref(), "error");
                }
            }
            _ => {}
        }
    }

    fn take_gemini(&mut self, kind: &str, event: &mut StreamEvent<'_>) {
        match kind {
            "init" if event.is_given("/session_id") => {
                event.mark_understood();
                self.begin();
            }
            "message" if event.word("/role") == Some("assistant") => {
                self.known += 1;
                event.is_vital = true;
                let Some(text) = event.text("/content") else { return };
                (event.is_understood, event.is_text_alone) = (true, true);
                let is_delta = event.is_true("/delta");
                if !is_delta {
                    self.open = None;
                }
                self.append_text(is_delta.then_some("delta"), event, text);
            }
            "message" if event.word("/role") != Some("user") => event.is_unreadable = true,
            "message" | "tool_use" | "tool_result" => {
                event.mark_understood();
                self.open = None;
            }
            "error" => {
                event.mark_understood();
                let why = event.word("/message").map(ToString::to_string);
                self.fail(why.as_deref(), "error");
            }
            "result" if event.is_given("/status") => {
                event.mark_understood();
                event.is_vital = true;
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

    fn take_copilot(&mut self, kind: &str, event: &mut StreamEvent<'_>) {
        let is_own = !event.is_given("/data/parentToolCallId");
        event.is_understood = is_harmless_copilot_event(kind);
        match kind {
            "session.error" | "abort" => {
                event.mark_understood();
                // This error says more than the failed call before it.
                let why = event.word("/data/message").map(ToString::to_string);
                self.doubts.failed.take_if(|_| why.is_some());
                self.fail(why.as_deref(), "session error");
            }
            "assistant.message_delta" if is_own => {
                let id = event.word("/data/messageId").unwrap_or_default().to_string();
                if let Some(text) = event.text("/data/deltaContent").filter(|text| !text.is_empty())
                    && let Some(hash) = self.begin_pieces(id)
                {
                    event.json.texts.for_each_piece(text, |piece| hash.update(piece));
                    event.mark_understood();
                }
            }
            "assistant.message" | "assistant.message_delta" if !is_own => {
                self.known += usize::from(kind == "assistant.message");
                event.mark_understood();
            }
            "assistant.message" if event.value("/data").is_some() => {
                self.known += 1;
                event.is_vital = true;
                if let Some(text) = event.text("/data/content") {
                    event.mark_understood();
                    let id = event.word("/data/messageId").unwrap_or_default().to_string();
                    self.compare_pieces(&id, event, &text);
                    self.append_text(None, event, text);
                }
            }
            "model.call_finished" | "model.call_final_result" => {
                let results =
                    ["/data/outcome", "/data/result"].into_iter().filter_map(|path| event.word(path));
                let failure =
                    results.into_iter().find(|result| *result != "success").map(ToString::to_string);
                if let Some(why) = failure {
                    self.fail(Some(&why), &why);
                }
            }
            "result" if event.is_given("/exitCode") => {
                event.mark_understood();
                event.is_vital = true;
                self.end();
                if !matches!(event.value("/exitCode"), Some(FieldValue::Number(code)) if code == "0") {
                    self.fail(None, "the CLI ended with an error");
                }
            }
            kind if kind.starts_with("session.") && !self.begun => self.begin(),
            _ => {}
        }
    }

    fn take_opencode(&mut self, kind: &str, event: &mut StreamEvent<'_>) {
        let is_part = event.value("/part").is_some();
        match kind {
            "step_start" if is_part => {
                event.mark_understood();
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
                let is_synthetic = event.is_true("/part/synthetic");
                event.is_vital = true;
                event.is_understood = is_synthetic;
                if let Some(text) = event.text("/part/text").filter(|_| !is_synthetic) {
                    (event.is_understood, event.is_text_alone) = (true, true);
                    let id = event.word("/part/messageID").map(ToString::to_string);
                    self.append_text(id.as_deref(), event, text);
                }
            }
            "tool_use" | "reasoning" => {
                let part = if kind == "tool_use" { "tool" } else { kind };
                event.is_understood = event.word("/part/type").is_none_or(|of| of == part);
                self.open = None;
            }
            "step_finish" if is_part => {
                event.mark_understood();
                event.is_vital = true;
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
                event.mark_understood();
                self.known += 1;
                let why = event.word("/error/data/message").or_else(|| event.word("/error/name"));
                let why = why.map(ToString::to_string);
                self.fail(why.as_deref(), "error");
            }
            _ => {}
        }
    }
}

/// Checks whether a type or a status of any CLI reports a failure: `session.error`, `turnFailed`,
/// `timed_out`.
fn reports_failure(kind: &str) -> bool {
    const WORDS: [&str; 10] = [
        "error",
        "fail",
        "fatal",
        "exception",
        "cancel",
        "interrupt",
        "abort",
        "timeout",
        "timedout",
        "refus",
    ];
    let letters: String = kind.chars().filter(char::is_ascii_alphabetic).collect();
    let letters = letters.to_ascii_lowercase();
    WORDS.iter().any(|word| letters.contains(word))
}

/// Returns why a message of Claude stopped, if it did not reach its end.
fn find_abnormal_stop(why: &str) -> Option<String> {
    (!matches!(why, "end_turn" | "stop_sequence" | "tool_use")).then(|| why.to_string())
}

/// Checks whether the kind of a part of a Claude message is known.
fn is_known_part(kind: &str) -> bool {
    matches!(kind, "text" | "thinking" | "redacted_thinking" | "container_upload" | "compaction")
        || kind.ends_with("tool_use")
        || kind.ends_with("tool_result")
}

/// Checks whether events of this type hold no words of the agent, whatever else they hold.
fn is_harmless_copilot_event(kind: &str) -> bool {
    const GROUPS: [&str; 9] =
        ["user", "tool", "subagent", "hook", "skill", "permission", "system", "model", "mcp"];
    const ASSISTANT: [&str; 10] = [
        "turn_start",
        "turn_end",
        "message_start",
        "reasoning",
        "reasoning_delta",
        "tool_call_delta",
        "intent",
        "usage",
        "streaming_delta",
        "idle",
    ];
    const SESSION: [&str; 13] = [
        "start",
        "resume",
        "info",
        "idle",
        "shutdown",
        "skills_loaded",
        "mcp_servers_loaded",
        "tools_updated",
        "model_change",
        "truncation",
        "usage_info",
        "compaction_start",
        "compaction_complete",
    ];
    match kind.split_once('.') {
        Some(("assistant", kind)) => ASSISTANT.contains(&kind),
        Some(("session", kind)) => SESSION.contains(&kind),
        Some((group, _)) => GROUPS.contains(&group),
        None => false,
    }
}

/// Checks whether an error of Codex is a lost connection that it retries. An error that it gives up on ends
/// the turn as failed.
fn is_reconnecting(message: &str) -> bool {
    let counts = message.strip_prefix("Reconnecting... ").and_then(|rest| rest.split(' ').next());
    let is_number = |number: &str| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    counts.and_then(|counts| counts.split_once('/')).is_some_and(|(at, of)| is_number(at) && is_number(of))
}
