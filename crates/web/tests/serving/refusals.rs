//! Every answer that reports a failure is a page with a code and a way on, or JSON for a script, also if the framework refused the request.

use std::collections::BTreeMap;

use crate::client::{Answer, TestServer};
use crate::security::assert_headers;

const METHODS: [&str; 8] = ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"];

/// Words in the place of a run, a task, a flow or a template.
const WORDS: [&str; 8] = ["r99", "%FF", "%00", "%", "%2F..%2F", "..", "a%20b", "%E2%80%AE"];

/// Queries that no page takes, or that some pages do not take.
const QUERIES: [&str; 9] = [
    "",
    "?",
    "?%FF=%FF",
    "?limit=1&limit=2&grep=a&grep=b&from=1&from=2&since=1&since=2&origin=1&origin=2",
    "?origin=x&line=-1&from=18446744073709551616&count=x&since=x.y.z&stream=none",
    "?origin=99999999999999999999",
    "?origin",
    "?=&&=",
    "?text=%E2%80%AE",
];

/// Returns the patterns of all addresses, from the source of the server.
fn read_routes() -> Vec<(&'static str, String)> {
    let source = include_str!("../../src/server.rs");
    let routes = source.split(".route(\"").skip(1).map(|rest| {
        let (pattern, rest) = rest.split_once('"').unwrap();
        (if rest.starts_with(", post(") { "POST" } else { "GET" }, pattern.to_owned())
    });
    routes.chain([("GET", "/none".to_owned()), ("GET", "/open".to_owned())]).collect()
}

/// Returns the pattern with a word in the place of each parameter.
fn fill_pattern(pattern: &str, word: &str) -> String {
    let parts = pattern.split('/').map(|part| if part.starts_with('{') { word } else { part });
    parts.collect::<Vec<_>>().join("/")
}

/// Asserts that a failure has the form of all failures.
fn assert_failure(answer: &Answer, request: &str) {
    assert_headers(answer);
    assert_eq!(answer.headers["content-type"], "text/html; charset=utf-8", "{request}: {}", answer.body);
    let status = format!("<span class=\"number\">{}</span>", answer.status);
    for part in ["<section class=\"failure\" role=\"alert\">", &status, "<p><code>"] {
        assert!(answer.body.contains(part), "{request}: {part}\n{}", answer.body);
    }
    let has_way_on = ["<p class=\"hint\">", "<a href=\"/\">Go to the inbox</a>"];
    assert!(has_way_on.iter().any(|part| answer.body.contains(part)), "{request}: {}", answer.body);
    let code = answer.body.split_once("<p><code>").unwrap().1.split_once("</code>").unwrap().0;
    assert!(code.contains('/'), "{request}: {code}");
}

#[test]
fn every_refusal_is_page_or_json() {
    let server = TestServer::with_prompt();
    let cookie = server.log_in();
    let (host, origin) = (server.host(), format!("http://{}", server.host()));
    let own = [("Host", host.as_str()), ("Cookie", cookie.as_str()), ("Origin", origin.as_str())];
    let form = ("Content-Type", "application/x-www-form-urlencoded");
    let large = "a".repeat((256 << 10) + 1);
    let bodies: [(&[(&str, &str)], &str); 8] = [
        (&[], ""),
        (&[], "a=b"),
        (&[form], ""),
        (&[form], "run=%FF&form_token=%FF"),
        (&[form], "form_token=a&form_token=b&action_id=c&run=r1"),
        (&[form], "form_token=a&action_id=b&run=r1&path=p&decision=approve&flow=f&choice=c&text=t"),
        (&[("Content-Type", "application/json")], "{\"run\":\"r1\"}"),
        (&[form], &large),
    ];
    let mut counts: BTreeMap<u16, usize> = BTreeMap::new();
    let mut judge = |method: &str, path: &str, headers: &[(&str, &str)], body: &str| {
        let request = format!("{method} {path} {} bytes", body.len());
        let headers = [&own[..], headers].concat();
        let answer = server.send(method, path, &headers, body);
        *counts.entry(answer.status).or_default() += 1;
        if answer.status < 400 {
            return assert!(matches!(answer.status, 200 | 303), "{request}: {}", answer.status);
        }
        assert_failure(&answer, &request);
        let scripted =
            server.send(method, path, &[&headers[..], &[("Accept", "application/json")]].concat(), body);
        assert_eq!(
            (scripted.status, scripted.headers["content-type"].as_str()),
            (answer.status, "application/json")
        );
        let said: serde_json::Value = serde_json::from_str(&scripted.body).unwrap();
        assert_eq!(said["status"], answer.status, "{request}: {said}");
        let error = &said["errors"][0];
        assert!(error["code"].as_str().unwrap().contains('/'), "{request}: {said}");
        assert!(!error["message"].as_str().unwrap().is_empty(), "{request}: {said}");
    };
    let routes = read_routes();
    assert!(routes.len() > 20, "{routes:?}");
    for (method, pattern) in &routes {
        // A stream of events does not end.
        let is_stream = pattern == "/events";
        for wrong in METHODS.iter().filter(|wrong| *wrong != method) {
            judge(wrong, &fill_pattern(pattern, "r1"), &[], "");
        }
        for query in QUERIES.iter().filter(|query| !is_stream || query.contains("since=")) {
            let words = if pattern.contains('{') { &WORDS[..] } else { &WORDS[..1] };
            for word in words {
                judge(method, &format!("{}{query}", fill_pattern(pattern, word)), &[], "");
            }
            judge(method, &format!("{}{query}", fill_pattern(pattern, "r1")), &[], "");
        }
        for (headers, body) in bodies.iter().filter(|_| *method == "POST") {
            judge(method, pattern, headers, body);
        }
    }
    // Each way to be refused was met.
    for status in [400, 401, 403, 404, 405, 413, 415, 422] {
        assert!(counts.get(&status).is_some_and(|count| *count > 0), "{status}: {counts:?}");
    }
    assert_eq!(counts.get(&500), None, "{counts:?}");
}

/// A body without a length is counted while it is read.
#[test]
fn large_chunked_body_is_refused() {
    use std::io::{Read as _, Write as _};
    let server = TestServer::with_prompt();
    let cookie = server.log_in();
    let host = server.host();
    let mut stream = server.connect();
    let head = format!(
        "POST /actions/stop HTTP/1.1\r\nHost: {host}\r\nCookie: {cookie}\r\nOrigin: http://{host}\r\nConnection: close\r\n\
         Content-Type: application/x-www-form-urlencoded\r\nTransfer-Encoding: chunked\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let chunk = format!("10000\r\n{}\r\n", "a".repeat(0x10000));
    for _ in 0..5 {
        let _ = stream.write_all(chunk.as_bytes());
    }
    let _ = stream.write_all(b"0\r\n\r\n");
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.starts_with("HTTP/1.1 413 ") && answer.contains("page/too-large"), "{answer}");
}
