//! The values of a JSON text with their byte ranges.

use std::ops::Range;

/// A JSON value and its range in the text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct JsonSpan {
    /// The range; that of a string includes its quotes.
    pub range: Range<usize>,
    pub shape: JsonShape,
}

/// The kind of a JSON value.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum JsonShape {
    Object(Vec<(String, JsonSpan)>),
    Array(Vec<JsonSpan>),
    Text,
    /// A number, `true`, `false` or `null`.
    Scalar,
}

/// The most levels of arrays and objects, as in `serde_json`.
const MOST_LEVELS: usize = 127;

impl JsonSpan {
    /// Parses a whole text; `None` if it is not JSON.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        // The scan below relies on a text that is valid.
        serde_json::from_str::<serde::de::IgnoredAny>(text).ok()?;
        let mut scan = SpanScanner { text, at: 0 };
        scan.value(MOST_LEVELS)
    }

    /// Returns the value of a key; of several with this key, the last.
    pub(crate) fn get(&self, key: &str) -> Option<&Self> {
        match &self.shape {
            JsonShape::Object(fields) => {
                fields.iter().rev().find(|(name, _)| name == key).map(|(_, value)| value)
            }
            _ => None,
        }
    }

    /// Returns the items of an array; nothing for other values.
    pub(crate) fn items(&self) -> &[Self] {
        if let JsonShape::Array(items) = &self.shape { items } else { &[] }
    }

    /// Returns the string of a key.
    pub(crate) fn text_of(&self, text: &str, key: &str) -> Option<String> {
        let value = self.get(key).filter(|value| value.shape == JsonShape::Text)?;
        serde_json::from_str(&text[value.range.clone()]).ok()
    }

    /// Adds the ranges of all strings that are values, in order.
    pub(crate) fn collect_texts(&self, found: &mut Vec<Range<usize>>) {
        match &self.shape {
            JsonShape::Text => found.push(self.range.clone()),
            JsonShape::Array(items) => items.iter().for_each(|item| item.collect_texts(found)),
            JsonShape::Object(fields) => fields.iter().for_each(|(_, value)| value.collect_texts(found)),
            JsonShape::Scalar => {}
        }
    }
}

struct SpanScanner<'t> {
    text: &'t str,
    at: usize,
}

impl SpanScanner<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// Skips a byte if it is next, and the whitespace before it.
    fn take(&mut self, byte: u8) -> bool {
        self.skip_blanks();
        let is_next = self.peek() == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    fn value(&mut self, levels: usize) -> Option<JsonSpan> {
        self.skip_blanks();
        let start = self.at;
        let shape = match self.peek()? {
            b'{' => self.object(levels.checked_sub(1)?)?,
            b'[' => self.array(levels.checked_sub(1)?)?,
            b'"' => {
                self.string()?;
                JsonShape::Text
            }
            _ => {
                let ends = |c: char| matches!(c, ',' | ']' | '}') || c.is_ascii_whitespace();
                let rest = &self.text[start..];
                self.at += rest.find(ends).unwrap_or(rest.len());
                JsonShape::Scalar
            }
        };
        Some(JsonSpan { range: start..self.at, shape })
    }

    fn object(&mut self, levels: usize) -> Option<JsonShape> {
        self.at += 1;
        let mut fields = Vec::new();
        if self.take(b'}') {
            return Some(JsonShape::Object(fields));
        }
        loop {
            self.skip_blanks();
            let start = self.at;
            self.string()?;
            let key = serde_json::from_str(&self.text[start..self.at]).ok()?;
            self.take(b':').then_some(())?;
            fields.push((key, self.value(levels)?));
            if !self.take(b',') {
                return self.take(b'}').then_some(JsonShape::Object(fields));
            }
        }
    }

    fn array(&mut self, levels: usize) -> Option<JsonShape> {
        self.at += 1;
        let mut items = Vec::new();
        if self.take(b']') {
            return Some(JsonShape::Array(items));
        }
        loop {
            items.push(self.value(levels)?);
            if !self.take(b',') {
                return self.take(b']').then_some(JsonShape::Array(items));
            }
        }
    }

    /// Skips a string with its quotes.
    fn string(&mut self) -> Option<()> {
        self.at += 1;
        loop {
            match self.peek()? {
                b'"' => {
                    self.at += 1;
                    return Some(());
                }
                b'\\' => self.at += 2,
                _ => self.at += 1,
            }
        }
    }
}

/// The contents of a JSON string, and the place of each of its bytes in the JSON text.
#[derive(Debug)]
pub(crate) struct DecodedText {
    pub text: String,
    /// Offsets in `text` from which on the offsets in the JSON text are those beside them, plus the distance.
    steps: Vec<(usize, usize)>,
    /// The offset of the closing quote.
    end: usize,
}

impl DecodedText {
    /// Decodes the string at `range` of a JSON text.
    pub(crate) fn new(json: &str, range: &Range<usize>) -> Option<Self> {
        let raw = json.get(range.clone())?;
        let text: String = serde_json::from_str(raw).ok()?;
        let (mut steps, mut decoded) = (vec![(0, range.start + 1)], 0);
        let inner = &raw.as_bytes()[1..raw.len() - 1];
        let mut at = 0;
        while at < inner.len() {
            if inner[at] != b'\\' {
                at += 1;
                decoded += 1;
                continue;
            }
            let length = if inner[at + 1] == b'u' {
                let unit = |from: usize| u32::from_str_radix(raw.get(from + 1..from + 5)?, 16).ok();
                let first = unit(at + 2)?;
                if (0xd800..0xdc00).contains(&first) { 12 } else { 6 }
            } else {
                2
            };
            decoded += text[decoded..].chars().next()?.len_utf8();
            at += length;
            steps.push((decoded, range.start + 1 + at));
        }
        Some(Self { text, steps, end: range.end - 1 })
    }

    /// Returns the offset in the JSON text of a byte of the contents. An offset inside an escaped character is that of its
    /// beginning.
    pub(crate) fn place(&self, offset: usize) -> usize {
        let next = self.steps.partition_point(|(decoded, _)| *decoded <= offset);
        let (decoded, raw) = self.steps[next.saturating_sub(1)];
        let limit = self.steps.get(next).map_or(self.end, |(_, raw)| *raw);
        (raw + (offset - decoded)).min(limit)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    /// Rebuilds a value from its spans.
    fn rebuild(text: &str, span: &JsonSpan) -> Value {
        match &span.shape {
            JsonShape::Object(fields) => {
                fields.iter().map(|(key, value)| (key.clone(), rebuild(text, value))).collect()
            }
            JsonShape::Array(items) => items.iter().map(|item| rebuild(text, item)).collect(),
            JsonShape::Text | JsonShape::Scalar => serde_json::from_str(&text[span.range.clone()]).unwrap(),
        }
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
            "[\\\\\"\n\u{1F600}a\u{7}é]{0,12}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::btree_map(any::<String>(), inner, 0..6)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn spans_rebuild_any_value(value in any_value(), pretty in any::<bool>()) {
            let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) }.unwrap();
            let span = JsonSpan::parse(&text).unwrap();
            prop_assert_eq!(rebuild(&text, &span), value);
        }

        #[test]
        fn decoded_characters_have_their_places(text in any::<String>(), ascii in any::<bool>()) {
            let mut json = serde_json::to_string(&text).unwrap();
            if ascii {
                json = json.chars().map(|c| if c.is_ascii() { c.to_string() } else {
                    let mut units = [0; 2];
                    c.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")).collect()
                }).collect();
            }
            let decoded = DecodedText::new(&json, &(0..json.len())).unwrap();
            prop_assert_eq!(&decoded.text, &text);
            let mut end = 1;
            for (offset, c) in text.char_indices() {
                let from = decoded.place(offset);
                prop_assert_eq!(from, end);
                end = decoded.place(offset + c.len_utf8());
                let piece: String = serde_json::from_str(&format!("\"{}\"", &json[from..end])).unwrap();
                prop_assert_eq!(piece, c.to_string());
            }
            prop_assert_eq!(end, json.len() - 1);
        }
    }

    #[test]
    fn invalid_json_has_no_spans() {
        for text in ["", "{", "[1,]", "{\"a\":}", "\"\\ud800\"x", "[1] 2", &"[".repeat(100_000)] {
            assert_eq!(JsonSpan::parse(text), None, "{}", &text[..text.len().min(20)]);
        }
        let body = json!({ "a": [1, { "b": "c" }] }).to_string();
        let span = JsonSpan::parse(&body).unwrap();
        assert_eq!(span.get("a").unwrap().items()[1].text_of(&body, "b").as_deref(), Some("c"));
    }
}
