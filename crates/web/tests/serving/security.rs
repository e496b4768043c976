//! Who may talk to the server.

use std::process::Stdio;

use callsheet_testing::{TestProject, wait_until};

use crate::client::{Answer, TestServer};

/// Asserts that an answer has the headers of every answer.
pub(crate) fn assert_headers(answer: &Answer) {
    let policy = "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
         frame-ancestors 'none'; base-uri 'none'; form-action 'self'; object-src 'none'";
    let wanted = [
        ("content-security-policy", policy),
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
        ("referrer-policy", if answer.status == 303 { "no-referrer" } else { "same-origin" }),
        ("cache-control", "no-store"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
    ];
    for (name, value) in wanted {
        assert_eq!(answer.headers.get(name).map(String::as_str), Some(value), "{answer:?}");
    }
}

#[test]
fn token_gives_cookie_without_query() {
    let server = TestServer::with_prompt();
    let host = server.host();
    let path = format!("/runs/r1?token={}", server.token);
    let answer = server.send("GET", &path, &[("Host", &host)], "");
    assert_eq!((answer.status, answer.headers["location"].as_str()), (303, "/runs/r1"));
    assert_headers(&answer);
    let cookie = answer.headers["set-cookie"].clone();
    let (value, attributes) = cookie.split_once("; ").unwrap();
    assert_eq!(attributes, "HttpOnly; SameSite=Strict; Path=/");
    assert!(value.starts_with(&format!("callsheet_{}=", server.port)), "{cookie}");
    assert!(!cookie.contains(&server.token), "{cookie}");
    let page = server.get("/", value);
    assert_eq!(page.status, 200);
    assert_headers(&page);
    assert!(!page.body.contains(&server.token) && !page.body.contains(value), "{}", page.body);
}

#[test]
fn request_without_cookie_is_refused() {
    let server = TestServer::with_prompt();
    let host = server.host();
    let wrong = format!("callsheet_{}=x", server.port);
    for path in ["/", "/runs/r1", "/runs/r1/log", "/events", "/?token=wrong", "/none"] {
        for cookie in ["", wrong.as_str()] {
            let answer = server.send("GET", path, &[("Host", &host), ("Cookie", cookie)], "");
            assert_eq!(answer.status, 401, "{path}");
            assert_headers(&answer);
            assert!(answer.body.contains("callsheet serve --open"), "{}", answer.body);
            assert!(!answer.body.contains("Say hello"), "{}", answer.body);
        }
    }
    let post = server.send("POST", &format!("/?token={}", server.token), &[("Host", &host)], "");
    assert_eq!(post.status, 401);
}

#[test]
fn foreign_host_is_refused() {
    let server = TestServer::with_prompt();
    let cookie = server.log_in();
    let local = format!("localhost:{}", server.port);
    assert_eq!(server.send("GET", "/", &[("Host", &local), ("Cookie", &cookie)], "").status, 200);
    let evil = format!("evil.example:{}", server.port);
    for host in [evil.as_str(), "127.0.0.1", "localhost", "127.0.0.1:1", "[::1]:1", ""] {
        for path in ["/", "/assets/style.css", &format!("/?token={}", server.token)] {
            let answer = server.send("GET", path, &[("Host", host), ("Cookie", &cookie)], "");
            assert_eq!(answer.status, 421, "{host} {path}");
            assert_headers(&answer);
            assert!(!answer.headers.contains_key("set-cookie"));
        }
    }
    let own = server.host();
    let two = server.send("GET", "/", &[("Host", &own), ("Host", &evil), ("Cookie", &cookie)], "");
    assert!(matches!(two.status, 400 | 421), "{two:?}");
    let absolute = format!("http://{evil}/");
    assert_eq!(server.send("GET", &absolute, &[("Host", &own), ("Cookie", &cookie)], "").status, 421);
}

#[test]
fn foreign_origin_is_refused() {
    let server = TestServer::with_prompt();
    let cookie = server.log_in();
    let host = server.host();
    let own = format!("http://{host}");
    let post = |origin: Option<&str>, site: Option<&str>| {
        let mut headers = vec![("Host", host.as_str()), ("Cookie", cookie.as_str())];
        headers.extend(origin.map(|origin| ("Origin", origin)));
        headers.extend(site.map(|site| ("Sec-Fetch-Site", site)));
        let answer = server.send("POST", "/", &headers, "a=b");
        assert_headers(&answer);
        answer.status
    };
    let local = format!("http://localhost:{}", server.port);
    for origin in
        [None, Some("null"), Some("http://evil.example"), Some("https://127.0.0.1"), Some(local.as_str())]
    {
        assert_eq!(post(origin, None), 403, "{origin:?}");
    }
    assert_eq!(post(Some(&own), Some("cross-site")), 403);
    assert_eq!(post(Some(&own), Some("same-site")), 403);
    // The inbox takes no such request: it passed the check.
    assert_eq!(post(Some(&own), Some("same-origin")), 405);
    assert_eq!(post(Some(&own), None), 405);
}

#[test]
fn code_opens_page_once() {
    let project = TestProject::new();
    // Stands for the program that opens a browser: it keeps the address.
    let seen = project.beside("address");
    project.write_program("xdg-open", &format!("#!/bin/sh\nprintf %s \"$1\" >{}\n", seen.display()));
    let mut child = project
        .command()
        .args(["serve", "--open"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_until("the browser is opened", || std::fs::read_to_string(&seen).is_ok_and(|text| !text.is_empty()));
    let address = std::fs::read_to_string(&seen).unwrap();
    let (host, path) = address.strip_prefix("http://").unwrap().split_once('/').unwrap();
    assert!(path.starts_with("open?code="), "{address}");
    let send = || {
        use std::io::{Read as _, Write as _};
        let mut stream = std::net::TcpStream::connect(host).unwrap();
        write!(stream, "GET /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    };
    let (first, second) = (send(), send());
    assert!(first.starts_with("HTTP/1.1 303 ") && first.contains("set-cookie: callsheet_"), "{first}");
    assert!(second.starts_with("HTTP/1.1 401 ") && !second.contains("set-cookie"), "{second}");
    assert!(second.contains("used before"), "{second}");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn refused_pages_have_headers() {
    let server = TestServer::with_prompt();
    let cookie = server.log_in();
    for (path, status) in
        [("/none", 404), ("/runs/r99", 404), ("/runs/r1/source?origin=99", 404), ("/assets/none", 404)]
    {
        let answer = server.get(path, &cookie);
        assert_eq!(answer.status, status, "{path}: {}", answer.body);
        assert_headers(&answer);
    }
}
