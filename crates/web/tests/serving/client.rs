//! A server of a test project, and requests to it byte by byte.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::Duration;

use callsheet_testing::TestProject;

/// A server that a test started.
pub(crate) struct TestServer {
    pub(crate) project: TestProject,
    pub(crate) port: u16,
    pub(crate) token: String,
    child: Child,
}

/// An answer of the server.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: String,
}

impl TestServer {
    /// Starts the server of a project.
    pub(crate) fn start(project: TestProject) -> Self {
        let mut child =
            project.command().args(["serve"]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let rest = line.trim_end().strip_prefix("http://127.0.0.1:").unwrap_or_else(|| panic!("{line}"));
        let (port, token) = rest.split_once("/?token=").unwrap();
        Self { port: port.parse().unwrap(), token: token.to_owned(), project, child }
    }

    /// Starts a server of a project with one prompt.
    pub(crate) fn with_prompt() -> Self {
        let project = TestProject::new();
        assert_eq!(project.run(["compose", "--record", "Say hello."]).code, Some(0));
        Self::start(project)
    }

    /// Opens a connection.
    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream
    }

    /// Returns the name of this server in a request.
    pub(crate) fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Sends a request with these headers alone.
    pub(crate) fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut stream = self.connect();
        let mut request = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
        headers.iter().for_each(|(name, value)| request += &format!("{name}: {value}\r\n"));
        if !body.is_empty() {
            request += &format!("Content-Length: {}\r\n", body.len());
        }
        // The server may refuse a request before it has read its body.
        let _ = stream.write_all(format!("{request}\r\n{body}").as_bytes());
        Answer::read(&mut stream)
    }

    /// Opens the address with the token, and returns the cookie.
    pub(crate) fn log_in(&self) -> String {
        let path = format!("/?token={}", self.token);
        let answer = self.send("GET", &path, &[("Host", &self.host())], "");
        assert_eq!((answer.status, answer.headers["location"].as_str()), (303, "/"));
        answer.headers["set-cookie"].split(';').next().unwrap().to_owned()
    }

    /// Reads a page with a cookie.
    pub(crate) fn get(&self, path: &str, cookie: &str) -> Answer {
        self.send("GET", path, &[("Host", &self.host()), ("Cookie", cookie)], "")
    }

    /// Opens a stream of events, and returns it behind the head of the answer.
    pub(crate) fn open_stream(&self, path: &str, cookie: &str, headers: &str) -> (u16, BufReader<TcpStream>) {
        let mut stream = self.connect();
        let host = self.host();
        let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nCookie: {cookie}\r\n{headers}\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let status = line.split(' ').nth(1).unwrap().parse().unwrap();
        while line.trim_end() != "" {
            line.clear();
            reader.read_line(&mut line).unwrap();
        }
        (status, reader)
    }

    /// Returns the resident memory of the server in KiB.
    pub(crate) fn memory_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Answer {
    fn read(stream: &mut TcpStream) -> Self {
        let mut bytes = Vec::new();
        // A connection that is reset after the answer has given all of it.
        let _ = stream.read_to_end(&mut bytes);
        let text = String::from_utf8(bytes).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((text.as_str(), ""));
        let mut lines = head.lines();
        let status = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|code| code.parse().ok());
        let headers = lines.filter_map(|line| line.split_once(": "));
        Self {
            status: status.unwrap_or(0),
            headers: headers.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned())).collect(),
            body: body.to_owned(),
        }
    }
}
