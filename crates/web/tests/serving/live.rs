//! Live events: none is lost between two connections.

use std::io::BufRead as _;

use crate::client::TestServer;

/// Reads the ids of the next events.
fn read_ids(stream: &mut impl std::io::BufRead, count: usize) -> Vec<String> {
    let mut ids = Vec::new();
    let mut line = String::new();
    while ids.len() < count {
        line.clear();
        assert_ne!(stream.read_line(&mut line).unwrap(), 0, "the stream ended after {ids:?}");
        ids.extend(line.strip_prefix("id: ").map(|id| id.trim_end().to_owned()));
    }
    ids
}

fn record_prompt(server: &TestServer, text: &str) {
    assert_eq!(server.project.run(["compose", "--record", text]).code, Some(0));
}

#[test]
fn stream_continues_behind_last_event() {
    let server = TestServer::with_prompt();
    let cookie = server.log_in();
    let (status, mut first) = server.open_stream("/events?since=0", &cookie, "");
    assert_eq!(status, 200);
    let before = read_ids(&mut first, 1);
    record_prompt(&server, "Second.");
    let seen = read_ids(&mut first, 1);
    drop(first);
    // Two are recorded while no stream is open.
    record_prompt(&server, "Third.");
    record_prompt(&server, "Fourth.");
    let last = format!("Last-Event-ID: {}\r\n", seen[0]);
    let (_, mut second) = server.open_stream("/events?since=0", &cookie, &last);
    let missed = read_ids(&mut second, 2);
    record_prompt(&server, "Fifth.");
    let fresh = read_ids(&mut second, 1);
    let all: Vec<String> = [before, seen, missed, fresh].concat();
    assert_eq!(all, ["1.0", "2.0", "3.0", "4.0", "5.0"]);
}

#[test]
fn tabs_share_one_follower() {
    let server = TestServer::with_prompt();
    let cookie = server.log_in();
    let mut streams: Vec<_> = (0..20).map(|_| server.open_stream("/events?since=1", &cookie, "").1).collect();
    record_prompt(&server, "Second.");
    for stream in &mut streams {
        assert_eq!(read_ids(stream, 1), ["2.0"]);
    }
}

#[test]
fn event_names_run_without_text() {
    let server = TestServer::with_prompt();
    let cookie = server.log_in();
    let (_, mut stream) = server.open_stream("/events?since=0", &cookie, "");
    let mut line = String::new();
    while !line.starts_with("data: ") {
        line.clear();
        stream.read_line(&mut line).unwrap();
    }
    let start = "data: {\"seq\":1,\"index\":0,\"event\":\"record.composed\",\"run\":\"";
    assert!(line.starts_with(start) && line.ends_with("\",\"flow\":null}\n"), "{line}");
}

#[test]
fn wrong_position_is_refused() {
    let server = TestServer::with_prompt();
    let cookie = server.log_in();
    assert_eq!(server.get("/events?since=x", &cookie).status, 400);
}
