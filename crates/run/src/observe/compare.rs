//! Two surveys of a worktree, and what is different: every file whose bytes, kind or permissions are not what they were.

use std::collections::{BTreeMap, BTreeSet};

use callsheet_core::fact::{Change, Changed};
use rustix::fs::FileType;

use super::place::Place;
use super::print::Print;
use super::rules::Rules;
use super::survey::{Class, Entry, Survey};

/// A file that is not what it was.
#[derive(Clone, Copy, Debug)]
pub(super) struct Difference<'a> {
    pub(super) before: Option<&'a Entry>,
    pub(super) after: Option<&'a Entry>,
}

impl Difference<'_> {
    pub(super) fn place(&self) -> Option<&Place> {
        self.after.or(self.before).map(Entry::place)
    }
}

/// Everything that differs, but for what one of the surveys could not see.
pub(super) fn differences<'a>(before: &'a Survey, after: &'a Survey) -> Vec<Difference<'a>> {
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
            std::cmp::Ordering::Less => Difference { before: old.next(), after: None },
            std::cmp::Ordering::Greater => Difference { before: None, after: new.next() },
            std::cmp::Ordering::Equal => Difference { before: old.next(), after: new.next() },
        };
        let is_same = matches!(found, Difference { before: Some(a), after: Some(b) } if a.is_like(b));
        let is_hidden = match found {
            Difference { before: Some(entry), after: None } => after.hides(entry.place()),
            Difference { before: None, after: Some(entry) } => {
                before.cut.as_ref().is_some_and(|cut| entry.place() >= cut)
            }
            _ => false,
        };
        if !is_same && !is_hidden {
            all.push(found);
        }
    }
}

/// A change, and the paths about which a scope is asked.
#[derive(Clone, Debug)]
pub(super) struct Told {
    pub(super) changed: Changed,
    pub(super) paths: Vec<String>,
}

impl Told {
    pub(super) fn new(path: String, change: Change, from: Option<String>) -> Self {
        let paths = [path.clone()].into_iter().chain(from.clone()).collect();
        Self { changed: Changed { path, change, from }, paths }
    }
}

/// What is known of a worktree besides its files.
pub(super) struct Known<'a> {
    pub(super) rules: &'a Rules,
    /// Submodules, in byte order.
    pub(super) submodules: &'a [Place],
    /// Whether git tracked a path before, and does now.
    pub(super) was_tracked: &'a dyn Fn(&[u8]) -> bool,
    pub(super) is_tracked: &'a dyn Fn(&[u8]) -> bool,
    pub(super) has_git: bool,
}

impl Known<'_> {
    /// Names every difference. What lies in a submodule is told as that, what lies in an ignored folder as that.
    pub(super) fn tell(&self, differences: &[Difference<'_>]) -> Vec<Told> {
        let mut all: BTreeMap<String, Told> = BTreeMap::new();
        let submodule_of =
            |place: &Place| self.submodules.iter().find(|submodule| place.is_in(submodule.bytes()));
        let is_plain = |it: &&Difference<'_>| it.place().is_some_and(|place| submodule_of(place).is_none());
        let moved = moved(differences.iter().filter(is_plain).copied());
        let left: BTreeSet<&Place> = moved.values().copied().collect();
        for difference in differences {
            let Some(place) = difference.place() else { continue };
            let (path, change) = (place.text(), self.change(difference));
            let (key, change) = match submodule_of(place) {
                Some(_) if change == Change::Ignored => continue,
                Some(submodule) => (submodule.text(), Change::Submodule),
                None if change == Change::Ignored => {
                    (super::place::shown(&self.rules.shown(place.bytes())), Change::Ignored)
                }
                None => (path.clone(), change),
            };
            if key != path {
                let told = all
                    .entry(key.clone())
                    .or_insert_with(|| Told { paths: Vec::new(), ..Told::new(key, change, None) });
                told.paths.push(path);
            } else if let Some(from) = moved.get(place) {
                all.insert(key.clone(), Told::new(key, Change::Renamed, Some(from.text())));
            } else if !left.contains(place) {
                all.insert(key.clone(), Told::new(key, change, None));
            }
        }
        all.into_values().collect()
    }

    fn change(&self, difference: &Difference<'_>) -> Change {
        match (difference.before, difference.after) {
            (Some(before), None) if before.class() == Class::Ignored => Change::Ignored,
            (Some(_), None) | (None, None) => Change::Deleted,
            (None, Some(after)) => {
                let path = after.place().bytes();
                match after.class() {
                    _ if (self.was_tracked)(path) => Change::Modified,
                    _ if (self.is_tracked)(path) || !self.has_git => Change::Added,
                    Class::Ignored => Change::Ignored,
                    _ => Change::Untracked,
                }
            }
            (Some(before), Some(after)) => {
                let is_file =
                    |entry: &Entry| matches!(entry.kind(), FileType::RegularFile | FileType::Symlink);
                if before.class() == Class::Ignored && after.class() == Class::Ignored {
                    Change::Ignored
                } else if before.print() == after.print()
                    || before.kind() != after.kind() && is_file(before) && is_file(after)
                {
                    Change::Mode
                } else {
                    Change::Modified
                }
            }
        }
    }
}

/// Files that have the contents of one that is gone: where they are now, and where they were.
fn moved<'a>(differences: impl Iterator<Item = Difference<'a>> + Clone) -> BTreeMap<&'a Place, &'a Place> {
    let contents = |entry: &'a Entry| match entry.print() {
        Print::Contents(digest)
            if entry.class() != Class::Ignored && *digest != callsheet_core::record::sha256(&[]) =>
        {
            Some((digest.0, entry.place()))
        }
        _ => None,
    };
    let gone = differences.clone().filter(|it| it.after.is_none()).filter_map(|it| contents(it.before?));
    let mut gone: BTreeMap<[u8; 32], &Place> = gone.collect();
    let new = differences.filter(|it| it.before.is_none()).filter_map(|it| contents(it.after?));
    new.filter_map(|(digest, to)| Some((to, gone.remove(&digest)?))).collect()
}
