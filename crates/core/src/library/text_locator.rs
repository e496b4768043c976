//! Locates values in a TOML or JSON text: converts a path of keys into a byte range.
//!
//! The texts were parsed before, so this module reports no mistakes.

use alloc::string::String;
use core::fmt;
use core::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::library::read_toml::FileFormat;

/// One step down into a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PathStep {
    Key(String),
    Index(usize),
}

/// A path as people write it: `context[1].type`.
pub(crate) struct ValuePath<'p>(pub(crate) &'p [PathStep]);

impl fmt::Display for ValuePath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, step) in self.0.iter().enumerate() {
            match step {
                PathStep::Key(key) if at == 0 => f.write_str(key)?,
                PathStep::Key(key) => write!(f, ".{key}")?,
                PathStep::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

/// A text in which values are located.
pub(crate) enum TextLocator<'t> {
    Toml(Option<Spanned<DeTable<'t>>>),
    Json(&'t str),
}

impl<'t> TextLocator<'t> {
    pub(crate) fn new(text: &'t str, notation: FileFormat) -> Self {
        match notation {
            FileFormat::Toml => Self::Toml(DeTable::parse(text).ok()),
            FileFormat::Json => Self::Json(text),
        }
    }

    /// Finds the key at the end of `path`, or the last key on the path that the text contains.
    pub(crate) fn find(&self, path: &[PathStep]) -> Option<Range<usize>> {
        match self {
            Self::Toml(root) => find_in_toml(root.as_ref()?, path),
            Self::Json(text) => JsonCursor { text, at: 0 }.find(path),
        }
    }
}

fn find_in_toml(root: &Spanned<DeTable<'_>>, path: &[PathStep]) -> Option<Range<usize>> {
    let (PathStep::Key(first), rest) = path.split_first()? else { return None };
    let (key, value) = root.get_ref().get_key_value(first.as_str())?;
    let (mut found, mut value) = (key.span(), value);
    for step in rest {
        let (place, next) = match (step, value.get_ref()) {
            (PathStep::Key(key), DeValue::Table(table)) => {
                let Some((key, value)) = table.get_key_value(key.as_str()) else { break };
                (key.span(), value)
            }
            (PathStep::Index(index), DeValue::Array(items)) => {
                let Some(value) = items.get(*index) else { break };
                (value.span(), value)
            }
            _ => break,
        };
        (found, value) = (place, next);
    }
    Some(found)
}

/// A cursor in a JSON text.
struct JsonCursor<'t> {
    text: &'t str,
    at: usize,
}

impl JsonCursor<'_> {
    fn find(&mut self, path: &[PathStep]) -> Option<Range<usize>> {
        let mut found = None;
        for step in path {
            let place = match step {
                PathStep::Key(key) => self.enter_key(key),
                PathStep::Index(index) => self.enter_index(*index),
            };
            match place {
                Some(place) => found = Some(place),
                None => break,
            }
        }
        found
    }

    /// Moves to the value of the key `wanted`. Returns the range of the key.
    fn enter_key(&mut self, wanted: &str) -> Option<Range<usize>> {
        self.take_char('{')?;
        let mut last = None;
        loop {
            let key = self.skip_string()?;
            self.take_char(':')?;
            // Of two equal keys the last one counts.
            if serde_json::from_str::<String>(&self.text[key.clone()]).is_ok_and(|key| key == wanted) {
                last = Some((key.start + 1..key.end - 1, self.at));
            }
            self.skip_value()?;
            if self.take_char(',').is_none() {
                break;
            }
        }
        let (place, value) = last?;
        self.at = value;
        Some(place)
    }

    /// Moves to an element. Returns its range.
    fn enter_index(&mut self, index: usize) -> Option<Range<usize>> {
        self.take_char('[')?;
        for _ in 0..index {
            self.skip_value()?;
            self.take_char(',')?;
        }
        let start = self.skip_whitespace();
        self.skip_value()?;
        let end = core::mem::replace(&mut self.at, start);
        Some(start..end)
    }

    fn skip_whitespace(&mut self) -> usize {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
        self.at
    }

    fn take_char(&mut self, wanted: char) -> Option<()> {
        self.skip_whitespace();
        self.text[self.at..].starts_with(wanted).then(|| self.at += 1)
    }

    /// Skips a string. Returns its range, quotes included.
    fn skip_string(&mut self) -> Option<Range<usize>> {
        self.take_char('"')?;
        let start = self.at - 1;
        let mut escaped = false;
        for (at, byte) in self.text[self.at..].bytes().enumerate() {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => {
                    self.at += at + 1;
                    return Some(start..self.at);
                }
                _ => {}
            }
        }
        None
    }

    fn skip_value(&mut self) -> Option<()> {
        let mut depth = 0_usize;
        loop {
            self.skip_whitespace();
            match self.text[self.at..].bytes().next()? {
                b'"' => {
                    self.skip_string()?;
                }
                b'{' | b'[' => {
                    depth += 1;
                    self.at += 1;
                }
                b'}' | b']' => {
                    depth = depth.checked_sub(1)?;
                    self.at += 1;
                }
                b',' | b':' => self.at += 1,
                _ => {
                    let rest = &self.text[self.at..];
                    self.at += rest.find([',', ':', ']', '}']).unwrap_or(rest.len());
                }
            }
            if depth == 0 {
                return Some(());
            }
        }
    }
}
