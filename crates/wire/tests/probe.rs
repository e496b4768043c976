//! The probe: its answers, each in full in `tests/probe/<case>.http` (`BLESS=1` rewrites them), and what it keeps.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod client;

use std::path::Path;
use std::time::Duration;
use std::{env, fs, thread};

use callsheet_wire::{
    Probe, ProbeCounts, ProbeLimits, Protocol, ReceivedRequest, RefusalReason, RefusedRequest,
};
use client::{DEADLINE, exchange, post, post_bytes, split_url, status};

const ANTHROPIC: &str = "/v1/messages?beta=true";
const RESPONSES: &str = "/v1/responses";
const CHAT: &str = "/v1/chat/completions";
const GEMINI: &str = "/v1beta/models/gemini-x:generateContent";
const GEMINI_STREAM: &str = "/v1beta/models/gemini-x:streamGenerateContent?alt=sse";

const PLAIN: &str = r#"{"model":"m","messages":[]}"#;
const STREAM: &str = r#"{"model":"m","stream":true,"tools":[{"name":"é"}]}"#;

fn start() -> Probe {
    Probe::start(ProbeLimits::default()).unwrap()
}

/// Compares with the stored answer, or stores it.
fn compare_golden(case: &str, answer: &str, different: &mut Vec<String>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/probe").join(format!("{case}.http"));
    if env::var_os("BLESS").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, answer).unwrap();
    } else if fs::read_to_string(&path).unwrap_or_default() != answer {
        different.push(format!("--- {case} is now:\n{answer}"));
    }
}

#[test]
fn every_protocol_ends_the_turn() {
    let (probe, mut different) = (start(), Vec::new());
    let mut expected = Vec::new();
    for (case, path, protocol, body) in [
        ("anthropic-plain", ANTHROPIC, Protocol::Anthropic, PLAIN),
        ("anthropic-stream", ANTHROPIC, Protocol::Anthropic, STREAM),
        ("responses-plain", RESPONSES, Protocol::Responses, PLAIN),
        ("responses-stream", RESPONSES, Protocol::Responses, STREAM),
        ("chat-plain", CHAT, Protocol::Chat, PLAIN),
        ("chat-stream", CHAT, Protocol::Chat, STREAM),
        ("gemini-plain", GEMINI, Protocol::Gemini, PLAIN),
        ("gemini-stream", GEMINI_STREAM, Protocol::Gemini, PLAIN),
    ] {
        compare_golden(case, &post(&probe.url(), path, body.as_bytes()), &mut different);
        let headers = vec![("content-length".to_owned(), body.len().to_string())];
        let (method, path, body) = ("POST".to_owned(), path.to_owned(), body.as_bytes().to_vec());
        expected.push(ReceivedRequest { method, path, protocol: Some(protocol), headers, body });
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
    assert_eq!(probe.requests(), expected);
    assert_eq!(probe.counts(), ProbeCounts { kept: 8, refused: 0, outside: 0 });
}

#[test]
fn side_requests_are_answered_and_kept() {
    let (probe, mut different) = (start(), Vec::new());
    let url = probe.url();
    let (_, secret) = split_url(&url);
    let mut kept = Vec::new();
    for (case, method, path, headers) in [
        ("side-head", "HEAD", "/", ""),
        ("side-models", "GET", "/v1/models", ""),
        ("side-count", "POST", "/v1/messages/count_tokens?beta=true", ""),
        ("side-gemini-count", "POST", "/v1beta/models/gemini-x:countTokens", ""),
        ("side-websocket", "GET", "/v1/responses", "Connection: Upgrade\r\nUpgrade: websocket\r\n"),
    ] {
        let answer = exchange(&url, format!("{method} {secret}{path} HTTP/1.1\r\n{headers}\r\n").as_bytes());
        compare_golden(case, &answer, &mut different);
        kept.push((method.to_owned(), path.to_owned(), None));
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
    let requests = probe.requests().into_iter();
    assert_eq!(requests.map(|one| (one.method, one.path, one.protocol)).collect::<Vec<_>>(), kept);
    assert!(!probe.wait_for_request(Duration::ZERO));
}

#[test]
fn keys_and_cookies_are_not_kept() {
    let probe = start();
    let headers = "Authorization: Bearer s3\r\nX-Api-Key: s3\r\nx-goog-api-key: s3\r\nCookie: a=s3\r\nUser-Agent: cli/1\r\n";
    let path = "/v1beta/models/m:generateContent?key=s3&alt=sse&access_token=s3";
    exchange(&probe.url(), &post_bytes(&probe.url(), path, headers, b"{}"));
    let request = probe.requests().remove(0);
    assert_eq!(request.path, "/v1beta/models/m:generateContent?key=removed&alt=sse&access_token=removed");
    let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(
        request.headers,
        [
            header("content-length", "2"),
            header("authorization", "removed"),
            header("x-api-key", "removed"),
            header("x-goog-api-key", "removed"),
            header("cookie", "removed"),
            header("user-agent", "cli/1"),
        ]
    );
}

#[test]
fn refused_requests_have_a_reason() {
    let limits = ProbeLimits { body_bytes: 100, kept_bytes: 200, requests: 3, ..ProbeLimits::default() };
    let probe = Probe::start(limits).unwrap();
    let url = probe.url();
    assert_eq!(status(&post(&url, CHAT, b"{\"stream\":\ntru}")), "400");
    assert_eq!(status(&post(&url, CHAT, b"[]")), "400");
    assert_eq!(status(&post(&url, CHAT, &b"[".repeat(99))), "400");
    assert_eq!(status(&post(&url, &format!("{GEMINI}?key=s3"), b"")), "400");
    for encoding in ["gzip", "zstd"] {
        let encoded = post_bytes(&url, CHAT, &format!("Content-Encoding: {encoding}\r\n"), b"\x28\xb5\x2f");
        assert_eq!(status(&exchange(&url, &encoded)), "400");
    }
    assert_eq!(status(&post(&url, CHAT, &[b' '; 101])), "413");
    let plain = post_bytes(&url, CHAT, "Content-Encoding: identity\r\n", b"{}");
    assert_eq!(status(&exchange(&url, &plain)), "200");
    assert_eq!(status(&post(&url, CHAT, b"{}")), "200");
    let long = format!("{{\"a\":\"{}\"}}", "x".repeat(90));
    assert_eq!(status(&post(&url, CHAT, long.as_bytes())), "400");
    assert_eq!(status(&post(&url, "/", b"")), "200");
    assert_eq!(status(&post(&url, CHAT, b"{}")), "400");
    let refused =
        |path: &str, reason| RefusedRequest { method: "POST".to_owned(), path: path.to_owned(), reason };
    assert_eq!(
        probe.refused(),
        [
            refused(CHAT, RefusalReason::NotJson { line: 2, column: 4 }),
            refused(CHAT, RefusalReason::NotJson { line: 1, column: 1 }),
            refused(CHAT, RefusalReason::NotJson { line: 1, column: 1 }),
            refused(&format!("{GEMINI}?key=removed"), RefusalReason::NotJson { line: 1, column: 1 }),
            refused(CHAT, RefusalReason::EncodedBody { encoding: "gzip".to_owned() }),
            refused(CHAT, RefusalReason::BrokenEncoding),
            refused(CHAT, RefusalReason::LargeBody { limit: 100, bytes: 101, has_more: false }),
            refused(CHAT, RefusalReason::KeptBytes { limit: 200 }),
            refused(CHAT, RefusalReason::ManyRequests { limit: 3 }),
        ]
    );
    assert_eq!(
        probe.refused()[6].to_string(),
        "POST /v1/chat/completions: the body has 101 bytes, and the limit is 100"
    );
    assert_eq!(probe.counts(), ProbeCounts { kept: 3, refused: 9, outside: 0 });
}

#[test]
fn compressed_body_is_kept_decoded() {
    let probe = start();
    let body = zstd::encode_all(STREAM.as_bytes(), 3).unwrap();
    let request = post_bytes(&probe.url(), CHAT, "Content-Encoding: zstd\r\n", &body);
    assert_eq!(status(&exchange(&probe.url(), &request)), "200");
    assert_eq!(probe.requests()[0].body, STREAM.as_bytes());
}

#[test]
fn waiting_ends_with_a_model_request() {
    let probe = start();
    let url = probe.url();
    exchange(&url, b"GET / HTTP/1.1\r\n\r\n");
    assert!(!probe.wait_for_request(Duration::ZERO));
    let sender = thread::spawn(move || post(&url, CHAT, b"{}"));
    assert!(probe.wait_for_request(DEADLINE));
    assert_eq!(probe.requests().len(), 1);
    sender.join().unwrap();
    assert_eq!(probe.counts(), ProbeCounts { kept: 1, refused: 0, outside: 1 });
}

#[test]
fn waiting_ends_with_a_refused_request() {
    let probe = start();
    post(&probe.url(), CHAT, b"{");
    assert!(probe.wait_for_request(Duration::ZERO));
}
