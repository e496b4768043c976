//! Sources of which some texts were read before they are asked for.

use std::collections::BTreeMap;

use callsheet_core::{Limits, Listing, SourceError, SourceId, Sources, Text};

/// Answers with the texts at hand, and asks `inner` for all others.
#[derive(Debug)]
pub struct Prefetched<S> {
    pub inner: S,
    pub texts: BTreeMap<SourceId, Text>,
}

impl<S: Sources> Sources for Prefetched<S> {
    fn text(&self, id: &SourceId) -> Result<Option<Text>, SourceError> {
        match self.texts.get(id) {
            Some(text) => Ok(Some(text.clone())),
            None => self.inner.text(id),
        }
    }

    fn list(&self, dir: &SourceId, limits: Limits) -> Result<Option<Listing>, SourceError> {
        self.inner.list(dir, limits)
    }
}
