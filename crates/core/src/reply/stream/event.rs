//! One event of a stream: the values at its places, and whether a rule fits it.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ops::Range;

use super::json::{FieldValue, JsonReader, WantedForm};
use crate::library::agent::{EventRule, StreamSpec, ValueTest, fits_any};

/// Returns the places that a stream's rules name, each with the form of its value.
pub(super) fn wanted_fields(spec: &StreamSpec) -> Vec<(String, WantedForm)> {
    let mut wanted: Vec<(String, WantedForm)> = Vec::new();
    let mut want = |place: &str, form: WantedForm| match wanted.iter_mut().find(|(known, _)| known == place) {
        Some((_, known)) => *known = known.join(form),
        None => wanted.push((place.to_string(), form)),
    };
    let mut want_all = |place: &str, form: WantedForm| {
        // The objects around the value.
        for (at, _) in place.match_indices('/').skip(1) {
            want(&place[..at], WantedForm::Inside);
        }
        want(place, form);
    };
    spec.word_places().for_each(|place| want_all(place, WantedForm::Word));
    spec.text_places().for_each(|place| want_all(place, WantedForm::Text));
    for parts in spec.parts() {
        want_all(&parts.at, WantedForm::TextOrInside);
        want_all(&[&parts.item(), parts.type_at.as_str()].concat(), WantedForm::Word);
        want_all(&[&parts.item(), parts.text.as_str()].concat(), WantedForm::Text);
    }
    wanted
}

/// The most bytes of a text that are shown as the reason of a failure.
const MOST_WHY: usize = 1000;

/// An event of a stream.
pub(super) struct StreamEvent<'j> {
    pub(super) json: &'j mut JsonReader,
    /// A text of the agent is not a string, so its content is unknown.
    pub(super) is_unreadable: bool,
    /// The meaning of the event is known: its text is taken, or it holds no words of the agent.
    pub(super) is_understood: bool,
}

impl StreamEvent<'_> {
    /// Checks whether the rule fits this event of type `kind`.
    pub(super) fn fits(&self, rule: &EventRule, kind: &str) -> bool {
        fits_any(&rule.types, kind) && rule.when.iter().all(|(place, test)| self.passes(place, test))
    }

    fn passes(&self, place: &str, test: &ValueTest) -> bool {
        match test {
            ValueTest::Bool(true) => matches!(self.value(place), Some(FieldValue::True)),
            ValueTest::Bool(false) => matches!(self.value(place), Some(FieldValue::False)),
            ValueTest::Number(wanted) => {
                matches!(self.value(place), Some(FieldValue::Number(number)) if *number == wanted.to_string())
            }
            ValueTest::Words(words) => self.word(place).is_some_and(|word| fits_any(words, word)),
            ValueTest::Other(test) => {
                let word = self.word(place);
                test.given.is_none_or(|given| given == self.is_given(place))
                    && (test.not.is_empty() || word.is_some_and(|word| !fits_any(&test.not, word)))
                    && (test.absent_or.is_empty() || word.is_none_or(|word| fits_any(&test.absent_or, word)))
            }
        }
    }

    /// Returns the error that the event reports in its fields.
    pub(super) fn find_error(&self, spec: &StreamSpec) -> Option<String> {
        let error = spec.errors.iter().find(|place| self.is_filled(place));
        let error = error.map(|place| self.word(place).unwrap_or("an event reports an error").to_string());
        error.or_else(|| {
            let mut states = spec.states.iter().filter_map(|place| self.word(place));
            states.find(|state| reports_failure(state)).map(ToString::to_string)
        })
    }

    /// Checks whether the value at `place` exists and is not empty: not `null`, `false`, `0`, `""`, `[]` or
    /// `{}`.
    fn is_filled(&self, place: &str) -> bool {
        match self.value(place) {
            None | Some(FieldValue::Null | FieldValue::False | FieldValue::Empty) => false,
            Some(FieldValue::Word(word)) => !word.is_empty(),
            Some(FieldValue::Text(range)) => !range.is_empty(),
            Some(FieldValue::Number(number)) => number != "0",
            Some(FieldValue::True | FieldValue::List | FieldValue::Other) => true,
        }
    }

    pub(super) fn value(&self, place: &str) -> Option<&FieldValue> {
        self.json.fields.iter().find(|field| self.json.place(field) == place).map(|field| &field.value)
    }

    pub(super) fn word(&self, place: &str) -> Option<&str> {
        match self.value(place) {
            Some(FieldValue::Word(word)) => Some(word),
            _ => None,
        }
    }

    /// Returns the word at a place that a rule may name.
    pub(super) fn word_at(&self, place: Option<&String>) -> Option<String> {
        self.word(place?).map(ToString::to_string)
    }

    /// Returns a text of the agent. A value that exists and is not a string makes the event unreadable.
    pub(super) fn text(&mut self, place: &str) -> Option<Range<usize>> {
        match self.value(place) {
            Some(FieldValue::Text(range)) => Some(range.clone()),
            None | Some(FieldValue::Null) => None,
            Some(_) => {
                self.is_unreadable = true;
                None
            }
        }
    }

    /// Returns the reason of a failure: a word, or the start of a text that is not empty.
    pub(super) fn reason(&mut self, place: &str) -> Option<String> {
        let Some(FieldValue::Text(range)) = self.value(place) else {
            return self.word(place).map(ToString::to_string);
        };
        let range = range.start..range.end.min(range.start + MOST_WHY);
        let mut why = String::new();
        self.json.texts.for_each_piece(range, |piece| why.push_str(&String::from_utf8_lossy(piece)));
        Some(why).filter(|why| !why.is_empty())
    }

    fn is_given(&self, place: &str) -> bool {
        self.value(place).is_some_and(|value| !matches!(value, FieldValue::Null))
    }
}

/// Checks whether a type or a status of any CLI reports a failure: `session.error`, `turnFailed`,
/// `timed_out`.
pub(super) fn reports_failure(kind: &str) -> bool {
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
