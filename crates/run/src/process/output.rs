//! Converts output into records: short lines whole, long lines in parts.

use std::collections::VecDeque;

use super::{MAX_RECORD_BYTES, OutputStream, ProcessEvent, ProcessLimits};

pub(super) struct OutputCollector {
    stream: OutputStream,
    /// The line so far, shorter than a record.
    line: Vec<u8>,
    /// The last records, once the head is full, each with the end of its line. They are bytes, because events of a million
    /// empty lines, or of text in which every byte is replaced, take far more memory than the output.
    tail: VecDeque<u8>,
    /// The sizes of these records.
    tail_sizes: VecDeque<usize>,
    most_tail_bytes: usize,
    left_out: u64,
}

impl OutputCollector {
    pub(super) fn new(stream: OutputStream, limits: ProcessLimits) -> Self {
        Self {
            stream,
            line: Vec::new(),
            tail: VecDeque::new(),
            tail_sizes: VecDeque::new(),
            most_tail_bytes: limits.tail_bytes,
            left_out: 0,
        }
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

    /// Tells what is left: the last line has no end, and the last records were kept.
    pub(super) fn finish(&mut self, tell: &mut dyn FnMut(ProcessEvent)) {
        if !self.line.is_empty() {
            // The limit is for endless output, not for the last words.
            let mut head_left = if self.is_over() { 0 } else { usize::MAX };
            self.push_record(false, &mut head_left, tell);
        }
        if self.left_out > 0 {
            tell(ProcessEvent::LeftOut { stream: self.stream, bytes: self.left_out });
        }
        for size in std::mem::take(&mut self.tail_sizes) {
            let bytes: Vec<u8> = self.tail.drain(..size).collect();
            let line = bytes.strip_suffix(b"\n");
            tell(self.event(line.unwrap_or(&bytes), line.is_none()));
        }
    }

    fn is_over(&self) -> bool {
        self.left_out > 0 || !self.tail.is_empty()
    }

    /// Converts the bytes of a record into an event.
    fn event(&self, bytes: &[u8], goes_on: bool) -> ProcessEvent {
        let text = String::from_utf8_lossy(bytes);
        let replaced = matches!(text, std::borrow::Cow::Owned(_));
        ProcessEvent::Output { stream: self.stream, text: text.into_owned(), goes_on, replaced }
    }

    fn push_record(&mut self, goes_on: bool, head_left: &mut usize, tell: &mut dyn FnMut(ProcessEvent)) {
        let rest = if goes_on { self.take_incomplete_character() } else { Vec::new() };
        let bytes = std::mem::replace(&mut self.line, rest);
        let bytes = bytes.strip_suffix(b"\r").filter(|_| !goes_on).unwrap_or(&bytes);
        let size = bytes.len() + usize::from(!goes_on);
        if size <= *head_left && !self.is_over() {
            *head_left -= size;
            return tell(self.event(bytes, goes_on));
        }
        *head_left = 0;
        self.tail.extend(bytes);
        self.tail.extend((!goes_on).then_some(b'\n'));
        self.tail_sizes.push_back(size);
        while self.tail.len() > self.most_tail_bytes {
            let Some(size) = self.tail_sizes.pop_front() else { break };
            self.tail.drain(..size);
            self.left_out += size as u64;
        }
    }

    /// Takes a character that is not complete from the end of the line.
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

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: ProcessLimits =
        ProcessLimits { deadline: None, grace: std::time::Duration::ZERO, head_bytes: 4, tail_bytes: 1000 };

    fn collect(line: &[u8], times: usize) -> (OutputCollector, Vec<ProcessEvent>) {
        let mut collector = OutputCollector::new(OutputStream::Stdout, LIMITS);
        let mut events = Vec::new();
        let mut head_left = LIMITS.head_bytes;
        (0..times)
            .for_each(|_| collector.push_records(line, &mut head_left, &mut |event| events.push(event)));
        (collector, events)
    }

    #[test]
    fn tail_counts_printed_bytes() {
        let record = |text: &str, replaced| ProcessEvent::Output {
            stream: OutputStream::Stdout,
            text: text.into(),
            goes_on: false,
            replaced,
        };
        for (line, text, replaced) in
            [(&b"\xFF\xFF\xFF\n"[..], "\u{fffd}\u{fffd}\u{fffd}", true), (b"abc\r\n", "abc", false)]
        {
            let (mut collector, mut events) = collect(line, 10_000);
            collector.finish(&mut |event| events.push(event));
            let mut expected = vec![record(text, replaced); 252];
            expected[1] = ProcessEvent::LeftOut { stream: OutputStream::Stdout, bytes: 4 * (9_999 - 250) };
            assert_eq!(events, expected, "{text}");
        }
    }

    #[test]
    fn empty_lines_keep_tail_small() {
        let (collector, _) = collect(b"\n", 10_000);
        let sizes = collector.tail_sizes.capacity() * size_of::<usize>();
        let memory = collector.tail.capacity() + sizes;
        assert!(memory <= 20 * LIMITS.tail_bytes, "{memory} bytes");
    }
}
