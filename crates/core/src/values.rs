//! The values of a request, and how they are found fast while a prompt is composed.

use alloc::borrow::Cow;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::name::is_name;
use crate::origin::{From, Origin, Trust};
use crate::text::Text;

/// Values for slots in the order of their keys, held as the origins that they are in every prompt made of them.
#[derive(Clone, Default)]
pub struct Values {
    origins: Arc<Vec<Origin>>,
    table: Arc<Table>,
    /// Whether some key is no name.
    strays: bool,
}

impl Values {
    pub fn is_empty(&self) -> bool {
        self.origins.is_empty()
    }

    pub fn get(&self, key: &str) -> Option<&Text> {
        Some(&self.origins[self.find(key)?].text)
    }

    /// Sets a value; an earlier one of this key is gone.
    pub fn insert(&mut self, key: Text, text: Text) {
        let at = self.search(&key);
        self.strays |= !is_name(&key);
        let values = Arc::make_mut(&mut self.origins);
        match at {
            Ok(at) => values[at] = origin(key, text),
            Err(at) => {
                let hash = hash(&key);
                values.insert(at, origin(key, text));
                Arc::make_mut(&mut self.table).insert(at, hash, values);
            }
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = (&Text, &Text)> {
        self.origins.iter().filter_map(|origin| match &origin.from {
            From::Value(key) => Some((key, &origin.text)),
            _ => None,
        })
    }

    pub fn keys(&self) -> impl Iterator<Item = &Text> {
        self.iter().map(|(key, _)| key)
    }

    /// Keys that are no names, and so cannot be in any slot.
    pub(crate) fn strays(&self) -> impl Iterator<Item = &Text> {
        self.strays.then(|| self.keys().filter(|key| !is_name(key))).into_iter().flatten()
    }

    pub(crate) fn origins(&self) -> &Arc<Vec<Origin>> {
        &self.origins
    }

    /// The number of the value, which is that of its origin in every prompt.
    fn find(&self, key: &str) -> Option<usize> {
        for entry in self.table.entries(hash(key)) {
            let number = entry.checked_sub(1)? as usize;
            if key_of(&self.origins[number]) == key {
                return Some(number);
            }
        }
        self.search(key).ok()
    }

    fn search(&self, key: &str) -> Result<usize, usize> {
        self.origins.binary_search_by(|origin| key_of(origin).cmp(key))
    }
}

fn origin(key: Text, text: Text) -> Origin {
    Origin { from: From::Value(key), trust: Trust::Person, text }
}

fn key_of(origin: &Origin) -> &str {
    if let From::Value(key) = &origin.from { key } else { "" }
}

impl FromIterator<(Text, Text)> for Values {
    fn from_iter<I: IntoIterator<Item = (Text, Text)>>(values: I) -> Self {
        let sorted: BTreeMap<Text, Text> = values.into_iter().collect();
        let strays = sorted.keys().any(|key| !is_name(key));
        let origins: Vec<Origin> = sorted.into_iter().map(|(key, text)| origin(key, text)).collect();
        Self { table: Arc::new(Table::of(&origins)), origins: Arc::new(origins), strays }
    }
}

impl<const N: usize> core::convert::From<[(Text, Text); N]> for Values {
    fn from(values: [(Text, Text); N]) -> Self {
        values.into_iter().collect()
    }
}

impl PartialEq for Values {
    fn eq(&self, other: &Self) -> bool {
        self.origins == other.origins
    }
}

impl Eq for Values {}

impl fmt::Debug for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl Serialize for Values {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for Values {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(BTreeMap::<Text, Text>::deserialize(deserializer)?.into_iter().collect())
    }
}

impl JsonSchema for Values {
    fn schema_name() -> Cow<'static, str> {
        BTreeMap::<Text, Text>::schema_name()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        BTreeMap::<Text, Text>::json_schema(generator)
    }
}

/// Where the values are, by the hash of their keys: one more than the number of a value, at the place that its
/// hash gives or a little after it.
#[derive(Clone, Default)]
struct Table(Vec<u32>);

/// How far from its place an entry may lie. What does not fit is found by searching: keys that somebody chose
/// to have one hash cost time, but not the square of it.
const REACH: usize = 8;

impl Table {
    fn of(values: &[Origin]) -> Self {
        let mut table = Self(alloc::vec![0; (values.len() * 2).next_power_of_two() + REACH]);
        for (number, value) in (1..).zip(values) {
            table.put(hash(key_of(value)), number);
        }
        table
    }

    /// Notes that a value has been added `at` this place.
    fn insert(&mut self, at: usize, hash: u32, values: &[Origin]) {
        let number = u32::try_from(at + 1).unwrap_or(u32::MAX);
        if self.0.len() < values.len() * 3 / 2 + REACH {
            *self = Self::of(values);
            return;
        }
        self.0.iter_mut().filter(|entry| **entry >= number).for_each(|entry| *entry += 1);
        self.put(hash, number);
    }

    fn put(&mut self, hash: u32, number: u32) {
        let place = self.place(hash);
        if let Some(free) = self.0[place..place + REACH].iter_mut().find(|entry| **entry == 0) {
            *free = number;
        }
    }

    /// What a value of this hash can be.
    fn entries(&self, hash: u32) -> &[u32] {
        let place = self.place(hash);
        self.0.get(place..place + REACH).unwrap_or_default()
    }

    fn place(&self, hash: u32) -> usize {
        hash as usize & self.0.len().saturating_sub(REACH + 1)
    }
}

/// The values of a request, and which of them were asked for.
pub(crate) struct Lookup<'v> {
    values: &'v Values,
    pub(crate) used: Vec<bool>,
}

impl<'v> Lookup<'v> {
    pub(crate) fn new(values: &'v Values) -> Self {
        Self { values, used: alloc::vec![false; values.origins.len()] }
    }

    /// The number of the value's origin, and how long its text is.
    pub(crate) fn find(&mut self, key: &str) -> Option<(u32, usize)> {
        let at = self.values.find(key)?;
        self.used[at] = true;
        Some((u32::try_from(at).ok()?, self.values.origins[at].text.len()))
    }

    pub(crate) fn unused(&self) -> impl Iterator<Item = &'v str> {
        let unused = self.used.iter().enumerate().filter(|(_, used)| !**used);
        unused.map(|(at, _)| key_of(&self.values.origins[at]))
    }
}

/// A number that keys which differ seldom share: of the first eight bytes, the last eight and the length.
pub(crate) fn hash(key: &str) -> u32 {
    let bytes = key.as_bytes();
    let (first, last) = match (bytes.first_chunk::<8>(), bytes.last_chunk::<8>()) {
        (Some(first), Some(last)) => (u64::from_le_bytes(*first), u64::from_le_bytes(*last)),
        _ => (bytes.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)), 0),
    };
    // Both halves of the product: one alone hardly depends on the first bytes, the other on the last.
    let mixed = u128::from(first ^ last.rotate_left(29) ^ bytes.len() as u64) * 0x9E37_79B9_7F4A_7C15;
    (mixed >> 64) as u32 ^ mixed as u32
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::*;

    fn value(number: usize) -> (Text, Text) {
        (format!("value_{number}").into(), format!("text {number}").into())
    }

    /// Keys that have one hash.
    fn alike(number: usize) -> (Text, Text) {
        (format!("aaaaaaaa{number:04}zzzzzzzz").into(), format!("alike {number}").into())
    }

    #[test]
    fn values_are_found_however_they_came_in() {
        let all = || (0..1_000).map(value).chain((0..40).map(alike));
        let collected: Values = all().collect();
        let mut inserted = Values::default();
        assert_eq!(inserted.get("value_0"), None);
        for (key, text) in (0..40).rev().map(alike).chain((0..1_000).rev().map(value)) {
            inserted.insert(key.clone(), "earlier".into());
            inserted.insert(key, text);
        }
        assert_eq!(inserted, collected);
        for values in [&inserted, &collected] {
            let mut lookup = Lookup::new(values);
            for (key, text) in all() {
                assert_eq!(values.get(&key), Some(&text), "{key}");
                let found = lookup.find(&key).map(|(at, end)| (&values.origins[at as usize].text, end));
                assert_eq!(found, Some((&text, text.len())), "{key}");
                let used = lookup.used.iter().filter(|used| **used).count();
                assert_eq!(lookup.unused().count(), values.origins.len() - used);
            }
            assert_eq!(lookup.unused().next(), None);
            for absent in ["", "value_", "value_1000", "aaaaaaaa0040zzzzzzzz"] {
                assert_eq!(values.get(absent), None, "{absent}");
            }
        }
    }

    #[test]
    fn numbered_keys_spread_over_the_table() {
        let values: Values = (0..16_000).map(value).collect();
        let held = values.table.0.iter().filter(|entry| **entry > 0).count();
        assert!(held > 15_900, "{held} of 16000 are found without searching");
    }
}
