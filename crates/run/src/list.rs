//! What stands below a directory, within limits. Symbolic links are listed as entries.

use std::ops::ControlFlow;
use std::path::Path;

use callsheet_core::{Entry, Limits, Listing, SourceError};
use cap_std::fs::Dir;

use crate::walk::{Met, Reach, walk};

/// Where [`Listing::left_out`] stops counting: from here on it means "or more".
///
/// A full listing goes on only to count, and a tree with a million files is not worth the wait.
pub const MAX_LEFT_OUT: usize = 10_000;

/// Lists `dir`, a path inside of `root`; `None` if there is no such directory.
///
/// Names that are not UTF-8 have no address and count as left out. Directories below `dir` that
/// cannot be read count as not entered.
pub(crate) fn list(root: &Dir, dir: &Path, limits: Limits) -> Result<Option<Listing>, SourceError> {
    let mut listing = Listing::default();
    let reach = Reach { depth: limits.depth, ignored: limits.ignored };
    let found = walk(root, dir, &reach, &mut |met| {
        let full = listing.entries.len() == limits.entries;
        let (path, dir) = match met {
            Met::NotEntered => {
                listing.not_entered += 1;
                return ControlFlow::Continue(());
            }
            _ if full && listing.left_out >= MAX_LEFT_OUT => return ControlFlow::Break(()),
            Met::Unnamed => {
                listing.left_out += 1;
                return ControlFlow::Continue(());
            }
            Met::Dir { path } => (path, true),
            Met::File { path, .. } => (path, false),
        };
        if full {
            listing.left_out += 1;
        } else {
            listing.entries.push(Entry { path: path.to_owned(), dir });
        }
        ControlFlow::Continue(())
    })?;
    Ok(found.then_some(listing))
}
