//! One connection: HTTP/1, one request, one answer, and the end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{HeaderName, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{sleep, timeout};

use crate::exchange::{AnswerOutcome, WireAnswer, WireRequest};
use crate::received_body::read_body;
use crate::refusal::{RefusalReason, RefusedRequest};
use crate::server::ServerState;

/// The most bytes of a request's head.
const MOST_HEAD: usize = 64 << 10;

/// The end of a connection without an answer.
#[derive(Debug)]
struct DroppedConnection;

impl std::fmt::Display for DroppedConnection {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "the handler ended the connection")
    }
}

impl std::error::Error for DroppedConnection {}

/// Serves one request. The permit ends with the connection.
pub(crate) async fn serve_connection(
    stream: TcpStream,
    state: Arc<ServerState>,
    _permit: OwnedSemaphorePermit,
) {
    let _ = stream.set_nodelay(true);
    // Some clients connect before they have a request.
    if !matches!(timeout(state.limits.head_time, stream.peek(&mut [0])).await, Ok(Ok(1))) {
        return;
    }
    let has_head = AtomicBool::new(false);
    let service = service_fn(|request| {
        has_head.store(true, Ordering::SeqCst);
        answer_request(request, Arc::clone(&state))
    });
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(state.limits.head_time)
        .max_buf_size(MOST_HEAD)
        // Clients send a request again, without an error, if a connection that they used before ends.
        .keep_alive(false)
        // Answers are the same bytes in every run.
        .auto_date_header(false);
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    let result = timeout(state.limits.exchange_time, connection).await;
    let reason = match (result, has_head.into_inner()) {
        (Err(_), true) => RefusalReason::SlowReader,
        (Ok(Err(error)), false) if error.is_parse_too_large() => RefusalReason::LargeHead,
        (Ok(Err(error)), false) if error.is_timeout() => RefusalReason::SlowHead,
        (Ok(Err(_)), false) => RefusalReason::BrokenHead,
        (Err(_), false) => RefusalReason::SlowHead,
        // The client is gone, or got no answer on purpose.
        (Ok(_), _) => return,
    };
    state.handler.note_refused(RefusedRequest { method: String::new(), path: String::new(), reason });
}

async fn answer_request(
    request: Request<Incoming>,
    state: Arc<ServerState>,
) -> Result<Response<Full<Bytes>>, DroppedConnection> {
    let uri = request.uri();
    let path = uri.path_and_query().map_or(uri.path(), |path| path.as_str());
    let Some(path) = state.strip_secret(path).map(str::to_owned) else {
        state.outside.fetch_add(1, Ordering::SeqCst);
        return Ok(build_response(404, &[], Vec::new()));
    };
    let (head, body) = request.into_parts();
    let method = head.method.as_str().to_owned();
    let awaits_consent = head.headers.contains_key(hyper::header::EXPECT);
    let answer = match read_body(body, awaits_consent, &state.limits, &state.held).await {
        Ok(body) => {
            let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
            let headers = head.headers.iter().map(|(name, value)| (name.as_str().to_owned(), text(value)));
            state.handler.answer(WireRequest { method, path, headers: headers.collect(), body })
        }
        Err(reason) => {
            let answer = WireAnswer::error(reason.status(), &reason.to_string());
            state.handler.note_refused(RefusedRequest { method, path, reason });
            answer
        }
    };
    sleep(answer.delay).await;
    match answer.outcome {
        AnswerOutcome::Drop => Err(DroppedConnection),
        AnswerOutcome::Send { status, headers, body } => Ok(build_response(status, &headers, body)),
    }
}

fn build_response(status: u16, headers: &[(String, String)], body: Vec<u8>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    for (name, value) in headers {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            response.headers_mut().append(name, value);
        }
    }
    response
}
