//! Finds the id of a message and keeps its bytes: answers repeat it byte for byte.

use std::ops::Range;

use rmcp::model::RequestId;
use serde::de::IgnoredAny;

/// The id of a message, as far as it has a valid one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum GivenId {
    #[default]
    None,
    /// A string, or an integer that the library writes back unchanged.
    Plain(Vec<u8>),
    /// Any other number.
    Odd(Vec<u8>),
    /// Not a valid id: null, a boolean, an object, an array, invalid JSON, or more bytes than are kept.
    Bad,
}

impl GivenId {
    fn from_word(word: &[u8]) -> Self {
        let parsed: Option<RequestId> = serde_json::from_slice(word).ok();
        match parsed {
            Some(RequestId::String(_)) => Self::Plain(word.to_vec()),
            Some(RequestId::Number(number)) if number.to_string().as_bytes() == word => {
                Self::Plain(word.to_vec())
            }
            _ if is_number(word) => Self::Odd(word.to_vec()),
            _ => Self::Bad,
        }
    }

    /// Returns the bytes to repeat in the answer, or `None` without a valid id.
    pub(super) fn echo(&self) -> Option<&[u8]> {
        match self {
            Self::Plain(word) | Self::Odd(word) => Some(word),
            Self::None | Self::Bad => None,
        }
    }
}

/// Checks whether `word` is a JSON number of any size.
fn is_number(word: &[u8]) -> bool {
    let begins = word.first().is_some_and(|byte| *byte == b'-' || byte.is_ascii_digit());
    begins && serde_json::from_slice::<IgnoredAny>(word).is_ok()
}

/// Scanner that finds the `id` in the outermost object of a message, without keeping the message.
#[derive(Debug, Default)]
pub(super) struct IdScan {
    /// Number of bytes read.
    at: usize,
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// The current string, number or literal, at the outermost level.
    word: Vec<u8>,
    /// The byte range of `word`.
    place: Range<usize>,
    /// Whether the value is longer than the limit, an object or an array.
    is_bad: bool,
    /// Whether `word` is the value of `id`.
    is_id: bool,
    found: GivenId,
    found_at: Option<Range<usize>>,
}

impl IdScan {
    /// Well above the ids of any client.
    const MAX_WORD: usize = 64 * 1024;

    pub(super) fn read(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.read_byte(*byte);
            self.at += 1;
        }
    }

    fn read_byte(&mut self, byte: u8) {
        if self.in_string {
            self.keep_byte(byte);
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => self.in_string = false,
                _ => {}
            }
            return;
        }
        match byte {
            b'"' => {
                self.in_string = true;
                self.keep_byte(byte);
            }
            b'{' | b'[' => {
                self.is_bad |= self.depth == 1;
                self.depth += 1;
            }
            b'}' | b']' => {
                self.end_value();
                self.depth = self.depth.saturating_sub(1);
            }
            b',' => self.end_value(),
            b':' if self.depth == 1 => {
                self.is_id = self.word == br#""id""#;
                self.clear_word();
            }
            b' ' | b'\t' | b'\r' | b'\n' => {}
            byte => self.keep_byte(byte),
        }
    }

    fn keep_byte(&mut self, byte: u8) {
        if self.depth != 1 {
            return;
        }
        if self.word.is_empty() {
            self.place.start = self.at;
        }
        self.place.end = self.at + 1;
        match self.word.len() < Self::MAX_WORD {
            true => self.word.push(byte),
            false => self.is_bad = true,
        }
    }

    fn end_value(&mut self) {
        if self.depth == 1 {
            if std::mem::take(&mut self.is_id) {
                // `word` lacks whitespace, so `1 2` would become a number.
                let is_bad = self.is_bad || self.place.len() != self.word.len();
                self.found = if is_bad { GivenId::Bad } else { GivenId::from_word(&self.word) };
                self.found_at = Some(self.place.clone());
            }
            self.clear_word();
        }
    }

    fn clear_word(&mut self) {
        self.word.clear();
        self.is_bad = false;
    }

    /// Returns the id and its byte range.
    pub(super) fn finish(self) -> (GivenId, Option<Range<usize>>) {
        (self.found, self.found_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan_id(message: &str) -> GivenId {
        let mut scan = IdScan::default();
        // In pieces, as from a pipe.
        message.as_bytes().chunks(3).for_each(|part| scan.read(part));
        let (id, place) = scan.finish();
        if let (Some(echo), Some(place)) = (id.echo(), place) {
            assert_eq!(echo, &message.as_bytes()[place]);
        }
        id
    }

    #[test]
    fn id_is_found_at_any_position() {
        let plain = |text: &str| GivenId::Plain(text.into());
        assert_eq!(scan_id(r#"{"jsonrpc":"2.0","id":7,"method":"x"}"#), plain("7"));
        assert_eq!(
            scan_id(r#"{"method":"x","params":{"id":1,"a":["id",2]},"id" : "seven"}"#),
            plain(r#""seven""#)
        );
        assert_eq!(scan_id(r#"{"params":{"text":"\",\"id\":3,"},"id":-4}"#), plain("-4"));
        assert_eq!(scan_id(r#"{"a":"id","b":1}"#), GivenId::None);
        assert_eq!(scan_id(r#"{"method":"x","params":[]}"#), GivenId::None);
    }

    #[test]
    fn ids_are_classified_by_kind() {
        let of = |text: &str| scan_id(&format!(r#"{{"id":{text},"method":"x"}}"#));
        for odd in
            ["1.5", "1.0", "-0", "-0.0", "1e2", "1E-7", "1e400", "9223372036854775808", "-1e+30", "0.1"]
        {
            assert_eq!(of(odd), GivenId::Odd(odd.into()), "{odd}");
        }
        for plain in ["0", "-1", "9223372036854775807", "\"\"", "\"a\\u0062\"", "\"1.5\""] {
            assert_eq!(of(plain), GivenId::Plain(plain.into()), "{plain}");
        }
        for bad in [
            "null",
            "true",
            "{}",
            "[]",
            "{\"id\":1}",
            "[1]",
            "01",
            "1.",
            ".5",
            "1e",
            "+1",
            "NaN",
            "--1",
            "1 2",
            "1. 5",
        ] {
            assert_eq!(of(bad), GivenId::Bad, "{bad}");
        }
        assert_eq!(of(&format!("\"{}\"", "x".repeat(IdScan::MAX_WORD))), GivenId::Bad);
    }
}
