//! Texts of many files side by side in few large pieces of memory.
//!
//! A piece for each file costs a call of the allocator, and most of those that a thread makes beside the main one cost a
//! call of the system too.

use std::ops::Range;
use std::sync::Arc;

use callsheet_core::SharedText;

/// How much stands in one piece.
const ROOM: usize = 1 << 20;

/// From here on a text has a piece of its own: too much room could be left over behind the others.
const LARGE: usize = ROOM / 8;

/// Texts that came last, each with the number of its file.
#[derive(Default)]
pub(crate) struct TextArena {
    all: String,
    parts: Vec<(usize, Range<usize>)>,
}

impl TextArena {
    /// Puts a text on the shelf; what has to leave it for that, or has no place there, goes to `out`.
    pub(crate) fn put(&mut self, number: usize, text: &str, out: &mut dyn FnMut(usize, SharedText)) {
        if text.len() >= LARGE {
            return out(number, SharedText::from(text.to_owned()));
        }
        if self.all.capacity() - self.all.len() < text.len() {
            self.clear(out);
            self.all = String::with_capacity(ROOM);
        }
        let start = self.all.len();
        self.all.push_str(text);
        self.parts.push((number, start..self.all.len()));
    }

    pub(crate) fn clear(&mut self, out: &mut dyn FnMut(usize, SharedText)) {
        let all = Arc::new(std::mem::take(&mut self.all));
        for (number, range) in self.parts.drain(..) {
            out(number, SharedText::part(&all, range).unwrap_or_default());
        }
    }
}
