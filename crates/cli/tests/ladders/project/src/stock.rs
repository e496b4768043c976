//! The stock: how many there are of what.

use std::collections::BTreeMap;

use crate::price::Price;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    pub name: String,
    pub price: Price,
}

#[derive(Clone, Debug, Default)]
pub struct Stock {
    counts: BTreeMap<String, u32>,
}

impl Stock {
    pub fn put(&mut self, name: &str, count: u32) {
        *self.counts.entry(name.to_owned()).or_default() += count;
    }

    /// Whether there was one to take.
    pub fn take(&mut self, name: &str) -> bool {
        match self.counts.get_mut(name) {
            Some(count) if *count > 0 => {
                *count -= 1;
                true
            }
            _ => false,
        }
    }
}
