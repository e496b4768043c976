//! Sources of which some texts and listings were read in advance.

use std::collections::BTreeMap;

use callsheet_core::{Listing, ListingLimits, SharedText, SourceError, SourceId, Sources};

use super::list;

/// Sources that answer from texts and listings read in advance, and ask `inner` for everything else.
#[derive(Debug)]
pub struct PrefetchedSources<S> {
    /// The sources of everything else.
    pub inner: S,
    /// The texts read in advance.
    pub texts: BTreeMap<SourceId, SharedText>,
    /// The listings read in advance, without limits, as [`PackedTree`](crate::PackedTree) has them.
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
        match self.listings.get(dir).and_then(|whole| list::narrow_listing(whole, limits)) {
            Some(listing) => Ok(Some(listing)),
            None => self.inner.list(dir, limits),
        }
    }
}
