//! The request's values while a prompt is composed: found fast, each with one origin.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::prompt::{Block, From, Origin, Piece, Supplied, Trust};
use crate::text::Text;

/// Values in the order of their keys.
pub(crate) struct Values<'v>(Vec<Value<'v>>);

pub(crate) struct Value<'v> {
    /// The key's first bytes as a number: most comparisons end there.
    head: u64,
    key: &'v Text,
    text: &'v Text,
    /// Its origin, once it was used.
    used: Option<u32>,
}

impl<'v> Values<'v> {
    pub(crate) fn new(values: &'v BTreeMap<Text, Text>) -> Self {
        Self(values.iter().map(|(key, text)| Value { head: head(key), key, text, used: None }).collect())
    }

    pub(crate) fn get_mut(&mut self, key: &str) -> Option<&mut Value<'v>> {
        let head = head(key);
        let at = self
            .0
            .binary_search_by(|value| value.head.cmp(&head).then_with(|| value.key.as_str().cmp(key)))
            .ok()?;
        self.0.get_mut(at)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn unused(&self) -> impl Iterator<Item = &'v str> {
        self.0.iter().filter(|value| value.used.is_none()).map(|value| value.key.as_str())
    }
}

impl Value<'_> {
    /// Puts the whole value into `block`.
    pub(crate) fn fill(&mut self, origins: &mut Vec<Origin>, block: &mut Block) {
        let origin = *self.used.get_or_insert_with(|| {
            let from = From::Value(self.key.clone());
            origins.push(Origin { from, trust: Trust::Person, text: self.text.clone() });
            u32::try_from(origins.len() - 1).unwrap_or(u32::MAX)
        });
        let at = block.pieces.len();
        block.pieces.push(Piece { origin, start: 0, end: self.text.len() });
        block.supplied.push(Supplied {
            pieces: at..at + 1,
            name: self.key.clone(),
            line: false,
            tagged: false,
        });
    }
}

/// The first eight bytes, so that numbers compare as the keys do.
fn head(key: &str) -> u64 {
    let mut head = [0; 8];
    let length = key.len().min(8);
    head[..length].copy_from_slice(&key.as_bytes()[..length]);
    u64::from_be_bytes(head)
}
