//! The real CLIs and the mock: what `agents` promises about prompts, tools, MCP and exit codes.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::fs;

use callsheet_mock::{Cli, Launch, McpServer, Request, Room, Script, Step, Via, on_loopback};
use serde_json::{Value, json};

fn answers(cli: Cli) {
    let room = Room::new(Script::new().on("Say yes.", [Step::text("yes, said the mock")])).unwrap();
    let ran = room.run(cli, &Launch::new("Say yes.")).unwrap();
    eprintln!("{:?} {} {}\n{:?}", ran.code, ran.out(), ran.err(), ran.requests.iter().map(|r| (&r.method,&r.path,&r.answer, r.tools())).collect::<Vec<_>>());
    assert_eq!((ran.code, ran.out()), (Some(0), "yes, said the mock\n".to_owned()));
}

#[test]
fn claude_answers() { on_loopback(&[Cli::Claude], || answers(Cli::Claude)) }
#[test]
fn codex_answers() { on_loopback(&[Cli::Codex], || answers(Cli::Codex)) }
#[test]
fn gemini_answers() { on_loopback(&[Cli::Gemini], || answers(Cli::Gemini)) }
#[test]
fn copilot_answers() { on_loopback(&[Cli::Copilot], || answers(Cli::Copilot)) }
