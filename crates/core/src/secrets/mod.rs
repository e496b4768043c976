//! Secrets: what must not get into a prompt by accident, and how it is kept out of what is stored.
//!
//! [`Rules`] find secrets in a text, the [`Gate`] stands where texts come in, [`Redactor`] works on what
//! agents print, and [`seal`] puts keyed hashes in the place of values that a request marks as secret.
//!
//! What was found is never part of a message: a diagnostic shows the line with the secret masked.

mod automaton;
mod fields;
mod gate;
mod literals;
mod mask;
mod redact;
mod rules;
mod scan;
mod seal;
mod url;

pub use gate::{Found, Gate, Gated, Mode, Passed};
pub use redact::{PLACEHOLDER, Redactor};
pub use rules::{RuleFile, Rules, read_rules};
pub use scan::Hit;
pub use seal::{Keyed, is_secret, needs, seal, sealed_in, unseal};
pub use url::{mask_address, mask_address_in, mask_addresses};
