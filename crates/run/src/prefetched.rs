//! Sources of which some texts and listings were read before they are asked for.

use std::collections::BTreeMap;

use callsheet_core::{Listing, ListingLimits, SharedText, SourceError, SourceId, Sources};

use crate::list;

/// Answers with what is at hand, and asks `inner` for everything else.
#[derive(Debug)]
pub struct PrefetchedSources<S> {
    pub inner: S,
    pub texts: BTreeMap<SourceId, SharedText>,
    /// Directories without limits, as [`PackedTree`](crate::PackedTree) has them.
    pub listings: BTreeMap<SourceId, Listing>,
}

impl<S: Sources> Sources for PrefetchedSources<S> {
    fn text(&self, id: &SourceId) -> Result<Option<SharedText>, SourceError> {
        match self.texts.get(id) {
            Some(text) => Ok(Some(text.clone())),
            None => self.inner.text(id),
        }
    }

    fn list(&self, dir: &SourceId, limits: ListingLimits) -> Result<Option<Listing>, SourceError> {
        match self.listings.get(dir).and_then(|whole| list::narrowed(whole, limits)) {
            Some(listing) => Ok(Some(listing)),
            None => self.inner.list(dir, limits),
        }
    }
}
