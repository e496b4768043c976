//! The files of a case as sources: `sources/{builtin,user,project,session}/…`, read with `std::fs`.
//!
//! Of the shipped files, a case sees the recipes and the files that it names. An edit in `builtin/` then does
//! not change the expectations of unrelated cases.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use callsheet_core::{
    Builtin, Listing, ListingEntry, ListingLimits, SharedText, SourceError, SourceId, SourceRoot, Sources,
};

pub(crate) struct Folder {
    pub(crate) dir: PathBuf,
    /// The path prefixes of the shipped files that the case sees besides `recipes/`.
    pub(crate) shipped: Vec<String>,
    /// Files whose names a package cannot hold: the path that the case sees, and the stored path.
    pub(crate) stored: BTreeMap<String, String>,
}

impl Folder {
    pub(crate) fn new(dir: impl Into<PathBuf>, shipped: Vec<String>) -> Self {
        Self { dir: dir.into(), shipped, stored: BTreeMap::new() }
    }

    fn file_path(&self, id: &SourceId) -> PathBuf {
        let path = self.stored.get(id.path()).map_or(id.path(), String::as_str);
        self.dir.join(id.root().name()).join(path)
    }

    fn is_visible(&self, path: &str) -> bool {
        path.starts_with("recipes/") || self.shipped.iter().any(|start| path.starts_with(start.as_str()))
    }
}

impl Sources for Folder {
    fn text(&self, id: &SourceId) -> Result<Option<SharedText>, SourceError> {
        let path = self.file_path(id);
        if path.is_dir() {
            return Err(SourceError::NotAFile("directory"));
        }
        if !path.exists() {
            return if self.is_visible(id.path()) { Builtin.text(id) } else { Ok(None) };
        }
        let bytes = fs::read(&path).map_err(|error| SourceError::Unreadable(error.to_string()))?;
        match String::from_utf8(bytes) {
            Ok(text) => Ok(Some(text.into())),
            Err(error) => {
                let offset = error.utf8_error().valid_up_to();
                Err(SourceError::NotUtf8 { offset, byte: error.as_bytes()[offset] })
            }
        }
    }

    fn list(&self, dir: &SourceId, limits: ListingLimits) -> Result<Option<Listing>, SourceError> {
        let path = self.file_path(dir);
        if path.is_file() {
            return Err(SourceError::NotAFile("file"));
        }
        let mut listing = Listing::default();
        let mut there = path.is_dir();
        if there {
            let hidden = dir.root() == SourceRoot::Project;
            walk(&path, "", limits.depth, hidden, &mut listing);
        }
        if let Some(shipped) = Builtin.list(dir, ListingLimits { entries: usize::MAX, ..limits })? {
            let seen = shipped.entries.into_iter().filter(|entry| {
                !entry.dir
                    && self.is_visible(&format!("{}/{}", dir.path(), entry.path))
                    && !listing.entries.contains(entry)
            });
            let seen: Vec<ListingEntry> = seen.collect();
            there |= !seen.is_empty();
            listing.entries.extend(seen);
            listing.entries.sort_by(|a, b| a.path.split('/').cmp(b.path.split('/')));
        }
        listing.left_out = listing.entries.len().saturating_sub(limits.entries);
        listing.entries.truncate(limits.entries);
        Ok(there.then_some(listing))
    }
}

fn walk(dir: &Path, below: &str, depth: usize, skip_hidden: bool, listing: &mut Listing) {
    let mut entries: Vec<_> = fs::read_dir(dir).unwrap().map(Result::unwrap).collect();
    entries.retain(|entry| !(skip_hidden && entry.file_name().as_encoded_bytes().starts_with(b".")));
    if depth == 0 {
        listing.not_entered += usize::from(!entries.is_empty());
        return;
    }
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = format!("{below}{}", entry.file_name().to_str().unwrap());
        let dir = entry.path().is_dir();
        let inside = format!("{path}/");
        listing.entries.push(ListingEntry { path, dir });
        if dir {
            walk(&entry.path(), &inside, depth - 1, skip_hidden, listing);
        }
    }
}
