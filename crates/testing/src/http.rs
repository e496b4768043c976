//! A minimal HTTP server side: one request, one answer, then the connection ends.

use std::collections::BTreeMap;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;

use serde_json::Value;

/// Method, path and body.
type Received = (String, String, Value);

/// Reads one request, or returns `None` if the client disconnects. A body has a length or is in chunks.
pub(crate) fn receive_request(stream: &TcpStream) -> io::Result<Option<Received>> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split_whitespace();
    let (Some(method), Some(path)) = (words.next(), words.next()) else { return Ok(None) };
    let (method, path) = (method.to_owned(), path.to_owned());
    let (mut length, mut chunked) = (0, false);
    loop {
        let header = trimmed_line(&mut reader)?.to_ascii_lowercase();
        let Some((name, value)) = header.split_once(':') else { break };
        match name {
            "content-length" => length = value.trim().parse().map_err(io::Error::other)?,
            "transfer-encoding" => chunked = value.trim() == "chunked",
            _ => {}
        }
    }
    let mut body = Vec::new();
    if chunked {
        loop {
            let size = u64::from_str_radix(&trimmed_line(&mut reader)?, 16).map_err(io::Error::other)?;
            reader.by_ref().take(size).read_to_end(&mut body)?;
            trimmed_line(&mut reader)?;
            if size == 0 {
                break;
            }
        }
    } else {
        reader.take(length).read_to_end(&mut body)?;
    }
    let body = match body.as_slice() {
        [] => Value::Null,
        bytes => serde_json::from_slice(bytes).unwrap_or_else(|_| String::from_utf8_lossy(bytes).into()),
    };
    Ok(Some((method, path, body)))
}

fn trimmed_line(reader: &mut BufReader<&TcpStream>) -> io::Result<String> {
    let mut line = String::new();
    reader.read_line(&mut line)?;
    Ok(line.trim_end().to_owned())
}

pub(crate) fn send_answer(stream: &TcpStream, status: u16, kind: &str, body: &str) -> io::Result<()> {
    send(stream, status, &format!("Content-Type: {kind}\r\n"), body)
}

pub(crate) fn send_failure(
    stream: &TcpStream,
    status: u16,
    headers: &BTreeMap<String, String>,
    body: &str,
) -> io::Result<()> {
    let more: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    send(stream, status, &format!("Content-Type: application/json\r\n{more}"), body)
}

fn send(mut stream: &TcpStream, status: u16, headers: &str, body: &str) -> io::Result<()> {
    let length = body.len();
    let head =
        format!("HTTP/1.1 {status} Mock\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())?;
    stream.flush()
}
