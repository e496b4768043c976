//! Shared text, never copied: a value of ten megabytes is in memory once, however many pieces point into it.

pub(crate) mod case_folding;
pub mod glob;
pub mod hex;
pub(crate) mod json_weight;
pub mod name;
pub(crate) mod string_schema;
pub(crate) mod word_enum;

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::sync::Arc;
use core::borrow::Borrow;
use core::cmp::Ordering;
use core::fmt;
use core::hash::{Hash, Hasher};
use core::ops::{Deref, Range};

use serde::{Deserialize, Serialize, Serializer};

use string_schema::string_schema;

/// An immutable text that is cheap to clone. It keeps its bytes: no newline is ever changed.
#[derive(Clone, Deserialize)]
#[serde(from = "String")]
pub struct SharedText(TextStorage);

/// The length in bytes from which a text is moved; a shorter one is copied.
pub(crate) const SHORT: usize = 64;

#[derive(Clone)]
enum TextStorage {
    Static(&'static str),
    /// A moved string: its bytes stay where they are.
    Moved(Arc<String>),
    /// A copied short text: one allocation.
    Copied(Arc<str>),
    /// A part of a longer text, by its first byte and the one after its last.
    Part(Arc<String>, u32, u32),
}

impl SharedText {
    /// Wraps a static text.
    pub const fn from_static(text: &'static str) -> Self {
        Self(TextStorage::Static(text))
    }

    /// Returns a part of `whole`, so that many texts share one allocation. `None` if `whole` has no such
    /// part, or if the part ends beyond 4 GB.
    pub fn from_part(whole: &Arc<String>, range: Range<usize>) -> Option<Self> {
        whole.get(range.clone())?;
        let (start, end) = (u32::try_from(range.start).ok()?, u32::try_from(range.end).ok()?);
        Some(Self(TextStorage::Part(whole.clone(), start, end)))
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        match &self.0 {
            TextStorage::Static(text) => text,
            TextStorage::Moved(text) => text,
            TextStorage::Copied(text) => text,
            TextStorage::Part(whole, start, end) => &whole[*start as usize..*end as usize],
        }
    }
}

impl Deref for SharedText {
    type Target = str;
    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl From<String> for SharedText {
    fn from(text: String) -> Self {
        // As copies, a million short texts take a third less memory, and their bytes are one pointer nearer.
        if text.len() < SHORT { Self::from(text.as_str()) } else { Self(TextStorage::Moved(Arc::new(text))) }
    }
}

impl From<&str> for SharedText {
    fn from(text: &str) -> Self {
        Self(TextStorage::Copied(text.into()))
    }
}

impl From<&String> for SharedText {
    fn from(text: &String) -> Self {
        Self::from(text.as_str())
    }
}

impl From<&Self> for SharedText {
    fn from(text: &Self) -> Self {
        text.clone()
    }
}

impl From<Cow<'_, str>> for SharedText {
    fn from(text: Cow<'_, str>) -> Self {
        match text {
            Cow::Borrowed(text) => Self::from(text),
            Cow::Owned(text) => Self::from(text),
        }
    }
}

impl Default for SharedText {
    fn default() -> Self {
        Self::from_static("")
    }
}

impl PartialEq for SharedText {
    fn eq(&self, other: &Self) -> bool {
        // Ranges of one long text are compared more often than two different long texts.
        let (a, b) = (self.as_str(), other.as_str());
        core::ptr::eq(a, b) || a == b
    }
}

impl Eq for SharedText {}

impl PartialOrd for SharedText {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for SharedText {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_str().cmp(other.as_str())
    }
}

/// Hashes like the text itself, as [`Borrow`] demands.
impl Hash for SharedText {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl Borrow<str> for SharedText {
    fn borrow(&self) -> &str {
        self
    }
}

impl fmt::Debug for SharedText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

impl fmt::Display for SharedText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

impl Serialize for SharedText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self)
    }
}

string_schema!(SharedText);
