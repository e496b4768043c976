//! Extracts the text of an agent from the events that its CLI prints.
//!
//! Only the agent's own text is taken: no thoughts, no arguments or results of tools, no text of sub-agents,
//! no text of an error. A stream that is incomplete or contradicts itself is a [doubt](StreamDoubts): nothing
//! good in it counts.

mod collector;
mod event;
mod json;
mod sink;

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use memchr::memchr;

pub use sink::TextSink;

use crate::library::agent::{OutputSpec, StreamSpec};
use collector::EventCollector;
use event::wanted_fields;
use json::JsonReader;
use sink::BoundedText;

/// The maximum length of an agent's text that is judged.
pub const MOST_TEXT: usize = 64 << 20;

/// The reasons not to believe anything good in a reply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamDoubts {
    /// The stream reports an error.
    pub(super) failed: Option<String>,
    /// The number of lines that are not events, and the number and the fault of the first.
    pub(super) mixed: Option<(usize, usize, &'static str)>,
    /// The stream does not begin or end as it should.
    pub(super) incomplete: Option<&'static str>,
    /// The stream contradicts itself.
    pub(super) conflict: Option<&'static str>,
    /// The agent's text is longer than [`MOST_TEXT`].
    pub(super) is_too_long: bool,
    /// Part of the output is missing.
    pub(super) missing: Option<&'static str>,
}

impl StreamDoubts {
    /// Returns the doubt that part of an output is missing.
    pub fn from_missing(why: &'static str) -> Self {
        Self { missing: Some(why), ..Self::default() }
    }

    /// Returns the doubts of both.
    #[must_use]
    pub fn merge(self, other: Self) -> Self {
        Self {
            failed: self.failed.or(other.failed),
            mixed: self.mixed.or(other.mixed),
            incomplete: self.incomplete.or(other.incomplete),
            conflict: self.conflict.or(other.conflict),
            is_too_long: self.is_too_long || other.is_too_long,
            missing: self.missing.or(other.missing),
        }
    }

    pub(super) fn has_doubts(&self) -> bool {
        *self != Self::default()
    }
}

/// The text of an agent, and the reasons not to believe it.
#[derive(Debug)]
pub struct StreamText<T> {
    /// The agent's text.
    pub text: T,
    /// Where the agent's last message begins in the text, if the output is a stream of messages.
    pub last_message: Option<usize>,
    /// The reasons not to believe the text.
    pub doubts: StreamDoubts,
}

impl StreamText<Vec<u8>> {
    fn new(text: BoundedText, mut doubts: StreamDoubts) -> Self {
        let text = text.into_bytes();
        if text.is_none() {
            doubts.missing = Some(NOT_KEPT);
        }
        let mut text = text.unwrap_or_default();
        if doubts.is_too_long {
            text.truncate(whole_characters_len(&text));
        }
        Self { text, last_message: None, doubts }
    }
}

/// Extracts the text of an agent from a whole output.
pub(super) fn extract_text<'o>(output: &'o [u8], format: &OutputSpec) -> StreamText<Cow<'o, [u8]>> {
    if format.stream.is_none()
        && let Ok(text) = core::str::from_utf8(output)
    {
        let doubts = StreamDoubts { is_too_long: output.len() > MOST_TEXT, ..StreamDoubts::default() };
        let text = Cow::Borrowed(&output[..text.floor_char_boundary(MOST_TEXT)]);
        return StreamText { text, last_message: None, doubts };
    }
    let mut reader = StreamReader::new(format, &mut || Box::new(Vec::new()));
    reader.take(output);
    let StreamText { text, last_message, doubts } = reader.finish();
    // Lines that are not a stream are judged as they are, without a copy.
    let text = if text == output { Cow::Borrowed(output) } else { Cow::Owned(text) };
    StreamText { text, last_message, doubts }
}

/// A reader that extracts the text of an agent from its output while it is printed. The output may be of any
/// length.
#[derive(Debug)]
pub struct StreamReader {
    /// The events of the stream, unless the output is a text.
    spec: Option<StreamSpec>,
    /// The output as text, while it may still turn out not to be a stream.
    plain: Option<PlainText>,
    /// The number of bytes of a byte order mark that have arrived; its full length if none can follow.
    mark: usize,
    line: LineState,
    /// The number of the current line, from 1.
    number: usize,
    is_first: bool,
    json: JsonReader,
    events: EventCollector,
    noise: StreamNoise,
}

#[derive(Debug, Default)]
struct StreamNoise {
    count: usize,
    first: Option<(usize, &'static str)>,
    /// Whether the first line that is not empty begins unlike an event.
    is_first_line: bool,
}

/// The state of the line that is being read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LineState {
    Blank,
    Event,
    Noise,
}

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

impl StreamReader {
    /// Creates a reader that keeps text in the sinks that `sink` creates.
    pub fn new(format: &OutputSpec, sink: &mut dyn FnMut() -> Box<dyn TextSink>) -> Self {
        let mut kept = || BoundedText::new(sink());
        Self {
            spec: format.stream.clone(),
            plain: Some(PlainText { text: kept(), partial: Vec::new() }),
            mark: 0,
            line: LineState::Blank,
            number: 1,
            is_first: true,
            json: JsonReader::new(format.stream.as_ref().map(wanted_fields).unwrap_or_default(), kept()),
            events: EventCollector::new(kept()),
            noise: StreamNoise::default(),
        }
    }

    /// Reads the next bytes of the output.
    pub fn take(&mut self, bytes: &[u8]) {
        if let Some(plain) = &mut self.plain {
            plain.take(bytes);
        }
        if self.spec.is_none() {
            return;
        }
        let mut rest = self.skip_byte_order_mark(bytes);
        while let Some(end) = memchr(b'\n', rest) {
            self.read_piece(&rest[..end]);
            self.end_line();
            rest = &rest[end + 1..];
        }
        self.read_piece(rest);
    }

    /// Drops a byte order mark at the beginning of the output.
    fn skip_byte_order_mark<'b>(&mut self, mut bytes: &'b [u8]) -> &'b [u8] {
        while let (Some(wanted), Some((first, rest))) = (BYTE_ORDER_MARK.get(self.mark), bytes.split_first())
        {
            if first == wanted {
                self.mark += 1;
                bytes = rest;
            } else {
                self.read_piece(&BYTE_ORDER_MARK[..self.mark]);
                self.mark = BYTE_ORDER_MARK.len();
            }
        }
        bytes
    }

    fn read_piece(&mut self, mut bytes: &[u8]) {
        if self.line == LineState::Blank {
            let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r');
            let start = bytes.iter().position(|byte| !is_blank(byte)).unwrap_or(bytes.len());
            bytes = &bytes[start..];
            let Some(first) = bytes.first() else { return };
            let is_event = *first == b'{';
            if self.is_first && !is_event {
                self.noise.is_first_line = true;
            }
            self.is_first = false;
            self.line = LineState::Event;
        }
        if self.line == LineState::Event {
            self.json.take(bytes);
            if self.json.error().is_some() {
                self.line = LineState::Noise;
            }
        }
    }

    fn end_line(&mut self) {
        match self.line {
            LineState::Blank => {}
            LineState::Event | LineState::Noise => {
                let wrong = self
                    .json
                    .finish()
                    .or_else(|| self.spec.as_ref().and_then(|spec| self.events.take(spec, &mut self.json)));
                if let Some(why) = wrong {
                    self.noise.count += 1;
                    self.noise.first.get_or_insert((self.number, why));
                }
                self.json.reset();
                if self.events.is_begun() {
                    self.plain = None;
                }
            }
        }
        self.line = LineState::Blank;
        self.number += 1;
    }

    /// Ends the output and returns the agent's text.
    pub fn finish(mut self) -> StreamText<Vec<u8>> {
        if self.spec.is_some() {
            self.end_line();
        }
        let noise = &self.noise;
        // Events among other lines may be quotes in a text.
        let is_stream = self.events.is_begun()
            || (self.events.known > 0 && (!noise.is_first_line || self.events.known > noise.count));
        match self.plain {
            Some(plain) if !is_stream => {
                let mut text = plain.finish();
                if self.events.known > 0 || self.events.is_seen {
                    text.doubts.incomplete = Some("the output is neither plain text nor a stream");
                }
                text.doubts.failed = self.events.into_failure();
                text
            }
            _ => {
                let mixed = noise.first.map(|(line, why)| (noise.count, line, why));
                let is_lost = self.json.texts.is_lost;
                let StreamText { text, last_message, mut doubts } =
                    self.events.finish(&self.spec.unwrap_or_default());
                doubts.mixed = mixed;
                if is_lost {
                    doubts.missing = Some(NOT_KEPT);
                }
                StreamText { text, last_message, doubts }
            }
        }
    }
}

/// Returns the length of a text without a truncated character at its end.
fn whole_characters_len(text: &[u8]) -> usize {
    let last = (text.len().saturating_sub(3)..text.len()).rev().find(|at| text[*at] >= 0xC0);
    last.filter(|start| core::str::from_utf8(&text[*start..]).is_err()).unwrap_or(text.len())
}

const NOT_KEPT: &str = "the agent's text could not be stored for judging";

/// An output that is not a stream. Bytes that are not UTF-8 become U+FFFD.
#[derive(Debug)]
struct PlainText {
    text: BoundedText,
    /// The start of a character whose end has not arrived.
    partial: Vec<u8>,
}

impl PlainText {
    fn take(&mut self, bytes: &[u8]) {
        if self.text.is_over {
            return;
        }
        let mut bytes = Cow::Borrowed(bytes);
        if !self.partial.is_empty() {
            self.partial.extend_from_slice(&bytes);
            bytes = Cow::Owned(core::mem::take(&mut self.partial));
        }
        let mut left = bytes.len();
        for chunk in bytes.utf8_chunks() {
            self.text.push(chunk.valid().as_bytes());
            left -= chunk.valid().len() + chunk.invalid().len();
            let is_partial = left == 0
                && core::str::from_utf8(chunk.invalid()).is_err_and(|error| error.error_len().is_none());
            if is_partial {
                self.partial.extend_from_slice(chunk.invalid());
            } else if !chunk.invalid().is_empty() {
                self.text.push("\u{FFFD}".as_bytes());
            }
        }
    }

    fn finish(mut self) -> StreamText<Vec<u8>> {
        if !self.partial.is_empty() {
            self.text.push("\u{FFFD}".as_bytes());
        }
        let doubts = StreamDoubts { is_too_long: self.text.is_over, ..StreamDoubts::default() };
        StreamText::new(self.text, doubts)
    }
}
