//! Messages on standard input and output, a line each.
//!
//! Every line gets an answer, unless it is a notification or an answer itself: a client that hears nothing waits for ever.
//! The library takes ids that are strings or 64-bit integers; JSON-RPC allows any number, and wants it back as it was.

use std::collections::BTreeMap;
use std::future::{Future, ready};
use std::io;
use std::thread;
use std::time::Duration;

use rmcp::model::{ClientRequest, ErrorCode, GetMeta as _, JsonRpcMessage, RequestId};
use rmcp::service::{RoleServer, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::{Value, json};
use tokio::sync::mpsc::{Receiver, channel};

use super::id::{GivenId, IdScan};
use crate::print::message;

/// Far above any plan, far below what would hurt.
const MAX_MESSAGE: usize = 4 * 1024 * 1024;

enum InputLine {
    Whole(Vec<u8>),
    /// Only its id was kept.
    TooLarge(GivenId),
}

pub(super) struct StdioTransport {
    lines: Receiver<InputLine>,
    /// Requests that have no answer yet. A client may close its end as soon as it has asked.
    open: usize,
    /// The ids that stand for those which the library does not take, with the bytes that were given.
    stand_ins: BTreeMap<String, Vec<u8>>,
    /// So many ids have been replaced.
    replaced: u64,
    /// The client has asked to begin; the library ends if it hears anything but requests before.
    begun: bool,
}

/// How long the answers may take after the input has ended; a request that was given up never gets one.
const LAST_ANSWERS: Duration = Duration::from_secs(10);

impl StdioTransport {
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
        Self { lines, open: 0, stand_ins: BTreeMap::new(), replaced: 0, begun: false }
    }
}

impl Transport<RoleServer> for StdioTransport {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        if matches!(item, JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_)) {
            self.open = self.open.saturating_sub(1);
        }
        ready(self.written(&item).map_err(io::Error::from).and_then(|json| message(&json)))
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
            let read = match line {
                InputLine::TooLarge(id) => Err(Some(MessageRefusal {
                    id,
                    code: ErrorCode::INVALID_REQUEST,
                    why: format!("the message is larger than {MAX_MESSAGE} bytes"),
                })),
                InputLine::Whole(line) if line.trim_ascii().is_empty() => Err(None),
                InputLine::Whole(line) => self.read(line),
            };
            match read {
                Ok(message) => {
                    if let JsonRpcMessage::Request(request) = &message {
                        self.open += 1;
                        let request = &request.request;
                        // The newest protocol has no such request; each says its version.
                        self.begun |= matches!(request, ClientRequest::InitializeRequest(_))
                            || request.get_meta().protocol_version().is_some();
                    } else if !self.begun {
                        continue;
                    }
                    return Some(message);
                }
                Err(Some(refusal)) => message(&refusal.json()).ok()?,
                Err(None) => {}
            }
        }
    }

    fn close(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send {
        self.lines.close();
        ready(Ok(()))
    }
}

/// Why a line is no message, and to whom that is said.
struct MessageRefusal {
    id: GivenId,
    code: ErrorCode,
    why: String,
}

impl MessageRefusal {
    /// The bytes of an id are those that were given. What cannot be an id is `null`, as JSON-RPC has it.
    fn json(&self) -> Vec<u8> {
        let id = self.id.echo().unwrap_or(b"null");
        let error = json!({ "code": self.code.0, "message": self.why }).to_string();
        [br#"{"jsonrpc":"2.0","id":"#, id, br#","error":"#, error.as_bytes(), b"}"].concat()
    }
}

impl StdioTransport {
    /// The message in a line; `None` in the place of a refusal for a notification that is none.
    fn read(&mut self, mut line: Vec<u8>) -> Result<RxJsonRpcMessage<RoleServer>, Option<MessageRefusal>> {
        let mut scan = IdScan::default();
        scan.read(&line);
        let (id, place) = scan.found();
        if let (GivenId::Odd(given), Some(place)) = (&id, place) {
            let name = format!("callsheet stand-in {}", self.replaced);
            self.replaced += 1;
            line.splice(place, format!("\"{name}\"").into_bytes());
            self.stand_ins.insert(name, given.clone());
        }
        serde_json::from_slice(&line).map_err(|error| refusal(&line, id, &error))
    }

    /// A message as it is written, with the id that was given.
    fn written(&mut self, item: &TxJsonRpcMessage<RoleServer>) -> serde_json::Result<Vec<u8>> {
        let id = match item {
            JsonRpcMessage::Response(response) => Some(&response.id),
            JsonRpcMessage::Error(error) => error.id.as_ref(),
            _ => None,
        };
        let given = match id {
            Some(RequestId::String(name)) => self.stand_ins.remove(&**name),
            _ => None,
        };
        let json = serde_json::to_vec(item)?;
        let Some(given) = given else { return Ok(json) };
        let mut scan = IdScan::default();
        scan.read(&json);
        let mut json = json;
        if let (_, Some(place)) = scan.found() {
            json.splice(place, given);
        }
        Ok(json)
    }
}

/// What to answer to a line that is no message; nothing to what looks like a notification.
fn refusal(line: &[u8], id: GivenId, error: &serde_json::Error) -> Option<MessageRefusal> {
    match serde_json::from_slice::<Value>(line) {
        // An id whose name is spelled with escapes is one as well.
        Ok(value) if value.get("method").is_some() && value.get("id").is_none() => None,
        Ok(_) => Some(MessageRefusal {
            id,
            code: ErrorCode::INVALID_REQUEST,
            why: format!("this is no request: {error}"),
        }),
        Err(error) => Some(MessageRefusal {
            id,
            code: ErrorCode::PARSE_ERROR,
            why: format!("this is no JSON: {error}"),
        }),
    }
}

/// The next line without its end; `None` where there is no more.
fn next_line(input: &mut impl io::BufRead) -> io::Result<Option<InputLine>> {
    let mut line = Vec::new();
    let mut scan: Option<IdScan> = None;
    loop {
        let available = input.fill_buf()?;
        if available.is_empty() && line.is_empty() && scan.is_none() {
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
        // The last message may lack its line's end.
        let is_whole = end.is_some() || available.is_empty();
        let read = part.len() + usize::from(end.is_some());
        input.consume(read);
        if is_whole {
            return Ok(Some(match scan {
                Some(scan) => InputLine::TooLarge(scan.found().0),
                None => InputLine::Whole(line),
            }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_too_large_is_skipped_and_the_next_one_read() {
        let large = format!(r#"{{"id":1,"text":"{}"}}"#, "x".repeat(MAX_MESSAGE));
        let text = format!("{large}\n{{\"id\":2}}\n{large}");
        let mut input = io::BufReader::new(text.as_bytes());
        let mut next = || match next_line(&mut input).unwrap() {
            Some(InputLine::TooLarge(id)) => Some((true, id.echo().unwrap_or_default().to_vec())),
            Some(InputLine::Whole(line)) => Some((false, line)),
            None => None,
        };
        assert_eq!(next(), Some((true, b"1".to_vec())));
        assert_eq!(next(), Some((false, br#"{"id":2}"#.to_vec())));
        // The last line has no end.
        assert_eq!(next(), Some((true, b"1".to_vec())));
        assert_eq!(next(), None);
    }
}
