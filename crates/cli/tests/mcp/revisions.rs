//! Every method of the server in both tested revisions of the protocol, and the check of its answers.

use callsheet_testing::{McpAnswer, TestProject, check_mcp_session, run_with_input};
use serde_json::{Value, json};

/// The protocol's name for the version of a request.
const VERSION: &str = "io.modelcontextprotocol/protocolVersion";

/// A request without an id: a notification has none, and the others are numbered.
type Message = (&'static str, Value);

fn initialize(version: &str) -> Message {
    let client = json!({ "name": "t", "version": "1" });
    ("initialize", json!({ "protocolVersion": version, "capabilities": {}, "clientInfo": client }))
}

/// Returns the fields that each request of 2026-07-28 has.
fn request_meta(version: &str) -> Value {
    json!({ VERSION: version, "io.modelcontextprotocol/clientCapabilities": {} })
}

/// Adds the version and the capabilities to the parameters of each message.
fn name_version(messages: &mut [Message]) {
    for (_, params) in messages {
        params["_meta"] = request_meta("2026-07-28");
    }
}

/// Returns requests of all methods that both revisions have, and one of a method that neither has.
fn common_requests() -> Vec<Message> {
    let review = json!({ "verdict": "pass", "summary": "It works." });
    let coder = json!({ "name": "profiles/coder", "arguments": { "instructions": "Do it." } });
    let argument = json!({ "name": "instructions", "value": "D" });
    let reference = json!({ "type": "ref/prompt", "name": "profiles/coder" });
    vec![
        ("tools/list", json!({})),
        ("tools/call", json!({ "name": "submit_review", "arguments": review })),
        ("tools/call", json!({ "name": "submit_review" })),
        ("tools/call", json!({ "name": "submit_reviw" })),
        ("tools/call", json!({ "name": 1 })),
        ("prompts/list", json!({})),
        ("prompts/get", coder),
        ("prompts/get", json!({ "name": "profiles/codr" })),
        ("resources/list", json!({})),
        ("resources/templates/list", json!({})),
        ("resources/read", json!({ "uri": "session:///a%20note.md" })),
        ("resources/read", json!({ "uri": "session:///none.md" })),
        ("completion/complete", json!({ "ref": reference, "argument": argument })),
        ("logging/setLevel", json!({ "level": "info" })),
        ("unheard/of", json!({})),
    ]
}

/// Returns the lines of a session. The ids of its requests are their places.
fn write_lines(messages: &[Message]) -> String {
    let line = |(place, (method, params)): (usize, &Message)| {
        let mut message = json!({ "jsonrpc": "2.0", "id": place, "method": method, "params": params });
        if method.starts_with("notifications/") {
            message.as_object_mut().unwrap().remove("id");
        }
        format!("{message}\n")
    };
    messages.iter().enumerate().map(line).collect()
}

/// Runs a session in a project with one file, and returns all that the server wrote.
fn run_session(messages: &[Message]) -> String {
    let project = TestProject::new();
    project.write("a note.md", "A note.\n");
    let output = project.run_with(&["mcp", "--session", "."], write_lines(messages).as_bytes());
    assert_eq!((output.code, output.err().as_str()), (Some(0), ""));
    output.out()
}

/// Runs a session, and returns each method with the type of its answer, or with the code and the first line of its
/// error.
fn list_answers(messages: &[Message], revision: &str) -> Vec<String> {
    let output = run_session(messages);
    let mut all = check_mcp_session(write_lines(messages).as_bytes(), output.as_bytes()).unwrap();
    all.sort_by_key(|answer| answer.message["id"].as_u64());
    let show = |McpAnswer { revision: found, kind, message }: &McpAnswer| {
        assert_eq!(*found, revision, "{message}");
        let method = messages[usize::try_from(message["id"].as_u64().unwrap()).unwrap()].0;
        let error = &message["error"];
        let text = error["message"].as_str().and_then(|text| text.lines().next());
        match text {
            Some(text) => format!("{method}: {kind} {}: {text}", error["code"]),
            None if message["result"]["isError"] == true => format!("{method}: {kind} with an error"),
            None => format!("{method}: {kind}"),
        }
    };
    all.iter().map(show).collect()
}

/// The answers to the common requests, up to the resource that does not exist.
const COMMON: [&str; 11] = [
    "tools/list: ListToolsResult",
    "tools/call: CallToolResult",
    "tools/call: CallToolResult with an error",
    "tools/call: Error -32602: error[SubmissionBad]: unknown tool `submit_reviw`",
    "tools/call: Error -32602: invalid parameters for `tools/call`",
    "prompts/list: ListPromptsResult",
    "prompts/get: GetPromptResult",
    "prompts/get: Error -32602: error[TemplateNotFound]: unknown prompt `profiles/codr`",
    "resources/list: ListResourcesResult",
    "resources/templates/list: ListResourceTemplatesResult",
    "resources/read: ReadResourceResult",
];

/// The answers to the common requests for methods that the server does not offer.
const NOT_OFFERED: [&str; 3] = [
    "completion/complete: Error -32601: unknown method `completion/complete`",
    "logging/setLevel: Error -32601: logging/setLevel",
    "unheard/of: Error -32601: unknown method `unheard/of`",
];

#[test]
fn answers_fit_revision_with_session() {
    let mut messages = vec![initialize("2025-11-25"), ("notifications/initialized", json!({}))];
    messages.extend(common_requests());
    messages.extend([
        ("notifications/cancelled", json!({ "requestId": 999, "reason": "It is over." })),
        ("notifications/progress", json!({ "progressToken": 1, "progress": 1 })),
        // The server may report no progress.
        ("tools/list", json!({ "_meta": { "progressToken": "p" } })),
        ("ping", json!({})),
        ("initialize", json!({ "protocolVersion": 5 })),
        ("resources/subscribe", json!({ "uri": "session:///a%20note.md" })),
        ("tasks/list", json!({})),
    ]);
    let mut expected = vec!["initialize: InitializeResult"];
    expected.extend(COMMON);
    expected
        .push("resources/read: Error -32002: error[InputNotFound]: unknown resource `session:///none.md`");
    expected.extend(NOT_OFFERED);
    expected.extend([
        "tools/list: ListToolsResult",
        "ping: EmptyResult",
        "initialize: Error -32602: invalid parameters for `initialize`",
        "resources/subscribe: Error -32601: resources/subscribe",
        "tasks/list: Error -32601: unknown method `tasks/list`",
    ]);
    assert_eq!(list_answers(&messages, "2025-11-25"), expected);
}

#[test]
fn answers_fit_revision_without_session() {
    let mut messages = vec![("server/discover", json!({}))];
    messages.extend(common_requests());
    messages.extend([
        ("ping", json!({})),
        ("subscriptions/listen", json!({ "notifications": { "toolsListChanged": true } })),
        ("notifications/cancelled", json!({ "requestId": 999 })),
    ]);
    name_version(&mut messages);
    messages.extend([
        ("tools/list", json!({ "_meta": request_meta("1900-01-01") })),
        ("tools/list", json!({ "_meta": { VERSION: "2026-07-28" } })),
    ]);
    let mut expected = vec!["server/discover: DiscoverResult"];
    expected.extend(COMMON);
    expected
        .push("resources/read: Error -32602: error[InputNotFound]: unknown resource `session:///none.md`");
    expected.extend(NOT_OFFERED);
    expected.extend([
        "ping: Error -32601: ping",
        "subscriptions/listen: Error -32601: subscriptions/listen",
        "tools/list: UnsupportedProtocolVersionError -32022: Unsupported protocol version",
        "tools/list: Error -32602: request _meta is missing or has malformed required fields: \
         io.modelcontextprotocol/clientCapabilities",
    ]);
    assert_eq!(list_answers(&messages, "2026-07-28"), expected);
}

#[test]
fn initialize_agrees_on_known_revision() {
    let agreed = |version: &str| {
        let answer: Value = serde_json::from_str(&run_session(&[initialize(version)])).unwrap();
        answer["result"]["protocolVersion"].as_str().unwrap().to_owned()
    };
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        assert_eq!(agreed(version), version);
    }
    for version in ["2026-07-28", "1900-01-01"] {
        assert_eq!(agreed(version), "2025-11-25");
    }
}

/// A change of an answer, and the reason why the answer is refused after it.
type RefusedChange = (fn(&mut Value), &'static str);

/// Changes the answer to the last of these messages in different ways, and expects that each is refused.
fn assert_refused(messages: &[Message], changes: &[RefusedChange]) {
    let (input, output) = (write_lines(messages), run_session(messages));
    let last = json!(messages.len() - 1);
    for (change, reason) in changes {
        let mut answers: Vec<Value> =
            output.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        change(answers.iter_mut().find(|answer| answer["id"] == last).unwrap());
        let changed: String = answers.iter().map(|answer| format!("{answer}\n")).collect();
        let refused = check_mcp_session(input.as_bytes(), changed.as_bytes()).unwrap_err();
        assert_eq!(refused, *reason);
    }
}

fn remove_field(object: &mut Value, field: &str) {
    object.as_object_mut().unwrap().remove(field).unwrap();
}

#[test]
fn changed_result_is_refused() {
    let resources: [RefusedChange; 9] = [
        (
            |answer| answer["result"]["resources"][0]["name"] = json!(5),
            "2025-11-25 ListResourcesResult/resources/0/name: 5 is not of type \"string\"",
        ),
        (
            |answer| answer["result"]["resources"][0]["uri"] = json!("no address"),
            "2025-11-25 ListResourcesResult/resources/0/uri: \"no address\" is not a \"uri\"",
        ),
        (
            |answer| remove_field(&mut answer["result"]["resources"][0], "uri"),
            "2025-11-25 ListResourcesResult/resources/0: \"uri\" is a required property",
        ),
        (
            |answer| answer["result"]["resources"][0]["mime"] = json!("text/plain"),
            "2025-11-25 ListResourcesResult/resources/0: Additional properties are not allowed ('mime' was unexpected)",
        ),
        (
            |answer| remove_field(&mut answer["result"], "resources"),
            "2025-11-25 ListResourcesResult: \"resources\" is a required property",
        ),
        (
            |answer| answer["result"]["resultType"] = json!("complete"),
            "2025-11-25 ListResourcesResult: Additional properties are not allowed ('resultType' was unexpected)",
        ),
        (
            |answer| answer["results"] = json!({}),
            "2025-11-25 JSONRPCResultResponse: Additional properties are not allowed ('results' was unexpected)",
        ),
        (|answer| answer["id"] = json!(7), "no request has the id 7"),
        (
            |answer| answer["method"] = json!("notifications/message"),
            "the server offers no messages of its own, and sent \"notifications/message\"",
        ),
    ];
    assert_refused(&[initialize("2025-11-25"), ("resources/list", json!({}))], &resources);
    let call: [RefusedChange; 2] = [
        (
            |answer| answer["result"]["isError"] = json!("true"),
            "2025-11-25 CallToolResult/isError: \"true\" is not of type \"boolean\"",
        ),
        (
            |answer| answer["result"]["structuredContent"] = json!([]),
            "2025-11-25 CallToolResult/structuredContent: [] is not of type \"object\"",
        ),
    ];
    let params = json!({ "name": "submit_done" });
    assert_refused(&[initialize("2025-11-25"), ("tools/call", params)], &call);
    let without_session: [RefusedChange; 3] = [
        (
            |answer| remove_field(&mut answer["result"], "resultType"),
            "2026-07-28 JSONRPCResultResponse/result: \"resultType\" is a required property",
        ),
        (
            |answer| remove_field(&mut answer["result"], "ttlMs"),
            "2026-07-28 ListToolsResult: \"ttlMs\" is a required property",
        ),
        (
            |answer| answer["result"]["cacheScope"] = json!("shared"),
            "2026-07-28 ListToolsResult/cacheScope: \"shared\" is not one of \"private\" or \"public\"",
        ),
    ];
    assert_refused(&[("tools/list", json!({ "_meta": request_meta("2026-07-28") }))], &without_session);
}

#[test]
fn changed_error_is_refused() {
    let common: [RefusedChange; 3] = [
        (
            |answer| answer["error"]["code"] = json!("-32601"),
            "2025-11-25 JSONRPCErrorResponse/error/code: \"-32601\" is not of type \"integer\"",
        ),
        (
            |answer| answer["error"]["hint"] = json!("x"),
            "2025-11-25 JSONRPCErrorResponse/error: Additional properties are not allowed ('hint' was unexpected)",
        ),
        (
            |answer| answer["id"] = json!(null),
            "2025-11-25 JSONRPCErrorResponse/id: null is not of types \"integer\", \"string\"",
        ),
    ];
    assert_refused(&[initialize("2025-11-25"), ("unheard/of", json!({}))], &common);
    let version: [RefusedChange; 1] = [(
        |answer| remove_field(&mut answer["error"]["data"], "supported"),
        "2026-07-28 UnsupportedProtocolVersionError/data: \"supported\" is a required property",
    )];
    assert_refused(&[("tools/list", json!({ "_meta": request_meta("1900-01-01") }))], &version);
}

/// The check is in the harness: it needs no call in a test.
#[test]
#[should_panic(expected = "2025-11-25 JSONRPCResultResponse: \"id\" is a required property")]
fn wrong_answer_fails_its_test() {
    let project = TestProject::new();
    let server =
        project.write_program("callsheet", "#!/bin/sh\necho '{\"jsonrpc\":\"2.0\",\"result\":{}}'\n");
    run_with_input(std::process::Command::new(server).arg("mcp"), b"");
}
