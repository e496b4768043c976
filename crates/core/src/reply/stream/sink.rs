//! Keeps the text of an agent while it arrives, within a limit.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt::Debug;
use core::ops::Range;

use super::MOST_TEXT;

/// A growing text. A sink in memory is a `Vec<u8>`; others may use a file.
pub trait TextSink: Debug {
    /// Appends `bytes`. Returns whether they are kept.
    fn push(&mut self, bytes: &[u8]) -> bool;

    /// Removes the whole text.
    fn clear(&mut self);

    /// Fills `into` with the bytes from `at` on. Returns whether all of them could be read.
    fn read(&mut self, at: usize, into: &mut [u8]) -> bool;

    /// Returns the whole text, or `None` if it cannot be read.
    fn into_bytes(self: Box<Self>) -> Option<Vec<u8>>;
}

impl TextSink for Vec<u8> {
    fn push(&mut self, bytes: &[u8]) -> bool {
        self.extend_from_slice(bytes);
        true
    }

    fn clear(&mut self) {
        Self::clear(self);
    }

    fn read(&mut self, at: usize, into: &mut [u8]) -> bool {
        let Some(from) = self.get(at..at + into.len()) else { return false };
        into.copy_from_slice(from);
        true
    }

    fn into_bytes(self: Box<Self>) -> Option<Vec<u8>> {
        Some(*self)
    }
}

/// A text of at most [`MOST_TEXT`] bytes.
#[derive(Debug)]
pub(super) struct BoundedText {
    sink: Box<dyn TextSink>,
    len: usize,
    /// More text arrived than is kept.
    pub(super) is_over: bool,
    /// The sink failed to keep or to return text.
    pub(super) is_lost: bool,
}

impl Default for BoundedText {
    fn default() -> Self {
        Self::new(Box::new(Vec::new()))
    }
}

const CHUNK: usize = 8 << 10;

impl BoundedText {
    pub(super) fn new(sink: Box<dyn TextSink>) -> Self {
        Self { sink, len: 0, is_over: false, is_lost: false }
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        let remaining = MOST_TEXT - self.len;
        self.is_over |= bytes.len() > remaining;
        let bytes = &bytes[..bytes.len().min(remaining)];
        if !bytes.is_empty() {
            self.is_lost |= !self.sink.push(bytes);
            self.len += bytes.len();
        }
    }

    pub(super) fn clear(&mut self) {
        if self.len > 0 {
            self.sink.clear();
        }
        (self.len, self.is_over) = (0, false);
    }

    /// Returns the whole text, or `None` if part of it is lost.
    pub(super) fn into_bytes(self) -> Option<Vec<u8>> {
        self.sink.into_bytes().filter(|text| !self.is_lost && text.len() == self.len)
    }

    /// Passes the bytes of a range to `take`, in pieces.
    pub(super) fn for_each_piece(&mut self, range: Range<usize>, mut take: impl FnMut(&[u8])) {
        let mut buffer = [0; CHUNK];
        let mut at = range.start;
        while at < range.end {
            let piece = &mut buffer[..CHUNK.min(range.end - at)];
            if !self.sink.read(at, piece) {
                self.is_lost = true;
                return;
            }
            take(piece);
            at += piece.len();
        }
    }

    /// Checks whether a range holds the same bytes as a range of another text.
    pub(super) fn has_same_bytes(
        &mut self,
        range: Range<usize>,
        other: &mut Self,
        theirs: Range<usize>,
    ) -> bool {
        if range.len() != theirs.len() {
            return false;
        }
        let (mut is_equal, mut at) = (true, theirs.start);
        self.for_each_piece(range, |piece| {
            let mut buffer = [0; CHUNK];
            let same = &mut buffer[..piece.len()];
            is_equal &= other.sink.read(at, same) && same == piece;
            at += piece.len();
        });
        is_equal
    }
}
