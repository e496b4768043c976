//! Seals: values that a request marks as secret are delivered as they are, and stored as keyed hashes.
//!
//! Composing a sealed request gives the prompt with the seals in the place of the values. That is what a ledger stores and
//! what can be verified without the values; with them, the keyed hash of the true prompt can be verified too. A hash
//! without a key would let anybody try out passwords.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use sha2::{Digest as _, Sha256};

use crate::origin::{Origin, OriginKind};
use crate::request::Request;
use crate::text::SharedText;
use crate::values::SlotValues;

/// Hashes with a key that only one ledger knows (HMAC-SHA-256).
#[derive(Clone)]
pub struct HmacKey([u8; 32]);

impl core::fmt::Debug for HmacKey {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Keyed(…)")
    }
}

impl HmacKey {
    /// `key` is random, made once per ledger.
    pub const fn new(key: [u8; 32]) -> Self {
        Self(key)
    }

    /// The hash of `data` in hexadecimal.
    pub fn hash(&self, data: &[u8]) -> String {
        let pad = |with: u8| {
            let mut block = [with; 64];
            block.iter_mut().zip(self.0).for_each(|(byte, key)| *byte ^= key);
            block
        };
        let inner = Sha256::new().chain_update(pad(0x36)).chain_update(data).finalize();
        let outer = Sha256::new().chain_update(pad(0x5c)).chain_update(inner).finalize();
        outer.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// What is stored in the place of the value `key`. The name is hashed too: that two values are equal is nobody's
    /// business.
    fn seal(&self, key: &str, value: &str) -> String {
        format!(
            "[secret value {key} hmac-sha256:{}]",
            self.hash(&[key.as_bytes(), b"\0", value.as_bytes()].concat())
        )
    }
}

/// Whether the text of this origin is a value that `request` marks as secret.
pub fn is_secret(request: &Request, origin: &Origin) -> bool {
    matches!(&origin.from, OriginKind::Value(key) if request.secret.contains(key.as_str()))
}

/// The request as it is stored: a seal for each value that is marked as secret.
#[must_use]
pub fn seal(request: &Request, keyed: &HmacKey) -> Request {
    let mut sealed = request.clone();
    for key in &request.secret {
        if let Some(value) = request.values.get(key) {
            sealed.values.insert(key.as_str().into(), SharedText::from(keyed.seal(key, value)));
        }
    }
    sealed
}

/// The values without which a sealed request cannot be composed as it was, of those that are not `given`.
pub fn needs(sealed: &Request, given: &SlotValues) -> Vec<String> {
    sealed.secret.iter().filter(|key| given.get(key).is_none()).cloned().collect()
}

/// Of the secret values `keys` those whose seals are in `text`, the sealed prompt. A value that only decides what is
/// written leaves no seal there, so if no seal is found, all of them.
pub fn find_sealed(sealed: &Request, keys: Vec<String>, text: &str) -> Vec<String> {
    // The hash alone: an encoding may write the brackets and the name in another way.
    let hash = |key: &str| sealed.values.get(key)?.as_str().strip_suffix(']')?.rsplit(':').next();
    let is_there = |key: &&String| hash(key).is_some_and(|hash| text.contains(hash));
    let found: Vec<String> = keys.iter().filter(is_there).cloned().collect();
    if found.is_empty() { keys } else { found }
}

/// The request with the values in it again, or the keys of those that are not the ones that were sealed.
pub fn unseal(sealed: &Request, given: &SlotValues, keyed: &HmacKey) -> Result<Request, Vec<String>> {
    let mut request = sealed.clone();
    let mut other = Vec::new();
    for key in &sealed.secret {
        let (Some(value), Some(seal)) = (given.get(key), sealed.values.get(key)) else { continue };
        if keyed.seal(key, value) == seal.as_str() {
            request.values.insert(key.as_str().into(), value.clone());
        } else {
            other.push(key.clone());
        }
    }
    if other.is_empty() { Ok(request) } else { Err(other) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The key of RFC 4231 is shorter than ours; behind it are zeros, as HMAC puts them there itself.
    #[test]
    fn hashes_are_those_of_rfc_4231() {
        let mut key = [0; 32];
        key[..20].fill(0x0b);
        let wanted = "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7";
        assert_eq!(HmacKey::new(key).hash(b"Hi There"), wanted);
        let mut key = [0; 32];
        key[..4].copy_from_slice(b"Jefe");
        let wanted = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        assert_eq!(HmacKey::new(key).hash(b"what do ya want for nothing?"), wanted);
    }
}
