//! The values of a request, in a table that finds them quickly while a prompt is composed.

use alloc::borrow::Cow;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use hashbrown::HashTable;
use serde::de::{DeserializeSeed, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::source::origin::{Origin, OriginKind, Trust};
use crate::text::name::is_name;
use crate::text::{SHORT, SharedText};

/// The most values with similar hashes in the table. The others are found by binary search, so keys that were
/// chosen to share one hash cost time, but not quadratic time.
const MOST_ALIKE: usize = 8;

/// Values for slots in the order of their keys, stored as the origins that every prompt made from them
/// shares.
#[derive(Clone, Default)]
pub struct SlotValues {
    origins: Arc<Vec<Origin>>,
    /// Numbers of values, by the hashes of their keys.
    table: Arc<HashTable<u32>>,
    /// Whether some key is not a name.
    has_invalid_keys: bool,
}

impl SlotValues {
    /// Returns whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.origins.is_empty()
    }

    /// Returns the value of `key`.
    pub fn get(&self, key: &str) -> Option<&SharedText> {
        Some(&self.origins[self.find(key)?].text)
    }

    /// Sets a value. Replaces an earlier one with the same key.
    pub fn insert(&mut self, key: SharedText, text: SharedText) {
        let at = self.search(&key);
        self.has_invalid_keys |= !is_name(&key);
        let values = Arc::make_mut(&mut self.origins);
        match at {
            Ok(at) => values[at] = value_origin(key, text),
            Err(at) => {
                values.insert(at, value_origin(key, text));
                let number = at as u32;
                let table = Arc::make_mut(&mut self.table);
                table.iter_mut().filter(|later| **later >= number).for_each(|later| *later += 1);
                add_number(table, number, values);
            }
        }
    }

    /// Iterates over keys and values, in the order of the keys.
    pub fn iter(&self) -> impl Iterator<Item = (&SharedText, &SharedText)> {
        self.origins.iter().filter_map(|origin| match &origin.from {
            OriginKind::Value(key) => Some((key, &origin.text)),
            _ => None,
        })
    }

    /// Iterates over the keys in order.
    pub fn keys(&self) -> impl Iterator<Item = &SharedText> {
        self.iter().map(|(key, _)| key)
    }

    /// Returns the keys that are not names, and so cannot be in any slot.
    pub(crate) fn invalid_keys(&self) -> impl Iterator<Item = &SharedText> {
        self.has_invalid_keys.then(|| self.keys().filter(|key| !is_name(key))).into_iter().flatten()
    }

    pub(crate) fn origins(&self) -> &Arc<Vec<Origin>> {
        &self.origins
    }

    /// Returns the number of the value, which is also the number of its origin in every prompt.
    fn find(&self, key: &str) -> Option<usize> {
        let is_key = |number: &u32| origin_key(&self.origins[*number as usize]) == key;
        match self.table.find(hash_key(key), is_key) {
            Some(number) => Some(*number as usize),
            None if self.table.len() == self.origins.len() => None,
            None => self.search(key).ok(),
        }
    }

    /// Creates the values from origins that are sorted by their keys.
    fn from_sorted(origins: Vec<Origin>) -> Self {
        let mut table = HashTable::with_capacity(origins.len());
        (0..origins.len() as u32).for_each(|number| add_number(&mut table, number, &origins));
        let has_invalid_keys = origins.iter().any(|origin| !is_name(origin_key(origin)));
        Self { origins: Arc::new(origins), table: Arc::new(table), has_invalid_keys }
    }

    fn search(&self, key: &str) -> Result<usize, usize> {
        self.origins.binary_search_by(|origin| origin_key(origin).cmp(key))
    }
}

/// Adds the number of a value to the table, unless too many hashes are alike.
fn add_number(table: &mut HashTable<u32>, number: u32, values: &[Origin]) {
    let hash_value = |number: &u32| hash_key(origin_key(&values[*number as usize]));
    let hash = hash_value(&number);
    if table.iter_hash(hash).take(MOST_ALIKE).count() < MOST_ALIKE {
        table.insert_unique(hash, number, hash_value);
    }
}

fn value_origin(key: SharedText, text: SharedText) -> Origin {
    Origin { from: OriginKind::Value(key), trust: Trust::Person, text }
}

fn origin_key(origin: &Origin) -> &str {
    if let OriginKind::Value(key) = &origin.from { key } else { "" }
}

impl<K: Into<SharedText>, V: Into<SharedText>> FromIterator<(K, V)> for SlotValues {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(values: I) -> Self {
        let values = values.into_iter().map(|(key, text)| (key.into(), text.into()));
        let sorted: BTreeMap<SharedText, SharedText> = values.collect();
        Self::from_sorted(sorted.into_iter().map(|(key, text)| value_origin(key, text)).collect())
    }
}

impl<K: Into<SharedText>, V: Into<SharedText>> Extend<(K, V)> for SlotValues {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, values: I) {
        let own = self.iter().map(|(key, text)| (key.clone(), text.clone()));
        let new = values.into_iter().map(|(key, text)| (key.into(), text.into()));
        *self = own.chain(new).collect();
    }
}

impl<K: Into<SharedText>, V: Into<SharedText>, const N: usize> From<[(K, V); N]> for SlotValues {
    fn from(values: [(K, V); N]) -> Self {
        values.into_iter().collect()
    }
}

impl<K: Into<SharedText>, V: Into<SharedText>> From<Vec<(K, V)>> for SlotValues {
    fn from(values: Vec<(K, V)>) -> Self {
        values.into_iter().collect()
    }
}

impl<K: Into<SharedText>, V: Into<SharedText>> From<BTreeMap<K, V>> for SlotValues {
    fn from(values: BTreeMap<K, V>) -> Self {
        values.into_iter().collect()
    }
}

impl PartialEq for SlotValues {
    fn eq(&self, other: &Self) -> bool {
        self.origins == other.origins
    }
}

impl Eq for SlotValues {}

impl fmt::Debug for SlotValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl Serialize for SlotValues {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for SlotValues {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(PackedValues::default())
    }
}

/// Values while they are read. Short ones share one text, because an allocation for each would take more
/// memory than its bytes.
#[derive(Default)]
struct PackedValues {
    packed: String,
    /// Texts that are not packed.
    long: Vec<SharedText>,
    /// Keys and values, in the order of the input.
    entries: Vec<[PackedRange; 2]>,
}

/// The first byte in the packed text and the one after the last; or the number of a long text, and [`LONG`].
type PackedRange = (u32, u32);

const LONG: u32 = u32::MAX;

impl PackedValues {
    fn add(&mut self, text: Cow<'_, str>) -> PackedRange {
        let number = |number: usize| u32::try_from(number).unwrap_or(LONG);
        let (start, end) = (self.packed.len(), self.packed.len() + text.len());
        if text.len() >= SHORT || number(end) == LONG {
            self.long.push(SharedText::from(text.into_owned()));
            return (number(self.long.len() - 1), LONG);
        }
        self.packed.push_str(&text);
        (number(start), number(end))
    }

    fn text(&self, at: PackedRange) -> &str {
        match at {
            (number, LONG) => self.long.get(number as usize).map_or("", SharedText::as_str),
            (start, end) => self.packed.get(start as usize..end as usize).unwrap_or_default(),
        }
    }

    fn finish(mut self) -> SlotValues {
        let mut entries = core::mem::take(&mut self.entries);
        entries.sort_by(|[a, _], [b, _]| self.text(*a).cmp(self.text(*b)));
        // Of two values of one key the later one counts.
        entries.dedup_by(|later, earlier| {
            let same = self.text(later[0]) == self.text(earlier[0]);
            if same {
                *earlier = *later;
            }
            same
        });
        self.packed.shrink_to_fit();
        let whole = Arc::new(self.packed);
        let text = |(start, end): PackedRange| match end {
            LONG => self.long.get(start as usize).cloned().unwrap_or_default(),
            _ => SharedText::from_part(&whole, start as usize..end as usize).unwrap_or_default(),
        };
        let origins = entries.into_iter().map(|[key, value]| value_origin(text(key), text(value)));
        SlotValues::from_sorted(origins.collect())
    }
}

impl<'de> Visitor<'de> for PackedValues {
    type Value = SlotValues;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<M: MapAccess<'de>>(mut self, mut map: M) -> Result<SlotValues, M::Error> {
        while let Some(key) = map.next_key_seed(PackedTextSeed(&mut self))? {
            let value = map.next_value_seed(PackedTextSeed(&mut self))?;
            self.entries.push([key, value]);
        }
        Ok(self.finish())
    }
}

/// A reader of one text into [`PackedValues`].
struct PackedTextSeed<'p>(&'p mut PackedValues);

impl<'de> DeserializeSeed<'de> for PackedTextSeed<'_> {
    type Value = PackedRange;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<PackedRange, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for PackedTextSeed<'_> {
    type Value = PackedRange;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E>(self, text: &str) -> Result<PackedRange, E> {
        Ok(self.0.add(text.into()))
    }

    fn visit_string<E>(self, text: String) -> Result<PackedRange, E> {
        Ok(self.0.add(text.into()))
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for SlotValues {
    fn schema_name() -> Cow<'static, str> {
        BTreeMap::<SharedText, SharedText>::schema_name()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        BTreeMap::<SharedText, SharedText>::json_schema(generator)
    }
}

/// The values of a request, and which of them were used.
pub(crate) struct ValueLookup<'v> {
    values: &'v SlotValues,
    pub(crate) used: Vec<bool>,
}

impl<'v> ValueLookup<'v> {
    pub(crate) fn new(values: &'v SlotValues) -> Self {
        Self { values, used: alloc::vec![false; values.origins.len()] }
    }

    /// Finds a value and marks it as used. Returns the number of its origin and the length of its text.
    pub(crate) fn find(&mut self, key: &str) -> Option<(u32, usize)> {
        let at = self.values.find(key)?;
        self.used[at] = true;
        Some((u32::try_from(at).ok()?, self.values.origins[at].text.len()))
    }

    pub(crate) fn unused(&self) -> impl Iterator<Item = &'v str> {
        let unused = self.used.iter().enumerate().filter(|(_, used)| !**used);
        unused.map(|(at, _)| origin_key(&self.values.origins[at]))
    }
}

/// Hashes the first eight bytes, the last eight and the length of a key. Different keys seldom share a hash.
pub(crate) fn hash_key(key: &str) -> u64 {
    let bytes = key.as_bytes();
    let (first, last) = match (bytes.first_chunk::<8>(), bytes.last_chunk::<8>()) {
        (Some(first), Some(last)) => (u64::from_le_bytes(*first), u64::from_le_bytes(*last)),
        _ => (bytes.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)), 0),
    };
    // Both halves of the product are used: one hardly depends on the first bytes, the other hardly on the
    // last.
    let mixed = u128::from(first ^ last.rotate_left(29) ^ bytes.len() as u64) * 0x9E37_79B9_7F4A_7C15;
    (mixed >> 64) as u64 ^ mixed as u64
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::*;

    fn numbered_value(number: usize) -> (SharedText, SharedText) {
        (format!("value_{number}").into(), format!("text {number}").into())
    }

    /// Returns a value whose key has the same hash for every number.
    fn colliding_value(number: usize) -> (SharedText, SharedText) {
        (format!("aaaaaaaa{number:04}zzzzzzzz").into(), format!("alike {number}").into())
    }

    #[test]
    fn values_are_found_by_key() {
        let all = || (0..1_000).map(numbered_value).chain((0..40).map(colliding_value));
        let collected: SlotValues = all().collect();
        let mut inserted = SlotValues::default();
        assert_eq!(inserted.get("value_0"), None);
        for (key, text) in (0..40).rev().map(colliding_value).chain((0..1_000).rev().map(numbered_value)) {
            inserted.insert(key.clone(), "earlier".into());
            inserted.insert(key, text);
        }
        assert_eq!(inserted, collected);
        for values in [&inserted, &collected] {
            let mut lookup = ValueLookup::new(values);
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
        let values: SlotValues = (0..16_000).map(numbered_value).collect();
        let held = values.table.len();
        assert!(held > 15_900, "{held} of 16000 are found without searching");
    }
}
