//! The server: what a handler sees and answers, the secret path, the end.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod client;

use std::io::Write as _;
use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use callsheet_wire::{
    ModelServer, RefusalReason, RefusedRequest, RequestHandler, ServerAddress, ServerLimits, WireAnswer,
    WireRequest,
};
use client::{DEADLINE, connect, exchange, post, post_bytes, read_rest, split_url, status};

const LIMITS: ServerLimits = ServerLimits {
    body_bytes: 1000,
    held_bytes: 2000,
    connections: 8,
    head_time: Duration::from_secs(20),
    body_time: Duration::from_secs(20),
    exchange_time: Duration::from_secs(60),
};

/// Answers by the path, and keeps what it gets.
#[derive(Debug, Default)]
struct PathHandler {
    seen: Mutex<Vec<WireRequest>>,
    refused: Mutex<Vec<RefusedRequest>>,
}

impl RequestHandler for PathHandler {
    fn answer(&self, request: WireRequest) -> WireAnswer {
        let answer = match request.path.as_str() {
            "/drop" => WireAnswer::drop_connection(),
            "/slow" => WireAnswer::json(200, "{}").after(Duration::from_millis(80)),
            "/never" => WireAnswer::json(200, "{}").after(Duration::from_secs(3600)),
            "/events" => WireAnswer::events("data: 1\n\n"),
            _ => WireAnswer::error(529, "overloaded")
                .with_header("retry-after", "7")
                .with_header("bad name", ""),
        };
        self.seen.lock().unwrap().push(request);
        answer
    }

    fn note_refused(&self, refused: RefusedRequest) {
        self.refused.lock().unwrap().push(refused);
    }
}

fn start(address: ServerAddress) -> (ModelServer, Arc<PathHandler>) {
    let handler = Arc::new(PathHandler::default());
    let server =
        ModelServer::start(LIMITS, address, Arc::clone(&handler) as Arc<dyn RequestHandler>).unwrap();
    (server, handler)
}

#[test]
fn answers_have_status_headers_and_body() {
    let (server, _) = start(ServerAddress::Open);
    let body = r#"{"type":"error","error":{"type":"api_error","code":529,"status":"INTERNAL","message":"overloaded"}}"#;
    assert_eq!(
        post(&server.url(), "/", b"x"),
        format!(
            "HTTP/1.1 529 <none>\r\ncontent-type: application/json\r\nretry-after: 7\r\nconnection: close\r\n\
             content-length: 99\r\n\r\n{body}"
        )
    );
    assert_eq!(
        post(&server.url(), "/events", b""),
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\ncontent-length: 9\r\n\r\ndata: 1\n\n"
    );
    assert_eq!(post(&server.url(), "/drop", b""), "");
}

#[test]
fn delayed_answer_waits() {
    let (server, _) = start(ServerAddress::Open);
    let begun = Instant::now();
    assert_eq!(status(&post(&server.url(), "/slow", b"")), "200");
    assert!(begun.elapsed() >= Duration::from_millis(80));
}

#[test]
fn handler_sees_the_whole_request() {
    let (server, handler) = start(ServerAddress::Open);
    let chunks = b"POST /a?b=c HTTP/1.1\r\nX-One: 1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n";
    exchange(&server.url(), chunks);
    let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let expected = WireRequest {
        method: "POST".to_owned(),
        path: "/a?b=c".to_owned(),
        headers: vec![header("x-one", "1"), header("transfer-encoding", "chunked")],
        body: b"abc".to_vec(),
    };
    assert_eq!(*handler.seen.lock().unwrap(), [expected]);
}

#[test]
fn expected_consent_is_given() {
    let (server, handler) = start(ServerAddress::Open);
    let request = post_bytes(&server.url(), "/events", "Expect: 100-continue\r\n", b"abc");
    let answer = exchange(&server.url(), &request);
    assert!(answer.starts_with("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n"), "{answer}");
    let large = "POST / HTTP/1.1\r\nContent-Length: 1001\r\nExpect: 100-continue\r\n\r\n";
    assert_eq!(status(&exchange(&server.url(), large.as_bytes())), "413");
    let reason = RefusalReason::LargeBody { limit: 1000, bytes: 1001, has_more: false };
    let refused = RefusedRequest { method: "POST".to_owned(), path: "/".to_owned(), reason };
    assert_eq!(*handler.refused.lock().unwrap(), [refused]);
    assert_eq!(handler.seen.lock().unwrap().len(), 1);
}

#[test]
fn bodies_at_the_limit_are_accepted() {
    let (server, handler) = start(ServerAddress::Open);
    assert_eq!(status(&post(&server.url(), "/events", &[b'x'; 1000])), "200");
    assert_eq!(status(&post(&server.url(), "/events", &[b'x'; 1001])), "413");
    assert_eq!(handler.seen.lock().unwrap().len(), 1);
}

/// Waits until a condition holds.
fn wait_until(condition: impl Fn() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < DEADLINE);
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn bodies_share_the_held_bytes() {
    let (server, handler) = start(ServerAddress::Open);
    let url = server.url();
    // Each client stops before the end of a body at the limit. Two of them fit.
    let request = post_bytes(&url, "/events", "", &[b'x'; 1000]);
    let (start, end) = request.split_at(request.len() - 1);
    let mut clients: Vec<TcpStream> = (0..3).map(|_| connect(&url)).collect();
    for client in &mut clients {
        client.write_all(start).unwrap();
    }
    wait_until(|| !handler.refused.lock().unwrap().is_empty());
    let reason = RefusalReason::HeldBytes { limit: 2000 };
    let refused = RefusedRequest { method: "POST".to_owned(), path: "/events".to_owned(), reason };
    assert_eq!(*handler.refused.lock().unwrap(), [refused]);
    for client in &mut clients {
        // The server has ended one of them.
        let _ = client.write_all(end);
    }
    let mut answers: Vec<String> =
        clients.iter_mut().map(|client| status(&read_rest(client)).to_owned()).collect();
    answers.sort_unstable();
    assert_eq!(answers, ["200", "200", "503"]);
    // A body that is complete holds nothing any more.
    for _ in 0..5 {
        assert_eq!(status(&post(&url, "/events", &[b'x'; 1000])), "200");
    }
}

#[test]
fn paths_outside_the_secret_are_counted() {
    let (server, handler) = start(ServerAddress::Secret);
    let url = server.url();
    let (host, secret) = split_url(&url);
    assert_eq!(secret.len(), 41);
    let get = |path: &str| exchange(&url, format!("GET {path} HTTP/1.1\r\n\r\n").as_bytes());
    let not_found = "HTTP/1.1 404 Not Found\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
    for path in ["/", "/events", &secret[..40], &format!("{secret}0/events"), &format!("/x{secret}")] {
        assert_eq!(get(path), not_found, "{path}");
    }
    assert_eq!((server.outside_requests(), handler.seen.lock().unwrap().len()), (5, 0));
    for (path, seen) in [(secret.to_owned(), "/"), (format!("{secret}/events?a"), "/events?a")] {
        get(&path);
        assert_eq!(handler.seen.lock().unwrap().pop().unwrap().path, seen);
    }
    // Some clients send the whole address.
    get(&format!("http://{host}{secret}/events"));
    assert_eq!(handler.seen.lock().unwrap().pop().unwrap().path, "/events");
    assert_ne!(start(ServerAddress::Secret).0.url().split('/').next_back(), url.split('/').next_back());
}

#[test]
fn drop_ends_port_connections_and_tasks() {
    let (server, handler) = start(ServerAddress::Open);
    let url = server.url();
    let mut waiting = connect(&url);
    waiting.write_all(&post_bytes(&url, "/never", "", b"")).unwrap();
    let mut silent = connect(&url);
    let mut half = connect(&url);
    half.write_all(b"POST / HT").unwrap();
    wait_until(|| !handler.seen.lock().unwrap().is_empty());
    drop(server);
    assert_eq!(Arc::strong_count(&handler), 1);
    for stream in [&mut waiting, &mut silent, &mut half] {
        assert_eq!(read_rest(stream), "");
    }
    assert_eq!(
        TcpStream::connect(split_url(&url).0).unwrap_err().kind(),
        std::io::ErrorKind::ConnectionRefused
    );
}
