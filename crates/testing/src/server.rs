//! A loopback server that replaces the language model.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};

use crate::http;
use crate::protocol::{Answer, Item, Protocol, Tool};
use crate::script::{Failure, Script, Step};

/// The answer to a side request (a title, a summary).
const SIDE_ANSWER: &str = "ok";

/// A request as it was received.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Request {
    /// The HTTP method.
    pub method: String,
    /// The path with its query.
    pub path: String,
    /// The body: null if there was none, a string if it was not JSON.
    pub body: Value,
    /// Its answer: `step N` of its turn (from 0), `side`, `probe`, or the reason why no step matches.
    pub answer: String,
}

/// A running mock, which stops on drop.
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
    /// Serves the script on a free port of 127.0.0.1. Also appends every request to `record` as a line of
    /// JSON.
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
                // A client that disconnects does not affect the others.
                thread::spawn(move || serving.serve(&stream));
            }
        });
        Ok(Self { address, shared, accepting: Some(accepting) })
    }

    /// Returns its address, as `http://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns every request so far.
    pub fn requests(&self) -> Vec<Request> {
        self.shared.lock_seen().requests.clone()
    }
}

impl Drop for Mock {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::SeqCst);
        // Wakes the accepting thread.
        drop(TcpStream::connect(self.address));
        if let Some(accepting) = self.accepting.take() {
            drop(accepting.join());
        }
    }
}

impl Request {
    /// Returns all its user texts, including injected reminders, in order.
    pub fn user_texts(&self) -> Vec<String> {
        let items =
            Protocol::from_path(&self.path).map(|protocol| protocol.items(&self.body)).unwrap_or_default();
        let said = |item| if let Item::User(text) = item { Some(text) } else { None };
        items.into_iter().filter_map(said).collect()
    }

    /// Returns the names of the tools that it offers; one inside a namespace as `namespace__name`.
    pub fn tools(&self) -> Vec<String> {
        let tools =
            Protocol::from_path(&self.path).map(|protocol| protocol.tools(&self.body)).unwrap_or_default();
        let full = |tool: Tool| match tool.namespace {
            Some(namespace) => format!("{namespace}__{}", tool.name),
            None => tool.name,
        };
        tools.into_iter().map(full).collect()
    }
}

/// A step that answers a request, and the reason for it.
struct Chosen<'a> {
    step: Cow<'a, Step>,
    tool: Option<(Tool, &'a Value)>,
    /// The number of calls so far.
    serial: usize,
    why: String,
}

impl Chosen<'_> {
    /// Returns an error, so that the answer cannot pass for one of the script.
    fn no_match(why: String) -> Self {
        let step = Cow::Owned(Step::error(400, &format!("mock: {why}")));
        Self { step, tool: None, serial: 0, why }
    }
}

impl Shared {
    /// Locks the requests. A test that panicked elsewhere leaves them intact.
    fn lock_seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, stream: &TcpStream) -> io::Result<()> {
        let Some((method, path, body)) = http::receive_request(stream)? else { return Ok(()) };
        let note = |answer: String| {
            self.record_request(Request {
                method: method.clone(),
                path: path.clone(),
                body: body.clone(),
                answer,
            })
        };
        let Some(protocol) = Protocol::from_path(&path).filter(|_| method == "POST") else {
            note("probe".to_owned())?;
            // One body for the lists of models and the counts of tokens that some clients request.
            let any =
                json!({ "object": "list", "data": [], "models": [], "input_tokens": 10, "totalTokens": 10 });
            let any = if method == "HEAD" { String::new() } else { any.to_string() };
            return http::send_answer(stream, 200, "application/json", &any);
        };
        let Chosen { step, tool, serial, why } = self.choose(protocol, &body);
        note(why)?;
        thread::sleep(Duration::from_millis(step.delay_ms));
        match &step.fail {
            Some(Failure::Drop) => stream.shutdown(Shutdown::Both),
            Some(Failure::Status { status, body, headers }) => {
                http::send_failure(stream, *status, headers, &body.to_string())
            }
            None => {
                let model = body["model"].as_str().unwrap_or("mock-model");
                let (thought, text) = (step.thought.as_deref(), step.text.as_deref());
                let call = tool.as_ref().map(|(tool, args)| (tool, *args));
                let in_events = protocol.is_streaming(&path, &body);
                let answer = protocol.write_body(&Answer { model, serial, thought, text, call }, in_events);
                let kind = if in_events { "text/event-stream" } else { "application/json" };
                http::send_answer(stream, 200, kind, &answer)
            }
        }
    }

    /// Records a request in memory and on disk, before the client can act on the answer.
    fn record_request(&self, request: Request) -> io::Result<()> {
        let mut seen = self.lock_seen();
        if let Some(record) = &mut seen.record {
            record.write_all(format!("{}\n", serde_json::to_string(&request)?).as_bytes())?;
        }
        seen.requests.push(request);
        Ok(())
    }

    fn choose(&self, protocol: Protocol, body: &Value) -> Chosen<'_> {
        let tools = protocol.tools(body);
        if tools.is_empty() {
            let step = Cow::Owned(Step::text(SIDE_ANSWER));
            return Chosen { step, tool: None, serial: 0, why: "side".to_owned() };
        }
        let items = protocol.items(body);
        let results = |items: &[Item]| items.iter().filter(|item| **item == Item::Result).count();
        let begun = turn_start(&items);
        let turn = items.iter().enumerate().skip(begun).rev().find_map(|(at, item)| match item {
            Item::User(text) => Some((at, self.script.find_turn(text)?)),
            _ => None,
        });
        let Some((at, turn)) = turn else {
            let said = items.iter().skip(begun).filter(|item| matches!(item, Item::User(_)));
            return Chosen::no_match(format!("no turn begins with any of {:?}", said.collect::<Vec<_>>()));
        };
        let index = results(&items[at..]);
        let Some(step) = turn.steps.get(index) else {
            return Chosen::no_match(format!("the turn has no step {index}"));
        };
        let offered = |wanted: &String| tools.iter().find(|tool| tool.has_name(wanted)).cloned();
        let mut calls = step.call.iter();
        let tool = calls.find_map(|call| Some((call.tools.iter().find_map(offered)?, &call.args)));
        if tool.is_none() && !step.call.is_empty() {
            let wanted: Vec<_> = step.call.iter().flat_map(|call| &call.tools).collect();
            let names: Vec<_> = tools.iter().map(|tool| &tool.name).collect();
            return Chosen::no_match(format!("no tool of {wanted:?} is offered, but {names:?}"));
        }
        Chosen { step: Cow::Borrowed(step), tool, serial: results(&items), why: format!("step {index}") }
    }
}

/// Returns the start of the current turn: after the model's last message without a tool call.
fn turn_start(items: &[Item]) -> usize {
    let ended = |at: &usize| items[*at] == Item::Said && items.get(at + 1) != Some(&Item::Called);
    (0..items.len()).rev().find(ended).map_or(0, |at| at + 1)
}
