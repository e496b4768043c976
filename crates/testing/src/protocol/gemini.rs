//! The Gemini protocol: `generateContent` and `streamGenerateContent`.

use serde_json::{Value, json};

use super::{Answer, Item, Tool, as_list, event, split_text, string_value};

pub(super) fn items(body: &Value) -> Vec<Item> {
    let mut items = Vec::new();
    for content in as_list(&body["contents"]) {
        let parts = as_list(&content["parts"]);
        if content["role"] == "model" {
            let called = parts.iter().any(|part| part["functionCall"].is_object());
            items.push(if called { Item::Called } else { Item::Said });
            continue;
        }
        items.extend(parts.iter().filter_map(|part| {
            if part["functionResponse"].is_object() {
                Some(Item::Result)
            } else {
                part["text"].is_string().then(|| Item::User(string_value(&part["text"])))
            }
        }));
    }
    items
}

pub(super) fn tools(body: &Value) -> Vec<Tool> {
    let declared = as_list(&body["tools"]).iter().flat_map(|tool| as_list(&tool["functionDeclarations"]));
    declared.map(|tool| Tool::named(&tool["name"])).collect()
}

/// Returns an answer with these parts; only the last one of a stream has a finish reason.
fn part(answer: &Answer<'_>, parts: &[Value], finish: Option<&str>) -> Value {
    let mut candidate = json!({ "content": { "role": "model", "parts": parts }, "index": 0 });
    if let Some(finish) = finish {
        candidate["finishReason"] = json!(finish);
    }
    json!({
        "candidates": [candidate],
        "usageMetadata": { "promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15 },
        "modelVersion": answer.model,
        "responseId": format!("mock{}", answer.serial),
    })
}

fn call(answer: &Answer<'_>) -> Option<Value> {
    let (tool, args) = answer.call?;
    Some(json!({ "functionCall": { "name": tool.name, "args": args } }))
}

pub(super) fn content(answer: &Answer<'_>) -> Value {
    let mut parts = Vec::new();
    parts.extend(answer.thought.map(|thought| json!({ "text": thought, "thought": true })));
    parts.extend(answer.text.map(|text| json!({ "text": text })));
    parts.extend(call(answer));
    part(answer, &parts, Some("STOP"))
}

pub(super) fn events(answer: &Answer<'_>) -> String {
    let mut parts = Vec::new();
    parts.extend(answer.thought.map(|thought| json!({ "text": thought, "thought": true })));
    parts.extend(
        split_text(answer.text.unwrap_or_default()).into_iter().map(|piece| json!({ "text": piece })),
    );
    parts.extend(call(answer));
    let last = parts.len().saturating_sub(1);
    let events = parts.iter().enumerate().map(|(index, one)| {
        let finish = (index == last).then_some("STOP");
        event(&part(answer, std::slice::from_ref(one), finish))
    });
    events.collect()
}
