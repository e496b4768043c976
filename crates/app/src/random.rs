//! Random bytes of the system.

use std::fs::File;
use std::io::Read as _;

use callsheet_core::diag::{Code, Diagnostic};

use crate::error::{Error, Result};

/// Returns 32 bytes that no other process can predict.
pub fn random_key() -> Result<[u8; 32]> {
    let mut key = [0; 32];
    let random = File::open("/dev/urandom").and_then(|mut random| random.read_exact(&mut key));
    let failed = |error: std::io::Error| {
        let message = format!("cannot generate a random key: {error}");
        Error::new(Diagnostic::error(Code::LedgerFailed, message), error)
    };
    random.map_err(failed)?;
    Ok(key)
}
