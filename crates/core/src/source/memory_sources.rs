//! Sources in memory, for a caller that has its texts already and for tests. Keeps no ignore rules.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::ToString;
use alloc::vec::Vec;

use crate::source::builtin::{Builtin, FILES};
use crate::source::{
    BadPath, Listing, ListingEntry, ListingLimits, SourceError, SourceId, SourceRoot, Sources,
};
use crate::text::SharedText;

/// Texts by their ids, as [`Sources`]. Listings have the order of files on a disk, and no `.gitignore` counts.
///
/// ```
/// use callsheet_core::{MemorySources, SourceRoot, Sources};
///
/// let mut sources = MemorySources::with_builtin();
/// sources.put(SourceRoot::User, "templates/identity/clerk.md", "You are {{name}}.")?;
/// let id = "user:templates/identity/clerk.md".parse()?;
/// assert_eq!(sources.text(&id).unwrap().as_deref(), Some("You are {{name}}."));
/// # Ok::<(), callsheet_core::BadPath>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemorySources {
    texts: BTreeMap<SourceId, SharedText>,
    has_builtin: bool,
}

impl MemorySources {
    /// Creates sources in which all four roots are empty.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates sources with the shipped files. A text with the id of a shipped file replaces it.
    pub fn with_builtin() -> Self {
        Self { texts: BTreeMap::new(), has_builtin: true }
    }

    /// Sets the text at `path` in `root`, or returns why `path` cannot be an address.
    pub fn put(
        &mut self,
        root: SourceRoot,
        path: &str,
        text: impl Into<SharedText>,
    ) -> Result<&mut Self, BadPath> {
        self.insert(SourceId::new(root, path)?, text);
        Ok(self)
    }

    /// Sets the text of `id`. Returns the text that it replaces.
    pub fn insert(&mut self, id: SourceId, text: impl Into<SharedText>) -> Option<SharedText> {
        self.texts.insert(id, text.into())
    }

    /// Removes the text of `id` and returns it. A shipped file stays.
    pub fn remove(&mut self, id: &SourceId) -> Option<SharedText> {
        self.texts.remove(id)
    }

    /// Iterates over the ids and texts that were put in, in the order of the ids.
    pub fn iter(&self) -> impl Iterator<Item = (&SourceId, &SharedText)> {
        self.texts.iter()
    }

    /// Iterates over the paths below `dir`, relative to it.
    fn paths_below<'p>(&'p self, dir: &'p SourceId) -> impl Iterator<Item = &'p str> {
        let own = self.texts.keys().filter(|id| id.root() == dir.root()).map(SourceId::path);
        let has_shipped = self.has_builtin && dir.root() == SourceRoot::Builtin;
        let shipped = FILES.iter().filter(move |_| has_shipped).map(|(path, _)| *path);
        own.chain(shipped).filter_map(|path| match dir.path() {
            "." => Some(path),
            dir => path.strip_prefix(dir)?.strip_prefix('/'),
        })
    }
}

impl Sources for MemorySources {
    fn text(&self, id: &SourceId) -> Result<Option<SharedText>, SourceError> {
        if let Some(text) = self.texts.get(id) {
            return Ok(Some(text.clone()));
        }
        let shipped = if self.has_builtin { Builtin.text(id)? } else { None };
        match shipped {
            None if self.paths_below(id).next().is_some() => Err(SourceError::NotAFile("directory")),
            text => Ok(text),
        }
    }

    fn list(&self, dir: &SourceId, limits: ListingLimits) -> Result<Option<Listing>, SourceError> {
        // By their parts, so that a directory comes directly before its contents.
        let mut entries: BTreeSet<(Vec<&str>, bool)> = BTreeSet::new();
        let mut not_entered: BTreeSet<Vec<&str>> = BTreeSet::new();
        let mut is_there = false;
        for path in self.paths_below(dir) {
            is_there = true;
            let parts: Vec<&str> = path.split('/').collect();
            let is_hidden = |part: &&str| !limits.ignored && part.starts_with('.');
            let shown = parts.iter().position(is_hidden).unwrap_or(parts.len());
            for length in 1..=shown.min(limits.depth) {
                entries.insert((parts[..length].to_vec(), length < parts.len()));
            }
            if shown > limits.depth {
                not_entered.insert(parts[..limits.depth].to_vec());
            }
        }
        if !is_there {
            return match self.texts.contains_key(dir) {
                true => Err(SourceError::NotAFile("file")),
                false => Ok(None),
            };
        }
        let left_out = entries.len().saturating_sub(limits.entries);
        let entries = entries.into_iter().take(limits.entries);
        let entries = entries.map(|(parts, dir)| ListingEntry { path: parts.join("/").to_string(), dir });
        Ok(Some(Listing { entries: entries.collect(), left_out, not_entered: not_entered.len() }))
    }
}

impl<T: Into<SharedText>> FromIterator<(SourceId, T)> for MemorySources {
    fn from_iter<I: IntoIterator<Item = (SourceId, T)>>(texts: I) -> Self {
        let mut sources = Self::new();
        sources.extend(texts);
        sources
    }
}

impl<T: Into<SharedText>> Extend<(SourceId, T)> for MemorySources {
    fn extend<I: IntoIterator<Item = (SourceId, T)>>(&mut self, texts: I) {
        self.texts.extend(texts.into_iter().map(|(id, text)| (id, text.into())));
    }
}
