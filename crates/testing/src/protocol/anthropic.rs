//! The Anthropic Messages protocol.

use serde_json::{Value, json};

use super::{Answer, Item, Tool, as_list, content_texts, split_text, typed_event};

pub(super) fn items(body: &Value) -> Vec<Item> {
    let mut items = Vec::new();
    for message in as_list(&body["messages"]) {
        let content = &message["content"];
        let has = |kind: &str| as_list(content).iter().any(|part| part["type"] == kind);
        match message["role"].as_str() {
            Some("assistant") => items.push(if has("tool_use") { Item::Called } else { Item::Said }),
            // Claude Code also sends messages of the role "system", which are not from the user.
            Some("user") => {
                let results = as_list(content).iter().filter(|part| part["type"] == "tool_result");
                items.extend(results.map(|_| Item::Result));
                items.extend(content_texts(content).into_iter().map(Item::User));
            }
            _ => {}
        }
    }
    items
}

pub(super) fn tools(body: &Value) -> Vec<Tool> {
    as_list(&body["tools"]).iter().map(|tool| Tool::named(&tool["name"])).collect()
}

fn blocks(answer: &Answer<'_>) -> Vec<Value> {
    let mut blocks = Vec::new();
    if let Some(thought) = answer.thought {
        blocks.push(json!({ "type": "thinking", "thinking": thought, "signature": "c2lnbmF0dXJl" }));
    }
    if let Some(text) = answer.text {
        blocks.push(json!({ "type": "text", "text": text }));
    }
    if let Some((tool, args)) = answer.call {
        let id = format!("toolu_mock{}", answer.serial);
        blocks.push(json!({ "type": "tool_use", "id": id, "name": tool.name, "input": args }));
    }
    blocks
}

pub(super) fn message(answer: &Answer<'_>) -> Value {
    json!({
        "id": format!("msg_mock{}", answer.serial),
        "type": "message",
        "role": "assistant",
        "model": answer.model,
        "content": blocks(answer),
        "stop_reason": if answer.call.is_some() { "tool_use" } else { "end_turn" },
        "stop_sequence": null,
        "usage": { "input_tokens": 10, "output_tokens": 5 },
    })
}

pub(super) fn events(answer: &Answer<'_>) -> String {
    let whole = message(answer);
    let mut start = whole.clone();
    start["content"] = json!([]);
    start["stop_reason"] = Value::Null;
    let mut out = typed_event(&json!({ "type": "message_start", "message": start }));
    for (index, block) in blocks(answer).iter().enumerate() {
        let mut empty = block.clone();
        let deltas = match block["type"].as_str() {
            Some("tool_use") => {
                empty["input"] = json!({});
                let input = block["input"].to_string();
                let delta = |piece| json!({ "type": "input_json_delta", "partial_json": piece });
                split_text(&input).into_iter().map(delta).collect::<Vec<_>>()
            }
            Some("thinking") => {
                empty["thinking"] = json!("");
                empty["signature"] = json!("");
                let delta = |piece| json!({ "type": "thinking_delta", "thinking": piece });
                let signature = json!({ "type": "signature_delta", "signature": block["signature"] });
                split_text(answer.thought.unwrap_or_default())
                    .into_iter()
                    .map(delta)
                    .chain([signature])
                    .collect()
            }
            _ => {
                empty["text"] = json!("");
                let delta = |piece| json!({ "type": "text_delta", "text": piece });
                split_text(answer.text.unwrap_or_default()).into_iter().map(delta).collect()
            }
        };
        out +=
            &typed_event(&json!({ "type": "content_block_start", "index": index, "content_block": empty }));
        for delta in deltas {
            out += &typed_event(&json!({ "type": "content_block_delta", "index": index, "delta": delta }));
        }
        out += &typed_event(&json!({ "type": "content_block_stop", "index": index }));
    }
    let delta = json!({ "stop_reason": whole["stop_reason"], "stop_sequence": null });
    out += &typed_event(&json!({ "type": "message_delta", "delta": delta, "usage": whole["usage"] }));
    out + &typed_event(&json!({ "type": "message_stop" }))
}
