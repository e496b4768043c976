//! The OpenAI Responses protocol.

use serde_json::{Value, json};

use super::{
    ConversationItem, ModelTurn, OfferedTool, as_list, content_texts, split_text, string_value, typed_event,
};

pub(super) fn items(body: &Value) -> Vec<ConversationItem> {
    if let Some(input) = body["input"].as_str() {
        return vec![ConversationItem::User(input.to_owned())];
    }
    let mut items = Vec::new();
    for item in as_list(&body["input"]) {
        match (item["type"].as_str(), item["role"].as_str()) {
            (Some("message") | None, Some("user")) => {
                items.extend(content_texts(&item["content"]).into_iter().map(ConversationItem::User));
            }
            (Some("message") | None, Some("assistant")) => items.push(ConversationItem::Said),
            (Some(kind), _) if kind.ends_with("_call") => items.push(ConversationItem::Called),
            (Some(kind), _) if kind.ends_with("_output") => items.push(ConversationItem::Result),
            _ => {}
        }
    }
    items
}

pub(super) fn tools(body: &Value) -> Vec<OfferedTool> {
    let mut tools = Vec::new();
    for tool in as_list(&body["tools"]) {
        let freeform = tool["type"] == "custom";
        if tool["type"] == "namespace" {
            let namespace = Some(string_value(&tool["name"]));
            let inner = |inner: &Value| OfferedTool {
                namespace: namespace.clone(),
                ..OfferedTool::named(&inner["name"])
            };
            tools.extend(as_list(&tool["tools"]).iter().map(inner));
        } else {
            // Tools of the provider itself have a type and no name.
            let name = if tool["name"].is_string() { &tool["name"] } else { &tool["type"] };
            tools.push(OfferedTool { freeform, ..OfferedTool::named(name) });
        }
    }
    tools
}

fn output(turn: &ModelTurn<'_>) -> Vec<Value> {
    let mut items = Vec::new();
    let serial = turn.serial;
    if let Some(thought) = turn.thought {
        let summary = json!([{ "type": "summary_text", "text": thought }]);
        let id = format!("rs_mock{serial}");
        items.push(json!({ "type": "reasoning", "id": id, "summary": summary, "encrypted_content": null }));
    }
    if let Some(text) = turn.text {
        let content = json!([{ "type": "output_text", "text": text, "annotations": [] }]);
        let id = format!("msg_mock{serial}");
        items.push(json!({
            "type": "message", "id": id, "role": "assistant", "status": "completed", "content": content,
        }));
    }
    if let Some((tool, args)) = turn.call {
        let (id, call_id) = (format!("fc_mock{serial}"), format!("call_mock{serial}"));
        items.push(if tool.freeform {
            let input = args.as_str().map_or_else(|| args.to_string(), str::to_owned);
            json!({ "type": "custom_tool_call", "id": id, "call_id": call_id, "name": tool.name, "input": input })
        } else {
            let mut call = json!({ "type": "function_call", "id": id, "call_id": call_id, "name": tool.name });
            call["arguments"] = json!(args.to_string());
            if let Some(namespace) = &tool.namespace {
                call["namespace"] = json!(namespace);
            }
            call
        });
    }
    items
}

pub(super) fn response(turn: &ModelTurn<'_>) -> Value {
    json!({
        "id": format!("resp_mock{}", turn.serial),
        "object": "response",
        "status": "completed",
        "model": turn.model,
        "output": output(turn),
        "usage": {
            "input_tokens": 10,
            "input_tokens_details": { "cached_tokens": 0 },
            "output_tokens": 5,
            "output_tokens_details": { "reasoning_tokens": 0 },
            "total_tokens": 15,
        },
    })
}

pub(super) fn events(turn: &ModelTurn<'_>) -> String {
    let whole = response(turn);
    let started = json!({ "id": whole["id"], "object": "response", "status": "in_progress", "output": [] });
    let mut out = typed_event(&json!({ "type": "response.created", "response": started }));
    for (index, item) in as_list(&whole["output"]).iter().enumerate() {
        let mut empty = item.clone();
        let (kind, whole_text) = match item["type"].as_str() {
            Some("message") => {
                empty["content"] = json!([]);
                ("output_text", turn.text)
            }
            Some("reasoning") => {
                empty["summary"] = json!([]);
                ("reasoning_summary_text", turn.thought)
            }
            _ => ("", None),
        };
        out += &typed_event(&json!({
            "type": "response.output_item.added", "output_index": index, "item": empty,
        }));
        for piece in split_text(whole_text.unwrap_or_default()) {
            out += &typed_event(&json!({
                "type": format!("response.{kind}.delta"), "item_id": item["id"], "output_index": index,
                "content_index": 0, "summary_index": 0, "delta": piece,
            }));
        }
        out += &typed_event(&json!({
            "type": "response.output_item.done", "output_index": index, "item": item,
        }));
    }
    out + &typed_event(&json!({ "type": "response.completed", "response": whole }))
}
