//! The agents' own CLIs, attached to the server and driven by a scripted model.

use std::fs;

use callsheet_testing::{Cli, Launch, McpServer, Room, Script, Step, on_loopback};
use serde_json::json;

/// Submits a review twice: first an invalid one, then, after the answer to it, a valid one.
fn submit_review(cli: Cli) {
    let tool = cli.mcp_tool("submit_review");
    let first = Step::call(&[&tool], json!({ "verdict": "fail", "summary": "\"It\" ends.\n\nAt once." }));
    let findings = json!([{ "location": "src/a.rs:1", "issue": "It ends.", "severity": "high", "recommendation": "Return it." }]);
    let second = Step::call(
        &[&tool],
        json!({ "verdict": "fail", "summary": "\"It\" ends.\n\nAt once.", "findings": findings }),
    );
    let script = Script::new().on("Review it.", [first, second, Step::text("submitted")]);
    let room = Room::new(script).unwrap();
    let session = room.project().join("session");
    fs::create_dir(&session).unwrap();
    let server = McpServer {
        command: env!("CARGO_BIN_EXE_callsheet").to_owned(),
        args: ["mcp", "--session", &session.display().to_string(), "--role", "reviewer"]
            .map(str::to_owned)
            .to_vec(),
        env: Vec::new(),
    };
    let ran = room.run(cli, &Launch { mcp: Some(server), ..Launch::new("Review it.") }).unwrap();
    assert_eq!((ran.code, ran.out().trim_end()), (Some(0), "submitted"), "{}", ran.err());
    let calls = ran.answers.iter().filter(|answer| answer.kind == "CallToolResult");
    let failed: Vec<_> = calls.map(|answer| answer.message["result"]["isError"].clone()).collect();
    assert_eq!(failed, [true, false], "{:?}", ran.answers);
    let refused = "`findings` is missing; it is required if `verdict` is `fail`";
    assert!(ran.turns()[1].body.to_string().contains(refused), "{:?}", ran.turns()[1]);
    let read = |file: &str| fs::read_to_string(session.join("07_review").join(file)).unwrap();
    assert_eq!(
        read("review.md"),
        "verdict: fail\n\n## Summary\n\n\"It\" ends.\n\nAt once.\n\n## Findings\n\n### Finding 1\n\n\
         Location: src/a.rs:1\n\nSeverity: high\n\nIt ends.\n\nRecommendation:\n\nReturn it.\n"
    );
    assert_eq!(
        read("review.yaml"),
        "verdict: fail\nsummary: |-\n  \"It\" ends.\n\n  At once.\nfindings:\n  - location: \"src/a.rs:1\"\n    \
         issue: It ends.\n    severity: high\n    recommendation: Return it.\n"
    );
}

#[test]
fn claude_submits_review() {
    on_loopback(&[Cli::Claude], || submit_review(Cli::Claude));
}

#[test]
fn codex_submits_review() {
    on_loopback(&[Cli::Codex], || submit_review(Cli::Codex));
}

#[test]
fn gemini_submits_review() {
    on_loopback(&[Cli::Gemini], || submit_review(Cli::Gemini));
}

#[test]
fn copilot_submits_review() {
    on_loopback(&[Cli::Copilot], || submit_review(Cli::Copilot));
}

#[test]
fn opencode_submits_review() {
    on_loopback(&[Cli::Opencode], || submit_review(Cli::Opencode));
}
