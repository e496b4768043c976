//! Converts output into records: short lines whole, long lines in parts.

use std::collections::VecDeque;

use super::{MAX_RECORD_BYTES, OutputStream, ProcessEvent, ProcessLimits};

pub(super) struct OutputCollector {
    stream: OutputStream,
    /// The line so far, shorter than a record.
    line: Vec<u8>,
    /// The last records, once the head is full.
    tail: VecDeque<ProcessEvent>,
    tail_bytes: usize,
    most_tail_bytes: usize,
    left_out: u64,
}

impl OutputCollector {
    pub(super) fn new(stream: OutputStream, limits: ProcessLimits) -> Self {
        let most_tail_bytes = limits.tail_bytes;
        Self { stream, line: Vec::new(), tail: VecDeque::new(), tail_bytes: 0, most_tail_bytes, left_out: 0 }
    }

    pub(super) fn push(&mut self, bytes: Vec<u8>, head_left: &mut usize, tell: &mut dyn FnMut(ProcessEvent)) {
        self.push_records(&bytes, head_left, tell);
        tell(ProcessEvent::Printed { stream: self.stream, bytes });
    }

    fn push_records(&mut self, mut bytes: &[u8], head_left: &mut usize, tell: &mut dyn FnMut(ProcessEvent)) {
        while !bytes.is_empty() {
            let room = MAX_RECORD_BYTES - self.line.len();
            let end = bytes.iter().take(room + 1).position(|byte| *byte == b'\n');
            let taken = end.unwrap_or(room.min(bytes.len()));
            self.line.extend_from_slice(&bytes[..taken]);
            bytes = &bytes[taken + usize::from(end.is_some())..];
            if end.is_some() {
                self.push_record(false, head_left, tell);
            } else if self.line.len() == MAX_RECORD_BYTES {
                self.push_record(true, head_left, tell);
            }
        }
    }

    /// Reports the rest: the last line, which has no line end, and the last records, which were kept.
    pub(super) fn finish(&mut self, tell: &mut dyn FnMut(ProcessEvent)) {
        if !self.line.is_empty() {
            // The limit is for endless output, not for the last words.
            let mut head_left = if self.is_over() { 0 } else { usize::MAX };
            self.push_record(false, &mut head_left, tell);
        }
        if self.left_out > 0 {
            tell(ProcessEvent::LeftOut { stream: self.stream, bytes: self.left_out });
        }
        self.tail.drain(..).for_each(tell);
    }

    fn is_over(&self) -> bool {
        self.left_out > 0 || !self.tail.is_empty()
    }

    fn push_record(&mut self, goes_on: bool, head_left: &mut usize, tell: &mut dyn FnMut(ProcessEvent)) {
        let rest = if goes_on { self.take_incomplete_character() } else { Vec::new() };
        let bytes = std::mem::replace(&mut self.line, rest);
        let bytes = bytes.strip_suffix(b"\r").filter(|_| !goes_on).unwrap_or(&bytes);
        let text = String::from_utf8_lossy(bytes);
        let replaced = matches!(text, std::borrow::Cow::Owned(_));
        let event = ProcessEvent::Output { stream: self.stream, text: text.into_owned(), goes_on, replaced };
        let size = bytes.len() + usize::from(!goes_on);
        if size <= *head_left && !self.is_over() {
            *head_left -= size;
            return tell(event);
        }
        *head_left = 0;
        self.tail.push_back(event);
        self.tail_bytes += size;
        while self.tail_bytes > self.most_tail_bytes {
            let Some(ProcessEvent::Output { text, goes_on, .. }) = self.tail.pop_front() else { break };
            let size = text.len() + usize::from(!goes_on);
            self.tail_bytes = self.tail_bytes.saturating_sub(size);
            self.left_out += size as u64;
        }
    }

    /// Removes an incomplete character from the end of the line, and returns its bytes.
    fn take_incomplete_character(&mut self) -> Vec<u8> {
        let from = self.line.len().saturating_sub(3);
        let start = (from..self.line.len()).rev().find(|at| self.line[*at] >= 0xC0);
        let wanted = |byte: u8| match byte {
            0xC0..=0xDF => 2,
            0xE0..=0xEF => 3,
            _ => 4,
        };
        match start {
            Some(start) if self.line.len() - start < wanted(self.line[start]) => self.line.split_off(start),
            _ => Vec::new(),
        }
    }
}
