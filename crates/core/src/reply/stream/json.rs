//! Reads one JSON object in pieces and keeps the values that a format wants.
//!
//! The grammar is that of `serde_json`: UTF-8, at most 127 levels, no lone surrogate, no control character in
//! a string, nothing after the object. Values that are not wanted are checked and dropped, however long they
//! are.

use alloc::string::String;
use alloc::vec::Vec;
use core::mem;
use core::ops::Range;
use core::str;

use memchr::memchr2;

use super::sink::BoundedText;
use crate::reply::loose_marker::{has_tag, has_tag_start_at_end};
use crate::reply::thought_tags::ThoughtTags;

/// The form in which a value is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WantedForm {
    /// A short scalar.
    Word,
    /// A string of any length.
    Text,
    /// An object or an array whose members are wanted.
    Inside,
    /// A string of any length, or an object or an array whose members are wanted.
    TextOrInside,
}

impl WantedForm {
    /// Returns the form in which a value is kept that is wanted in both.
    pub(super) const fn join(self, other: Self) -> Self {
        match (self, other) {
            (Self::Word, form) | (form, Self::Word) => form,
            (Self::Text, Self::Text) => Self::Text,
            (Self::Inside, Self::Inside) => Self::Inside,
            _ => Self::TextOrInside,
        }
    }
}

/// JSON pointers, each with the form of its value; `*` is any element of an array.
pub(super) type WantedFields = Vec<(String, WantedForm)>;

#[derive(Debug)]
pub(super) struct JsonField {
    /// The index of its pointer.
    wanted: usize,
    /// The array element that the value belongs to, from 1; 0 outside of arrays.
    pub(super) part: usize,
    pub(super) value: FieldValue,
}

#[derive(Debug)]
pub(super) enum FieldValue {
    Null,
    False,
    True,
    Number(String),
    Word(String),
    /// A range of [`JsonReader::texts`].
    Text(Range<usize>),
    /// An empty array or object.
    Empty,
    List,
    Other,
}

const MOST_LEVELS: usize = 127;
const MOST_KEY: usize = 64;
const MOST_WORD: usize = 4096;
/// The number of bytes of a string that are searched for markers at once, and the number of them that are
/// searched again with the next bytes.
const SEEN: usize = 16 << 10;
const SEEN_AGAIN: usize = 256;
/// Well above the number of parts of a real message.
const MOST_FIELDS: usize = 10_000;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum JsonState {
    #[default]
    Start,
    Value,
    FirstItem,
    FirstKey,
    Key,
    Colon,
    After,
    Done,
    String,
    Escape,
    Hex,
    LowEscape,
    LowU,
    Number(NumberState),
    Literal(&'static [u8]),
    Wrong(&'static str),
}

/// The part of a number that was read last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NumberState {
    Minus,
    Zero,
    Whole,
    Point,
    Fraction,
    E,
    Sign,
    Exponent,
}

/// The destination of the characters of a string.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum StringTarget {
    #[default]
    Nowhere,
    Key,
    /// A key that cannot be wanted.
    OtherKey,
    Word,
    Text,
}

#[derive(Debug)]
struct JsonLevel {
    is_array: bool,
    is_wanted: bool,
    path_len: usize,
}

#[derive(Debug, Default)]
pub(super) struct JsonReader {
    wanted: WantedFields,
    state: JsonState,
    levels: Vec<JsonLevel>,
    path: String,
    /// The index of the next value in `wanted`.
    next: Option<usize>,
    target: StringTarget,
    key: Vec<u8>,
    word: Vec<u8>,
    word_is_cut: bool,
    text_start: usize,
    /// The start of a character whose end has not arrived.
    partial: Vec<u8>,
    hex: u32,
    hex_left: u8,
    high: Option<u32>,
    part: usize,
    parts: usize,
    pub(super) fields: Vec<JsonField>,
    pub(super) texts: BoundedText,
    /// The container that was opened last, if it is a field.
    opened: Option<usize>,
    thoughts: ThoughtTags,
    /// The end of the string that is being read.
    seen: Vec<u8>,
    /// Whether a string of the object contains a marker tag, and whether a string that is not wanted as text
    /// does.
    pub(super) is_marked: bool,
    pub(super) is_marked_elsewhere: bool,
}

impl JsonReader {
    pub(super) fn new(wanted: WantedFields, texts: BoundedText) -> Self {
        Self { wanted, texts, thoughts: ThoughtTags::load_shipped(), ..Self::default() }
    }

    /// Clears the reader for the next object.
    pub(super) fn reset(&mut self) {
        self.state = JsonState::Start;
        self.levels.clear();
        self.path.clear();
        self.next = None;
        self.partial.clear();
        self.high = None;
        (self.part, self.parts) = (0, 0);
        self.fields.clear();
        self.texts.clear();
        (self.opened, self.is_marked, self.is_marked_elsewhere) = (None, false, false);
    }

    /// Returns the pointer of a field.
    pub(super) fn place(&self, field: &JsonField) -> &str {
        &self.wanted[field.wanted].0
    }

    /// Returns why the bytes so far cannot become an object.
    pub(super) const fn error(&self) -> Option<&'static str> {
        match self.state {
            JsonState::Wrong(why) => Some(why),
            _ => None,
        }
    }

    /// Ends the object. Returns its fault, if it has one.
    pub(super) const fn finish(&self) -> Option<&'static str> {
        match self.state {
            JsonState::Done => None,
            JsonState::Wrong(why) => Some(why),
            _ => Some("the event is truncated"),
        }
    }

    pub(super) fn take(&mut self, mut bytes: &[u8]) {
        while let Some(byte) = bytes.first().copied() {
            if self.state == JsonState::String {
                let taken = self.read_characters(bytes);
                bytes = &bytes[taken..];
                continue;
            }
            if self.error().is_some() {
                return;
            }
            if self.read_byte(byte) {
                bytes = &bytes[1..];
            }
        }
    }

    const fn fail(&mut self, why: &'static str) {
        self.state = JsonState::Wrong(why);
    }

    /// Reads one byte outside of the characters of a string. Returns whether it is used up.
    fn read_byte(&mut self, byte: u8) -> bool {
        let is_blank = matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
        match self.state {
            JsonState::Start if byte == b'{' => self.open(false),
            JsonState::Value
            | JsonState::FirstItem
            | JsonState::FirstKey
            | JsonState::Key
            | JsonState::Colon
            | JsonState::After
                if is_blank => {}
            JsonState::Start => self.fail(NO_OBJECT),
            JsonState::Done if is_blank => {}
            JsonState::Done => self.fail("the line has more than one value"),
            JsonState::FirstItem if byte == b']' => self.close_empty(),
            JsonState::Value | JsonState::FirstItem => self.begin_value(byte),
            JsonState::FirstKey if byte == b'}' => self.close_empty(),
            JsonState::FirstKey | JsonState::Key if byte == b'"' => {
                let is_wanted = self.levels.last().is_some_and(|level| level.is_wanted);
                self.key.clear();
                self.begin_string(if is_wanted { StringTarget::Key } else { StringTarget::OtherKey });
            }
            JsonState::Colon if byte == b':' => self.state = JsonState::Value,
            JsonState::After => match (byte, self.levels.last().is_some_and(|level| level.is_array)) {
                (b',', true) => {
                    self.enter_item();
                    self.state = JsonState::Value;
                }
                (b',', false) => self.state = JsonState::Key,
                (b']', true) | (b'}', false) => self.close(),
                _ => self.fail(NO_JSON),
            },
            JsonState::Escape => self.read_escape(byte),
            JsonState::Hex => self.read_hex_digit(byte),
            JsonState::LowEscape if byte == b'\\' => self.state = JsonState::LowU,
            JsonState::LowU if byte == b'u' => (self.state, self.hex, self.hex_left) = (JsonState::Hex, 0, 4),
            JsonState::LowEscape | JsonState::LowU => self.fail(LONE_SURROGATE),
            JsonState::Number(digits) => return self.read_number_byte(digits, byte),
            JsonState::Literal(rest) => match rest.split_first() {
                Some((next, rest)) if *next == byte => {
                    self.state = JsonState::Literal(rest);
                    if rest.is_empty() {
                        self.finish_value();
                    }
                }
                _ => self.fail(NO_JSON),
            },
            JsonState::FirstKey | JsonState::Key | JsonState::Colon => self.fail(NO_JSON),
            JsonState::String | JsonState::Wrong(_) => {}
        }
        true
    }

    fn begin_value(&mut self, byte: u8) {
        let want = self.next.map(|index| self.wanted[index].1);
        match byte {
            b'{' => self.open(false),
            b'[' => self.open(true),
            b'"' => {
                self.word.clear();
                self.word_is_cut = false;
                self.text_start = self.texts.len();
                self.begin_string(match want {
                    Some(WantedForm::Word | WantedForm::Inside) => StringTarget::Word,
                    Some(WantedForm::Text | WantedForm::TextOrInside) => StringTarget::Text,
                    None => StringTarget::Nowhere,
                });
            }
            b'n' => self.begin_literal(b"ull", FieldValue::Null),
            b't' => self.begin_literal(b"rue", FieldValue::True),
            b'f' => self.begin_literal(b"alse", FieldValue::False),
            b'-' => self.begin_number(byte, NumberState::Minus),
            b'0' => self.begin_number(byte, NumberState::Zero),
            b'1'..=b'9' => self.begin_number(byte, NumberState::Whole),
            _ => self.fail(NO_JSON),
        }
    }

    fn begin_literal(&mut self, rest: &'static [u8], value: FieldValue) {
        self.keep(value);
        if self.error().is_none() {
            self.state = JsonState::Literal(rest);
        }
    }

    fn begin_number(&mut self, byte: u8, digits: NumberState) {
        self.word.clear();
        self.word.push(byte);
        self.state = JsonState::Number(digits);
    }

    fn read_number_byte(&mut self, digits: NumberState, byte: u8) -> bool {
        use NumberState::{E, Exponent, Fraction, Minus, Point, Sign, Whole, Zero};
        let next = match (digits, byte) {
            (Minus, b'0') => Some(Zero),
            (Minus, b'1'..=b'9') | (Whole, b'0'..=b'9') => Some(Whole),
            (Zero | Whole, b'.') => Some(Point),
            (Point | Fraction, b'0'..=b'9') => Some(Fraction),
            (Zero | Whole | Fraction, b'e' | b'E') => Some(E),
            (E, b'+' | b'-') => Some(Sign),
            (E | Sign | Exponent, b'0'..=b'9') => Some(Exponent),
            _ => None,
        };
        if let Some(next) = next {
            if self.word.len() < MOST_KEY {
                self.word.push(byte);
            }
            self.state = JsonState::Number(next);
            return true;
        }
        if matches!(digits, Minus | Point | E | Sign) {
            self.fail(NO_JSON);
            return true;
        }
        let number = String::from_utf8_lossy(&self.word).into_owned();
        self.keep(FieldValue::Number(number));
        self.finish_value();
        false
    }

    fn open(&mut self, is_array: bool) {
        if self.levels.len() == MOST_LEVELS {
            return self.fail("the event is nested too deeply");
        }
        let want = self.next.map(|index| self.wanted[index].1);
        let is_wanted =
            self.levels.is_empty() || matches!(want, Some(WantedForm::Inside | WantedForm::TextOrInside));
        let before = self.fields.len();
        self.keep(if is_array { FieldValue::List } else { FieldValue::Other });
        self.opened = (self.fields.len() > before).then_some(before);
        if self.error().is_some() {
            return;
        }
        self.levels.push(JsonLevel { is_array, is_wanted, path_len: self.path.len() });
        self.state = if is_array { JsonState::FirstItem } else { JsonState::FirstKey };
        if is_array {
            self.enter_item();
        }
    }

    /// Enters the next element of an array, unless the array ends.
    fn enter_item(&mut self) {
        let Some(level) = self.levels.last().filter(|level| level.is_wanted) else { return };
        self.path.truncate(level.path_len);
        self.path.push_str("/*");
        self.parts += 1;
        self.part = self.parts;
        self.find_wanted();
    }

    fn close_empty(&mut self) {
        if let Some(field) = self.opened.and_then(|index| self.fields.get_mut(index)) {
            field.value = FieldValue::Empty;
        }
        self.close();
    }

    fn close(&mut self) {
        if let Some(JsonLevel { is_array: true, is_wanted: true, .. }) = self.levels.pop() {
            self.part = 0;
        }
        self.next = None;
        self.finish_value();
    }

    fn finish_value(&mut self) {
        if self.error().is_none() {
            self.state = if self.levels.is_empty() { JsonState::Done } else { JsonState::After };
        }
    }

    fn find_wanted(&mut self) {
        self.next = self.wanted.iter().position(|(path, _)| *path == self.path);
    }

    /// Keeps the value if it is wanted. Refuses a key that is given twice, since it says two things.
    fn keep(&mut self, value: FieldValue) {
        let Some(index) = self.next.take() else { return };
        let part = self.part;
        let near = self.fields.iter().rev().take_while(|field| part == 0 || field.part == part);
        if near.into_iter().any(|field| field.part == part && field.wanted == index) {
            return self.fail("the event has a duplicate key");
        }
        if self.fields.len() == MOST_FIELDS {
            return self.fail("the event has too many parts");
        }
        self.fields.push(JsonField { wanted: index, part, value });
    }

    fn begin_string(&mut self, target: StringTarget) {
        (self.state, self.target) = (JsonState::String, target);
        self.seen.clear();
    }

    /// Searches the string that is being read for markers.
    fn search_markers(&mut self, ends: bool) {
        let is_text = self.target == StringTarget::Text;
        let is_known = if is_text { self.is_marked } else { self.is_marked_elsewhere };
        if !is_known && (has_tag(&self.seen, &self.thoughts) || ends && has_tag_start_at_end(&self.seen)) {
            self.is_marked = true;
            self.is_marked_elsewhere |= !is_text;
        }
        let again = self.seen.len().saturating_sub(SEEN_AGAIN);
        self.seen.drain(..again);
    }

    /// Reads the characters of a string up to its end or an escape. Returns the number of bytes that are used
    /// up.
    fn read_characters(&mut self, bytes: &[u8]) -> usize {
        let end = memchr2(b'"', b'\\', bytes);
        let run = &bytes[..end.unwrap_or(bytes.len())];
        if run.iter().any(|byte| *byte < 0x20) {
            self.fail("a string of the event has a control character");
        } else if !self.read_utf8(run) || (end.is_some() && !self.partial.is_empty()) {
            self.fail("the event is not UTF-8");
        }
        let Some(end) = end.filter(|_| self.error().is_none()) else { return bytes.len() };
        if bytes[end] == b'\\' {
            self.state = JsonState::Escape;
        } else {
            self.end_string();
        }
        end + 1
    }

    /// Reads bytes that may begin and end inside a character. Returns whether they are UTF-8 so far.
    fn read_utf8(&mut self, mut run: &[u8]) -> bool {
        while let (false, Some((first, rest))) = (self.partial.is_empty(), run.split_first()) {
            self.partial.push(*first);
            run = rest;
            match str::from_utf8(&self.partial) {
                Ok(_) => {
                    let character = mem::take(&mut self.partial);
                    self.emit(&character);
                }
                Err(error) if error.error_len().is_some() => return false,
                Err(_) => {}
            }
        }
        match str::from_utf8(run) {
            Ok(_) => self.emit(run),
            Err(error) if error.error_len().is_some() => return false,
            Err(error) => {
                let (whole, rest) = run.split_at(error.valid_up_to());
                self.emit(whole);
                self.partial.extend_from_slice(rest);
            }
        }
        true
    }

    fn emit(&mut self, bytes: &[u8]) {
        self.seen.extend_from_slice(bytes);
        if self.seen.len() > SEEN {
            self.search_markers(false);
        }
        match self.target {
            StringTarget::Nowhere | StringTarget::OtherKey => {}
            StringTarget::Text => self.texts.push(bytes),
            StringTarget::Key => {
                // One byte more than any wanted key, so that a longer key matches none of them.
                let remaining = MOST_KEY + 1 - self.key.len();
                self.key.extend_from_slice(&bytes[..bytes.len().min(remaining)]);
            }
            StringTarget::Word => {
                let remaining = MOST_WORD - self.word.len();
                self.word_is_cut |= bytes.len() > remaining;
                self.word.extend_from_slice(&bytes[..bytes.len().min(remaining)]);
            }
        }
    }

    fn read_escape(&mut self, byte: u8) {
        let character = match byte {
            b'"' | b'\\' | b'/' => byte,
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => {
                (self.state, self.hex, self.hex_left) = (JsonState::Hex, 0, 4);
                return;
            }
            _ => return self.fail(NO_JSON),
        };
        self.state = JsonState::String;
        self.emit(&[character]);
    }

    fn read_hex_digit(&mut self, byte: u8) {
        let Some(digit) = char::from(byte).to_digit(16) else { return self.fail(NO_JSON) };
        self.hex = self.hex * 16 + digit;
        self.hex_left -= 1;
        if self.hex_left > 0 {
            return;
        }
        let code = match (self.high.take(), self.hex) {
            (None, 0xD800..=0xDBFF) => {
                self.high = Some(self.hex);
                self.state = JsonState::LowEscape;
                return;
            }
            (Some(high), low @ 0xDC00..=0xDFFF) => 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00),
            (Some(_), _) => return self.fail(LONE_SURROGATE),
            (None, code) => code,
        };
        match char::from_u32(code) {
            Some(character) => {
                self.state = JsonState::String;
                self.emit(character.encode_utf8(&mut [0; 4]).as_bytes());
            }
            None => self.fail(LONE_SURROGATE),
        }
    }

    fn end_string(&mut self) {
        self.search_markers(true);
        match self.target {
            StringTarget::Key => {
                if let Some(level) = self.levels.last() {
                    self.path.truncate(level.path_len);
                }
                self.path.push('/');
                // No wanted key contains a slash.
                match str::from_utf8(&self.key).ok().filter(|key| key.len() <= MOST_KEY && !key.contains('/'))
                {
                    Some(key) => {
                        self.path.push_str(key);
                        self.find_wanted();
                    }
                    None => self.next = None,
                }
                self.state = JsonState::Colon;
                return;
            }
            StringTarget::OtherKey => {
                self.next = None;
                self.state = JsonState::Colon;
                return;
            }
            StringTarget::Nowhere => {}
            StringTarget::Word => {
                let mut word = String::from_utf8_lossy(&self.word).into_owned();
                if self.word_is_cut {
                    // A truncated word must not equal an expected one.
                    word.push('…');
                }
                self.keep(FieldValue::Word(word));
            }
            StringTarget::Text => self.keep(FieldValue::Text(self.text_start..self.texts.len())),
        }
        self.finish_value();
    }
}

const NO_OBJECT: &str = "the line is not a JSON object";
const NO_JSON: &str = "the event is not JSON";
const LONE_SURROGATE: &str = "a string of the event has a lone surrogate";
