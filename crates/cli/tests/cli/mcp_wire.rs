//! `callsheet mcp`, message by message.

use serde_json::{Value, json};

use crate::world::World;

/// Everything that is answered to these lines, which come all at once and are followed by the end.
fn answers(world: &World, lines: &[String]) -> Vec<Value> {
    let hello = json!({
        "jsonrpc": "2.0", "id": 0, "method": "initialize",
        "params": { "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } },
    });
    let mut input =
        format!("{hello}\n{}\n", json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    lines.iter().for_each(|line| input.push_str(&format!("{line}\n")));
    let said = world.run_with(&["mcp", "--session", "."], input.as_bytes());
    assert_eq!((said.code, said.err.as_str()), (0, ""));
    let mut answers: Vec<Value> = said.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    answers.retain(|answer| answer["id"] != 0);
    answers.sort_by_key(|answer| answer["id"].to_string());
    answers
}

fn call(id: u64, name: &str, arguments: &Value) -> String {
    let params = json!({ "name": name, "arguments": arguments });
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }).to_string()
}

#[test]
fn whoever_asks_and_goes_gets_all_answers() {
    let world = World::new();
    let topics: Vec<String> = (1..=20)
        .map(|nth| {
            let data = json!({ "topic": format!("topic-{nth}"), "context": "c", "questions": ["q"] });
            call(nth, "research_dispatch_code", &data)
        })
        .collect();
    let all = answers(&world, &topics);
    assert_eq!(all.len(), 20);
    for answer in all {
        let path = format!("03_research/code-topic-{}/request.md", answer["id"]);
        assert_eq!(answer["result"]["structuredContent"]["written"], json!([path]));
        assert_eq!(world.read(&path).lines().next().unwrap(), format!("# Research: topic-{}", answer["id"]));
    }
}

#[test]
fn what_is_no_message_or_too_large_gets_an_answer() {
    let world = World::new();
    let large = "x".repeat(5 << 20);
    let lines = [
        json!({ "method": "tools/call", "params": { "text": large }, "jsonrpc": "2.0", "id": 7 }).to_string(),
        "{ no json".to_owned(),
        json!({ "jsonrpc": "2.0", "id": 8, "method": "unheard/of" }).to_string(),
        json!({ "jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": { "name": 1 } }).to_string(),
        json!({ "jsonrpc": "2.0", "method": "notifications/unheard-of" }).to_string(),
        String::new(),
    ];
    let all = answers(&world, &lines);
    let error = |id: Option<u64>, code: i64, message: &str| {
        let mut answer = json!({ "jsonrpc": "2.0", "error": { "code": code, "message": message } });
        if let Some(id) = id {
            answer["id"] = id.into();
        }
        answer
    };
    assert_eq!(
        all,
        [
            error(Some(7), -32600, "the message is larger than 4194304 bytes"),
            error(Some(8), -32601, "there is no method `unheard/of`"),
            error(Some(9), -32602, "the parameters of `tools/call` do not have the right form"),
            error(None, -32700, "this is no JSON: key must be a string at line 1 column 3"),
        ]
    );
}
