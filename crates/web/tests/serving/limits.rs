//! How much the server takes and keeps.

use std::io::{Read as _, Write as _};
use std::time::{Duration, Instant};

use callsheet_testing::wait_until;

use crate::client::TestServer;

#[test]
fn large_body_is_refused() {
    let server = TestServer::with_prompt();
    let cookie = server.log_in();
    let (host, origin) = (server.host(), format!("http://{}", server.host()));
    let headers = [("Host", host.as_str()), ("Cookie", &cookie), ("Origin", &origin)];
    let answer = server.send("POST", "/", &headers, &"a".repeat((256 << 10) + 1));
    assert_eq!(answer.status, 413);
    assert_eq!(server.send("POST", "/", &headers, &"a".repeat(256 << 10)).status, 405);
}

#[test]
fn large_head_is_refused() {
    let server = TestServer::with_prompt();
    let cookie = server.log_in();
    let answer = server.send("GET", &format!("/?grep={}", "a".repeat(100 << 10)), &[("Cookie", &cookie)], "");
    assert!(matches!(answer.status, 414 | 431), "{}", answer.status);
}

#[test]
fn streams_above_limit_are_refused() {
    let server = TestServer::with_prompt();
    let cookie = server.log_in();
    let mut streams = Vec::new();
    let mut counts = [0, 0];
    for _ in 0..100 {
        let (status, stream) = server.open_stream("/events", &cookie, "");
        match status {
            200 => counts[0] += 1,
            503 => counts[1] += 1,
            other => panic!("{other}"),
        }
        streams.push(stream);
    }
    assert_eq!(counts, [64, 36]);
    let refused = server.get("/events", &cookie);
    assert_eq!((refused.status, refused.headers["retry-after"].as_str()), (503, "5"));
    // Pages still work, and streams that end make room for others.
    assert_eq!(server.get("/", &cookie).status, 200);
    drop(streams);
    wait_until("streams are free again", || server.open_stream("/events", &cookie, "").0 == 200);
}

/// A person who opens one page after another leaves a stream behind each.
#[test]
fn closed_streams_make_room() {
    let server = TestServer::with_prompt();
    let cookie = server.log_in();
    for number in 0..200 {
        assert_eq!(server.open_stream("/events", &cookie, "").0, 200, "stream {number}");
        // The server notices the end of a connection by itself, not by its next heartbeat.
        if number % 50 == 49 {
            assert_eq!(server.get("/", &cookie).status, 200);
        }
    }
}

#[test]
fn unfinished_head_is_dropped() {
    let server = TestServer::with_prompt();
    let mut stream = server.connect();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: ").unwrap();
    let begun = Instant::now();
    let mut rest = Vec::new();
    // The connection ends without an answer, or with one that refuses it.
    let _ = stream.read_to_end(&mut rest);
    assert!(begun.elapsed() < Duration::from_secs(29), "{:?}", begun.elapsed());
}

#[test]
fn slow_reader_is_dropped() {
    let server = TestServer::with_prompt();
    let cookie = server.log_in();
    let before = server.memory_kib();
    // A load without a reader fills the buffers of the system.
    let request = format!("GET /assets/style.css HTTP/1.1\r\nHost: {}\r\n\r\n", server.host());
    let mut stream = server.connect();
    stream.set_write_timeout(Some(Duration::from_secs(2))).unwrap();
    let begun = Instant::now();
    let is_dropped = loop {
        match stream.write_all(request.repeat(50).as_bytes()) {
            Ok(()) => {}
            Err(error)
                if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => {}
            Err(_) => break true,
        }
        if begun.elapsed() > Duration::from_secs(40) {
            break false;
        }
    };
    assert!(is_dropped);
    assert_eq!(server.get("/", &cookie).status, 200);
    assert!(server.memory_kib() < before + 40_000, "{} KiB, {before} before", server.memory_kib());
}

#[test]
fn memory_stays_flat_over_page_views() {
    let server = TestServer::with_prompt();
    let cookie = server.log_in();
    let view = |times: usize| {
        for number in 0..times {
            let path = ["/", "/runs/r1", "/flows", "/costs", "/templates"][number % 5];
            assert_eq!(server.get(path, &cookie).status, 200, "{path}");
        }
    };
    view(200);
    let before = server.memory_kib();
    view(2000);
    let after = server.memory_kib();
    assert!(after < before + (16 << 10), "{before} KiB before, {after} KiB after 2,000 views");
}
