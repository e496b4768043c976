//! Stores the texts of many files side by side in a few large buffers.
//!
//! A buffer for each file costs a call of the allocator, and most such calls outside the main thread cost a
//! system call too.

use std::ops::Range;
use std::sync::Arc;

use callsheet_core::SharedText;

/// The size of one buffer.
const ROOM: usize = 1 << 20;

/// From this size on, a text gets a buffer of its own: too much of a shared one could stay unused.
const LARGE: usize = ROOM / 8;

/// The latest texts, each with the number of its file.
#[derive(Default)]
pub(crate) struct TextArena {
    all: String,
    parts: Vec<(usize, Range<usize>)>,
}

impl TextArena {
    /// Adds a text to the arena. Texts that must leave the arena for it, and a text that is too large, go to
    /// `out`.
    pub(crate) fn push(&mut self, number: usize, text: &str, out: &mut dyn FnMut(usize, SharedText)) {
        if text.len() >= LARGE {
            return out(number, SharedText::from(text.to_owned()));
        }
        if self.all.capacity() - self.all.len() < text.len() {
            self.flush(out);
            self.all = String::with_capacity(ROOM);
        }
        let start = self.all.len();
        self.all.push_str(text);
        self.parts.push((number, start..self.all.len()));
    }

    pub(crate) fn flush(&mut self, out: &mut dyn FnMut(usize, SharedText)) {
        let all = Arc::new(std::mem::take(&mut self.all));
        for (number, range) in self.parts.drain(..) {
            out(number, SharedText::from_part(&all, range).unwrap_or_default());
        }
    }
}
