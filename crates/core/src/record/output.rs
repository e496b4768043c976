//! Splits an agent's output into records of a bounded size.

use alloc::vec::Vec;

use super::{LogStream, OUTPUT_BYTES, Output};

impl Output {
    /// Splits `text` into as few records as possible; its first line has the number `line`. Lines stay whole;
    /// a line that is longer than a record is truncated and marked.
    pub fn split_records(stream: LogStream, mut line: u64, text: &str) -> Vec<Self> {
        let mut records: Vec<Self> = Vec::new();
        // Range of the open record in the text.
        let (mut start, mut end, mut first) = (0, 0, line);
        let mut close = |start: usize, end: usize, first: u64, cut: bool| {
            if start < end {
                records.push(Self { stream, line: first, text: text[start..end].into(), cut });
            }
        };
        for whole in text.split_inclusive('\n') {
            if end + whole.len() - start > OUTPUT_BYTES {
                close(start, end, first, false);
                (start, first) = (end, line);
            }
            end += whole.len();
            line += 1;
            if end - start > OUTPUT_BYTES {
                close(start, text.floor_char_boundary(start + OUTPUT_BYTES), first, true);
                (start, first) = (end, line);
            }
        }
        close(start, end, first, false);
        records
    }
}
