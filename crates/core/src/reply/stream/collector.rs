//! Collects the text of an agent and the state of its stream, event by event, by the rules of its file.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ops::Range;

use sha2::{Digest as _, Sha256};

use super::event::{StreamEvent, reports_failure};
use super::json::{FieldValue, JsonReader};
use super::sink::BoundedText;
use super::{StreamDoubts, StreamText};
use crate::library::agent::{BeginRule, EventRule, FailureRule, PartsSpec, StepRule, StreamSpec, fits_any};

/// The text and the state of a stream, collected from its events so far.
#[derive(Debug, Default)]
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
    /// Messages whose whole must follow, with the hash of their pieces if there are any.
    pieces: BTreeMap<String, Option<Sha256>>,
    doubts: StreamDoubts,
}

/// Well above the number of messages that a CLI writes at the same time.
const MOST_PIECES: usize = 100;

/// The key of pieces that do not name their message.
const STREAM: &str = "stream";

/// The beginnings of marker tags.
const TAGS: [&str; 4] = ["<review", "</review", "<task_status", "</task_status"];
const MOST_TAG: usize = 16;

impl EventCollector {
    pub(super) fn new(text: BoundedText) -> Self {
        Self { text, ..Self::default() }
    }

    pub(super) const fn is_begun(&self) -> bool {
        self.begun
    }

    /// Takes the object that was read as an event. Returns its fault, if it has one.
    pub(super) fn take(&mut self, spec: &StreamSpec, json: &mut JsonReader) -> Option<&'static str> {
        let mut event = StreamEvent { json, is_unreadable: false, is_understood: false };
        let Some(kind) = event.word(spec.type_place()).map(ToString::to_string) else {
            return Some("the object has no type");
        };
        if self.ended {
            self.doubts.incomplete.get_or_insert("the stream continues after its end");
        }
        let rule = spec.events.iter().find(|rule| event.fits(rule, &kind));
        if let Some(rule) = rule {
            self.apply(spec, rule, &mut event);
        }
        if event.is_unreadable {
            self.doubts.conflict.get_or_insert("a message has an unknown form");
        }
        self.is_seen |= event.is_understood;
        let is_marked = if event.is_understood {
            rule.is_some_and(|rule| rule.only_text) && event.json.is_marked_elsewhere
        } else {
            event.json.is_marked
        };
        if is_marked {
            self.doubts.conflict.get_or_insert("an unknown event contains a marker");
        }
        if rule.is_some_and(|rule| rule.vital)
            && let Some(why) = event.find_error(spec)
        {
            self.fail(Some(&why), &kind);
        }
        if reports_failure(&kind) && !rule.is_some_and(|rule| rule.retried) {
            self.fail(None, &kind);
        }
        None
    }

    pub(super) fn finish(mut self, spec: &StreamSpec) -> StreamText<Vec<u8>> {
        let is_one_event = spec.may_be_one_event && self.known == 1 && self.ended;
        if !self.begun && !is_one_event {
            self.doubts.incomplete.get_or_insert("the stream has no start");
        }
        if !self.ended {
            self.doubts.incomplete.get_or_insert("the stream has no end");
        }
        if !self.pieces.is_empty() {
            self.doubts
                .incomplete
                .get_or_insert("the stream has pieces of a message, but not the whole message");
        }
        self.doubts.is_too_long |= self.text.is_over;
        let last_message = Some(self.last_message.start);
        StreamText { last_message, ..StreamText::new(self.text, self.doubts) }
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
    fn begin_pieces(&mut self, id: String) -> Option<&mut Option<Sha256>> {
        if self.pieces.len() == MOST_PIECES && !self.pieces.contains_key(&id) {
            self.doubts.incomplete.get_or_insert("the stream has too many incomplete messages");
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

    fn apply(&mut self, spec: &StreamSpec, rule: &EventRule, event: &mut StreamEvent<'_>) {
        event.is_understood = !rule.unknown;
        event.is_unreadable |= rule.unreadable;
        self.known += usize::from(rule.counts);
        self.apply_bounds(rule);
        if rule.closes {
            self.open = None;
        }
        self.take_texts(rule, event);
        if rule.ends {
            self.end();
        }
        if let Some(fails) = &rule.fails {
            self.take_failure(fails, event);
        }
        if let Some(state) = event.word_at(rule.state.as_ref()).filter(|state| reports_failure(state)) {
            self.fail(None, &state);
        }
        self.take_stop(spec, rule, event);
        if let Some(place) = &rule.repeats {
            self.compare_last(place, event);
        }
    }

    fn apply_bounds(&mut self, rule: &EventRule) {
        match rule.step {
            Some(StepRule::Begins) if core::mem::replace(&mut self.in_step, true) => {
                self.doubts.incomplete.get_or_insert("a step of the stream has no end");
            }
            Some(StepRule::Ends) if !core::mem::take(&mut self.in_step) => {
                self.doubts.incomplete.get_or_insert("a step of the stream has no start");
            }
            _ => {}
        }
        if rule.begins == Some(BeginRule::Once) || rule.begins == Some(BeginRule::First) && !self.begun {
            self.begin();
        }
    }

    /// Takes the texts of the event. An event that should have one and has none is not understood.
    fn take_texts(&mut self, rule: &EventRule, event: &mut StreamEvent<'_>) {
        let whole = event.word_at(rule.whole.as_ref());
        let whole = whole.unwrap_or_else(|| if rule.whole.is_none() { STREAM } else { "" }.to_string());
        if let Some(place) = &rule.text {
            let text = event.text(place);
            event.is_understood &= text.is_some();
            if let Some(text) = text {
                let id = event.word_at(rule.message.as_ref());
                let id = if rule.continues { Some(STREAM.to_string()) } else { id };
                if id.is_none() {
                    self.open = None;
                }
                self.compare_pieces(&whole, event, &text);
                self.append_text(id.as_deref(), event, text);
            }
        }
        if let Some(place) = &rule.piece {
            let text = event.text(place).filter(|text| !text.is_empty());
            let hash = text.as_ref().and_then(|_| self.begin_pieces(whole.clone()));
            event.is_understood &= hash.is_some();
            if let (Some(text), Some(hash)) = (text, hash) {
                let hash = hash.get_or_insert_default();
                event.json.texts.for_each_piece(text, |piece| hash.update(piece));
            }
        }
        if rule.announces {
            self.begin_pieces(whole.clone());
        }
        if let Some(parts) = &rule.parts {
            let id = event.word_at(rule.message.as_ref()).filter(|id| !id.is_empty());
            self.take_parts(parts, id, &whole, event);
        }
    }

    fn take_failure(&mut self, fails: &FailureRule, event: &mut StreamEvent<'_>) {
        let why = fails.why.iter().find_map(|place| event.reason(place));
        self.doubts.failed.take_if(|_| fails.replaces && why.is_some());
        self.fail(why.as_deref(), &fails.otherwise);
    }

    /// Notes why a message stopped. It counts when the stream ends, because a message may be repeated.
    fn take_stop(&mut self, spec: &StreamSpec, rule: &EventRule, event: &StreamEvent<'_>) {
        let why = event.word_at(rule.stop.as_ref());
        let is_given = why.is_some();
        let bad = why.filter(|why| !spec.good_stops.contains(why));
        if rule.ends {
            for why in bad.into_iter().chain(self.stopped.take()) {
                self.fail(Some(&why), &why);
            }
        } else if rule.stop.is_some() && (rule.vital || is_given) {
            self.stopped = bad;
        }
    }

    /// Checks whether the earlier pieces of a message say the same as the whole.
    fn compare_pieces(&mut self, id: &str, event: &mut StreamEvent<'_>, text: &Range<usize>) {
        let Some(Some(pieces)) = self.pieces.remove(id) else { return };
        let mut whole = Sha256::new();
        event.json.texts.for_each_piece(text.clone(), |piece| whole.update(piece));
        if whole.finalize() != pieces.finalize() {
            self.doubts.conflict.get_or_insert("a message differs from its pieces");
        }
    }

    /// Checks whether the event repeats the last text; otherwise its text is one more message.
    fn compare_last(&mut self, place: &str, event: &mut StreamEvent<'_>) {
        let result = event.text(place).unwrap_or_default();
        if result.is_empty() {
            return;
        }
        let lasts = [self.last_part.clone(), self.last_message.clone()];
        let is_last = lasts
            .into_iter()
            .any(|last| self.text.has_same_bytes(last, &mut event.json.texts, result.clone()));
        if !is_last {
            if self.begun || self.text.len() > 0 {
                self.doubts.conflict.get_or_insert("the result differs from the last message");
            }
            self.append_text(None, event, result);
        }
    }

    /// Takes the texts of a list of parts.
    fn take_parts(&mut self, spec: &PartsSpec, id: Option<String>, whole: &str, event: &mut StreamEvent<'_>) {
        let (kind_at, text_at) =
            ([&spec.item(), spec.type_at.as_str()].concat(), [&spec.item(), spec.text.as_str()].concat());
        let has_id = id.is_some();
        if !has_id {
            self.open = None;
        }
        // Parts of a message without an id belong together as well.
        let id = id.unwrap_or_default();
        match event.value(&spec.at) {
            // The message may have its text in a place that is not known.
            None | Some(FieldValue::Null) => event.is_understood = false,
            Some(FieldValue::List | FieldValue::Empty) => {}
            Some(_) => {
                if let Some(text) = event.text(&spec.at) {
                    self.compare_pieces(whole, event, &text);
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
                let place = event.json.place(field);
                match &field.value {
                    FieldValue::Word(kind) if place == kind_at => {
                        is_text = Some(fits_any(&spec.texts, kind));
                        event.is_understood &= is_text == Some(true) || fits_any(&spec.others, kind);
                    }
                    FieldValue::Text(range) if place == text_at => text = Some(range.clone()),
                    _ if place == text_at => event.is_unreadable = true,
                    _ => {}
                }
                end += 1;
            }
            at = end;
            if part == 0 {
                continue;
            }
            // The text of a part of another kind, or of none, may be anything.
            event.is_unreadable |= is_text.is_none() || text.is_some() && is_text == Some(false);
            let is_text = is_text == Some(true);
            event.is_understood &= !is_text || text.is_some();
            match text.filter(|_| is_text) {
                Some(text) => {
                    self.compare_pieces(whole, event, &text);
                    self.append_text(Some(&id), event, text);
                }
                None => self.open = None,
            }
        }
        if !has_id {
            self.open = None;
        }
    }
}
