//! A loopback server that stands in for the language model.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};

use crate::protocol::{Answer, Item, Protocol, Tool};
use crate::script::{Failure, Script, Step};

/// What a side request (a title, a summary) is answered.
const SIDE_ANSWER: &str = "ok";

/// A request as it came in.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Request {
    pub method: String,
    pub path: String,
    /// Null if there was none; a string if it was not JSON.
    pub body: Value,
    /// What it was answered with: `step N` of its turn (from 0), `side`, `probe`, or why nothing fits.
    pub answer: String,
}

/// A running mock; it ends when it is dropped.
#[derive(Debug)]
pub struct Mock {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    script: Script,
    seen: Mutex<Seen>,
    ended: AtomicBool,
}

#[derive(Debug)]
struct Seen {
    requests: Vec<Request>,
    record: Option<File>,
}

impl Mock {
    /// Serves the script on a free port of 127.0.0.1; every request is also appended to `record` as a line of JSON.
    pub fn start(script: Script, record: Option<&Path>) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let address = listener.local_addr()?;
        let record = record.map(|path| File::options().create(true).append(true).open(path)).transpose()?;
        let seen = Mutex::new(Seen { requests: Vec::new(), record });
        let shared = Arc::new(Shared { script, seen, ended: AtomicBool::new(false) });
        let serving = Arc::clone(&shared);
        let accepting = thread::spawn(move || {
            for stream in listener.incoming() {
                if serving.ended.load(Ordering::SeqCst) {
                    break;
                }
                let Ok(stream) = stream else { continue };
                let serving = Arc::clone(&serving);
                // A client that breaks off is no concern of the others.
                thread::spawn(move || serving.serve(&stream));
            }
        });
        Ok(Self { address, shared, accepting: Some(accepting) })
    }

    /// Where it listens, as `http://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Every request so far.
    pub fn requests(&self) -> Vec<Request> {
        self.shared.seen().requests.clone()
    }
}

impl Drop for Mock {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::SeqCst);
        // Wakes the thread that accepts.
        drop(TcpStream::connect(self.address));
        if let Some(accepting) = self.accepting.take() {
            drop(accepting.join());
        }
    }
}

impl Request {
    /// All that it says a user said, injected reminders included, in order.
    pub fn user_texts(&self) -> Vec<String> {
        let items = Protocol::of(&self.path).map(|protocol| protocol.items(&self.body)).unwrap_or_default();
        let said = |item| if let Item::User(text) = item { Some(text) } else { None };
        items.into_iter().filter_map(said).collect()
    }

    /// The names of the tools that it offers; one inside a namespace as `namespace__name`.
    pub fn tools(&self) -> Vec<String> {
        let tools = Protocol::of(&self.path).map(|protocol| protocol.tools(&self.body)).unwrap_or_default();
        let full = |tool: Tool| match tool.namespace {
            Some(namespace) => format!("{namespace}__{}", tool.name),
            None => tool.name,
        };
        tools.into_iter().map(full).collect()
    }
}

/// What a request gets.
enum Reply<'a> {
    Probe,
    Side,
    Step { index: usize, step: &'a Step, tool: Option<(Tool, &'a Value)>, serial: usize },
    Unscripted(String),
}

impl Shared {
    /// A test that panicked elsewhere leaves the requests as they were.
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, stream: &TcpStream) -> io::Result<()> {
        let Some((method, path, body)) = receive(stream)? else { return Ok(()) };
        let protocol = Protocol::of(&path).filter(|_| method == "POST");
        let reply = protocol.map_or(Reply::Probe, |protocol| self.reply(protocol, &body));
        let answer = match &reply {
            Reply::Probe => "probe".to_owned(),
            Reply::Side => "side".to_owned(),
            Reply::Step { index, .. } => format!("step {index}"),
            Reply::Unscripted(why) => why.clone(),
        };
        self.note(Request { method: method.clone(), path: path.clone(), body: body.clone(), answer })?;

        let stream_it = protocol.is_some_and(|protocol| protocol.streams(&path, &body));
        let model = body["model"].as_str().unwrap_or("mock-model");
        let say = |answer: &Answer<'_>| {
            let text = protocol.map(|protocol| protocol.write(answer, stream_it)).unwrap_or_default();
            let kind = if stream_it { "text/event-stream" } else { "application/json" };
            send(stream, 200, kind, &text)
        };
        match reply {
            Reply::Probe => {
                // One body for the lists of models and the counts of tokens that some clients ask for.
                let body = json!({ "object": "list", "data": [], "models": [], "input_tokens": 10, "totalTokens": 10 });
                let body = if method == "HEAD" { String::new() } else { body.to_string() };
                send(stream, 200, "application/json", &body)
            }
            Reply::Side => {
                say(&Answer { model, serial: 0, thought: None, text: Some(SIDE_ANSWER), call: None })
            }
            Reply::Unscripted(why) => {
                let Some(Failure::Status { status, body }) = Step::error(400, &format!("mock: {why}")).fail
                else {
                    return Ok(());
                };
                send(stream, status, "application/json", &body.to_string())
            }
            Reply::Step { step, tool, serial, .. } => {
                thread::sleep(Duration::from_millis(step.delay_ms));
                match &step.fail {
                    Some(Failure::Drop) => stream.shutdown(Shutdown::Both),
                    Some(Failure::Status { status, body }) => {
                        send(stream, *status, "application/json", &body.to_string())
                    }
                    None => {
                        let call = tool.as_ref().map(|(tool, args)| (tool, *args));
                        let (thought, text) = (step.thought.as_deref(), step.text.as_deref());
                        say(&Answer { model, serial, thought, text, call })
                    }
                }
            }
        }
    }

    /// In memory and on disk before the client can act on the answer.
    fn note(&self, request: Request) -> io::Result<()> {
        let mut seen = self.seen();
        if let Some(record) = &mut seen.record {
            record.write_all(format!("{}\n", serde_json::to_string(&request)?).as_bytes())?;
        }
        seen.requests.push(request);
        Ok(())
    }

    fn reply(&self, protocol: Protocol, body: &Value) -> Reply<'_> {
        let tools = protocol.tools(body);
        if tools.is_empty() {
            return Reply::Side;
        }
        let items = protocol.items(body);
        let results = |items: &[Item]| items.iter().filter(|item| **item == Item::Result).count();
        let begun = begun(&items);
        let turn = items.iter().enumerate().skip(begun).rev().find_map(|(at, item)| match item {
            Item::User(text) => Some((at, self.script.turn(text)?)),
            _ => None,
        });
        let Some((at, turn)) = turn else {
            let said = items.iter().skip(begun).filter(|item| matches!(item, Item::User(_)));
            return Reply::Unscripted(format!("no turn begins with any of {:?}", said.collect::<Vec<_>>()));
        };
        let index = results(&items[at..]);
        let Some(step) = turn.steps.get(index) else {
            return Reply::Unscripted(format!("the turn has no step {index}"));
        };
        let offered = |wanted: &String| tools.iter().find(|tool| tool.is(wanted)).cloned();
        let mut calls = step.call.iter();
        let tool = calls.find_map(|call| Some((call.tools.iter().find_map(offered)?, &call.args)));
        if tool.is_none() && !step.call.is_empty() {
            let names: Vec<_> = tools.iter().map(|tool| &tool.name).collect();
            return Reply::Unscripted(format!("no tool of {:?} is offered, but {names:?}", step.call));
        }
        Reply::Step { index, step, tool, serial: results(&items) }
    }
}

/// Where the present turn begins: after the last thing that the model said without calling a tool.
fn begun(items: &[Item]) -> usize {
    let ended = |at: &usize| items[*at] == Item::Said && items.get(at + 1) != Some(&Item::Called);
    (0..items.len()).rev().find(ended).map_or(0, |at| at + 1)
}

type Received = (String, String, Value);

/// Reads one request. A body is counted or in chunks.
fn receive(stream: &TcpStream) -> io::Result<Option<Received>> {
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

fn send(mut stream: &TcpStream, status: u16, kind: &str, body: &str) -> io::Result<()> {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status} Mock\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())?;
    stream.flush()
}
