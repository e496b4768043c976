//! The Gemini protocol: `generateContent` and `streamGenerateContent`.

use serde_json::{Value, json};

use super::{ConversationItem, ModelTurn, OfferedTool, as_list, event, split_text, string_value};

pub(super) fn items(body: &Value) -> Vec<ConversationItem> {
    let mut items = Vec::new();
    for content in as_list(&body["contents"]) {
        let parts = as_list(&content["parts"]);
        if content["role"] == "model" {
            let called = parts.iter().any(|part| part["functionCall"].is_object());
            items.push(if called { ConversationItem::Called } else { ConversationItem::Said });
            continue;
        }
        items.extend(parts.iter().filter_map(|part| {
            if part["functionResponse"].is_object() {
                Some(ConversationItem::Result)
            } else {
                part["text"].is_string().then(|| ConversationItem::User(string_value(&part["text"])))
            }
        }));
    }
    items
}

pub(super) fn tools(body: &Value) -> Vec<OfferedTool> {
    let declared = as_list(&body["tools"]).iter().flat_map(|tool| as_list(&tool["functionDeclarations"]));
    declared.map(|tool| OfferedTool::named(&tool["name"])).collect()
}

/// Returns an answer with these parts; only the last one of a stream has a finish reason.
fn part(turn: &ModelTurn<'_>, parts: &[Value], finish: Option<&str>) -> Value {
    let mut candidate = json!({ "content": { "role": "model", "parts": parts }, "index": 0 });
    if let Some(finish) = finish {
        candidate["finishReason"] = json!(finish);
    }
    json!({
        "candidates": [candidate],
        "usageMetadata": { "promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15 },
        "modelVersion": turn.model,
        "responseId": format!("mock{}", turn.serial),
    })
}

fn call(turn: &ModelTurn<'_>) -> Option<Value> {
    let (tool, args) = turn.call?;
    Some(json!({ "functionCall": { "name": tool.name, "args": args } }))
}

pub(super) fn content(turn: &ModelTurn<'_>) -> Value {
    let mut parts = Vec::new();
    parts.extend(turn.thought.map(|thought| json!({ "text": thought, "thought": true })));
    parts.extend(turn.text.map(|text| json!({ "text": text })));
    parts.extend(call(turn));
    part(turn, &parts, Some("STOP"))
}

pub(super) fn events(turn: &ModelTurn<'_>) -> String {
    let mut parts = Vec::new();
    parts.extend(turn.thought.map(|thought| json!({ "text": thought, "thought": true })));
    parts.extend(split_text(turn.text.unwrap_or_default()).into_iter().map(|piece| json!({ "text": piece })));
    parts.extend(call(turn));
    let last = parts.len().saturating_sub(1);
    let events = parts.iter().enumerate().map(|(index, one)| {
        let finish = (index == last).then_some("STOP");
        event(&part(turn, std::slice::from_ref(one), finish))
    });
    events.collect()
}
