//! Lists the entries below a directory, within limits. Symbolic links are listed as entries.

use std::ops::ControlFlow;
use std::path::Path;

use callsheet_core::{Listing, ListingEntry, ListingLimits, SourceError};
use cap_std::fs::Dir;

use super::walk::{WalkItem, WalkLimits, walk_dir};

/// The number at which [`Listing::left_out`] stops counting: from here on it means "or more".
///
/// A full listing continues only to count, and a tree with a million files is not worth the wait.
pub const MAX_LEFT_OUT: usize = 10_000;

/// Lists `dir`, a path inside `root`; `None` if there is no such directory.
///
/// Names that are not UTF-8 have no address and count as left out. Directories below `dir` that cannot be
/// read count as not entered.
pub(crate) fn list_dir(
    root: &Dir,
    dir: &Path,
    limits: ListingLimits,
) -> Result<Option<Listing>, SourceError> {
    let mut list = ListingBuilder { limits, listing: Listing::default() };
    let reach = WalkLimits { depth: limits.depth, ignored: limits.ignored };
    let found = walk_dir(root, dir, &reach, &mut |met| match met {
        WalkItem::NotEntered => list.count_not_entered(),
        WalkItem::Unnamed => list.add(None),
        WalkItem::Dir { path } => list.add(Some((path, true))),
        WalkItem::File { path, .. } => list.add(Some((path, false))),
    })?;
    Ok(found.then_some(list.listing))
}

/// Narrows a listing that was made without limits; `None` if it does not contain enough.
pub(crate) fn narrow_listing(whole: &Listing, limits: ListingLimits) -> Option<Listing> {
    if limits.ignored || whole.left_out > 0 || whole.not_entered > 0 {
        return None;
    }
    let mut list = ListingBuilder { limits, listing: Listing::default() };
    // Whether the directory that was met last is empty so far.
    let mut is_new = true;
    for ListingEntry { path, dir } in &whole.entries {
        let is_deeper = path.bytes().filter(|byte| *byte == b'/').count() >= limits.depth;
        let met = match (is_deeper, is_new) {
            (false, _) => list.add(Some((path, *dir))),
            (true, true) => list.count_not_entered(),
            (true, false) => ControlFlow::Continue(()),
        };
        if met.is_break() {
            break;
        }
        is_new = !is_deeper;
    }
    Some(list.listing)
}

/// A listing under construction.
struct ListingBuilder {
    limits: ListingLimits,
    listing: Listing,
}

impl ListingBuilder {
    fn count_not_entered(&mut self) -> ControlFlow<()> {
        self.listing.not_entered += 1;
        ControlFlow::Continue(())
    }

    /// Adds an entry, or a name that has no address.
    fn add(&mut self, entry: Option<(&str, bool)>) -> ControlFlow<()> {
        let Listing { entries, left_out, .. } = &mut self.listing;
        match entry {
            Some((path, dir)) if entries.len() < self.limits.entries => {
                entries.push(ListingEntry { path: path.to_owned(), dir });
            }
            None if entries.len() < self.limits.entries => *left_out += 1,
            _ if *left_out >= MAX_LEFT_OUT => return ControlFlow::Break(()),
            _ => *left_out += 1,
        }
        ControlFlow::Continue(())
    }
}
