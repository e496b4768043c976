//! Compares two surveys of a worktree, and names every file whose bytes, kind or permissions changed.

use std::collections::{BTreeMap, BTreeSet};

use callsheet_core::request::fact::{ChangeKind, ChangedFile};
use rustix::fs::FileType;

use super::fingerprint::Fingerprint;
use super::ignore_rules::IgnoreRules;
use super::survey::{FileClass, FileSurvey, SurveyEntry};
use super::worktree_path::WorktreePath;

/// A file that changed.
#[derive(Clone, Copy, Debug)]
pub(super) struct FileDifference<'a> {
    pub(super) before: Option<&'a SurveyEntry>,
    pub(super) after: Option<&'a SurveyEntry>,
}

impl FileDifference<'_> {
    pub(super) fn place(&self) -> Option<&WorktreePath> {
        self.after.or(self.before).map(SurveyEntry::place)
    }
}

/// Returns all differences, except those that one of the surveys could not see.
pub(super) fn find_differences<'a>(before: &'a FileSurvey, after: &'a FileSurvey) -> Vec<FileDifference<'a>> {
    let (mut old, mut new) = (before.entries.iter().peekable(), after.entries.iter().peekable());
    let mut all = Vec::new();
    loop {
        let order = match (old.peek(), new.peek()) {
            (None, None) => return all,
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (Some(old), Some(new)) => old.place().cmp(new.place()),
        };
        let found = match order {
            std::cmp::Ordering::Less => FileDifference { before: old.next(), after: None },
            std::cmp::Ordering::Greater => FileDifference { before: None, after: new.next() },
            std::cmp::Ordering::Equal => FileDifference { before: old.next(), after: new.next() },
        };
        let is_same =
            matches!(found, FileDifference { before: Some(a), after: Some(b) } if a.has_same_state(b));
        let is_hidden = match found {
            FileDifference { before: Some(entry), after: None } => after.is_hidden(entry.place()),
            FileDifference { before: None, after: Some(entry) } => {
                before.cut.as_ref().is_some_and(|cut| entry.place() >= cut)
            }
            _ => false,
        };
        if !is_same && !is_hidden {
            all.push(found);
        }
    }
}

/// A change, and the paths for which the scope is checked.
#[derive(Clone, Debug)]
pub(super) struct ScopedChange {
    pub(super) changed: ChangedFile,
    pub(super) paths: Vec<String>,
}

impl ScopedChange {
    pub(super) fn new(path: String, change: ChangeKind, from: Option<String>) -> Self {
        let paths = [path.clone()].into_iter().chain(from.clone()).collect();
        Self { changed: ChangedFile { path, change, from }, paths }
    }
}

/// Knowledge about a worktree besides its files.
pub(super) struct WorktreeContext<'a> {
    pub(super) rules: &'a IgnoreRules,
    /// Submodules, in byte order.
    pub(super) submodules: &'a [WorktreePath],
    /// Checks whether git tracked a path before.
    pub(super) was_tracked: &'a dyn Fn(&[u8]) -> bool,
    /// Checks whether git tracks a path now.
    pub(super) is_tracked: &'a dyn Fn(&[u8]) -> bool,
    pub(super) has_git: bool,
}

impl WorktreeContext<'_> {
    /// Names every difference. A difference in a submodule is reported as the submodule, one in an ignored
    /// folder as the folder.
    pub(super) fn name_changes(&self, differences: &[FileDifference<'_>]) -> Vec<ScopedChange> {
        let mut all: BTreeMap<String, ScopedChange> = BTreeMap::new();
        let submodule_of =
            |place: &WorktreePath| self.submodules.iter().find(|submodule| place.is_in(submodule.bytes()));
        let is_plain =
            |it: &&FileDifference<'_>| it.place().is_some_and(|place| submodule_of(place).is_none());
        let moved = find_moved(differences.iter().filter(is_plain).copied());
        let left: BTreeSet<&WorktreePath> = moved.values().copied().collect();
        for difference in differences {
            let Some(place) = difference.place() else { continue };
            let (path, change) = (place.to_text(), self.change_kind(difference));
            let (key, change) = match submodule_of(place) {
                Some(_) if change == ChangeKind::Ignored => continue,
                Some(submodule) => (submodule.to_text(), ChangeKind::Submodule),
                None if change == ChangeKind::Ignored => (
                    super::worktree_path::display_bytes(&self.rules.topmost_ignored(place.bytes())),
                    ChangeKind::Ignored,
                ),
                None => (path.clone(), change),
            };
            if key != path {
                let scoped = all.entry(key.clone()).or_insert_with(|| ScopedChange {
                    paths: Vec::new(),
                    ..ScopedChange::new(key, change, None)
                });
                scoped.paths.push(path);
            } else if let Some(from) = moved.get(place) {
                all.insert(key.clone(), ScopedChange::new(key, ChangeKind::Renamed, Some(from.to_text())));
            } else if !left.contains(place) {
                all.insert(key.clone(), ScopedChange::new(key, change, None));
            }
        }
        all.into_values().collect()
    }

    fn change_kind(&self, difference: &FileDifference<'_>) -> ChangeKind {
        match (difference.before, difference.after) {
            (Some(before), None) if before.class() == FileClass::Ignored => ChangeKind::Ignored,
            (Some(_), None) | (None, None) => ChangeKind::Deleted,
            (None, Some(after)) => {
                let path = after.place().bytes();
                match after.class() {
                    _ if (self.was_tracked)(path) => ChangeKind::Modified,
                    _ if (self.is_tracked)(path) || !self.has_git => ChangeKind::Added,
                    FileClass::Ignored => ChangeKind::Ignored,
                    _ => ChangeKind::Untracked,
                }
            }
            (Some(before), Some(after)) => {
                let is_file =
                    |entry: &SurveyEntry| matches!(entry.kind(), FileType::RegularFile | FileType::Symlink);
                if before.class() == FileClass::Ignored && after.class() == FileClass::Ignored {
                    ChangeKind::Ignored
                } else if before.fingerprint() == after.fingerprint()
                    || before.kind() != after.kind() && is_file(before) && is_file(after)
                {
                    ChangeKind::Mode
                } else {
                    ChangeKind::Modified
                }
            }
        }
    }
}

/// Returns the files that have the contents of a removed one: their present paths, and the earlier ones.
fn find_moved<'a>(
    differences: impl Iterator<Item = FileDifference<'a>> + Clone,
) -> BTreeMap<&'a WorktreePath, &'a WorktreePath> {
    let contents = |entry: &'a SurveyEntry| match entry.fingerprint() {
        Fingerprint::Contents(digest)
            if entry.class() != FileClass::Ignored && *digest != callsheet_core::record::sha256(&[]) =>
        {
            Some((digest.0, entry.place()))
        }
        _ => None,
    };
    let gone = differences.clone().filter(|it| it.after.is_none()).filter_map(|it| contents(it.before?));
    let mut gone: BTreeMap<[u8; 32], &WorktreePath> = gone.collect();
    let new = differences.filter(|it| it.before.is_none()).filter_map(|it| contents(it.after?));
    new.filter_map(|(digest, to)| Some((to, gone.remove(&digest)?))).collect()
}
