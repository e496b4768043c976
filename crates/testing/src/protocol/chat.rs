//! The OpenAI Chat Completions protocol.

use serde_json::{Value, json};

use super::{Answer, Item, Tool, as_list, content_texts, event, split_text};

pub(super) fn items(body: &Value) -> Vec<Item> {
    let mut items = Vec::new();
    for message in as_list(&body["messages"]) {
        match message["role"].as_str() {
            Some("user") => items.extend(content_texts(&message["content"]).into_iter().map(Item::User)),
            Some("assistant") if as_list(&message["tool_calls"]).is_empty() => items.push(Item::Said),
            Some("assistant") => items.push(Item::Called),
            Some("tool") => items.push(Item::Result),
            _ => {}
        }
    }
    items
}

pub(super) fn tools(body: &Value) -> Vec<Tool> {
    as_list(&body["tools"]).iter().map(|tool| Tool::named(&tool["function"]["name"])).collect()
}

fn call(answer: &Answer<'_>) -> Option<Value> {
    let (tool, args) = answer.call?;
    let function = json!({ "name": tool.name, "arguments": args.to_string() });
    let id = format!("call_mock{}", answer.serial);
    Some(json!({ "index": 0, "id": id, "type": "function", "function": function }))
}

fn finish(answer: &Answer<'_>) -> &'static str {
    if answer.call.is_some() { "tool_calls" } else { "stop" }
}

fn usage() -> Value {
    json!({ "prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15 })
}

pub(super) fn completion(answer: &Answer<'_>) -> Value {
    let mut message = json!({ "role": "assistant", "content": answer.text });
    if let Some(thought) = answer.thought {
        message["reasoning_content"] = json!(thought);
    }
    if let Some(call) = call(answer) {
        message["tool_calls"] = json!([call]);
    }
    json!({
        "id": format!("chatcmpl-mock{}", answer.serial),
        "object": "chat.completion",
        "created": 0,
        "model": answer.model,
        "choices": [{ "index": 0, "message": message, "finish_reason": finish(answer) }],
        "usage": usage(),
    })
}

pub(super) fn events(answer: &Answer<'_>) -> String {
    let chunk = |choices: Value| {
        json!({
            "id": format!("chatcmpl-mock{}", answer.serial),
            "object": "chat.completion.chunk",
            "created": 0,
            "model": answer.model,
            "choices": choices,
        })
    };
    let delta = |delta: Value, finish: Option<&str>| {
        event(&chunk(json!([{ "index": 0, "delta": delta, "finish_reason": finish }])))
    };
    let mut out = delta(json!({ "role": "assistant", "content": "" }), None);
    for piece in split_text(answer.thought.unwrap_or_default()) {
        out += &delta(json!({ "reasoning_content": piece }), None);
    }
    for piece in split_text(answer.text.unwrap_or_default()) {
        out += &delta(json!({ "content": piece }), None);
    }
    if let Some(call) = call(answer) {
        out += &delta(json!({ "tool_calls": [call] }), None);
    }
    out += &delta(json!({}), Some(finish(answer)));
    let mut last = chunk(json!([]));
    last["usage"] = usage();
    out + &event(&last) + "data: [DONE]\n\n"
}
