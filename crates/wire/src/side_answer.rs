//! Answers to the requests that agent CLIs make beside those to a model.

use serde_json::json;

use crate::exchange::{WireAnswer, WireRequest};

/// Returns the answer to a request that no protocol knows: a check of the connection, a list of models, a count of
/// tokens.
pub fn side_answer(request: &WireRequest) -> WireAnswer {
    // Codex asks for a WebSocket first, and takes any other refusal for a fault of the network.
    if request.header("upgrade").is_some() {
        return WireAnswer::error(426, "this server has no WebSocket");
    }
    if request.method == "HEAD" {
        return WireAnswer::json(200, "");
    }
    // One body for all of them: each client reads the keys that it knows.
    let any = json!({ "object": "list", "data": [], "models": [], "input_tokens": 10, "totalTokens": 10 });
    WireAnswer::json(200, any.to_string())
}
