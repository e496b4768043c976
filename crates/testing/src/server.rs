//! A loopback server that replaces the language model.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use callsheet_wire::{
    ConversationItem, ModelServer, ModelTurn, OfferedTool, Protocol, RefusedRequest, RequestHandler,
    ServerAddress, ServerLimits, WireAnswer, WireRequest, side_answer,
};
use serde::Serialize;
use serde_json::Value;

use crate::script::{Failure, Script, Step};

/// More than any test sends, with answers that tests delay.
const LIMITS: ServerLimits = ServerLimits {
    body_bytes: 256 << 20,
    held_bytes: 512 << 20,
    connections: 256,
    head_time: Duration::from_secs(60),
    body_time: Duration::from_secs(60),
    exchange_time: Duration::from_secs(1200),
};

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
    server: ModelServer,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    script: Script,
    seen: Mutex<Seen>,
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
        let record = record.map(|path| File::options().create(true).append(true).open(path)).transpose()?;
        let seen = Mutex::new(Seen { requests: Vec::new(), record });
        let shared = Arc::new(Shared { script, seen });
        let handler: Arc<dyn RequestHandler> = Arc::clone(&shared) as _;
        let server = ModelServer::start(LIMITS, ServerAddress::Open, handler)?;
        Ok(Self { server, shared })
    }

    /// Returns its address, as `http://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        self.server.url()
    }

    /// Returns every request so far.
    pub fn requests(&self) -> Vec<Request> {
        self.shared.lock_seen().requests.clone()
    }
}

impl Request {
    /// Returns all its user texts, including injected reminders, in order.
    pub fn user_texts(&self) -> Vec<String> {
        let items =
            Protocol::from_path(&self.path).map(|protocol| protocol.items(&self.body)).unwrap_or_default();
        let said = |item| if let ConversationItem::User(text) = item { Some(text) } else { None };
        items.into_iter().filter_map(said).collect()
    }

    /// Returns the names of the tools that it offers; one inside a namespace as `namespace__name`.
    pub fn tools(&self) -> Vec<String> {
        let tools =
            Protocol::from_path(&self.path).map(|protocol| protocol.tools(&self.body)).unwrap_or_default();
        let full = |tool: OfferedTool| match tool.namespace {
            Some(namespace) => format!("{namespace}__{}", tool.name),
            None => tool.name,
        };
        tools.into_iter().map(full).collect()
    }
}

/// A step that answers a request, and the reason for it.
struct Chosen<'a> {
    step: Cow<'a, Step>,
    tool: Option<(OfferedTool, &'a Value)>,
    /// The number of calls so far.
    serial: usize,
    why: String,
}

impl Chosen<'_> {
    fn write_answer(&self, protocol: Protocol, path: &str, body: &Value) -> WireAnswer {
        let answer = match &self.step.fail {
            Some(Failure::Drop) => WireAnswer::drop_connection(),
            Some(Failure::Status { status, body, headers }) => {
                let answer = WireAnswer::json(*status, body.to_string());
                headers.iter().fold(answer, |answer, (name, value)| answer.with_header(name, value))
            }
            None => {
                let model = body["model"].as_str().unwrap_or("mock-model");
                let (thought, text) = (self.step.thought.as_deref(), self.step.text.as_deref());
                let call = self.tool.as_ref().map(|(tool, args)| (tool, *args));
                let turn = ModelTurn { model, serial: self.serial, thought, text, call };
                protocol.write_answer(&turn, protocol.is_streaming(path, body))
            }
        };
        answer.after(Duration::from_millis(self.step.delay_ms))
    }

    /// Returns an error, so that the answer cannot pass for one of the script.
    fn no_match(why: String) -> Self {
        let step = Cow::Owned(Step::error(400, &format!("mock: {why}")));
        Self { step, tool: None, serial: 0, why }
    }
}

impl RequestHandler for Shared {
    fn answer(&self, request: WireRequest) -> WireAnswer {
        let body = match request.body.as_slice() {
            [] => Value::Null,
            bytes => serde_json::from_slice(bytes).unwrap_or_else(|_| String::from_utf8_lossy(bytes).into()),
        };
        let protocol = Protocol::from_path(&request.path).filter(|_| request.method == "POST");
        let (answer, why) = match protocol {
            None => (side_answer(&request), "probe".to_owned()),
            Some(protocol) => {
                let chosen = self.choose(protocol, &body);
                (chosen.write_answer(protocol, &request.path, &body), chosen.why)
            }
        };
        let WireRequest { method, path, .. } = request;
        match self.record_request(Request { method, path, body, answer: why }) {
            Ok(()) => answer,
            Err(_) => WireAnswer::drop_connection(),
        }
    }

    fn note_refused(&self, refused: RefusedRequest) {
        let answer = refused.to_string();
        let RefusedRequest { method, path, .. } = refused;
        // The answer says the same.
        let _ = self.record_request(Request { method, path, body: Value::Null, answer });
    }
}

impl Shared {
    /// Locks the requests. A test that panicked elsewhere leaves them intact.
    fn lock_seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
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
        let results = |items: &[ConversationItem]| {
            items.iter().filter(|item| **item == ConversationItem::Result).count()
        };
        let begun = turn_start(&items);
        let turn = items.iter().enumerate().skip(begun).rev().find_map(|(at, item)| match item {
            ConversationItem::User(text) => Some((at, self.script.find_turn(text)?)),
            _ => None,
        });
        let Some((at, turn)) = turn else {
            let said = items.iter().skip(begun).filter(|item| matches!(item, ConversationItem::User(_)));
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
fn turn_start(items: &[ConversationItem]) -> usize {
    let ended = |at: &usize| {
        items[*at] == ConversationItem::Said && items.get(at + 1) != Some(&ConversationItem::Called)
    };
    (0..items.len()).rev().find(ended).map_or(0, |at| at + 1)
}
