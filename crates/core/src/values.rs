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
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Values {
    origins: Arc<Vec<Origin>>,
    /// Whether some key is no name.
    strays: bool,
}

impl Values {
    pub fn is_empty(&self) -> bool {
        self.origins.is_empty()
    }

    pub fn get(&self, key: &str) -> Option<&Text> {
        Some(&self.origins[self.search(key).ok()?].text)
    }

    /// Sets a value; an earlier one of this key is gone.
    pub fn insert(&mut self, key: Text, text: Text) {
        let at = self.search(&key);
        self.strays |= !is_name(&key);
        let values = Arc::make_mut(&mut self.origins);
        match at {
            Ok(at) => values[at] = origin(key, text),
            Err(at) => values.insert(at, origin(key, text)),
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
        Self { origins: Arc::new(sorted.into_iter().map(|(key, text)| origin(key, text)).collect()), strays }
    }
}

impl<const N: usize> core::convert::From<[(Text, Text); N]> for Values {
    fn from(values: [(Text, Text); N]) -> Self {
        values.into_iter().collect()
    }
}

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

/// Finds values by the hash of their keys, and knows which were asked for.
pub(crate) struct Lookup<'v> {
    values: &'v Values,
    /// One more than the place of a value, at the place that its hash gives or a little after it.
    table: Vec<u32>,
    pub(crate) used: Vec<bool>,
}

/// How far from its place an entry may lie. What does not fit is found by searching: keys that somebody chose
/// to have one hash cost time, but not the square of it.
const REACH: usize = 8;

impl<'v> Lookup<'v> {
    pub(crate) fn new(values: &'v Values) -> Self {
        let count = values.origins.len();
        let mut table = alloc::vec![0; (count * 2).next_power_of_two() + REACH];
        for (number, key) in (1..).zip(values.keys()) {
            let place = place(hash(key), table.len());
            if let Some(free) = table[place..place + REACH].iter_mut().find(|entry| **entry == 0) {
                *free = number;
            }
        }
        Self { values, table, used: alloc::vec![false; count] }
    }

    /// The number of the value, which is that of its origin, and how long its text is.
    pub(crate) fn find(&mut self, key: &str, hash: u32) -> Option<(u32, usize)> {
        let origins = &*self.values.origins;
        let place = place(hash, self.table.len());
        for entry in &self.table[place..place + REACH] {
            let number = entry.checked_sub(1)?;
            let origin = &origins[number as usize];
            if key_of(origin) == key {
                self.used[number as usize] = true;
                return Some((number, origin.text.len()));
            }
        }
        let at = self.values.search(key).ok()?;
        self.used[at] = true;
        Some((u32::try_from(at).ok()?, origins[at].text.len()))
    }

    pub(crate) fn unused(&self) -> impl Iterator<Item = &'v str> {
        self.values.keys().zip(&self.used).filter(|(_, used)| !**used).map(|(key, _)| key.as_str())
    }
}

fn place(hash: u32, table: usize) -> usize {
    hash as usize & (table - REACH - 1)
}

/// A number that keys which differ seldom share: of the first eight bytes, the last eight and the length.
pub(crate) fn hash(key: &str) -> u32 {
    let bytes = key.as_bytes();
    let (first, last) = match (bytes.first_chunk::<8>(), bytes.last_chunk::<8>()) {
        (Some(first), Some(last)) => (u64::from_le_bytes(*first), u64::from_le_bytes(*last)),
        _ => (bytes.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)), 0),
    };
    let mixed = (first ^ last.rotate_left(29) ^ bytes.len() as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed >> 32) as u32
}
