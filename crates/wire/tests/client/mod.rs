//! A client that sends bytes, valid or not.

#![allow(dead_code, clippy::allow_attributes, reason = "each suite uses its own part")]

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

/// How long a test waits for an answer before it fails.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// Returns the host with its port, and the path of an address.
pub(crate) fn split_url(url: &str) -> (&str, &str) {
    let rest = url.strip_prefix("http://").unwrap();
    rest.find('/').map_or((rest, ""), |at| rest.split_at(at))
}

/// Connects to the server.
pub(crate) fn connect(url: &str) -> TcpStream {
    let stream = TcpStream::connect(split_url(url).0).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream.set_write_timeout(Some(DEADLINE)).unwrap();
    stream
}

/// Reads until the server ends the connection. A reset is an end too.
pub(crate) fn read_rest(stream: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        Err(error) if error.kind() != std::io::ErrorKind::ConnectionReset => panic!("{error}"),
        _ => String::from_utf8(answer).unwrap(),
    }
}

/// Sends bytes and returns the whole answer.
pub(crate) fn exchange(url: &str, request: &[u8]) -> String {
    let mut stream = connect(url);
    stream.write_all(request).unwrap();
    read_rest(&mut stream)
}

/// Returns the bytes of a POST request below the path of an address.
pub(crate) fn post_bytes(url: &str, path: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let (_, base) = split_url(url);
    let length = body.len();
    let head = format!("POST {base}{path} HTTP/1.1\r\nContent-Length: {length}\r\n{headers}\r\n");
    [head.as_bytes(), body].concat()
}

/// Sends a POST request and returns the whole answer.
pub(crate) fn post(url: &str, path: &str, body: &[u8]) -> String {
    exchange(url, &post_bytes(url, path, "", body))
}

/// Returns the status of an answer.
pub(crate) fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or_default()
}
