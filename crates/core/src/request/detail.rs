//! Detail: how much of a document goes into a prompt.
//!
//! An outline is a selection of whole lines, so each of them keeps its origin. `compose::outline` selects
//! them by their look alone: it parses no language.

use serde::{Deserialize, Serialize};

use crate::text::word_enum::word_enum;

/// How much of a document a prompt shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum DocumentDetail {
    /// The whole document.
    #[default]
    Full,
    /// The headings of a Markdown file; of any other file, the lines of its two outermost indentation levels.
    Outline,
    /// Only its path.
    Path,
}

/// A document that has no text to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TextlessDocument {
    /// The reason.
    pub why: NoTextReason,
    /// The size of the document in bytes.
    #[serde(default)]
    pub bytes: u64,
}

/// The reason why a document has no text to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum NoTextReason {
    /// The file is not text.
    Binary,
    /// The file exceeds the size limit.
    TooLarge,
    /// The file is a symbolic link, and links are not followed.
    Link,
    /// The file is not a regular file, or cannot be read.
    Unreadable,
}

impl NoTextReason {
    /// Returns the reason in words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Binary => "binary",
            Self::TooLarge => "too large",
            Self::Link => "symbolic link",
            Self::Unreadable => "unreadable",
        }
    }
}

word_enum! {
    /// How much of a block is shown, from all to nothing.
    #[derive(Default)]
    DetailLevel {
        /// The whole block.
        #[default]
        Full "full",
        /// The outline of the block.
        Outline "outline",
        /// The path of a document that has one; the outline of any other block.
        Path "path",
        /// Nothing.
        Out "out",
    }
}

impl DetailLevel {
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::Full => "shown whole",
            Self::Outline => "shown as an outline",
            Self::Path => "shown by its path",
            Self::Out => "left out",
        }
    }
}

impl From<DocumentDetail> for DetailLevel {
    fn from(detail: DocumentDetail) -> Self {
        match detail {
            DocumentDetail::Full => Self::Full,
            DocumentDetail::Outline => Self::Outline,
            DocumentDetail::Path => Self::Path,
        }
    }
}
