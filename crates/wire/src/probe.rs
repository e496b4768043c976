//! A server that answers every request by itself and keeps it, for a look at the requests of an agent CLI.

use std::borrow::Cow;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;

use crate::answer_form::formed_answer;
use crate::encoded_body::decode_body;
use crate::exchange::{RequestHandler, WireAnswer, WireRequest};
use crate::protocol::{ModelTurn, Protocol};
use crate::refusal::{RefusalReason, RefusedRequest};
use crate::server::{ModelServer, ServerAddress, ServerLimits};
use crate::side_answer::side_answer;

/// The text of every turn. Some CLIs repeat a request whose answer is empty.
const TURN_TEXT: &str = "ok";

/// The most refused requests that are kept; all are counted.
const MOST_REFUSED: usize = 64;

/// The most bytes of a model's name.
const MOST_NAME: usize = 256;

/// Stands for the value of a header or of a query's key that may be a secret.
const REMOVED: &str = "removed";

/// Parts of the names of headers and query keys whose values may be secrets.
const SECRET_NAMES: [&str; 7] = ["auth", "cookie", "credential", "key", "password", "secret", "token"];

/// The limits of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeLimits {
    /// The most bytes of a body. The answer to a larger one is 413.
    pub body_bytes: u64,
    /// The most requests that are kept. The answer to further ones is 400, which agent CLIs do not repeat.
    pub requests: usize,
    /// The most bytes of all kept requests together, with their headers.
    pub kept_bytes: u64,
    /// The most connections; further ones wait.
    pub connections: usize,
    /// How long a CLI may take to send the head of a request.
    pub head_time: Duration,
    /// How long a CLI may take to send a body.
    pub body_time: Duration,
}

impl Default for ProbeLimits {
    /// Returns limits far above the requests of agent CLIs: 32 MiB for a body, 64 MiB for all.
    fn default() -> Self {
        Self {
            body_bytes: 32 << 20,
            requests: 64,
            kept_bytes: 64 << 20,
            connections: 64,
            head_time: Duration::from_secs(5),
            body_time: Duration::from_secs(20),
        }
    }
}

/// A request that a probe kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedRequest {
    /// The method.
    pub method: String,
    /// The path with its query, without the secret part of the address and without keys.
    pub path: String,
    /// The protocol, if the request is one to a model.
    pub protocol: Option<Protocol>,
    /// The headers in their order, names in lower case. Values that may be keys or cookies are replaced.
    pub headers: Vec<(String, String)>,
    /// The body, byte for byte, decoded if a header says `content-encoding: zstd`. It is JSON if there is a protocol.
    pub body: Vec<u8>,
}

/// Numbers of requests, of which a probe keeps only some.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProbeCounts {
    /// The requests that were kept.
    pub kept: u64,
    /// The requests that were refused.
    pub refused: u64,
    /// The requests outside the secret path.
    pub outside: u64,
}

/// A server that ends the turn of every request at once, and keeps the requests. It ends on drop.
#[derive(Debug)]
pub struct Probe {
    server: ModelServer,
    shared: Arc<SharedProbe>,
}

#[derive(Debug)]
struct SharedProbe {
    limits: ProbeLimits,
    seen: Mutex<SeenRequests>,
    /// Wakes the callers that wait for a request.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct SeenRequests {
    kept: Vec<ReceivedRequest>,
    kept_bytes: u64,
    refused: Vec<RefusedRequest>,
    refused_count: u64,
}

impl Probe {
    /// Serves on a free port of 127.0.0.1, below a path that cannot be guessed.
    pub fn start(limits: ProbeLimits) -> io::Result<Self> {
        let shared = Arc::new(SharedProbe { limits, seen: Mutex::default(), changed: Condvar::new() });
        let server_limits = ServerLimits {
            body_bytes: limits.body_bytes,
            held_bytes: limits.body_bytes.saturating_mul(2),
            connections: limits.connections,
            head_time: limits.head_time,
            body_time: limits.body_time,
            // Answers are small: the system takes them at once, also for a CLI that does not read.
            exchange_time: limits.head_time + limits.body_time * 2,
        };
        let handler: Arc<dyn RequestHandler> = Arc::clone(&shared) as _;
        let server = ModelServer::start(server_limits, ServerAddress::Secret, handler)?;
        Ok(Self { server, shared })
    }

    /// Returns its address, as `http://127.0.0.1:PORT/SECRET`.
    pub fn url(&self) -> String {
        self.server.url()
    }

    /// Returns the kept requests in the order in which their bodies were complete.
    pub fn requests(&self) -> Vec<ReceivedRequest> {
        self.shared.lock_seen().kept.clone()
    }

    /// Returns the first refused requests, at most 64.
    pub fn refused(&self) -> Vec<RefusedRequest> {
        self.shared.lock_seen().refused.clone()
    }

    /// Returns the numbers of requests so far.
    pub fn counts(&self) -> ProbeCounts {
        let seen = self.shared.lock_seen();
        let (kept, refused) = (seen.kept.len() as u64, seen.refused_count);
        ProbeCounts { kept, refused, outside: self.server.outside_requests() }
    }

    /// Waits until a request to a model was kept, or any request was refused. Returns `false` after the timeout.
    pub fn wait_for_request(&self, timeout: Duration) -> bool {
        let is_waiting = |seen: &mut SeenRequests| {
            seen.refused.is_empty() && !seen.kept.iter().any(|request| request.protocol.is_some())
        };
        let seen = self.shared.lock_seen();
        let waited = self.shared.changed.wait_timeout_while(seen, timeout, is_waiting);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }
}

/// The keys of a request to a model that its answer depends on. Others can be of any size, and are not held.
#[derive(Deserialize)]
struct RequestKeys<'a> {
    #[serde(borrow, default)]
    model: Option<Cow<'a, str>>,
    #[serde(default)]
    stream: Option<bool>,
}

impl SharedProbe {
    fn lock_seen(&self) -> MutexGuard<'_, SeenRequests> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the answer to a request, and its protocol.
    fn choose_answer(request: &WireRequest) -> Result<(WireAnswer, Option<Protocol>), RefusalReason> {
        let protocol = Protocol::from_path(&request.path).filter(|_| request.method == "POST");
        let Some(protocol) = protocol else { return Ok((side_answer(request), None)) };
        // A list would be read as the keys in their order.
        if !request.body.trim_ascii_start().starts_with(b"{") {
            return Err(RefusalReason::NotJson { line: 1, column: 1 });
        }
        let keys: RequestKeys<'_> = serde_json::from_slice(&request.body)
            .map_err(|error| RefusalReason::NotJson { line: error.line(), column: error.column() })?;
        // The answer repeats the name several times.
        let model = keys.model.as_deref().filter(|model| model.len() <= MOST_NAME).unwrap_or("model");
        // Some CLIs repeat a request whose answer does not have the form that it asks for.
        let formed = formed_answer(&request.body);
        let text = Some(formed.as_deref().unwrap_or(TURN_TEXT));
        let turn = ModelTurn { model, serial: 0, thought: None, text, call: None };
        let in_events = protocol.is_streaming(&request.path, &json!({ "stream": keys.stream }));
        Ok((protocol.write_answer(&turn, in_events), Some(protocol)))
    }

    /// Keeps a request, unless a limit is reached.
    fn keep_request(&self, request: ReceivedRequest) -> Result<(), RefusalReason> {
        let mut seen = self.lock_seen();
        if seen.kept.len() >= self.limits.requests {
            return Err(RefusalReason::ManyRequests { limit: self.limits.requests });
        }
        let headers: usize = request.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
        let bytes = seen.kept_bytes + (request.path.len() + headers + request.body.len()) as u64;
        if bytes > self.limits.kept_bytes {
            return Err(RefusalReason::KeptBytes { limit: self.limits.kept_bytes });
        }
        seen.kept_bytes = bytes;
        seen.kept.push(request);
        drop(seen);
        self.changed.notify_all();
        Ok(())
    }
}

impl RequestHandler for SharedProbe {
    fn answer(&self, mut request: WireRequest) -> WireAnswer {
        let path = hide_query_keys(&request.path);
        let method = request.method.clone();
        let body = std::mem::take(&mut request.body);
        let decoded = decode_body(request.header("content-encoding"), body, self.limits.body_bytes);
        let kept = decoded.and_then(|body| {
            request.body = body;
            let (answer, protocol) = Self::choose_answer(&request)?;
            let WireRequest { method, headers, body, .. } = request;
            let headers = headers.into_iter().map(hide_header).collect();
            self.keep_request(ReceivedRequest { method, path: path.clone(), protocol, headers, body })?;
            Ok(answer)
        });
        kept.unwrap_or_else(|reason| {
            let answer = WireAnswer::error(reason.status(), &reason.to_string());
            self.note_refused(RefusedRequest { method, path, reason });
            answer
        })
    }

    fn note_refused(&self, refused: RefusedRequest) {
        let mut seen = self.lock_seen();
        seen.refused_count += 1;
        if seen.refused.len() < MOST_REFUSED {
            let path = hide_query_keys(&refused.path);
            seen.refused.push(RefusedRequest { path, ..refused });
        }
        drop(seen);
        self.changed.notify_all();
    }
}

fn may_be_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRET_NAMES.iter().any(|part| name.contains(part))
}

fn hide_header((name, value): (String, String)) -> (String, String) {
    let value = if may_be_secret(&name) { REMOVED.to_owned() } else { value };
    (name, value)
}

/// Replaces the values of keys in a query, where the Gemini API takes them too.
fn hide_query_keys(path: &str) -> String {
    let Some((path, query)) = path.split_once('?') else { return path.to_owned() };
    let hide = |pair: &str| match pair.split_once('=') {
        Some((name, _)) if may_be_secret(name) => format!("{name}={REMOVED}"),
        _ => pair.to_owned(),
    };
    let pairs: Vec<String> = query.split('&').map(hide).collect();
    format!("{path}?{}", pairs.join("&"))
}
