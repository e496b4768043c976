//! Tests the real CLIs with a probe: each takes the address with its secret path, ends its turn, and sends a plain body.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;

use callsheet_testing::{Cli, Launch, Room, Script, on_loopback};
use callsheet_wire::{ConversationItem, Probe, ProbeCounts, ProbeLimits, Protocol};

/// Everything that shells, JSON and careless programs change.
const PROMPT: &str = "\"quotes\" 'and' $HOME `date` \\n {{x}} <b>&amp;</b>\r\n\né 漢字 🙂\n# !x -y\nend";

fn check_probe(cli: Cli, protocol: Protocol) {
    let room = Room::new(Script::new()).unwrap();
    let probe = Probe::start(ProbeLimits::default()).unwrap();
    let ran = room.run_at(cli, &Launch::new(PROMPT), &probe.url()).unwrap();
    assert_eq!((ran.code, ran.out().trim_end()), (Some(0), "ok"), "{}", ran.err());
    assert_eq!((probe.refused(), ran.requests), (vec![], vec![]));
    let requests = probe.requests();
    // Each request is below the secret path.
    let counts = ProbeCounts { kept: requests.len() as u64, refused: 0, outside: 0 };
    assert_eq!(probe.counts(), counts);
    let protocols: BTreeSet<_> = requests.iter().filter_map(|request| request.protocol).collect();
    assert_eq!(protocols, [protocol].into());
    let bodies = requests.iter().filter(|request| request.protocol.is_some());
    let bodies: Vec<serde_json::Value> =
        bodies.map(|request| serde_json::from_slice(&request.body).unwrap()).collect();
    let turns: Vec<_> = bodies.iter().filter(|body| !protocol.tools(body).is_empty()).collect();
    assert_eq!(turns.len(), 1);
    let said = |item: &ConversationItem| match item {
        ConversationItem::User(text) if cli == Cli::Copilot => text.ends_with(&format!("\n\n{PROMPT}")),
        ConversationItem::User(text) => text == PROMPT,
        _ => false,
    };
    assert_eq!(protocol.items(turns[0]).iter().filter(|item| said(item)).count(), 1);
    for request in &requests {
        let values = format!("{request:?}");
        assert!(!values.contains("test-key"), "{values}");
        assert!(request.headers.iter().all(|(name, _)| name != "content-encoding"), "{values}");
    }
}

#[test]
fn claude_ends_turn_at_probe() {
    on_loopback(&[Cli::Claude], || check_probe(Cli::Claude, Protocol::Anthropic));
}

#[test]
fn codex_ends_turn_at_probe() {
    on_loopback(&[Cli::Codex], || check_probe(Cli::Codex, Protocol::Responses));
}

#[test]
fn gemini_ends_turn_at_probe() {
    on_loopback(&[Cli::Gemini], || check_probe(Cli::Gemini, Protocol::Gemini));
}

#[test]
fn copilot_ends_turn_at_probe() {
    on_loopback(&[Cli::Copilot], || check_probe(Cli::Copilot, Protocol::Chat));
}

#[test]
fn opencode_ends_turn_at_probe() {
    on_loopback(&[Cli::Opencode], || check_probe(Cli::Opencode, Protocol::Chat));
}
