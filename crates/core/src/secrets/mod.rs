//! Finds secrets that must not get into a prompt by accident, and keeps them out of stored data.
//!
//! [`SecretRules`] find secrets in a text, the [`Gate`] checks texts as they come in, [`SecretRedactor`]
//! works on the output of agents, and [`seal`] puts keyed hashes in the place of values that a request marks
//! as secret.
//!
//! A message never contains a secret: a diagnostic shows the line with the secret masked.

mod automaton;
mod gate;
mod literals;
mod mask;
mod redact;
mod request_texts;
mod rules;
mod scan;
mod seal;
mod url;

pub use gate::{FoundSecret, Gate, GateReport, GatedSources, SecretMode};
pub use redact::{PLACEHOLDER, SecretRedactor};
pub use rules::{RuleFile, SecretRules, read_rules};
pub use scan::SecretHit;
pub use seal::{HmacKey, find_missing_values, find_sealed, is_secret, seal, unseal};
pub use url::{mask_address, mask_address_in, mask_addresses};
