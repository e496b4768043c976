//! The Anthropic Messages protocol.

use serde_json::{Value, json};

use super::{ConversationItem, ModelTurn, OfferedTool, as_list, content_texts, split_text, typed_event};

pub(super) fn items(body: &Value) -> Vec<ConversationItem> {
    let mut items = Vec::new();
    for message in as_list(&body["messages"]) {
        let content = &message["content"];
        let has = |kind: &str| as_list(content).iter().any(|part| part["type"] == kind);
        match message["role"].as_str() {
            Some("assistant") => {
                items.push(if has("tool_use") { ConversationItem::Called } else { ConversationItem::Said })
            }
            // Claude Code also sends messages of the role "system", which are not from the user.
            Some("user") => {
                let results = as_list(content).iter().filter(|part| part["type"] == "tool_result");
                items.extend(results.map(|_| ConversationItem::Result));
                items.extend(content_texts(content).into_iter().map(ConversationItem::User));
            }
            _ => {}
        }
    }
    items
}

pub(super) fn tools(body: &Value) -> Vec<OfferedTool> {
    as_list(&body["tools"]).iter().map(|tool| OfferedTool::named(&tool["name"])).collect()
}

fn blocks(turn: &ModelTurn<'_>) -> Vec<Value> {
    let mut blocks = Vec::new();
    if let Some(thought) = turn.thought {
        blocks.push(json!({ "type": "thinking", "thinking": thought, "signature": "c2lnbmF0dXJl" }));
    }
    if let Some(text) = turn.text {
        blocks.push(json!({ "type": "text", "text": text }));
    }
    if let Some((tool, args)) = turn.call {
        let id = format!("toolu_mock{}", turn.serial);
        blocks.push(json!({ "type": "tool_use", "id": id, "name": tool.name, "input": args }));
    }
    blocks
}

pub(super) fn message(turn: &ModelTurn<'_>) -> Value {
    json!({
        "id": format!("msg_mock{}", turn.serial),
        "type": "message",
        "role": "assistant",
        "model": turn.model,
        "content": blocks(turn),
        "stop_reason": if turn.call.is_some() { "tool_use" } else { "end_turn" },
        "stop_sequence": null,
        "usage": { "input_tokens": 10, "output_tokens": 5 },
    })
}

pub(super) fn events(turn: &ModelTurn<'_>) -> String {
    let whole = message(turn);
    let mut start = whole.clone();
    start["content"] = json!([]);
    start["stop_reason"] = Value::Null;
    let mut out = typed_event(&json!({ "type": "message_start", "message": start }));
    for (index, block) in blocks(turn).iter().enumerate() {
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
                split_text(turn.thought.unwrap_or_default())
                    .into_iter()
                    .map(delta)
                    .chain([signature])
                    .collect()
            }
            _ => {
                empty["text"] = json!("");
                let delta = |piece| json!({ "type": "text_delta", "text": piece });
                split_text(turn.text.unwrap_or_default()).into_iter().map(delta).collect()
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
