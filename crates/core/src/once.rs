//! Sources that are asked once: for a caller that composes from the same files again and again.

use alloc::collections::BTreeMap;
use core::cell::RefCell;

use crate::source::{Limits, Listing, SourceError, SourceId, Sources};
use crate::text::Text;

/// Asks for each text and each listing once and then keeps the answer.
#[derive(Clone, Debug)]
pub(crate) struct ReadOnce<S> {
    sources: S,
    texts: RefCell<BTreeMap<SourceId, Option<Text>>>,
    lists: RefCell<BTreeMap<(SourceId, Limits), Option<Listing>>>,
}

impl<S: Sources> ReadOnce<S> {
    pub(crate) fn new(sources: S) -> Self {
        Self { sources, texts: RefCell::default(), lists: RefCell::default() }
    }

    /// Forgets every answer.
    pub(crate) fn forget(&mut self) {
        self.texts.borrow_mut().clear();
        self.lists.borrow_mut().clear();
    }
}

impl<S: Sources> Sources for ReadOnce<S> {
    fn text(&self, id: &SourceId) -> Result<Option<Text>, SourceError> {
        if let Some(known) = self.texts.borrow().get(id) {
            return Ok(known.clone());
        }
        let answer = self.sources.text(id)?;
        self.texts.borrow_mut().insert(id.clone(), answer.clone());
        Ok(answer)
    }

    fn list(&self, dir: &SourceId, limits: Limits) -> Result<Option<Listing>, SourceError> {
        let key = (dir.clone(), limits);
        if let Some(known) = self.lists.borrow().get(&key) {
            return Ok(known.clone());
        }
        let answer = self.sources.list(dir, limits)?;
        self.lists.borrow_mut().insert(key, answer.clone());
        Ok(answer)
    }
}
