//! Contents of the files that a run changed, before and after it.

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::Digest;
use crate::text::word_enum::word_enum;

/// Record of the contents of changed files. The texts are stored by their digests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChangedContents {
    /// The files in byte order of their paths. A renamed file is two: the removed one and the new one.
    pub files: Vec<FileChange>,
}

impl ChangedContents {
    /// Returns the digests of the texts that are kept.
    pub fn texts(&self) -> BTreeSet<Digest> {
        let versions = self.files.iter().flat_map(|file| [&file.before, &file.after]);
        versions.flatten().filter_map(FileVersion::text).collect()
    }
}

/// A file before and after a run. `None` is a file that did not exist.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileChange {
    /// Path, relative to the working directory of the agent.
    pub path: String,
    /// The file before the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<FileVersion>,
    /// The file after the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<FileVersion>,
}

/// A version of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct FileVersion {
    /// Kind of the file.
    pub mode: FileMode,
    /// SHA-256 of the contents, or of the target of a link; `None` if they are not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<Digest>,
    /// Why the contents are not kept; `None` if they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub omitted: Option<OmittedContents>,
}

impl FileVersion {
    /// Returns the digest of the contents if they are kept.
    pub fn text(&self) -> Option<Digest> {
        self.sha256.filter(|_| self.omitted.is_none())
    }
}

word_enum! {
    /// Kind of a file, as far as git knows it.
    FileMode {
        /// A file.
        Plain "plain",
        /// A file that its owner may execute.
        Executable "executable",
        /// A symbolic link.
        Link "link",
    }
}

word_enum! {
    /// Why the contents of a file are not kept.
    OmittedContents {
        /// It is not UTF-8 text.
        Binary "binary",
        /// It is too large.
        Large "large",
        /// It contains a secret.
        Secret "secret",
        /// Other changed files of the run filled the space.
        Full "full",
        /// It could not be read.
        Unknown "unknown",
    }
}

impl OmittedContents {
    /// Says why the contents are not kept.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Binary => "it is not UTF-8 text",
            Self::Large => "it is larger than 1 MiB",
            Self::Secret => "it contains a secret",
            Self::Full => "the changes of the run are larger than 20 MiB",
            Self::Unknown => "its contents are not known",
        }
    }
}
