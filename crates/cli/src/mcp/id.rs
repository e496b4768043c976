//! The id of a message, as it is written there: answers give it back byte for byte.

use std::ops::Range;

use rmcp::model::RequestId;

/// What a message has for its id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum GivenId {
    #[default]
    None,
    /// A string, or an integer that the library gives back as it was.
    Plain(Vec<u8>),
    /// Another number.
    Odd(Vec<u8>),
    /// What no id can be: null, a truth value, an object, a list, no JSON at all, or more than is kept.
    Bad,
}

impl GivenId {
    fn of(word: &[u8]) -> Self {
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

    /// The bytes to give back, unless there are none.
    pub(super) fn echo(&self) -> Option<&[u8]> {
        match self {
            Self::Plain(word) | Self::Odd(word) => Some(word),
            Self::None | Self::Bad => None,
        }
    }
}

/// Whether JSON calls it a number, however large.
fn is_number(word: &[u8]) -> bool {
    let digits = |word: &[u8]| word.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let rest = word.strip_prefix(b"-").unwrap_or(word);
    let whole = digits(rest);
    if whole == 0 || whole > 1 && rest[0] == b'0' {
        return false;
    }
    let mut rest = &rest[whole..];
    if let Some(fraction) = rest.strip_prefix(b".") {
        let count = digits(fraction);
        if count == 0 {
            return false;
        }
        rest = &fraction[count..];
    }
    if let Some(exponent) = rest.strip_prefix(b"e").or_else(|| rest.strip_prefix(b"E")) {
        let exponent =
            exponent.strip_prefix(b"+").or_else(|| exponent.strip_prefix(b"-")).unwrap_or(exponent);
        return digits(exponent) > 0 && digits(exponent) == exponent.len();
    }
    rest.is_empty()
}

/// Finds the `id` of a message that need not be kept: a value of the outermost object.
#[derive(Debug, Default)]
pub(super) struct IdScan {
    /// How many bytes have been read.
    at: usize,
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// The string, number or word at hand, at the outermost level.
    word: Vec<u8>,
    /// Where it begins and ends.
    place: Range<usize>,
    /// More was there than is kept, or an object or a list.
    is_bad: bool,
    /// Whether the word is the value of `id`.
    is_id: bool,
    found: GivenId,
    found_at: Option<Range<usize>>,
}

impl IdScan {
    /// No client has longer ids.
    const MAX_WORD: usize = 64 * 1024;

    pub(super) fn read(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.step(*byte);
            self.at += 1;
        }
    }

    fn step(&mut self, byte: u8) {
        if self.in_string {
            self.keep(byte);
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
                self.keep(byte);
            }
            b'{' | b'[' => {
                self.is_bad |= self.depth == 1;
                self.depth += 1;
            }
            b'}' | b']' => {
                self.value_ends();
                self.depth = self.depth.saturating_sub(1);
            }
            b',' => self.value_ends(),
            b':' if self.depth == 1 => {
                self.is_id = self.word == br#""id""#;
                self.forget();
            }
            b' ' | b'\t' | b'\r' | b'\n' => {}
            byte => self.keep(byte),
        }
    }

    fn keep(&mut self, byte: u8) {
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

    fn value_ends(&mut self) {
        if self.depth == 1 {
            if std::mem::take(&mut self.is_id) {
                // Whitespace inside of a number would be left out.
                let is_bad = self.is_bad || self.place.len() != self.word.len();
                self.found = if is_bad { GivenId::Bad } else { GivenId::of(&self.word) };
                self.found_at = Some(self.place.clone());
            }
            self.forget();
        }
    }

    fn forget(&mut self) {
        self.word.clear();
        self.is_bad = false;
    }

    /// The id, and where it stands.
    pub(super) fn found(self) -> (GivenId, Option<Range<usize>>) {
        (self.found, self.found_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(message: &str) -> GivenId {
        let mut scan = IdScan::default();
        // In pieces, as it comes from a pipe.
        message.as_bytes().chunks(3).for_each(|part| scan.read(part));
        let (id, place) = scan.found();
        if let (Some(echo), Some(place)) = (id.echo(), place) {
            assert_eq!(echo, &message.as_bytes()[place]);
        }
        id
    }

    #[test]
    fn the_id_is_found_wherever_it_stands() {
        let plain = |text: &str| GivenId::Plain(text.into());
        assert_eq!(id(r#"{"jsonrpc":"2.0","id":7,"method":"x"}"#), plain("7"));
        assert_eq!(
            id(r#"{"method":"x","params":{"id":1,"a":["id",2]},"id" : "seven"}"#),
            plain(r#""seven""#)
        );
        assert_eq!(id(r#"{"params":{"text":"\",\"id\":3,"},"id":-4}"#), plain("-4"));
        assert_eq!(id(r#"{"a":"id","b":1}"#), GivenId::None);
        assert_eq!(id(r#"{"method":"x","params":[]}"#), GivenId::None);
    }

    #[test]
    fn ids_are_told_apart() {
        let of = |text: &str| id(&format!(r#"{{"id":{text},"method":"x"}}"#));
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
