//! Messages on standard input and output, a line each.
//!
//! A message that is too large, or is none, gets an answer: a client that hears nothing waits for ever.

use std::future::{Future, ready};
use std::io;
use std::thread;
use std::time::Duration;

use rmcp::model::{ErrorCode, ErrorData, JsonRpcError, JsonRpcMessage, RequestId};
use rmcp::service::{RoleServer, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::sync::mpsc::{Receiver, channel};

use crate::print::message;

/// Far above any plan, far below what would hurt.
const MAX_MESSAGE: usize = 4 * 1024 * 1024;

enum Line {
    Whole(Vec<u8>),
    /// Only its id was kept.
    TooLarge(Option<RequestId>),
}

pub(super) struct Stdio {
    lines: Receiver<Line>,
    /// Requests that have no answer yet. A client may close its end as soon as it has asked.
    open: usize,
}

/// How long the answers may take after the input has ended; a request that was given up never gets one.
const LAST_ANSWERS: Duration = Duration::from_secs(10);

impl Stdio {
    /// Reads on a thread of its own, since reading standard input cannot be given up.
    pub(super) fn start() -> Self {
        let (sender, lines) = channel(16);
        thread::spawn(move || {
            let mut input = io::stdin().lock();
            while let Ok(Some(line)) = next_line(&mut input) {
                if sender.blocking_send(line).is_err() {
                    break;
                }
            }
        });
        Self { lines, open: 0 }
    }
}

impl Transport<RoleServer> for Stdio {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        if matches!(item, JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_)) {
            self.open = self.open.saturating_sub(1);
        }
        ready(serde_json::to_vec(&item).map_err(io::Error::from).and_then(|json| message(&json)))
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            let Some(line) = self.lines.recv().await else {
                // Each answer ends this wait, and the next call sees whether it was the last.
                if self.open > 0 {
                    tokio::time::sleep(LAST_ANSWERS).await;
                }
                return None;
            };
            let refused = match line {
                Line::TooLarge(id) => {
                    let why = format!("the message is larger than {MAX_MESSAGE} bytes");
                    Some((id, ErrorCode::INVALID_REQUEST, why))
                }
                Line::Whole(line) if line.trim_ascii().is_empty() => None,
                Line::Whole(line) => match serde_json::from_slice(&line) {
                    Ok(message) => {
                        self.open += usize::from(matches!(message, JsonRpcMessage::Request(_)));
                        return Some(message);
                    }
                    Err(error) => refusal(&line, &error),
                },
            };
            if let Some((id, code, why)) = refused {
                let error = JsonRpcError::new(id, ErrorData::new(code, why, None));
                serde_json::to_vec(&error).ok().and_then(|json| message(&json).ok())?;
            }
        }
    }

    fn close(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send {
        self.lines.close();
        ready(Ok(()))
    }
}

/// What to answer to a line that is no message; nothing to what looks like a notification.
fn refusal(line: &[u8], error: &serde_json::Error) -> Option<(Option<RequestId>, ErrorCode, String)> {
    let mut scan = IdScan::default();
    scan.read(line);
    match (scan.id(), serde_json::from_slice::<serde_json::Value>(line)) {
        (None, Ok(value)) if value.get("method").is_some() => None,
        (id, Ok(_)) => Some((id, ErrorCode::INVALID_REQUEST, format!("this is no request: {error}"))),
        (id, Err(error)) => Some((id, ErrorCode::PARSE_ERROR, format!("this is no JSON: {error}"))),
    }
}

/// The next line without its end; `None` where there is no more.
fn next_line(input: &mut impl io::BufRead) -> io::Result<Option<Line>> {
    let mut line = Vec::new();
    let mut scan: Option<IdScan> = None;
    loop {
        let available = input.fill_buf()?;
        if available.is_empty() {
            // What has no end was cut off.
            return Ok(None);
        }
        let end = available.iter().position(|byte| *byte == b'\n');
        let part = &available[..end.unwrap_or(available.len())];
        match &mut scan {
            Some(scan) => scan.read(part),
            None if line.len() + part.len() > MAX_MESSAGE => {
                let mut begun = IdScan::default();
                begun.read(&line);
                begun.read(part);
                line = Vec::new();
                scan = Some(begun);
            }
            None => line.extend_from_slice(part),
        }
        let read = part.len() + usize::from(end.is_some());
        input.consume(read);
        if end.is_some() {
            return Ok(Some(match scan {
                Some(scan) => Line::TooLarge(scan.id()),
                None => Line::Whole(line),
            }));
        }
    }
}

/// Finds the `id` of a message that is not kept: a string or a number of the outermost object.
#[derive(Default)]
struct IdScan {
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// The string or number at hand, at the outermost level.
    word: Vec<u8>,
    /// Whether the word is the value of `id`.
    is_id: bool,
    found: Option<RequestId>,
}

impl IdScan {
    /// Nobody counts that far, and no client has longer ids.
    const MAX_WORD: usize = 128;

    fn read(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.step(*byte);
        }
    }

    fn step(&mut self, byte: u8) {
        if self.in_string {
            self.keep(byte);
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => self.in_string = false,
                _ => {}
            }
            return;
        }
        match byte {
            b'"' => {
                self.in_string = true;
                self.keep(byte);
            }
            b'{' | b'[' => {
                self.depth += 1;
                self.word.clear();
            }
            b'}' | b']' => {
                self.value_ends();
                self.depth = self.depth.saturating_sub(1);
            }
            b',' => self.value_ends(),
            b':' if self.depth == 1 => {
                self.is_id = self.word == br#""id""#;
                self.word.clear();
            }
            b' ' | b'\t' | b'\r' => {}
            byte => self.keep(byte),
        }
    }

    fn keep(&mut self, byte: u8) {
        if self.depth == 1 && self.word.len() < Self::MAX_WORD {
            self.word.push(byte);
        }
    }

    fn value_ends(&mut self) {
        if self.depth == 1 {
            if std::mem::take(&mut self.is_id) {
                self.found = serde_json::from_slice(&self.word).ok();
            }
            self.word.clear();
        }
    }

    fn id(self) -> Option<RequestId> {
        self.found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(message: &str) -> Option<String> {
        let mut scan = IdScan::default();
        // In pieces, as it comes from a pipe.
        message.as_bytes().chunks(3).for_each(|part| scan.read(part));
        scan.id().map(|id| id.to_string())
    }

    #[test]
    fn the_id_is_found_wherever_it_stands() {
        assert_eq!(id(r#"{"jsonrpc":"2.0","id":7,"method":"x"}"#).as_deref(), Some("7"));
        assert_eq!(
            id(r#"{"method":"x","params":{"id":1,"a":["id",2]},"id" : "seven"}"#).as_deref(),
            Some("seven")
        );
        assert_eq!(id(r#"{"params":{"text":"\",\"id\":3,"},"id":-4}"#).as_deref(), Some("-4"));
        assert_eq!(id(r#"{"a":"id","b":1}"#), None);
        assert_eq!(id(r#"{"id":{"a":1}}"#), None);
        assert_eq!(id(r#"{"method":"x","params":[]}"#), None);
    }

    #[test]
    fn a_line_that_is_too_large_is_skipped_and_the_next_one_read() {
        let large = format!(r#"{{"id":1,"text":"{}"}}"#, "x".repeat(MAX_MESSAGE));
        let text = format!("{large}\n{{\"id\":2}}\nno end");
        let mut input = io::BufReader::new(text.as_bytes());
        let Ok(Some(Line::TooLarge(Some(first)))) = next_line(&mut input) else { panic!("not too large") };
        assert_eq!(first.to_string(), "1");
        let Ok(Some(Line::Whole(second))) = next_line(&mut input) else { panic!("no line") };
        assert_eq!(second, br#"{"id":2}"#);
        assert!(matches!(next_line(&mut input), Ok(None)));
    }
}
