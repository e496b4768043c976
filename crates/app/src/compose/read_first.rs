//! Warns about files that an agent is to read first and that do not exist.

use std::path::Path;

use callsheet_core::diag::{Code, Diagnostic, counted};
use callsheet_core::request::scope::Scope;
use callsheet_core::{ListingEntry, ListingLimits, SourceId, SourceRoot, Sources};
use callsheet_run::{Disk, Roots};

/// Maximum number of missing files that are named.
const MOST_MISSING: usize = 10;

pub(crate) const GLOB_MARKS: [char; 4] = ['*', '?', '[', '{'];

/// Warns about files to read first that do not exist: most often that is a typo.
pub(crate) fn warn_missing_files(read_first: &[String], place: &Path) -> Vec<Diagnostic> {
    let is_missing = |path: &&String| {
        place.join(path).symlink_metadata().is_err()
            && (!path.contains(GLOB_MARKS) || is_unmatched_glob(path, place))
    };
    let missing: Vec<&String> = read_first.iter().filter(is_missing).collect();
    let warning = |path: &&String| {
        let lacks = if path.contains(GLOB_MARKS) { "no file matches" } else { "the file does not exist" };
        let message = format!("cannot use `--read-first {path}`: {lacks}");
        Diagnostic::warning(Code::InputNotFound, message).searched([format!("project:{path}")])
    };
    let mut warnings: Vec<Diagnostic> = missing.iter().take(MOST_MISSING).map(warning).collect();
    if let Some(more) = missing.len().checked_sub(MOST_MISSING).filter(|more| *more > 0) {
        let message = format!("`--read-first` names {} more without a match", counted(more, "path"));
        warnings.push(Diagnostic::warning(Code::InputNotFound, message));
    }
    warnings
}

/// Checks whether no file of the project matches a glob, as far as the listing shows.
fn is_unmatched_glob(glob: &str, place: &Path) -> bool {
    let judge = Scope { write: vec![glob.to_owned()], exclude: Vec::new() }.compile();
    let roots = Roots { project: Some(place.to_owned()), ..Roots::default() };
    let limits = ListingLimits { depth: 32, entries: 100_000, ignored: true };
    let whole = SourceId::new(SourceRoot::Project, ".").ok();
    let listed = whole.and_then(|whole| Disk::new(&roots, 0).list(&whole, limits).ok().flatten());
    listed.is_some_and(|listed| {
        // The listing never enters the `.git` folder.
        let is_git = |entry: &&ListingEntry| entry.dir && entry.path.rsplit('/').next() == Some(".git");
        let closed =
            listed.not_entered - listed.entries.iter().filter(is_git).count().min(listed.not_entered);
        let is_whole = listed.left_out == 0 && closed == 0;
        is_whole && !listed.entries.iter().any(|entry| judge.violation_reason(&entry.path).is_none())
    })
}
