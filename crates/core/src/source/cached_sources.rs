//! A cache over sources, for a caller that composes from the same files again and again.

use alloc::collections::BTreeMap;
use core::cell::RefCell;

use crate::source::{Listing, ListingLimits, SourceError, SourceId, Sources};
use crate::text::SharedText;

/// A cache that reads each text and each listing once.
#[derive(Clone, Debug)]
pub struct CachedSources<S> {
    sources: S,
    texts: RefCell<BTreeMap<SourceId, Option<SharedText>>>,
    lists: RefCell<BTreeMap<(SourceId, ListingLimits), Option<Listing>>>,
}

impl<S: Sources> CachedSources<S> {
    /// Creates an empty cache over `sources`.
    pub fn new(sources: S) -> Self {
        Self { sources, texts: RefCell::default(), lists: RefCell::default() }
    }

    /// Drops every cached answer.
    pub(crate) fn clear(&mut self) {
        self.texts.borrow_mut().clear();
        self.lists.borrow_mut().clear();
    }
}

impl<S: Sources> Sources for CachedSources<S> {
    fn text(&self, id: &SourceId) -> Result<Option<SharedText>, SourceError> {
        if let Some(known) = self.texts.borrow().get(id) {
            return Ok(known.clone());
        }
        let answer = self.sources.text(id)?;
        self.texts.borrow_mut().insert(id.clone(), answer.clone());
        Ok(answer)
    }

    fn list(&self, dir: &SourceId, limits: ListingLimits) -> Result<Option<Listing>, SourceError> {
        let key = (dir.clone(), limits);
        if let Some(known) = self.lists.borrow().get(&key) {
            return Ok(known.clone());
        }
        let answer = self.sources.list(dir, limits)?;
        self.lists.borrow_mut().insert(key, answer.clone());
        Ok(answer)
    }
}
