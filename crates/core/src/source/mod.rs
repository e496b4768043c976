//! Sources: the only way for texts to reach the core.
//!
//! [`Sources`] has two methods. A [`SourceRecorder`] records their answers, absence included, and a
//! [`Snapshot`] replays them. This module opens no file; `callsheet-run` does.

pub mod builtin;
pub mod cached_sources;
pub mod memory_sources;
pub mod origin;

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::text::SharedText;
use crate::text::word_enum::word_enum;

word_enum! {
    /// The root of a source. Earlier roots belong to callsheet and its user, later ones to others.
    #[derive(Hash)]
    SourceRoot {
        /// Shipped with callsheet.
        Builtin "builtin",
        /// The user's own configuration directory.
        User "user",
        /// The project's worktree.
        Project "project",
        /// The session directory, with the files of earlier agents.
        Session "session",
    }
}

/// The address of a text: a root and a relative path in normal form (`/` between parts, no `.`, no `..`).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceId {
    root: SourceRoot,
    path: Arc<str>,
}

crate::text::string_schema::string_schema!(SourceId);

/// The reason why a path cannot be an address inside a root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadPath {
    /// The path is empty.
    #[error("it is empty")]
    Empty,
    /// The path begins with a slash.
    #[error("it is absolute")]
    Absolute,
    /// The path contains `..`.
    #[error("it contains `..`")]
    Parent,
    /// The path contains a NUL character.
    #[error("it contains a NUL character")]
    Nul,
    /// The text before the path is not the name of a root.
    #[error("it does not begin with `builtin:`, `user:`, `project:` or `session:`")]
    Root,
}

impl SourceId {
    /// Creates an address, or returns why `path` cannot be one. Drops `.` parts and doubled slashes. The root
    /// itself, which is useful only for listing, is spelled `.`; an empty path is an error.
    pub fn new(root: SourceRoot, path: &str) -> Result<Self, BadPath> {
        if path.is_empty() {
            return Err(BadPath::Empty);
        }
        if path.contains('\0') {
            return Err(BadPath::Nul);
        }
        if path.starts_with('/') {
            return Err(BadPath::Absolute);
        }
        if is_normal(path) {
            return Ok(Self { root, path: path.into() });
        }
        let mut parts = Vec::new();
        for part in path.split('/') {
            match part {
                "" | "." => {}
                ".." => return Err(BadPath::Parent),
                part => parts.push(part),
            }
        }
        let path = if parts.is_empty() { ".".to_owned() } else { parts.join("/") };
        Ok(Self { root, path: path.into() })
    }

    /// Returns the root.
    pub fn root(&self) -> SourceRoot {
        self.root
    }

    /// Returns the same path in another root.
    pub(crate) fn with_root(&self, root: SourceRoot) -> Self {
        Self { root, path: self.path.clone() }
    }

    /// Returns the path inside the root; `.` for the root itself.
    pub fn path(&self) -> &str {
        &self.path
    }
}

/// Checks that no part of `path` is empty, `.` or `..`.
fn is_normal(path: &str) -> bool {
    let plain = |part: &[u8]| !matches!(part, b"" | b"." | b"..");
    path.as_bytes().split(|byte| *byte == b'/').all(plain)
}

impl fmt::Display for SourceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.root.name(), self.path)
    }
}

/// Parses `ROOT:PATH`, the text that an address is shown as.
impl FromStr for SourceId {
    type Err = BadPath;

    fn from_str(text: &str) -> Result<Self, BadPath> {
        let (root, path) = text.split_once(':').ok_or(BadPath::Root)?;
        let root = SourceRoot::ALL.iter().copied().find(|known| known.name() == root).ok_or(BadPath::Root)?;
        Self::new(root, path)
    }
}

impl Serialize for SourceId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for SourceId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(|_| serde::de::Error::custom(format!("`{text}` is not ROOT:PATH")))
    }
}

/// The reason why an existing source cannot be used. Absence is not an error: it is `Ok(None)`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// The path leads out of its root, for example through a symbolic link.
    #[error("it leads outside its root")]
    Outside,
    /// A directory, FIFO, device or socket instead of a file; the word names it.
    #[error("it is a {0}, not a regular file")]
    NotAFile(&'static str),
    /// The file is larger than the limit.
    #[error("it has {size} bytes; the limit is {limit}")]
    TooLarge {
        /// The size of the file in bytes.
        size: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// The file is not UTF-8; the fields describe the first bad byte.
    #[error("byte 0x{byte:02X} at offset {offset} is not UTF-8")]
    NotUtf8 {
        /// The offset of the byte in the file.
        offset: usize,
        /// The byte.
        byte: u8,
    },
    /// The file cannot be read; the text is the message of the operating system.
    #[error("{0}")]
    Unreadable(String),
}

/// The limits of a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ListingLimits {
    /// Levels below the listed directory; 1 is its own entries only.
    pub depth: usize,
    /// Entries in total; the rest is counted in [`Listing::left_out`].
    pub entries: usize,
    /// Whether to list hidden names, and names that the project's own `.gitignore` files exclude, too.
    pub ignored: bool,
}

/// An entry of a listing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListingEntry {
    /// The path, relative to the listed directory.
    pub path: String,
    /// Whether the entry is a directory.
    pub dir: bool,
}

/// The entries below a directory, in byte order of the paths; a directory comes before its contents.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listing {
    /// The entries that are within the limits.
    pub entries: Vec<ListingEntry>,
    /// The number of entries within the depth that the entry limit omitted.
    pub left_out: usize,
    /// The number of directories whose contents the depth limit omitted.
    pub not_entered: usize,
}

/// The supplier of all texts that the core reads.
///
/// Both answers must stay the same during one composition.
pub trait Sources {
    /// Returns the text behind `id`, unchanged, or `None` if there is none.
    fn text(&self, id: &SourceId) -> Result<Option<SharedText>, SourceError>;

    /// Returns the entries below the directory `dir`, or `None` if there is no such directory.
    ///
    /// The only ignore rules that count are the project's own `.gitignore` files, so two people get the same
    /// listing of the same tree.
    fn list(&self, dir: &SourceId, limits: ListingLimits) -> Result<Option<Listing>, SourceError>;
}

macro_rules! pointers {
    ($($pointer:ty),*) => { $(
        impl<S: Sources + ?Sized> Sources for $pointer {
            fn text(&self, id: &SourceId) -> Result<Option<SharedText>, SourceError> {
                (**self).text(id)
            }
            fn list(&self, dir: &SourceId, limits: ListingLimits) -> Result<Option<Listing>, SourceError> {
                (**self).list(dir, limits)
            }
        }
    )* };
}

pointers!(&S, Box<S>, Arc<S>);

/// Every source that was read, present or absent. Any other source is an error.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// The texts by id; `None` if a text is absent.
    pub texts: BTreeMap<SourceId, Option<SharedText>>,
    /// The listings with their directories and limits; `None` if a directory is absent.
    pub lists: Vec<(SourceId, ListingLimits, Option<Listing>)>,
}

impl Sources for Snapshot {
    fn text(&self, id: &SourceId) -> Result<Option<SharedText>, SourceError> {
        match self.texts.get(id) {
            Some(text) => Ok(text.clone()),
            None => Err(SourceError::Unreadable("the snapshot does not hold it".to_string())),
        }
    }

    fn list(&self, dir: &SourceId, limits: ListingLimits) -> Result<Option<Listing>, SourceError> {
        match self.lists.iter().find(|(d, l, _)| d == dir && *l == limits) {
            Some((_, _, listing)) => Ok(listing.clone()),
            None => Err(SourceError::Unreadable("the snapshot does not hold it".to_string())),
        }
    }
}

/// A wrapper around sources that records every answer.
#[derive(Debug)]
pub struct SourceRecorder<S> {
    inner: S,
    seen: RefCell<Snapshot>,
}

impl<S: Sources> SourceRecorder<S> {
    /// Wraps `inner`.
    pub fn new(inner: S) -> Self {
        Self { inner, seen: RefCell::default() }
    }

    /// Returns the recorded answers, with the listings sorted.
    pub fn finish(self) -> Snapshot {
        let mut seen = self.seen.into_inner();
        seen.lists.sort_by(|a, b| (&a.0, a.1).cmp(&(&b.0, b.1)));
        seen
    }
}

impl<S: Sources> Sources for SourceRecorder<S> {
    fn text(&self, id: &SourceId) -> Result<Option<SharedText>, SourceError> {
        let answer = self.inner.text(id)?;
        self.seen.borrow_mut().texts.insert(id.clone(), answer.clone());
        Ok(answer)
    }

    fn list(&self, dir: &SourceId, limits: ListingLimits) -> Result<Option<Listing>, SourceError> {
        let answer = self.inner.list(dir, limits)?;
        let lists = &mut self.seen.borrow_mut().lists;
        if !lists.iter().any(|(d, l, _)| d == dir && *l == limits) {
            lists.push((dir.clone(), limits, answer.clone()));
        }
        Ok(answer)
    }
}
