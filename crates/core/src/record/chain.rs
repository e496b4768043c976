//! The chain: every record is linked to the previous one.
//!
//! A link is the SHA-256 of the previous link, the SHA-256 of the record's payload, and the record's own
//! columns as lines of text. So changed, reordered and removed records are detected, and a payload that
//! retention removed leaves the chain intact.

use alloc::format;

use super::digest::{Digest, sha256};

/// Contents of a link, apart from the previous link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainLink<'r> {
    /// Number of the record.
    pub seq: u64,
    /// Id of the run.
    pub run: Option<&'r str>,
    /// Id of the flow.
    pub flow: Option<&'r str>,
    /// Kind of the record.
    pub kind: &'r str,
    /// Time of the record.
    pub at: &'r str,
    /// Digest of the payload.
    pub payload: Digest,
}

impl ChainLink<'_> {
    /// Computes the link that follows `before`.
    pub fn link_after(&self, before: &Digest) -> Digest {
        let (run, flow) = (self.run.unwrap_or_default(), self.flow.unwrap_or_default());
        let columns = format!("{}\n{run}\n{flow}\n{}\n{}\n", self.seq, self.kind, self.at);
        sha256(&[&before.0, &self.payload.0, columns.as_bytes()])
    }
}
