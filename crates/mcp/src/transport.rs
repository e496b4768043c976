//! Reads and writes messages on standard input and output, one per line.
//!
//! Every line gets an answer, unless it is a notification or an answer itself: a client without an answer
//! waits forever. The library accepts ids that are strings or 64-bit integers; JSON-RPC allows any number,
//! and requires the same number in the answer.

use std::collections::BTreeMap;
use std::future::{Future, ready};
use std::io::{self, Write as _};
use std::thread;
use std::time::Duration;

use rmcp::model::{ClientRequest, ErrorCode, GetMeta as _, JsonRpcMessage, RequestId};
use rmcp::service::{RoleServer, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::{Value, json};
use tokio::sync::mpsc::{Receiver, channel};

use super::id::{GivenId, IdScan};

/// Far above the size of any plan, and far below a harmful size.
const MAX_MESSAGE: usize = 4 * 1024 * 1024;

enum InputLine {
    Whole(Vec<u8>),
    /// Only the id is kept.
    TooLarge(GivenId),
}

pub(super) struct StdioTransport {
    lines: Receiver<InputLine>,
    /// Number of requests without an answer. A client may close its end right after a request.
    open: usize,
    /// The original bytes of ids that the library does not accept, by their replacements.
    stand_ins: BTreeMap<String, Vec<u8>>,
    /// Number of replaced ids.
    replaced: u64,
    /// Whether the client has initialized the session; before that, the library ends on anything but
    /// requests.
    begun: bool,
}

/// Time limit for pending answers after the input has ended; a cancelled request never gets one.
const LAST_ANSWERS: Duration = Duration::from_secs(10);

impl StdioTransport {
    /// Starts the transport. It reads on its own thread, because a read of standard input cannot be
    /// cancelled.
    pub(super) fn start() -> Self {
        let (sender, lines) = channel(16);
        thread::spawn(move || {
            let mut input = io::stdin().lock();
            while let Ok(Some(line)) = read_line(&mut input) {
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
        ready(self.serialize(&item).map_err(io::Error::from).and_then(|json| write_message(&json)))
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            let Some(line) = self.lines.recv().await else {
                // Each answer ends this wait, and the next call checks whether it was the last.
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
                InputLine::Whole(line) => self.parse_line(line),
            };
            match read {
                Ok(message) => {
                    if let JsonRpcMessage::Request(request) = &message {
                        self.open += 1;
                        let request = &request.request;
                        // The newest protocol has no initialize request; each of its requests carries a
                        // version.
                        self.begun |= matches!(request, ClientRequest::InitializeRequest(_))
                            || request.get_meta().protocol_version().is_some();
                    } else if !self.begun {
                        continue;
                    }
                    return Some(message);
                }
                Err(Some(refusal)) => write_message(&refusal.to_json()).ok()?,
                Err(None) => {}
            }
        }
    }

    fn close(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send {
        self.lines.close();
        ready(Ok(()))
    }
}

/// The refusal of a line that is not a message, and the id to answer to.
struct MessageRefusal {
    id: GivenId,
    code: ErrorCode,
    why: String,
}

impl MessageRefusal {
    /// Renders the refusal as JSON. It repeats the bytes of the given id. Without a valid one it has no id: JSON-RPC
    /// has a `null` there, and clients of the protocol refuse such a message.
    fn to_json(&self) -> Vec<u8> {
        let id = self.id.echo().map(|id| [br#""id":"#, id, b","].concat()).unwrap_or_default();
        let error = json!({ "code": self.code.0, "message": self.why }).to_string();
        [br#"{"jsonrpc":"2.0","#, id.as_slice(), br#""error":"#, error.as_bytes(), b"}"].concat()
    }
}

impl StdioTransport {
    /// Parses the message in a line. The error is `None` for a malformed notification, which gets no answer.
    fn parse_line(
        &mut self,
        mut line: Vec<u8>,
    ) -> Result<RxJsonRpcMessage<RoleServer>, Option<MessageRefusal>> {
        let mut scan = IdScan::default();
        scan.read(&line);
        let (id, place) = scan.finish();
        if let (GivenId::Odd(given), Some(place)) = (&id, place) {
            let name = format!("callsheet stand-in {}", self.replaced);
            self.replaced += 1;
            line.splice(place, format!("\"{name}\"").into_bytes());
            self.stand_ins.insert(name, given.clone());
        }
        serde_json::from_slice(&line).map_err(|error| refuse_line(&line, id, &error))
    }

    /// Serializes a message, with the id that the client gave.
    fn serialize(&mut self, item: &TxJsonRpcMessage<RoleServer>) -> serde_json::Result<Vec<u8>> {
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
        if let (_, Some(place)) = scan.finish() {
            json.splice(place, given);
        }
        Ok(json)
    }
}

/// Returns the answer to a line that is not a message; `None` if it looks like a notification.
fn refuse_line(line: &[u8], id: GivenId, error: &serde_json::Error) -> Option<MessageRefusal> {
    match serde_json::from_slice::<Value>(line) {
        // `serde_json` also decodes an `id` key that is spelled with escapes.
        Ok(value) if value.get("method").is_some() && value.get("id").is_none() => None,
        Ok(_) => Some(MessageRefusal {
            id,
            code: ErrorCode::INVALID_REQUEST,
            why: format!("invalid request: {error}"),
        }),
        Err(error) => {
            Some(MessageRefusal { id, code: ErrorCode::PARSE_ERROR, why: format!("invalid JSON: {error}") })
        }
    }
}

/// Reads the next line without its line end; `None` at the end of the input.
fn read_line(input: &mut impl io::BufRead) -> io::Result<Option<InputLine>> {
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
        // The last message may lack its line end.
        let is_whole = end.is_some() || available.is_empty();
        let read = part.len() + usize::from(end.is_some());
        input.consume(read);
        if is_whole {
            return Ok(Some(match scan {
                Some(scan) => InputLine::TooLarge(scan.finish().0),
                None => InputLine::Whole(line),
            }));
        }
    }
}

/// Writes one message to standard output.
fn write_message(json: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(json)?;
    out.write_all(b"\n")?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oversized_line_is_skipped() {
        let large = format!(r#"{{"id":1,"text":"{}"}}"#, "x".repeat(MAX_MESSAGE));
        let text = format!("{large}\n{{\"id\":2}}\n{large}");
        let mut input = io::BufReader::new(text.as_bytes());
        let mut next = || match read_line(&mut input).unwrap() {
            Some(InputLine::TooLarge(id)) => Some((true, id.echo().unwrap_or_default().to_vec())),
            Some(InputLine::Whole(line)) => Some((false, line)),
            None => None,
        };
        assert_eq!(next(), Some((true, b"1".to_vec())));
        assert_eq!(next(), Some((false, br#"{"id":2}"#.to_vec())));
        // The last line has no line end.
        assert_eq!(next(), Some((true, b"1".to_vec())));
        assert_eq!(next(), None);
    }
}
