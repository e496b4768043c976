//! Reads one JSON object in pieces and keeps the values that a format wants.
//!
//! The grammar is the one of `serde_json`: UTF-8, at most 127 levels, no lone surrogate, no control character in a string,
//! nothing after the object. Values that are not wanted are checked and dropped, however long they are.

use alloc::string::String;
use alloc::vec::Vec;
use core::mem;
use core::ops::Range;
use core::str;

use memchr::memchr2;

use super::sink::Kept;

/// How a value is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Want {
    /// A short scalar.
    Word,
    /// A string of any length.
    Text,
    /// An object or an array whose members are wanted.
    Inside,
    /// Either of the last two.
    TextOrInside,
}

/// JSON pointers; `*` is any element of an array.
pub(super) type Wanted = &'static [(&'static str, Want)];

#[derive(Debug)]
pub(super) struct Field {
    pub(super) path: &'static str,
    /// The element of an array that the value belongs to, from 1; 0 outside of arrays.
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
    List,
    Other,
}

const MOST_LEVELS: usize = 127;
const MOST_KEY: usize = 64;
const MOST_WORD: usize = 4096;
/// Well above the parts of a real message.
const MOST_FIELDS: usize = 10_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
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
    Number(Digits),
    Literal(&'static [u8]),
    Wrong(&'static str),
}

/// Where a number has got to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Digits {
    Minus,
    Zero,
    Whole,
    Point,
    Fraction,
    E,
    Sign,
    Exponent,
}

/// Where the characters of a string go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Nowhere,
    Key,
    /// A key that cannot be wanted.
    OtherKey,
    Word,
    Text,
}

#[derive(Debug)]
struct Level {
    is_array: bool,
    is_wanted: bool,
    path_len: usize,
}

#[derive(Debug)]
pub(super) struct JsonReader {
    wanted: Wanted,
    state: State,
    levels: Vec<Level>,
    path: String,
    /// The index of the value that comes in `wanted`.
    next: Option<usize>,
    target: Target,
    key: Vec<u8>,
    word: Vec<u8>,
    word_is_cut: bool,
    text_start: usize,
    /// The start of a character whose end has not come.
    partial: Vec<u8>,
    hex: u32,
    hex_left: u8,
    high: Option<u32>,
    part: usize,
    parts: usize,
    pub(super) fields: Vec<Field>,
    pub(super) texts: Kept,
}

impl JsonReader {
    pub(super) fn new(wanted: Wanted, texts: Kept) -> Self {
        Self {
            wanted,
            state: State::Start,
            levels: Vec::new(),
            path: String::new(),
            next: None,
            target: Target::Nowhere,
            key: Vec::new(),
            word: Vec::new(),
            word_is_cut: false,
            text_start: 0,
            partial: Vec::new(),
            hex: 0,
            hex_left: 0,
            high: None,
            part: 0,
            parts: 0,
            fields: Vec::new(),
            texts,
        }
    }

    /// Forgets everything, for the next object.
    pub(super) fn reset(&mut self) {
        self.state = State::Start;
        self.levels.clear();
        self.path.clear();
        self.next = None;
        self.partial.clear();
        self.high = None;
        (self.part, self.parts) = (0, 0);
        self.fields.clear();
        self.texts.clear();
    }

    /// Why the bytes so far cannot become an object.
    pub(super) const fn wrong(&self) -> Option<&'static str> {
        match self.state {
            State::Wrong(why) => Some(why),
            _ => None,
        }
    }

    /// Nothing more comes: what is wrong with it, if anything.
    pub(super) const fn end(&self) -> Option<&'static str> {
        match self.state {
            State::Done => None,
            State::Wrong(why) => Some(why),
            _ => Some("the event is cut off"),
        }
    }

    pub(super) fn take(&mut self, mut bytes: &[u8]) {
        while let Some(byte) = bytes.first().copied() {
            if self.state == State::String {
                let taken = self.characters(bytes);
                bytes = &bytes[taken..];
                continue;
            }
            if self.wrong().is_some() {
                return;
            }
            if self.byte(byte) {
                bytes = &bytes[1..];
            }
        }
    }

    const fn fail(&mut self, why: &'static str) {
        self.state = State::Wrong(why);
    }

    /// One byte outside of the characters of a string; whether it is used up.
    fn byte(&mut self, byte: u8) -> bool {
        let is_blank = matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
        match self.state {
            State::Start if byte == b'{' => self.open(false),
            State::Value | State::FirstItem | State::FirstKey | State::Key | State::Colon | State::After
                if is_blank => {}
            State::Start => self.fail(NO_OBJECT),
            State::Done if is_blank => {}
            State::Done => self.fail("more than one value is on the line"),
            State::FirstItem if byte == b']' => self.close(),
            State::Value | State::FirstItem => self.value(byte),
            State::FirstKey if byte == b'}' => self.close(),
            State::FirstKey | State::Key if byte == b'"' => {
                let is_wanted = self.levels.last().is_some_and(|level| level.is_wanted);
                self.key.clear();
                self.string(if is_wanted { Target::Key } else { Target::OtherKey });
            }
            State::Colon if byte == b':' => self.state = State::Value,
            State::After => match (byte, self.levels.last().is_some_and(|level| level.is_array)) {
                (b',', true) => {
                    self.item();
                    self.state = State::Value;
                }
                (b',', false) => self.state = State::Key,
                (b']', true) | (b'}', false) => self.close(),
                _ => self.fail(NO_JSON),
            },
            State::Escape => self.escape(byte),
            State::Hex => self.hex(byte),
            State::LowEscape if byte == b'\\' => self.state = State::LowU,
            State::LowU if byte == b'u' => (self.state, self.hex, self.hex_left) = (State::Hex, 0, 4),
            State::LowEscape | State::LowU => self.fail(LONE_SURROGATE),
            State::Number(digits) => return self.number(digits, byte),
            State::Literal(rest) => match rest.split_first() {
                Some((next, rest)) if *next == byte => {
                    self.state = State::Literal(rest);
                    if rest.is_empty() {
                        self.after();
                    }
                }
                _ => self.fail(NO_JSON),
            },
            State::FirstKey | State::Key | State::Colon => self.fail(NO_JSON),
            State::String | State::Wrong(_) => {}
        }
        true
    }

    fn value(&mut self, byte: u8) {
        let want = self.next.map(|index| self.wanted[index].1);
        match byte {
            b'{' => self.open(false),
            b'[' => self.open(true),
            b'"' => {
                self.word.clear();
                self.word_is_cut = false;
                self.text_start = self.texts.len();
                self.string(match want {
                    Some(Want::Word) => Target::Word,
                    Some(Want::Text | Want::TextOrInside) => Target::Text,
                    Some(Want::Inside) | None => Target::Nowhere,
                });
                if self.target == Target::Nowhere {
                    self.keep(FieldValue::Other);
                }
            }
            b'n' => self.literal(b"ull", FieldValue::Null),
            b't' => self.literal(b"rue", FieldValue::True),
            b'f' => self.literal(b"alse", FieldValue::False),
            b'-' => self.digits(byte, Digits::Minus),
            b'0' => self.digits(byte, Digits::Zero),
            b'1'..=b'9' => self.digits(byte, Digits::Whole),
            _ => self.fail(NO_JSON),
        }
    }

    fn literal(&mut self, rest: &'static [u8], value: FieldValue) {
        self.keep(value);
        if self.wrong().is_none() {
            self.state = State::Literal(rest);
        }
    }

    fn digits(&mut self, byte: u8, digits: Digits) {
        self.word.clear();
        self.word.push(byte);
        self.state = State::Number(digits);
    }

    fn number(&mut self, digits: Digits, byte: u8) -> bool {
        use Digits::{E, Exponent, Fraction, Minus, Point, Sign, Whole, Zero};
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
            self.state = State::Number(next);
            return true;
        }
        if matches!(digits, Minus | Point | E | Sign) {
            self.fail(NO_JSON);
            return true;
        }
        let number = String::from_utf8_lossy(&self.word).into_owned();
        self.keep(FieldValue::Number(number));
        self.after();
        false
    }

    fn open(&mut self, is_array: bool) {
        if self.levels.len() == MOST_LEVELS {
            return self.fail("the event is nested too deeply");
        }
        let want = self.next.map(|index| self.wanted[index].1);
        let is_wanted = self.levels.is_empty() || matches!(want, Some(Want::Inside | Want::TextOrInside));
        self.keep(if is_array { FieldValue::List } else { FieldValue::Other });
        if self.wrong().is_some() {
            return;
        }
        self.levels.push(Level { is_array, is_wanted, path_len: self.path.len() });
        self.state = if is_array { State::FirstItem } else { State::FirstKey };
        if is_array {
            self.item();
        }
    }

    /// An element of an array begins, or the array ends.
    fn item(&mut self) {
        let Some(level) = self.levels.last().filter(|level| level.is_wanted) else { return };
        self.path.truncate(level.path_len);
        self.path.push_str("/*");
        self.parts += 1;
        self.part = self.parts;
        self.find();
    }

    fn close(&mut self) {
        if let Some(Level { is_array: true, is_wanted: true, .. }) = self.levels.pop() {
            self.part = 0;
        }
        self.next = None;
        self.after();
    }

    fn after(&mut self) {
        if self.wrong().is_none() {
            self.state = if self.levels.is_empty() { State::Done } else { State::After };
        }
    }

    fn find(&mut self) {
        self.next = self.wanted.iter().position(|(path, _)| *path == self.path);
    }

    /// The wanted value has come. A key that comes twice says two things.
    fn keep(&mut self, value: FieldValue) {
        let Some(index) = self.next.take() else { return };
        let (path, part) = (self.wanted[index].0, self.part);
        let near = self.fields.iter().rev().take_while(|field| part == 0 || field.part == part);
        if near.into_iter().any(|field| field.part == part && field.path == path) {
            return self.fail("a key of the event is given twice");
        }
        if self.fields.len() == MOST_FIELDS {
            return self.fail("the event has too many parts");
        }
        self.fields.push(Field { path, part, value });
    }

    fn string(&mut self, target: Target) {
        (self.state, self.target) = (State::String, target);
    }

    /// Characters of a string up to its end or an escape; how many bytes are used up.
    fn characters(&mut self, bytes: &[u8]) -> usize {
        let end = memchr2(b'"', b'\\', bytes);
        let run = &bytes[..end.unwrap_or(bytes.len())];
        if run.iter().any(|byte| *byte < 0x20) {
            self.fail("a string of the event has a control character");
        } else if !self.utf8(run) || (end.is_some() && !self.partial.is_empty()) {
            self.fail("the event is not UTF-8");
        }
        let Some(end) = end.filter(|_| self.wrong().is_none()) else { return bytes.len() };
        if bytes[end] == b'\\' {
            self.state = State::Escape;
        } else {
            self.string_ends();
        }
        end + 1
    }

    /// Takes bytes that may begin and end inside of a character; whether they are UTF-8 so far.
    fn utf8(&mut self, mut run: &[u8]) -> bool {
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
        match self.target {
            Target::Nowhere | Target::OtherKey => {}
            Target::Text => self.texts.push(bytes),
            Target::Key => {
                // One byte more than any key that is wanted, so that a longer one is none of them.
                let room = MOST_KEY + 1 - self.key.len();
                self.key.extend_from_slice(&bytes[..bytes.len().min(room)]);
            }
            Target::Word => {
                let room = MOST_WORD - self.word.len();
                self.word_is_cut |= bytes.len() > room;
                self.word.extend_from_slice(&bytes[..bytes.len().min(room)]);
            }
        }
    }

    fn escape(&mut self, byte: u8) {
        let character = match byte {
            b'"' | b'\\' | b'/' => byte,
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => {
                (self.state, self.hex, self.hex_left) = (State::Hex, 0, 4);
                return;
            }
            _ => return self.fail(NO_JSON),
        };
        self.state = State::String;
        self.emit(&[character]);
    }

    fn hex(&mut self, byte: u8) {
        let Some(digit) = char::from(byte).to_digit(16) else { return self.fail(NO_JSON) };
        self.hex = self.hex * 16 + digit;
        self.hex_left -= 1;
        if self.hex_left > 0 {
            return;
        }
        let code = match (self.high.take(), self.hex) {
            (None, 0xD800..=0xDBFF) => {
                self.high = Some(self.hex);
                self.state = State::LowEscape;
                return;
            }
            (Some(high), low @ 0xDC00..=0xDFFF) => 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00),
            (Some(_), _) => return self.fail(LONE_SURROGATE),
            (None, code) => code,
        };
        match char::from_u32(code) {
            Some(character) => {
                self.state = State::String;
                self.emit(character.encode_utf8(&mut [0; 4]).as_bytes());
            }
            None => self.fail(LONE_SURROGATE),
        }
    }

    fn string_ends(&mut self) {
        match self.target {
            Target::Key => {
                if let Some(level) = self.levels.last() {
                    self.path.truncate(level.path_len);
                }
                self.path.push('/');
                // A key with a slash in it is none of those that are wanted.
                match str::from_utf8(&self.key).ok().filter(|key| key.len() <= MOST_KEY && !key.contains('/'))
                {
                    Some(key) => {
                        self.path.push_str(key);
                        self.find();
                    }
                    None => self.next = None,
                }
                self.state = State::Colon;
                return;
            }
            Target::OtherKey => {
                self.next = None;
                self.state = State::Colon;
                return;
            }
            Target::Nowhere => {}
            Target::Word => {
                let mut word = String::from_utf8_lossy(&self.word).into_owned();
                if self.word_is_cut {
                    // Equal to no word that is looked for.
                    word.push('…');
                }
                self.keep(FieldValue::Word(word));
            }
            Target::Text => self.keep(FieldValue::Text(self.text_start..self.texts.len())),
        }
        self.after();
    }
}

const NO_OBJECT: &str = "the line is not a JSON object";
const NO_JSON: &str = "the event is not JSON";
const LONE_SURROGATE: &str = "a string of the event has a lone surrogate";
