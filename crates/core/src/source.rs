//! Sources: the one door through which texts reach the core.
//!
//! [`Sources`] answers two questions, and both answers, absence included, can be recorded with a
//! [`SourceRecorder`] and replayed from a [`Snapshot`]. Nothing here opens a file; see `callsheet-run`.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::fmt;

use serde::{Deserialize, Serialize};

use crate::text::SharedText;

/// Where a source lives. Earlier roots belong to us, later ones to somebody else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SourceRoot {
    /// Shipped with callsheet.
    Builtin,
    /// The user's own configuration directory.
    User,
    /// The project's worktree.
    Project,
    /// The session directory: what earlier agents left behind.
    Session,
}

impl SourceRoot {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Builtin => "builtin",
            Self::User => "user",
            Self::Project => "project",
            Self::Session => "session",
        }
    }
}

/// A text's address: a root and a relative path in normal form (`/` between parts, no `.`, no `..`).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SourceId {
    root: SourceRoot,
    path: Arc<str>,
}

/// Why a path can never be an address inside a root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadPath {
    Empty,
    Absolute,
    Parent,
    Nul,
}

impl fmt::Display for BadPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "it is empty",
            Self::Absolute => "it is absolute",
            Self::Parent => "it contains `..`",
            Self::Nul => "it contains a NUL character",
        })
    }
}

impl SourceId {
    /// An address, or why `path` can be none. `.` parts and doubled slashes are dropped; an empty
    /// path names the root itself and is only of use for listing, so it is spelled `.`.
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

    pub fn root(&self) -> SourceRoot {
        self.root
    }

    /// The same path in another root.
    pub(crate) fn with_root(&self, root: SourceRoot) -> Self {
        Self { root, path: self.path.clone() }
    }

    /// The path inside the root; `.` for the root itself.
    pub fn path(&self) -> &str {
        &self.path
    }
}

/// Whether no part of `path` is empty, `.` or `..`.
fn is_normal(path: &str) -> bool {
    let plain = |part: &[u8]| !matches!(part, b"" | b"." | b"..");
    path.as_bytes().split(|byte| *byte == b'/').all(plain)
}

impl fmt::Display for SourceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.root.name(), self.path)
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
        let wrong = || serde::de::Error::custom(format!("`{text}` is not ROOT:PATH"));
        let (root, path) = text.split_once(':').ok_or_else(wrong)?;
        let root = [SourceRoot::Builtin, SourceRoot::User, SourceRoot::Project, SourceRoot::Session]
            .into_iter()
            .find(|r| r.name() == root)
            .ok_or_else(wrong)?;
        Self::new(root, path).map_err(|_| wrong())
    }
}

/// A source that is there and cannot be used. Absence is no error: it is `Ok(None)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceError {
    /// The path leads out of its root, for example through a symbolic link.
    Outside,
    /// A directory, FIFO, device or socket where a file was expected; the word says which.
    NotAFile(&'static str),
    TooLarge {
        size: u64,
        limit: u64,
    },
    /// The first byte that is not UTF-8.
    NotUtf8 {
        offset: usize,
        byte: u8,
    },
    /// What the operating system said.
    Unreadable(String),
}

impl fmt::Display for SourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Outside => f.write_str("it leads out of its root"),
            Self::NotAFile(kind) => write!(f, "it is a {kind}, not a regular file"),
            Self::TooLarge { size, limit } => {
                write!(f, "it has {size} bytes, the limit is {limit}")
            }
            Self::NotUtf8 { offset, byte } => {
                write!(f, "byte 0x{byte:02X} at offset {offset} is not UTF-8")
            }
            Self::Unreadable(why) => f.write_str(why),
        }
    }
}

/// How far a listing goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ListingLimits {
    /// Levels below the listed directory; 1 is its own entries only.
    pub depth: usize,
    /// Entries in all; the rest is counted in [`Listing::left_out`].
    pub entries: usize,
    /// Hidden names and what the project's own `.gitignore` files rule out, too.
    pub ignored: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListingEntry {
    /// Relative to the listed directory.
    pub path: String,
    pub dir: bool,
}

/// What stands below a directory, in byte order of the paths, a directory before what it holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listing {
    pub entries: Vec<ListingEntry>,
    /// Entries within the depth that the entry limit left out.
    pub left_out: usize,
    /// Directories whose contents the depth limit left out.
    pub not_entered: usize,
}

/// Where texts come from. The only trait of the core.
///
/// Both answers must stay the same for as long as one composition lasts.
pub trait Sources {
    /// The text behind `id`, exactly as it is, or `None` if there is none.
    fn text(&self, id: &SourceId) -> Result<Option<SharedText>, SourceError>;

    /// What stands below the directory `dir`, or `None` if there is no such directory.
    ///
    /// The only ignore rules that count are the project's own `.gitignore` files: two people get the same
    /// listing of the same tree.
    fn list(&self, dir: &SourceId, limits: ListingLimits) -> Result<Option<Listing>, SourceError>;
}

impl<S: Sources + ?Sized> Sources for &S {
    fn text(&self, id: &SourceId) -> Result<Option<SharedText>, SourceError> {
        (**self).text(id)
    }
    fn list(&self, dir: &SourceId, limits: ListingLimits) -> Result<Option<Listing>, SourceError> {
        (**self).list(dir, limits)
    }
}

/// Every source that was looked at, present or absent. Answers nothing that was not asked before.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    pub texts: BTreeMap<SourceId, Option<SharedText>>,
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

/// Passes every question on, and keeps the answers.
#[derive(Debug)]
pub struct SourceRecorder<S> {
    inner: S,
    seen: RefCell<Snapshot>,
}

impl<S: Sources> SourceRecorder<S> {
    pub fn new(inner: S) -> Self {
        Self { inner, seen: RefCell::default() }
    }

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
