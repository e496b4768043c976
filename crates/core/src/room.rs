//! Room: how large a prompt may become.
//!
//! Ten small templates that name each other ten times each make ten thousand million pieces. What asks for
//! more than there is room for is an error, long before the memory is gone.

use alloc::format;

use crate::diag::{Code, Diagnostic};

/// Fragments inside fragments, derived values inside derived values.
pub(crate) const MAX_DEPTH: usize = 32;
/// Texts and holes of templates, each as often as it is used.
const MAX_PIECES: usize = 1 << 20;
/// Far above what the largest model reads.
const MAX_BYTES: usize = 256 << 20;

/// What of the room is taken.
#[derive(Debug, Default)]
pub(crate) struct ComposeLimits {
    depth: usize,
    pieces: usize,
    bytes: usize,
    /// Set with the first error: nothing is filled any more.
    is_full: bool,
}

impl ComposeLimits {
    pub(crate) fn is_full(&self) -> bool {
        self.is_full
    }

    /// Takes room for a template of this many pieces inside the one at hand; [`exit_template`](Self::exit_template) it after.
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
            // That was told before.
            return Ok(());
        }
        self.is_full = true;
        Err(Diagnostic::error(Code::PromptTooLarge, over).hint("no agent reads as much"))
    }
}

pub(crate) fn depth_error() -> Diagnostic {
    let message = format!("fragments stand in each other more than {MAX_DEPTH} levels deep");
    Diagnostic::error(Code::FragmentTooDeep, message)
}
