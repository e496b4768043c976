//! The record of a probe: the request that the CLI of an agent would send to its model with a prompt.

use alloc::collections::BTreeSet;
use alloc::string::String;

use serde::{Deserialize, Serialize};

use super::Digest;

/// Record of a probe. The document, with every part of the request, is stored by its digest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContextRecord {
    /// Name of the agent.
    pub agent: String,
    /// Version that its CLI reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Model that the request names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Bytes of the request.
    pub bytes: u64,
    /// The document `callsheet/context/1`, without secrets.
    pub document: Digest,
}

impl ContextRecord {
    /// Returns the digest of its text.
    pub fn texts(&self) -> BTreeSet<Digest> {
        BTreeSet::from([self.document])
    }
}
