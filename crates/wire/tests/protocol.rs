//! The protocols: which request is which, its conversation and its tools.

use callsheet_wire::{ConversationItem, OfferedTool, Protocol};
use serde_json::json;

#[test]
fn paths_name_their_protocol() {
    for (path, protocol) in [
        ("/v1/messages?beta=true", Some(Protocol::Anthropic)),
        ("/v1/messages/count_tokens", None),
        ("/v1/responses", Some(Protocol::Responses)),
        ("/responses?a=b", Some(Protocol::Responses)),
        ("/v1/chat/completions", Some(Protocol::Chat)),
        ("/v1beta/models/m:generateContent", Some(Protocol::Gemini)),
        ("/v1beta/models/m:streamGenerateContent?alt=sse", Some(Protocol::Gemini)),
        ("/v1beta/models/m:countTokens", None),
        ("/v1/models?path=/v1/responses", None),
        ("/", None),
    ] {
        assert_eq!(Protocol::from_path(path), protocol, "{path}");
    }
}

#[test]
fn streams_are_in_body_or_path() {
    let (on, off) = (json!({ "stream": true }), json!({ "stream": "true" }));
    for protocol in [Protocol::Anthropic, Protocol::Responses, Protocol::Chat] {
        assert!(protocol.is_streaming("/", &on));
        assert!(!protocol.is_streaming("/v1/m:streamGenerateContent", &off));
    }
    assert!(Protocol::Gemini.is_streaming("/v1/m:streamGenerateContent?alt=sse", &off));
    assert!(!Protocol::Gemini.is_streaming("/v1/m:generateContent", &on));
}

#[test]
fn conversation_and_tools_are_read() {
    let body = json!({
        "input": [
            { "type": "message", "role": "developer", "content": "d" },
            { "type": "message", "role": "user", "content": [{ "type": "input_text", "text": "u" }] },
            { "type": "message", "role": "assistant", "content": [] },
            { "type": "function_call" },
            { "type": "function_call_output" },
        ],
        "tools": [
            { "type": "web_search" },
            { "type": "custom", "name": "apply_patch" },
            { "type": "namespace", "name": "mcp__a", "tools": [{ "type": "function", "name": "b" }] },
        ],
    });
    let said = ConversationItem::User("u".to_owned());
    let rest = [ConversationItem::Said, ConversationItem::Called, ConversationItem::Result];
    assert_eq!(Protocol::Responses.items(&body), [vec![said], rest.into()].concat());
    let tool = |name: &str, namespace: Option<&str>, freeform| OfferedTool {
        name: name.to_owned(),
        namespace: namespace.map(str::to_owned),
        freeform,
    };
    let inner = tool("b", Some("mcp__a"), false);
    assert!(inner.has_name("mcp__a__b") && inner.has_name("b") && !inner.has_name("mcp__a_b"));
    let expected = [tool("web_search", None, false), tool("apply_patch", None, true), inner];
    assert_eq!(Protocol::Responses.tools(&body), expected);
    // A body of any other shape has neither.
    for protocol in Protocol::ALL {
        for body in
            [json!(null), json!([1]), json!({ "messages": 1, "input": {}, "contents": "x", "tools": "x" })]
        {
            assert_eq!(
                (protocol.items(&body), protocol.tools(&body)),
                (vec![], vec![]),
                "{protocol:?} {body}"
            );
        }
    }
}
