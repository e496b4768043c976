//! Paths below a worktree, as bytes. Two different paths never look alike here.

use std::borrow::Borrow;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct WorktreePath(Box<[u8]>);

impl WorktreePath {
    pub(super) fn new(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the path for people and records.
    pub(super) fn to_text(&self) -> String {
        display_bytes(&self.0)
    }

    /// Checks whether this is `folder`, or lies in it.
    pub(super) fn is_in(&self, folder: &[u8]) -> bool {
        self.0
            .strip_prefix(folder)
            .is_some_and(|rest| folder.is_empty() || rest.is_empty() || rest[0] == b'/')
    }
}

/// Renders a path; bytes that are not UTF-8 are written as `\xNN`.
pub(super) fn display_bytes(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|byte| format!("\\x{byte:02x}")));
    }
    text
}

/// Parses two digits for each byte.
pub(super) fn parse_hex(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).ok());
    pairs.map(|pair| u8::from_str_radix(pair?, 16).ok()).collect()
}

impl Borrow<[u8]> for WorktreePath {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for WorktreePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_text())
    }
}

/// Writes UTF-8 as it is, and any other path as two digits for each byte, after a character that no path has.
impl Serialize for WorktreePath {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(&self.0) {
            Ok(text) => to.serialize_str(text),
            Err(_) => to.serialize_str(&format!("\0{}", callsheet_core::text::hex::to_hex(&self.0))),
        }
    }
}

impl<'de> Deserialize<'de> for WorktreePath {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let Some(digits) = text.strip_prefix('\0') else { return Ok(Self::new(text.as_bytes())) };
        let bytes = parse_hex(digits).ok_or_else(|| serde::de::Error::custom("not a path"))?;
        Ok(Self(bytes.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worktree_path_serialization_round_trips() {
        for bytes in [&b"src/a.rs"[..], b"", b"a\n\"b", b"\xff\xfe/\\xff", b"\\xff", "ä".as_bytes()] {
            let place = WorktreePath::new(bytes);
            let text = serde_json::to_string(&place).unwrap();
            assert_eq!(serde_json::from_str::<WorktreePath>(&text).unwrap(), place);
        }
        assert_eq!(display_bytes(b"a\xff\\b"), "a\\xff\\b");
        assert!(
            WorktreePath::new(b"a/b").is_in(b"a")
                && WorktreePath::new(b"a").is_in(b"a")
                && WorktreePath::new(b"a").is_in(b"")
        );
        assert!(!WorktreePath::new(b"ab").is_in(b"a"));
    }
}
