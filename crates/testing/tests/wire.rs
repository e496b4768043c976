//! Tests the mock's answers on the wire, each in full: `tests/wire/<case>.http`. `BLESS=1` rewrites them.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::{env, fs};

use callsheet_testing::{Call, Failure, Mock, Script, Step, Turn};
use serde_json::{Value, json};

/// Sends bytes and returns the whole answer.
fn exchange(mock: &Mock, request: &str) -> String {
    let mut stream = TcpStream::connect(mock.url().strip_prefix("http://").unwrap()).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn post(mock: &Mock, path: &str, body: &Value) -> String {
    let body = body.to_string();
    exchange(mock, &format!("POST {path} HTTP/1.1\r\nContent-Length: {}\r\n\r\n{body}", body.len()))
}

/// Compares with the stored answer, or stores it.
fn compare_golden(case: &str, answer: &str, different: &mut Vec<String>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wire").join(format!("{case}.http"));
    if env::var_os("BLESS").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, answer).unwrap();
    } else if fs::read_to_string(&path).unwrap_or_default() != answer {
        different.push(format!("--- {case} is now:\n{answer}"));
    }
}

const ANTHROPIC: &str = "/v1/messages?beta=true";
const RESPONSES: &str = "/v1/responses";
const CHAT: &str = "/v1/chat/completions";
const GEMINI: &str = "/v1beta/models/gemini-x:generateContent";
const GEMINI_STREAM: &str = "/v1beta/models/gemini-x:streamGenerateContent?alt=sse";

/// Returns a request in which a user says `text` and one tool is offered.
fn ask(path: &str, text: &str, tool: &str, stream: bool) -> Value {
    let messages = json!([{ "role": "user", "content": text }]);
    match path {
        ANTHROPIC => {
            json!({ "model": "m", "stream": stream, "messages": messages, "tools": [{ "name": tool }] })
        }
        RESPONSES => {
            let input = json!([{ "role": "user", "content": [{ "type": "input_text", "text": text }] }]);
            let tools = json!([{ "type": "function", "name": tool }]);
            json!({ "model": "m", "stream": stream, "input": input, "tools": tools })
        }
        CHAT => {
            let tools = json!([{ "type": "function", "function": { "name": tool } }]);
            json!({ "model": "m", "stream": stream, "messages": messages, "tools": tools })
        }
        _ => {
            let contents = json!([{ "role": "user", "parts": [{ "text": text }] }]);
            json!({ "contents": contents, "tools": [{ "functionDeclarations": [{ "name": tool }] }] })
        }
    }
}

fn mock() -> Mock {
    let call = Step::call(&["Absent", "Write"], json!({ "file": "é.txt" }));
    let both = Step { text: Some("I write.".to_owned()), ..call };
    let script = Script::new()
        .on("talk", [Step::text("A text that is cut: 漢字漢字漢字.").thinking("Let me think.")])
        .on("work", [both.clone(), Step::text("done")])
        .on("again", [Step::text("again"), Step::text("and again")])
        .on("fail", [Step::error(529, "overloaded")])
        .on("drop", [Step::drop_connection()])
        .on_marker("MARK-7", [Step::text("marked")]);
    Mock::start(script, None).unwrap()
}

#[test]
fn protocols_answer_streamed_and_plain() {
    let (mock, mut different) = (mock(), Vec::new());
    for (name, path, stream) in [
        ("anthropic-stream", ANTHROPIC, true),
        ("anthropic-plain", ANTHROPIC, false),
        ("responses-stream", RESPONSES, true),
        ("responses-plain", RESPONSES, false),
        ("chat-stream", CHAT, true),
        ("chat-plain", CHAT, false),
        ("gemini-stream", GEMINI_STREAM, true),
        ("gemini-plain", GEMINI, false),
    ] {
        for said in ["talk", "work"] {
            let answer = post(&mock, path, &ask(path, said, "Write", stream));
            compare_golden(&format!("{name}-{said}"), &answer, &mut different);
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
}

#[test]
fn probes_errors_and_chunks_are_answered() {
    let (mock, mut different) = (mock(), Vec::new());
    let mut check = |case: &str, answer: String| compare_golden(case, &answer, &mut different);
    check("probe-head", exchange(&mock, "HEAD / HTTP/1.1\r\n\r\n"));
    check("probe-get", exchange(&mock, "GET /v1/models HTTP/1.1\r\n\r\n"));
    check("side", post(&mock, CHAT, &json!({ "messages": [{ "role": "user", "content": "talk" }] })));
    check("error", post(&mock, ANTHROPIC, &ask(ANTHROPIC, "fail", "Write", true)));
    check("unknown-text", post(&mock, ANTHROPIC, &ask(ANTHROPIC, "talk ", "Write", true)));
    check("tool-not-offered", post(&mock, ANTHROPIC, &ask(ANTHROPIC, "work", "Read", true)));
    let body = ask(CHAT, "talk", "Write", false).to_string();
    let (one, two) = body.split_at(20);
    let chunks = format!("{:x}\r\n{one}\r\n{:X}\r\n{two}\r\n0\r\n\r\n", one.len(), two.len());
    let head = format!("POST {CHAT} HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n");
    check("chat-plain-talk", exchange(&mock, &(head + &chunks)));
    assert!(different.is_empty(), "{}", different.join("\n"));
    assert_eq!(post(&mock, ANTHROPIC, &ask(ANTHROPIC, "drop", "Write", true)), "");
}

/// Codex offers the tools of an MCP server in a namespace, and some that take a text.
#[test]
fn codex_namespaced_and_freeform_tools_work() {
    let script = Script::new()
        .on("full", [Step::call(&["mcp__callsheet__submit"], json!({ "a": 1 }))])
        .on("short", [Step::call(&["submit"], json!({ "a": 1 }))])
        .on("free", [Step::call(&["apply_patch"], json!("*** Begin Patch\n"))]);
    let mock = Mock::start(script, None).unwrap();
    let tools = json!([
        { "type": "web_search" },
        { "type": "custom", "name": "apply_patch" },
        { "type": "namespace", "name": "mcp__callsheet", "tools": [{ "type": "function", "name": "submit" }] },
    ]);
    let call = |said: &str| {
        let answer = post(&mock, RESPONSES, &json!({ "input": said, "tools": tools }));
        let body: Value = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
        body["output"][0].clone()
    };
    let namespaced = json!({
        "type": "function_call", "id": "fc_mock0", "call_id": "call_mock0", "name": "submit",
        "arguments": "{\"a\":1}", "namespace": "mcp__callsheet",
    });
    assert_eq!(call("full"), namespaced);
    assert_eq!(call("short"), namespaced);
    let free = json!({
        "type": "custom_tool_call", "id": "fc_mock0", "call_id": "call_mock0", "name": "apply_patch",
        "input": "*** Begin Patch\n",
    });
    assert_eq!(call("free"), free);
    assert_eq!(mock.requests()[0].tools(), ["web_search", "apply_patch", "mcp__callsheet__submit"]);
}

/// Returns a conversation: `u:` a user text, `c` a call, `r` its result, `s` an answer without a call.
fn conversation(path: &str, items: &[&str]) -> Value {
    let mut body = ask(path, "", "Write", false);
    let said = |item: &&str| -> Value {
        let text = item.strip_prefix("u:").unwrap_or("…");
        match (path, item.as_bytes()[0]) {
            (ANTHROPIC, b'u') => {
                json!({ "role": "user", "content": [{ "type": "text", "text": "<system-reminder>" }, { "type": "text", "text": text }] })
            }
            (ANTHROPIC, b'c') => {
                json!({ "role": "assistant", "content": [{ "type": "text", "text": "…" }, { "type": "tool_use" }] })
            }
            (ANTHROPIC, b'r') => json!({ "role": "user", "content": [{ "type": "tool_result" }] }),
            (ANTHROPIC, _) => json!({ "role": "assistant", "content": [{ "type": "text", "text": "…" }] }),
            (RESPONSES, b'u') => {
                json!({ "type": "message", "role": "user", "content": [{ "type": "input_text", "text": text }] })
            }
            (RESPONSES, b'c') => json!({ "type": "function_call" }),
            (RESPONSES, b'r') => json!({ "type": "function_call_output" }),
            (RESPONSES, _) => json!({ "type": "message", "role": "assistant" }),
            (CHAT, b'u') => json!({ "role": "user", "content": [{ "type": "text", "text": text }] }),
            (CHAT, b'c') => json!({ "role": "assistant", "content": "…", "tool_calls": [{}] }),
            (CHAT, b'r') => json!({ "role": "tool", "content": "…" }),
            (CHAT, _) => json!({ "role": "assistant", "content": "…" }),
            (_, b'u') => json!({ "role": "user", "parts": [{ "text": text }] }),
            (_, b'c') => json!({ "role": "model", "parts": [{ "text": "…" }, { "functionCall": {} }] }),
            (_, b'r') => json!({ "role": "user", "parts": [{ "functionResponse": {} }] }),
            _ => json!({ "role": "model", "parts": [{ "text": "…" }] }),
        }
    };
    let list: Vec<_> = items.iter().map(said).collect();
    let key = match path {
        ANTHROPIC | CHAT => "messages",
        RESPONSES => "input",
        _ => "contents",
    };
    body[key] = json!(list);
    body
}

#[test]
fn step_matches_text_and_result_count() {
    let mock = mock();
    for path in [ANTHROPIC, RESPONSES, CHAT, GEMINI] {
        for (items, answer) in [
            (&["u:work"][..], "step 0"),
            (&["u:work", "c", "r"], "step 1"),
            (&["u:work", "c", "r", "u:a reminder"], "step 1"),
            (&["u:work", "c", "r", "c", "r"], "the turn has no step 2"),
            (&["u:work", "c", "r", "s", "u:again"], "step 0"),
            (&["u:work", "c", "r", "s", "u:again", "c", "r"], "step 1"),
            (&["u:work", "s", "u:work"], "step 0"),
            (&["u:before MARK-7 after"], "step 0"),
            (&["u:<current_datetime>now</current_datetime>\n\nwork"], "step 0"),
        ] {
            post(&mock, path, &conversation(path, items));
            assert_eq!(mock.requests().pop().unwrap().answer, answer, "{path} {items:?}");
        }
        // A turn that has ended does not answer a text that the script lacks.
        post(&mock, path, &conversation(path, &["u:work", "c", "r", "s", "u:unknown"]));
        let answer = mock.requests().pop().unwrap().answer;
        assert!(answer.starts_with("no turn begins with any of ") && answer.contains("unknown"), "{answer}");
    }
}

#[test]
fn every_request_is_recorded() {
    let dir = tempfile::tempdir().unwrap();
    let record = dir.path().join("requests.jsonl");
    let mock = Mock::start(Script::new().on("hi", [Step::text("ho")]), Some(&record)).unwrap();
    exchange(&mock, "HEAD / HTTP/1.1\r\n\r\n");
    exchange(&mock, "POST /other HTTP/1.1\r\nContent-Length: 4\r\n\r\nnot{");
    let body = ask(CHAT, "hi", "Write", true);
    post(&mock, CHAT, &body);
    let lines = [
        json!({ "method": "HEAD", "path": "/", "body": null, "answer": "probe" }),
        json!({ "method": "POST", "path": "/other", "body": "not{", "answer": "probe" }),
        json!({ "method": "POST", "path": CHAT, "body": body, "answer": "step 0" }),
    ];
    let expected: String = lines.iter().map(|line| format!("{line}\n")).collect();
    assert_eq!(fs::read_to_string(record).unwrap(), expected);
    assert_eq!(serde_json::to_value(mock.requests()).unwrap(), json!(lines));
    assert_eq!(mock.requests()[2].user_texts(), ["hi"]);
}

#[test]
fn script_round_trips_as_json() {
    let text = r#"{"turns": [
        {"user": "Go.", "steps": [
            {"thought": "hm", "text": "yes", "delay_ms": 5,
             "call": [{"tools": ["Write", "write_file"], "args": {"a": 1}}, {"tools": ["create"], "args": {"b": 2}}]},
            {"fail": {"status": {"status": 529, "body": {"type": "error"}}}},
            {"fail": "drop"}
        ]},
        {"marker": "task-7", "steps": [{"text": "ok"}]}
    ]}"#;
    let first =
        Step::call(&["Write", "write_file"], json!({ "a": 1 })).or_call(&["create"], json!({ "b": 2 }));
    let first = Step { text: Some("yes".to_owned()), ..first }.thinking("hm").after_ms(5);
    let refused = Failure::Status { status: 529, body: json!({ "type": "error" }), headers: BTreeMap::new() };
    let refused = Step { fail: Some(refused), ..Step::default() };
    let script = Script::new()
        .on("Go.", [first, refused, Step::drop_connection()])
        .on_marker("task-7", [Step::text("ok")]);
    assert_eq!(serde_json::from_str::<Script>(text).unwrap(), script);
    assert_eq!(serde_json::from_value::<Script>(json!(script)).unwrap(), script);
    for wrong in [
        serde_json::from_str::<Script>(r#"{"turn": []}"#).map(drop),
        serde_json::from_str::<Turn>(r#"{"steps": [], "text": ""}"#).map(drop),
        serde_json::from_str::<Step>(r#"{"txt": ""}"#).map(drop),
        serde_json::from_str::<Call>(r#"{"tools": [], "args": 1, "x": 1}"#).map(drop),
    ] {
        assert!(wrong.unwrap_err().to_string().starts_with("unknown field"));
    }
}
