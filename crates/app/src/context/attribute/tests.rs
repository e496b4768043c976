//! Every byte of a body belongs to exactly one part, whatever the texts contain.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn marker(kind: ContextKind, starts: &str, ends: Option<&str>, before: Option<&str>) -> ContextMarker {
    ContextMarker {
        kind,
        name: kind.name().to_owned(),
        starts: starts.to_owned(),
        ends: ends.map(str::to_owned),
        before: before.map(str::to_owned),
    }
}

fn markers() -> Vec<ContextMarker> {
    vec![
        marker(ContextKind::Reminder, "<reminder>", Some("</reminder>"), None),
        marker(ContextKind::Environment, "# env", None, Some("\n</reminder>")),
        marker(ContextKind::Skills, "skills:", None, None),
    ]
}

fn delivered(text: &str) -> Vec<DeliveredText> {
    vec![DeliveredText { name: "prompt".into(), text: text.into(), prompt: 0..text.len() }]
}

fn file(path: &str, text: &str) -> InstructionFile {
    InstructionFile { path: path.into(), text: text.into() }
}

/// Returns the body of a request in each protocol, with the same texts.
fn bodies(system: &str, texts: &[&str], tools: &[&str]) -> Vec<(Protocol, Value)> {
    let blocks = |kind: &str| -> Vec<Value> {
        texts.iter().map(|text| json!({ "type": kind, "text": text })).collect()
    };
    let parts: Vec<Value> = texts.iter().map(|text| json!({ "text": text })).collect();
    let named: Vec<Value> =
        tools.iter().map(|name| json!({ "name": name, "description": "{\"x\": 1}" })).collect();
    let functions: Vec<Value> =
        named.iter().map(|tool| json!({ "type": "function", "function": tool })).collect();
    vec![
        (
            Protocol::Anthropic,
            json!({
                "model": "m", "messages": [{ "role": "user", "content": blocks("text") }],
                "system": [{ "type": "text", "text": system, "cache_control": { "type": "ephemeral" } }],
                "tools": named, "stream": true,
            }),
        ),
        (
            Protocol::Responses,
            json!({
                "model": "m", "instructions": system, "tools": named,
                "input": [{ "role": "user", "content": blocks("input_text") }],
            }),
        ),
        (
            Protocol::Chat,
            json!({
                "model": "m", "tools": functions,
                "messages": [{ "role": "system", "content": system }, { "role": "user", "content": blocks("text") }],
            }),
        ),
        (
            Protocol::Gemini,
            json!({
                "contents": [{ "role": "user", "parts": parts }],
                "systemInstruction": { "parts": [{ "text": system }] },
                "tools": [{ "functionDeclarations": named }],
            }),
        ),
    ]
}

/// Checks that the ranges of all parts cover the body once, and that the text of each part is that of its ranges.
fn check_cover(body: &str, request: &AttributedRequest) {
    let mut ranges: Vec<Range<usize>> = request.parts.iter().flat_map(|part| part.ranges.clone()).collect();
    ranges.sort_by_key(|range| (range.start, range.end));
    let mut at = 0;
    for range in ranges.iter().filter(|range| !range.is_empty()) {
        assert_eq!(range.start, at, "{ranges:?} of {body}");
        at = range.end;
    }
    assert_eq!(at, body.len());
    for part in request.parts.iter().filter(|part| part.piece.is_some() && part.kind != ContextKind::Tool) {
        let raw: String = part.ranges.iter().map(|range| &body[range.clone()]).collect();
        let decoded: String = serde_json::from_str(&format!("\"{raw}\"")).unwrap();
        assert_eq!(decoded, part.text);
    }
}

/// Returns kind and text of each part that is not structure.
fn shown(request: &AttributedRequest) -> Vec<(ContextKind, &str, &str)> {
    let parts = request.parts.iter().filter(|part| part.piece.is_some());
    parts.map(|part| (part.kind, part.name.as_str(), part.text.as_str())).collect()
}

#[test]
fn parts_have_their_kinds() {
    let agents = "# Rules\n\nUse tabs in every file of this \"project\".\n";
    let reminder = format!("<reminder>\nContents of /p/AGENTS.md:\n\n{}\n</reminder>", agents.trim());
    let status = "<reminder>\n# env\nbranch main\n</reminder>";
    let prompt = "Fix the <reminder> in\nskills: none\n";
    let files =
        [file("AGENTS.md", agents), file("sub/AGENTS.md", "Other rules of another folder, not loaded.")];
    for (protocol, body) in
        bodies("You are an agent.", &[&reminder, status, prompt], &["Bash", "mcp__gh__list"])
    {
        let body = body.to_string();
        let (delivered, markers) = (delivered(prompt), markers());
        let inputs = AttributionInputs {
            delivered: &delivered,
            files: &files,
            markers: &markers,
            mcp_pattern: Some("mcp__{server}__{tool}"),
        };
        let request = attribute(protocol, &body, &inputs).unwrap();
        check_cover(&body, &request);
        let texts: Vec<_> =
            shown(&request).into_iter().filter(|(kind, ..)| *kind != ContextKind::Tool).collect();
        let expected = [
            (ContextKind::System, "system text", "You are an agent."),
            (ContextKind::Reminder, "reminder", "<reminder>\nContents of /p/AGENTS.md:\n\n\n</reminder>"),
            (ContextKind::Instructions, "AGENTS.md", agents.trim()),
            (ContextKind::Reminder, "reminder", "<reminder>\n\n</reminder>"),
            (ContextKind::Environment, "environment", "# env\nbranch main"),
            (ContextKind::Prompt, "prompt", prompt),
        ];
        assert_eq!(texts, expected, "{protocol:?}");
        let servers: Vec<_> = request.parts[..2].iter().map(|part| part.server.as_deref()).collect();
        assert_eq!(servers, [None, Some("gh")], "{protocol:?}");
        assert!(request.arrivals[0].is_exact(), "{:?}", request.arrivals);
        assert_eq!(request.loaded, [agents.trim().len(), 0]);
        let prompt_part = request.parts.iter().find(|part| part.kind == ContextKind::Prompt).unwrap();
        assert_eq!(prompt_part.prompt, Some(0..prompt.len()));
    }
}

#[test]
fn cut_file_is_recognized() {
    let text: String = (0..400).map(|line| format!("Rule {line}: keep every function short.\n")).collect();
    let sent = format!("# instructions\n\n{}", &text[..1000]);
    let files = [file("AGENTS.md", &text)];
    let (_, body) = bodies("S", &[&sent, "prompt"], &[]).swap_remove(1);
    let body = body.to_string();
    let delivered = delivered("prompt");
    let inputs = AttributionInputs { delivered: &delivered, files: &files, ..AttributionInputs::default() };
    let request = attribute(Protocol::Responses, &body, &inputs).unwrap();
    check_cover(&body, &request);
    assert_eq!(request.loaded, [1000]);
}

#[test]
fn file_without_its_comments_is_recognized() {
    let text =
        "# Project rules for agents in this repository\n<!-- hidden -->\nRun the tests before you stop.\n";
    let sent = "Contents:\n# Project rules for agents in this repository\nRun the tests before you stop.";
    let files = [file("CLAUDE.md", text)];
    let (_, body) = bodies("S", &[sent, "prompt"], &[]).swap_remove(0);
    let body = body.to_string();
    let delivered = delivered("prompt");
    let inputs = AttributionInputs { delivered: &delivered, files: &files, ..AttributionInputs::default() };
    let request = attribute(Protocol::Anthropic, &body, &inputs).unwrap();
    check_cover(&body, &request);
    assert_eq!(request.loaded, [sent.len() - "Contents:\n".len()]);
}

#[test]
fn servers_follow_the_pattern() {
    let find = |pattern, name, namespace| find_server(Some(pattern), name, namespace);
    assert_eq!(find("mcp__{server}__{tool}", "mcp__a__b__c", None).as_deref(), Some("a"));
    assert_eq!(find("mcp__{server}__{tool}", "Bash", None), None);
    assert_eq!(find("mcp__{server}__{tool}", "go", Some("mcp__a")).as_deref(), Some("a"));
    assert_eq!(find("mcp__{server}__{tool}", "go", Some("functions")), None);
    assert_eq!(find("{server}-{tool}", "callsheet-submit", None).as_deref(), Some("callsheet"));
    assert_eq!(find("{server}-{tool}", "other-tool", None), None);
    assert_eq!(find_server(None, "mcp__a__b", None), None);
}

/// Texts made of the words that matter here, in any order.
fn any_text() -> impl Strategy<Value = String> {
    let words = prop::sample::select(vec![
        "<reminder>",
        "</reminder>",
        "# env",
        "\n</reminder>",
        "skills:",
        "\n",
        " ",
        "\"",
        "\\",
        "é",
        "🙂",
        "x",
        "Use tabs in every file of this project.",
        "Fix the login timeout today.",
        "{\"text\":\"",
        "]}",
    ]);
    prop::collection::vec(words, 0..12).prop_map(|words| words.concat())
}

proptest! {
    #[test]
    fn every_byte_belongs_to_one_part(
        system in any_text(),
        texts in prop::collection::vec(any_text(), 0..4),
        prompt in any_text(),
        rules in any_text(),
        tools in prop::collection::vec("[a-z_\"\\\\]{0,8}", 0..3),
        pretty in any::<bool>(),
    ) {
        let mut texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        texts.push(&prompt);
        let tools: Vec<&str> = tools.iter().map(String::as_str).collect();
        for (protocol, body) in bodies(&system, &texts, &tools) {
            let body =
                if pretty { serde_json::to_string_pretty(&body).unwrap() } else { body.to_string() };
            let (delivered, markers) = (delivered(&prompt), markers());
            let files = [file("AGENTS.md", &rules), file("CLAUDE.md", &system)];
            let inputs = AttributionInputs {
                delivered: &delivered, files: &files, markers: &markers, mcp_pattern: None,
            };
            let request = attribute(protocol, &body, &inputs).unwrap();
            check_cover(&body, &request);
            // The prompt arrives as a message of its own, so it is found as it is.
            if !prompt.trim().is_empty() {
                prop_assert!(request.arrivals[0].is_exact(), "{:?}", request.arrivals);
            }
        }
    }
}
