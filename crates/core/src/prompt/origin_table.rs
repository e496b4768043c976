//! The origins of one prompt, by number.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Index;

use crate::request::values::SlotValues;
use crate::source::origin::Origin;

/// All origins of one prompt, by number. The values of the request come first: they are shared with it, so a
/// prompt of a thousand values copies none of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OriginTable {
    values: Arc<Vec<Origin>>,
    own: Vec<Origin>,
}

impl OriginTable {
    pub(crate) fn new(values: &SlotValues) -> Self {
        Self { values: values.origins().clone(), own: Vec::with_capacity(16) }
    }

    /// Returns the origin with this number; `None` if there is none.
    pub fn get(&self, number: u32) -> Option<&Origin> {
        let number = number as usize;
        match number.checked_sub(self.values.len()) {
            None => self.values.get(number),
            Some(own) => self.own.get(own),
        }
    }

    /// Adds an origin and returns its number.
    pub fn push(&mut self, origin: Origin) -> u32 {
        self.own.push(origin);
        u32::try_from(self.values.len() + self.own.len() - 1).unwrap_or(u32::MAX)
    }
}

impl<'o> IntoIterator for &'o OriginTable {
    type Item = &'o Origin;
    type IntoIter = core::iter::Chain<core::slice::Iter<'o, Origin>, core::slice::Iter<'o, Origin>>;

    fn into_iter(self) -> Self::IntoIter {
        self.values.iter().chain(&self.own)
    }
}

/// Panics if there is no such origin, as a slice does; [`OriginTable::get`] does not.
impl Index<u32> for OriginTable {
    type Output = Origin;

    fn index(&self, number: u32) -> &Origin {
        let number = number as usize;
        self.values.get(number).unwrap_or_else(|| &self.own[number - self.values.len()])
    }
}
