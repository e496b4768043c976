//! The pieces of a request to a model, in the order in which the model reads them: tools, system text, messages.
//!
//! It is the order in which providers cache the beginning of a request, whatever the order of the keys.

use std::ops::Range;

use callsheet_wire::Protocol;

use super::json_spans::{JsonShape, JsonSpan};

/// A piece of a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RequestPiece {
    /// Its range in the body.
    pub range: Range<usize>,
    pub role: PieceRole,
    /// The strings in it that hold text, with their quotes. A tool is not divided.
    pub texts: Vec<Range<usize>>,
    /// Whether the provider is asked to cache everything up to its end.
    pub is_cache_mark: bool,
}

/// The role of a piece.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PieceRole {
    Tool {
        name: String,
        /// The group that the CLI puts it into, such as an MCP server.
        namespace: Option<String>,
    },
    System,
    User,
    Agent,
}

/// Returns the pieces of a request.
pub(crate) fn lay_out(protocol: Protocol, body: &str, root: &JsonSpan) -> Vec<RequestPiece> {
    let mut layout = LayoutBuilder { body, pieces: Vec::new() };
    let get = |key: &str| root.get(key);
    match protocol {
        Protocol::Anthropic => {
            get("tools").into_iter().for_each(|tools| layout.add_tools(tools, None));
            get("system").into_iter().for_each(|system| layout.add_content(system, || PieceRole::System));
            layout.add_messages(get("messages"), "content");
        }
        Protocol::Chat => {
            get("tools").into_iter().for_each(|tools| layout.add_tools(tools, None));
            layout.add_messages(get("messages"), "content");
        }
        Protocol::Responses => {
            get("tools").into_iter().for_each(|tools| layout.add_tools(tools, None));
            get("instructions").into_iter().for_each(|text| layout.add_content(text, || PieceRole::System));
            match get("input") {
                Some(input) if input.shape == JsonShape::Text => {
                    layout.add_content(input, || PieceRole::User)
                }
                input => layout.add_messages(input, "content"),
            }
        }
        Protocol::Gemini => {
            get("tools").into_iter().for_each(|tools| layout.add_tools(tools, None));
            let system = get("systemInstruction").or_else(|| get("system_instruction"));
            let parts = system.and_then(|system| system.get("parts"));
            parts.into_iter().for_each(|parts| layout.add_content(parts, || PieceRole::System));
            layout.add_messages(get("contents"), "parts");
        }
    }
    layout.pieces
}

struct LayoutBuilder<'b> {
    body: &'b str,
    pieces: Vec<RequestPiece>,
}

impl LayoutBuilder<'_> {
    /// Adds each tool of a list. Gemini has lists inside, Codex has namespaces.
    fn add_tools(&mut self, tools: &JsonSpan, namespace: Option<&str>) {
        for tool in tools.items() {
            if let Some(inner) =
                tool.get("functionDeclarations").or_else(|| tool.get("function_declarations"))
            {
                self.add_tools(inner, namespace);
                continue;
            }
            let own = tool.text_of(self.body, "name");
            if let Some(inner) = tool.get("tools") {
                self.add_tools(inner, own.as_deref());
                continue;
            }
            let inner = tool.get("function").and_then(|inner| inner.text_of(self.body, "name"));
            // Tools of the provider itself have a type and no name.
            let name = own.or(inner).or_else(|| tool.text_of(self.body, "type")).unwrap_or_default();
            let role = PieceRole::Tool { name, namespace: namespace.map(str::to_owned) };
            self.add_piece(tool, role, Vec::new());
        }
    }

    fn add_messages(&mut self, messages: Option<&JsonSpan>, content: &str) {
        for message in messages.map(JsonSpan::items).unwrap_or_default() {
            if let Some(tools) = message.get("tools") {
                self.add_tools(tools, None);
                continue;
            }
            let role = message.text_of(self.body, "role").unwrap_or_default();
            let role = || match role.as_str() {
                "system" | "developer" => PieceRole::System,
                "assistant" | "model" => PieceRole::Agent,
                _ => PieceRole::User,
            };
            self.add_content(message.get(content).unwrap_or(message), role);
        }
    }

    /// Adds a text, each block of a list, or one block.
    fn add_content(&mut self, content: &JsonSpan, role: impl Fn() -> PieceRole) {
        let blocks = match &content.shape {
            JsonShape::Array(blocks) => blocks.as_slice(),
            _ => std::slice::from_ref(content),
        };
        for block in blocks {
            let mut texts = Vec::new();
            match block.get("text") {
                Some(text) => text.collect_texts(&mut texts),
                None => block.collect_texts(&mut texts),
            }
            self.add_piece(block, role(), texts);
        }
    }

    fn add_piece(&mut self, span: &JsonSpan, role: PieceRole, texts: Vec<Range<usize>>) {
        let is_cache_mark = span.get("cache_control").is_some();
        self.pieces.push(RequestPiece { range: span.range.clone(), role, texts, is_cache_mark });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns each piece as its role, its name or texts, and its mark.
    fn shown(protocol: Protocol, body: &serde_json::Value) -> Vec<String> {
        let body = body.to_string();
        let root = JsonSpan::parse(&body).unwrap();
        let text = |range: &Range<usize>| serde_json::from_str::<String>(&body[range.clone()]).unwrap();
        let show = |piece: &RequestPiece| {
            let role = match &piece.role {
                PieceRole::Tool { name, namespace } => {
                    format!(
                        "tool {}{name}",
                        namespace.as_deref().map(|space| format!("{space}/")).unwrap_or_default()
                    )
                }
                PieceRole::System => "system".to_owned(),
                PieceRole::User => "user".to_owned(),
                PieceRole::Agent => "agent".to_owned(),
            };
            let texts: Vec<String> = piece.texts.iter().map(text).collect();
            format!("{role} {}{}", texts.join("|"), if piece.is_cache_mark { " *" } else { "" })
        };
        lay_out(protocol, &body, &root).iter().map(show).collect()
    }

    #[test]
    fn pieces_follow_reading_order() {
        let anthropic = json!({
            "messages": [
                { "role": "user", "content": "one" },
                { "role": "assistant", "content": [{ "type": "text", "text": "two" }] },
                { "role": "system", "content": [{ "type": "text", "text": "three", "cache_control": {} }] },
            ],
            "system": [{ "type": "text", "text": "S" }],
            "tools": [{ "name": "Bash", "description": "d" }],
        });
        let expected = ["tool Bash ", "system S", "user one", "agent two", "system three *"];
        assert_eq!(shown(Protocol::Anthropic, &anthropic), expected);
        let responses = json!({
            "input": [
                { "type": "additional_tools", "role": "developer", "tools": [
                    { "type": "namespace", "name": "mcp__x", "tools": [{ "type": "function", "name": "go" }] },
                    { "type": "web_search" },
                ] },
                { "role": "developer", "content": [{ "type": "input_text", "text": "D" }] },
                { "role": "user", "content": [{ "type": "input_text", "text": "U" }] },
            ],
            "instructions": "I",
        });
        let expected = ["system I", "tool mcp__x/go ", "tool web_search ", "system D", "user U"];
        assert_eq!(shown(Protocol::Responses, &responses), expected);
        assert_eq!(shown(Protocol::Responses, &json!({ "input": "U" })), ["user U"]);
        let chat = json!({
            "messages": [{ "role": "system", "content": "S" }, { "role": "user", "content": [{ "text": "U" }] }],
            "tools": [{ "type": "function", "function": { "name": "bash" } }],
        });
        assert_eq!(shown(Protocol::Chat, &chat), ["tool bash ", "system S", "user U"]);
        let gemini = json!({
            "contents": [{ "role": "user", "parts": [{ "text": "U" }] }],
            "systemInstruction": { "parts": [{ "text": "S" }] },
            "tools": [{ "functionDeclarations": [{ "name": "glob" }] }],
        });
        assert_eq!(shown(Protocol::Gemini, &gemini), ["tool glob ", "system S", "user U"]);
    }
}
