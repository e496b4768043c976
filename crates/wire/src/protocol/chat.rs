//! The OpenAI Chat Completions protocol.

use serde_json::{Value, json};

use super::{ConversationItem, ModelTurn, OfferedTool, as_list, content_texts, event, split_text};

pub(super) fn items(body: &Value) -> Vec<ConversationItem> {
    let mut items = Vec::new();
    for message in as_list(&body["messages"]) {
        match message["role"].as_str() {
            Some("user") => {
                items.extend(content_texts(&message["content"]).into_iter().map(ConversationItem::User))
            }
            Some("assistant") if as_list(&message["tool_calls"]).is_empty() => {
                items.push(ConversationItem::Said)
            }
            Some("assistant") => items.push(ConversationItem::Called),
            Some("tool") => items.push(ConversationItem::Result),
            _ => {}
        }
    }
    items
}

pub(super) fn tools(body: &Value) -> Vec<OfferedTool> {
    as_list(&body["tools"]).iter().map(|tool| OfferedTool::named(&tool["function"]["name"])).collect()
}

fn call(turn: &ModelTurn<'_>) -> Option<Value> {
    let (tool, args) = turn.call?;
    let function = json!({ "name": tool.name, "arguments": args.to_string() });
    let id = format!("call_mock{}", turn.serial);
    Some(json!({ "index": 0, "id": id, "type": "function", "function": function }))
}

fn finish(turn: &ModelTurn<'_>) -> &'static str {
    if turn.call.is_some() { "tool_calls" } else { "stop" }
}

fn usage() -> Value {
    json!({ "prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15 })
}

pub(super) fn completion(turn: &ModelTurn<'_>) -> Value {
    let mut message = json!({ "role": "assistant", "content": turn.text });
    if let Some(thought) = turn.thought {
        message["reasoning_content"] = json!(thought);
    }
    if let Some(call) = call(turn) {
        message["tool_calls"] = json!([call]);
    }
    json!({
        "id": format!("chatcmpl-mock{}", turn.serial),
        "object": "chat.completion",
        "created": 0,
        "model": turn.model,
        "choices": [{ "index": 0, "message": message, "finish_reason": finish(turn) }],
        "usage": usage(),
    })
}

pub(super) fn events(turn: &ModelTurn<'_>) -> String {
    let chunk = |choices: Value| {
        json!({
            "id": format!("chatcmpl-mock{}", turn.serial),
            "object": "chat.completion.chunk",
            "created": 0,
            "model": turn.model,
            "choices": choices,
        })
    };
    let delta = |delta: Value, finish: Option<&str>| {
        event(&chunk(json!([{ "index": 0, "delta": delta, "finish_reason": finish }])))
    };
    let mut out = delta(json!({ "role": "assistant", "content": "" }), None);
    for piece in split_text(turn.thought.unwrap_or_default()) {
        out += &delta(json!({ "reasoning_content": piece }), None);
    }
    for piece in split_text(turn.text.unwrap_or_default()) {
        out += &delta(json!({ "content": piece }), None);
    }
    if let Some(call) = call(turn) {
        out += &delta(json!({ "tool_calls": [call] }), None);
    }
    out += &delta(json!({}), Some(finish(turn)));
    let mut last = chunk(json!([]));
    last["usage"] = usage();
    out + &event(&last) + "data: [DONE]\n\n"
}
