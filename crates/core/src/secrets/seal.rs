//! Seals values that a request marks as secret: they are delivered as they are, and stored as keyed hashes.
//!
//! Composing a sealed request results in the prompt with seals in the place of the values. A ledger stores
//! this prompt, which can be verified without the values; with them, the keyed hash of the true prompt can be
//! verified too. A hash without a key would let an attacker try out passwords.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use crate::request::Request;
use crate::request::values::SlotValues;
use crate::source::origin::{Origin, OriginKind};
use crate::text::SharedText;
use crate::text::hex::to_hex;

/// The key of a ledger for hashes (HMAC-SHA-256); only that ledger knows it.
#[derive(Clone)]
pub struct HmacKey([u8; 32]);

impl core::fmt::Debug for HmacKey {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Keyed(…)")
    }
}

impl HmacKey {
    /// Creates a key from random bytes, which are generated once per ledger.
    pub const fn new(key: [u8; 32]) -> Self {
        Self(key)
    }

    /// Returns the hash of `data` in hexadecimal.
    pub fn hash(&self, data: &[u8]) -> String {
        // A key that is as long as a block needs no check of its length; HMAC adds these zeros itself.
        let mut block = [0; 64];
        block[..self.0.len()].copy_from_slice(&self.0);
        to_hex(Hmac::<Sha256>::new(&block.into()).chain_update(data).finalize().into_bytes())
    }

    /// Returns the seal that is stored in the place of the value `key`. The name is hashed too, so that equal
    /// values do not have equal seals.
    fn seal_value(&self, key: &str, value: &str) -> String {
        format!(
            "[secret value {key} hmac-sha256:{}]",
            self.hash(&[key.as_bytes(), b"\0", value.as_bytes()].concat())
        )
    }
}

/// Checks whether the text of this origin is a value that `request` marks as secret.
pub fn is_secret(request: &Request, origin: &Origin) -> bool {
    matches!(&origin.from, OriginKind::Value(key) if request.secret.contains(key.as_str()))
}

/// Returns the request as it is stored: with a seal for each value that is marked as secret.
#[must_use]
pub fn seal(request: &Request, keyed: &HmacKey) -> Request {
    let mut sealed = request.clone();
    for key in &request.secret {
        if let Some(value) = request.values.get(key) {
            sealed.values.insert(key.as_str().into(), SharedText::from(keyed.seal_value(key, value)));
        }
    }
    sealed
}

/// Returns the keys of the values that are needed to compose a sealed request as it was and are not `given`.
pub fn find_missing_values(sealed: &Request, given: &SlotValues) -> Vec<String> {
    sealed.secret.iter().filter(|key| given.get(key).is_none()).cloned().collect()
}

/// Returns those of the secret values `keys` whose seals are in `text`, the sealed prompt. Returns all of
/// them if no seal is found, since a value that only selects other text leaves no seal there.
pub fn find_sealed(sealed: &Request, keys: Vec<String>, text: &str) -> Vec<String> {
    // Searches for the hash alone: an encoding may write the brackets and the name in another way.
    let hash = |key: &str| sealed.values.get(key)?.as_str().strip_suffix(']')?.rsplit(':').next();
    let is_there = |key: &&String| hash(key).is_some_and(|hash| text.contains(hash));
    let found: Vec<String> = keys.iter().filter(is_there).cloned().collect();
    if found.is_empty() { keys } else { found }
}

/// Returns the request with the values in it again, or the keys of the given values that differ from the
/// sealed ones.
pub fn unseal(sealed: &Request, given: &SlotValues, keyed: &HmacKey) -> Result<Request, Vec<String>> {
    let mut request = sealed.clone();
    let mut other = Vec::new();
    for key in &sealed.secret {
        let (Some(value), Some(seal)) = (given.get(key), sealed.values.get(key)) else { continue };
        if keyed.seal_value(key, value) == seal.as_str() {
            request.values.insert(key.as_str().into(), value.clone());
        } else {
            other.push(key.clone());
        }
    }
    if other.is_empty() { Ok(request) } else { Err(other) }
}
