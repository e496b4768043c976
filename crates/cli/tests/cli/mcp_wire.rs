//! Tests `callsheet mcp` message by message.

use callsheet_testing::{TestProject, run_command, run_with_input};
use serde_json::{Value, json};

/// Sends these lines at once, closes standard input, and returns all answers.
fn send_lines(project: &TestProject, lines: &[String]) -> Vec<Value> {
    let hello = json!({
        "jsonrpc": "2.0", "id": 0, "method": "initialize",
        "params": { "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } },
    });
    let mut input =
        format!("{hello}\n{}\n", json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    lines.iter().for_each(|line| input.push_str(&format!("{line}\n")));
    let output = project.run_with(&["mcp", "--session", "."], input.as_bytes());
    assert_eq!((output.code, output.err().as_str()), (Some(0), ""));
    let mut answers: Vec<Value> =
        output.out().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    answers.retain(|answer| answer["id"] != 0);
    answers.sort_by_key(|answer| answer["id"].to_string());
    answers
}

fn tool_call(id: u64, name: &str, arguments: &Value) -> String {
    let params = json!({ "name": name, "arguments": arguments });
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }).to_string()
}

#[test]
fn closed_stdin_still_gets_all_answers() {
    let project = TestProject::new();
    let topics: Vec<String> = (1..=20)
        .map(|nth| {
            let data = json!({ "topic": format!("topic-{nth}"), "context": "c", "questions": ["q"] });
            tool_call(nth, "research_dispatch_code", &data)
        })
        .collect();
    let all = send_lines(&project, &topics);
    assert_eq!(all.len(), 20);
    for answer in all {
        let path = format!("03_research/code-topic-{}/request.md", answer["id"]);
        assert_eq!(answer["result"]["structuredContent"]["written"], json!([path]));
        assert_eq!(
            project.read(&path).lines().next().unwrap(),
            format!("# Research: topic-{}", answer["id"])
        );
    }
}

#[test]
fn malformed_or_large_message_is_answered() {
    let project = TestProject::new();
    let large = "x".repeat(5 << 20);
    let lines = [
        json!({ "method": "tools/call", "params": { "text": large }, "jsonrpc": "2.0", "id": 7 }).to_string(),
        "{ no json".to_owned(),
        json!({ "jsonrpc": "2.0", "id": 8, "method": "unheard/of" }).to_string(),
        json!({ "jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": { "name": 1 } }).to_string(),
        json!({ "jsonrpc": "2.0", "method": "notifications/unheard-of" }).to_string(),
        String::new(),
    ];
    let all = send_lines(&project, &lines);
    let error = |code: i64, message: &str| json!({ "code": code, "message": message });
    assert_eq!(
        all,
        [
            json!({ "jsonrpc": "2.0", "id": 7, "error": error(-32600, "the message is larger than 4194304 bytes") }),
            json!({ "jsonrpc": "2.0", "id": 8, "error": error(-32601, "unknown method `unheard/of`") }),
            json!({ "jsonrpc": "2.0", "id": 9, "error": error(-32602, "invalid parameters for `tools/call`") }),
            json!({ "jsonrpc": "2.0", "error": error(-32700, "invalid JSON: key must be a string at line 1 column 3") }),
        ]
    );
}

/// Sends the usual first messages and these lines of raw bytes, the last one without a line end. Returns the
/// answers.
fn send_raw_lines(project: &TestProject, lines: &[&[u8]]) -> Vec<String> {
    let hello = json!({
        "jsonrpc": "2.0", "id": "hello", "method": "initialize",
        "params": { "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } },
    });
    let begun = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    let mut input = format!("{hello}\n{begun}\n").into_bytes();
    input.extend(lines.join(&b'\n'));
    let output = project.run_with(&["mcp"], &input);
    assert_eq!((output.code, output.err().as_str()), (Some(0), ""));
    output.out().lines().filter(|line| !line.contains("\"hello\"")).map(str::to_owned).collect()
}

/// JSON-RPC allows any number and any string as an id: the answer repeats it unchanged.
#[test]
fn valid_ids_are_returned_unchanged() {
    let project = TestProject::new();
    let long = format!("\"{}\"", "x".repeat(5000));
    let ids = [
        "7",
        "0",
        "-1",
        "1.5",
        "1.0",
        "-0.0",
        "1e2",
        "1E+2",
        "1e400",
        "9223372036854775807",
        "9223372036854775808",
        "123456789012345678901234567890",
        "0.1234567890123456789",
        "\"\"",
        "\"seven\"",
        "\"1.5\"",
        "\"\u{00e4}\"",
        &long,
    ];
    for id in ids {
        for (request, member) in [
            (format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/list"}}"#), "\"result\""),
            (format!(r#"{{"method":"unheard/of","params":{{}},"id" : {id} ,"jsonrpc":"2.0"}}"#), "\"error\""),
        ] {
            let all = send_raw_lines(&project, &[request.as_bytes()]);
            assert_eq!(all.len(), 1, "{request}: {all:?}");
            let wanted = format!(r#"{{"jsonrpc":"2.0","id":{id},"#);
            assert!(all[0].starts_with(&wanted) && all[0].contains(member), "{request}: {}", all[0]);
        }
    }
}

/// Every malformed line gets an answer, without an id if the line has none that is valid. So does the request after
/// it, which has no line end.
#[test]
fn request_after_malformed_line_is_answered() {
    let project = TestProject::new();
    let deep = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{}{}}}"#,
        "[".repeat(9000),
        "]".repeat(9000)
    );
    let large =
        format!(r#"{{"jsonrpc":"2.0","id":2.5,"method":"ping","params":{{"a":"{}"}}}}"#, "x".repeat(5 << 20));
    let request = |id: &str| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
    let invalid = |line: String| (line.into_bytes(), -32600, "");
    let cases: Vec<(Vec<u8>, i64, &str)> = vec![
        invalid(request("null")),
        invalid(request("true")),
        invalid(request("false")),
        invalid(request("{}")),
        invalid(request("{\"id\":1}")),
        invalid(request("[]")),
        invalid(request("[1]")),
        invalid("5".into()),
        invalid("\"text\"".into()),
        invalid("null".into()),
        invalid("{}".into()),
        invalid("[]".into()),
        invalid(format!("[{},{}]", request("1"), request("2"))),
        (br#"{"jsonrpc":"1.0","id":3,"method":"ping"}"#.to_vec(), -32600, "3"),
        (br#"{"id":3.5,"method":"ping"}"#.to_vec(), -32600, "3.5"),
        (br#"{"jsonrpc":"2.0","id":4,"method":5}"#.to_vec(), -32600, "4"),
        (br#"{"jsonrpc":"2.0","id":1,"id":5,"method":"ping"}"#.to_vec(), -32600, "5"),
        (br#"{"jsonrpc":"2.0","\u0069d":null,"method":"ping"}"#.to_vec(), -32600, ""),
        (b"{\"jsonrpc\":\"2.0\",\"id\":6,\"method\":\"pi\xffng\"}".to_vec(), -32700, "6"),
        (b"\xff\xfe".to_vec(), -32700, ""),
        (b"{ no json".to_vec(), -32700, ""),
        (request("01").into_bytes(), -32700, ""),
        (request("1. 5").into_bytes(), -32700, ""),
        (request("NaN").into_bytes(), -32700, ""),
        (request("1").replace('}', "").into_bytes(), -32700, "1"),
        (deep.into_bytes(), -32700, "1"),
        (large.into_bytes(), -32600, "2.5"),
    ];
    for (line, code, id) in &cases {
        let shown = String::from_utf8_lossy(&line[..line.len().min(80)]).into_owned();
        let all = send_raw_lines(&project, &[line, request("\"next\"").as_bytes()]);
        assert_eq!(all.len(), 2, "{shown}: {all:?}");
        let (next, answers): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|answer| answer.contains("\"next\""));
        assert_eq!((next.len(), answers.len()), (1, 1), "{shown}");
        let id = if id.is_empty() { String::new() } else { format!("\"id\":{id},") };
        let wanted = format!(r#"{{"jsonrpc":"2.0",{id}"error":{{"code":{code},"message":""#);
        assert!(answers[0].starts_with(&wanted), "{shown}: {}", answers[0]);
    }
    // Notifications get no answer, even if they are invalid or are the first message.
    let note: &[u8] = br#"{"jsonrpc":"2.0","method":"notifications/unheard-of","params":5}"#;
    assert_eq!(send_raw_lines(&project, &[note]), Vec::<String>::new());
    let early = format!("{}\n{}\n", String::from_utf8_lossy(note), request("1"));
    let output = project.run_with(&["mcp"], early.as_bytes());
    assert_eq!((output.code, output.out().lines().count()), (Some(0), 1), "{}", output.err());
}

/// The session is the project's, regardless of the directory in which the server starts.
#[test]
fn session_is_found_from_any_directory() {
    let project = TestProject::new();
    project.write(".callsheet/sessions/a/note.md", b"x");
    std::fs::create_dir_all(project.path().join("deep/down")).unwrap();
    let ask = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" }).to_string();
    let path = project.path().to_str().unwrap();
    for (dir, args) in [
        (".", vec!["mcp", "--session", ".callsheet/sessions/a"]),
        ("deep/down", vec!["mcp", "--session", ".callsheet/sessions/a"]),
        ("..", vec!["--project", path, "mcp", "--session", ".callsheet/sessions/a"]),
        (".callsheet/sessions", vec!["mcp", "--session", "a"]),
    ] {
        let mut command = project.command();
        command.current_dir(project.path().join(dir)).args(&args);
        let output = run_with_input(&mut command, ask.as_bytes());
        assert_eq!(output.code, Some(0), "{dir}: {}", output.err());
        let mut command = project.command();
        let session = args.last().unwrap();
        command.current_dir(project.path().join(dir)).args(&args[..args.len() - 3]);
        command.args(["compose", "-q", "--role", "coder", "--session", session, "x"]);
        let output = run_command(&mut command);
        assert!(!output.err().contains("is not a directory"), "{dir}: {}", output.err());
    }
}
