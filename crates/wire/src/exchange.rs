//! One request and its answer, as a handler sees them. HTTP itself is left to `connection`.

use std::fmt;
use std::time::Duration;

use crate::refusal::RefusedRequest;

/// A request with its whole body.
#[derive(Clone, PartialEq, Eq)]
pub struct WireRequest {
    /// The method.
    pub method: String,
    /// The path with its query, without the secret part of the address.
    pub path: String,
    /// The headers in their order, names in lower case. They may hold keys.
    pub headers: Vec<(String, String)>,
    /// The bytes of the body.
    pub body: Vec<u8>,
}

impl WireRequest {
    /// Returns the value of the first header with this name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

// The headers hold keys.
impl fmt::Debug for WireRequest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let body = format_args!("{} bytes", self.body.len());
        out.debug_struct("WireRequest")
            .field("method", &self.method)
            .field("path", &self.path)
            .field("body", &body)
            .finish_non_exhaustive()
    }
}

/// The answer to a request, and the delay before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WireAnswer {
    /// The delay before the outcome.
    pub delay: Duration,
    /// The outcome.
    pub outcome: AnswerOutcome,
}

/// An answer of HTTP, or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnswerOutcome {
    /// A status, headers and a body.
    Send {
        /// The status of HTTP.
        status: u16,
        /// The headers. One that is not valid in HTTP is left out.
        headers: Vec<(String, String)>,
        /// The body.
        body: Vec<u8>,
    },
    /// The connection ends without an answer.
    Drop,
}

impl WireAnswer {
    /// Returns an answer with a body of this content type.
    pub fn new(status: u16, content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        let headers = vec![("content-type".to_owned(), content_type.to_owned())];
        Self { delay: Duration::ZERO, outcome: AnswerOutcome::Send { status, headers, body: body.into() } }
    }

    /// Returns an answer that is JSON.
    pub fn json(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self::new(status, "application/json", body)
    }

    /// Returns an answer of server-sent events.
    pub fn events(body: impl Into<Vec<u8>>) -> Self {
        Self::new(200, "text/event-stream", body)
    }

    /// Returns an error whose body is valid in all protocols.
    pub fn error(status: u16, message: &str) -> Self {
        let (kind, state) = match status {
            ..500 => ("invalid_request_error", "INVALID_ARGUMENT"),
            _ => ("api_error", "INTERNAL"),
        };
        let error = serde_json::json!({ "type": kind, "code": status, "status": state, "message": message });
        Self::json(status, serde_json::json!({ "type": "error", "error": error }).to_string())
    }

    /// Returns an end of the connection without an answer.
    pub fn drop_connection() -> Self {
        Self { delay: Duration::ZERO, outcome: AnswerOutcome::Drop }
    }

    /// Adds a header to an answer.
    #[must_use]
    pub fn with_header(mut self, name: &str, value: &str) -> Self {
        if let AnswerOutcome::Send { headers, .. } = &mut self.outcome {
            headers.push((name.to_owned(), value.to_owned()));
        }
        self
    }

    /// Delays the outcome.
    #[must_use]
    pub fn after(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }
}

/// Answers the requests of a server, on the thread of the server: a handler does not wait.
pub trait RequestHandler: Send + Sync + 'static {
    /// Returns the answer to a request.
    fn answer(&self, request: WireRequest) -> WireAnswer;

    /// Receives a request that the server refused by itself.
    fn note_refused(&self, _refused: RefusedRequest) {}
}
