//! Limits on the size of a composed prompt.
//!
//! Ten small templates that include each other ten times each make ten billion pieces. A request over a limit
//! is an error, long before memory runs out.

use alloc::format;

use crate::diag::{Code, Diagnostic};

/// The deepest nesting of fragments in fragments, and of derived values in derived values.
pub const MAX_DEPTH: usize = 32;
/// The most texts and holes of templates, counted once per use.
const MAX_PIECES: usize = 1 << 20;
/// Far above the input limit of the largest model.
const MAX_BYTES: usize = 256 << 20;

/// The part of the limits that a composition has used.
#[derive(Debug, Default)]
pub(crate) struct ComposeLimits {
    depth: usize,
    pieces: usize,
    bytes: usize,
    /// Set by the first error; nothing is filled after it.
    is_full: bool,
}

impl ComposeLimits {
    pub(crate) fn is_full(&self) -> bool {
        self.is_full
    }

    /// Enters a template of this many pieces inside the current one. Pair it with
    /// [`exit_template`](Self::exit_template).
    pub(crate) fn enter_template(&mut self, pieces: usize) -> Result<(), Diagnostic> {
        if self.depth == MAX_DEPTH {
            self.is_full = true;
            return Err(depth_error());
        }
        self.take(pieces, 0)?;
        self.depth += 1;
        Ok(())
    }

    pub(crate) fn exit_template(&mut self) {
        self.depth -= 1;
    }

    pub(crate) fn take(&mut self, pieces: usize, bytes: usize) -> Result<(), Diagnostic> {
        self.pieces = self.pieces.saturating_add(pieces);
        self.bytes = self.bytes.saturating_add(bytes);
        let over = if self.pieces > MAX_PIECES {
            format!("the prompt would consist of more than {MAX_PIECES} pieces")
        } else if self.bytes > MAX_BYTES {
            format!("the prompt would have more than {MAX_BYTES} bytes")
        } else {
            return Ok(());
        };
        if self.is_full {
            // The error is already reported.
            return Ok(());
        }
        self.is_full = true;
        Err(Diagnostic::error(Code::PromptTooLarge, over).hint("no agent can read a prompt of this size"))
    }
}

/// Returns the error for fragments that are nested too deep.
pub fn depth_error() -> Diagnostic {
    let message = format!("fragments are nested more than {MAX_DEPTH} levels deep");
    Diagnostic::error(Code::FragmentTooDeep, message)
}
