//! The chain: every record is tied to the one before it.
//!
//! A link is the SHA-256 of the link before it, the SHA-256 of the record's payload, and the record's own columns as
//! lines of text. So what is changed, reordered or taken out is found, and a payload that retention removed leaves
//! the chain whole.

use alloc::format;

use super::digest::{Digest, sha256};

/// What a link is made of, apart from the link before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainLink<'r> {
    pub seq: u64,
    pub run: Option<&'r str>,
    pub flow: Option<&'r str>,
    pub kind: &'r str,
    pub at: &'r str,
    pub payload: Digest,
}

impl ChainLink<'_> {
    pub fn after(&self, before: &Digest) -> Digest {
        let (run, flow) = (self.run.unwrap_or_default(), self.flow.unwrap_or_default());
        let columns = format!("{}\n{run}\n{flow}\n{}\n{}\n", self.seq, self.kind, self.at);
        sha256(&[&before.0, &self.payload.0, columns.as_bytes()])
    }
}
