//! The shipped data files, embedded. Users may override each of them except `templates/context.md`.

use alloc::string::ToString;
use alloc::vec::Vec;

use crate::source::{Listing, ListingEntry, ListingLimits, SourceError, SourceId, SourceRoot, Sources};
use crate::text::SharedText;

/// Every shipped file: its path below `builtin/` and its text, in byte order of the paths.
pub static FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/builtin.rs"));

/// The shipped files as [`Sources`]: they fill the builtin root, and the other three roots are empty.
#[derive(Clone, Copy, Debug, Default)]
pub struct Builtin;

impl Sources for Builtin {
    fn text(&self, id: &SourceId) -> Result<Option<SharedText>, SourceError> {
        if id.root() != SourceRoot::Builtin {
            return Ok(None);
        }
        let found = FILES.binary_search_by(|(path, _)| (*path).cmp(id.path()));
        Ok(found.ok().map(|at| SharedText::from_static(FILES[at].1)))
    }

    fn list(&self, dir: &SourceId, limits: ListingLimits) -> Result<Option<Listing>, SourceError> {
        if dir.root() != SourceRoot::Builtin {
            return Ok(None);
        }
        let mut entries: Vec<ListingEntry> = Vec::new();
        for (path, _) in FILES {
            let below = if dir.path() == "." {
                Some(*path)
            } else {
                path.strip_prefix(dir.path()).and_then(|rest| rest.strip_prefix('/'))
            };
            let Some(below) = below else { continue };
            let levels = below.match_indices('/').map(|(at, _)| (at, true));
            for (end, dir) in levels.chain([(below.len(), false)]).take(limits.depth) {
                let entry = ListingEntry { path: below[..end].to_string(), dir };
                if !entries.contains(&entry) {
                    entries.push(entry);
                }
            }
        }
        if entries.is_empty() {
            return Ok(None);
        }
        let left_out = entries.len().saturating_sub(limits.entries);
        entries.truncate(limits.entries);
        Ok(Some(Listing { entries, left_out, not_entered: 0 }))
    }
}
