//! Tests the real CLIs with a probe: each takes the address with its secret path, ends its turn, and sends a plain body.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;
use std::fs;

use callsheet_testing::{Cli, Launch, Room, Script, on_loopback};
use callsheet_wire::{ConversationItem, Probe, ProbeCounts, ProbeLimits, Protocol, ReceivedRequest};
use serde_json::json;

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

/// Runs Codex with its own provider at the address of a probe. Returns the requests.
fn probe_codex(room: &Room, env: &[(&str, &str)]) -> Vec<ReceivedRequest> {
    let probe = Probe::start(ProbeLimits::default()).unwrap();
    let url = probe.url();
    let settings = [
        ("model_provider", "openai".to_owned()),
        ("model", "gpt-5.5".to_owned()),
        ("openai_base_url", format!("{url}/v1")),
        ("chatgpt_base_url", format!("{url}/backend-api")),
    ];
    let extra = settings.iter().flat_map(|(key, value)| ["-c".to_owned(), format!("{key}={}", json!(value))]);
    let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let launch = Launch { extra: extra.collect(), env, ..Launch::new(PROMPT) };
    let ran = room.run_at(Cli::Codex, &launch, &url).unwrap();
    assert_eq!((ran.code, ran.out().trim_end()), (Some(0), "ok"), "{}", ran.err());
    assert_eq!((probe.refused(), probe.counts().outside), (vec![], 0));
    probe.requests()
}

/// Returns whether the one request to a model has the prompt, and its encoding.
fn model_request(requests: &[ReceivedRequest]) -> (bool, Option<&str>) {
    let models: Vec<_> = requests.iter().filter(|request| request.protocol.is_some()).collect();
    assert_eq!(models.len(), 1);
    let body = serde_json::from_slice(&models[0].body).unwrap();
    let has_prompt = Protocol::Responses.items(&body).contains(&ConversationItem::User(PROMPT.to_owned()));
    let encoding = models[0].headers.iter().find(|(name, _)| name == "content-encoding");
    (has_prompt, encoding.map(|(_, value)| value.as_str()))
}

#[test]
fn codex_asks_once_for_websocket() {
    on_loopback(&[Cli::Codex], || {
        let room = Room::new(Script::new()).unwrap();
        let requests = probe_codex(&room, &[("CODEX_API_KEY", "test-key")]);
        assert_eq!(model_request(&requests), (true, None));
        let asked = requests.iter().filter(|request| {
            request.headers.iter().any(|(name, value)| name == "upgrade" && value == "websocket")
        });
        assert_eq!(asked.count(), 1);
    });
}

/// A token without a signature: a plan, an account, and an end in the year 2100.
const TOKEN: [&str; 3] = [
    "eyJhbGciOiAibm9uZSIsICJ0eXAiOiAiSldUIn0",
    "eyJlbWFpbCI6ICJhQGIuYyIsICJleHAiOiA0MTAyNDQ0ODAwLCAiaHR0cHM6Ly9hcGkub3BlbmFpLmNvbS9hdXRoIjogeyJjaGF0Z3B0X3BsYW5fdHlwZSI6ICJwbHVzIiwgImNoYXRncHRfYWNjb3VudF9pZCI6ICJhY2MiLCAiY2hhdGdwdF91c2VyX2lkIjogInUifX0",
    "c2ln",
];

#[test]
fn codex_login_compresses_the_body() {
    on_loopback(&[Cli::Codex], || {
        let room = Room::new(Script::new()).unwrap();
        let token = TOKEN.join(".");
        let tokens =
            json!({ "id_token": token, "access_token": token, "refresh_token": "r", "account_id": "a" });
        // Codex renews tokens that are older than some days.
        let renewed = "2099-12-31T00:00:00Z";
        let login = json!({ "auth_mode": "chatgpt", "OPENAI_API_KEY": null, "tokens": tokens, "last_refresh": renewed });
        fs::create_dir_all(room.home().join(".codex")).unwrap();
        fs::write(room.home().join(".codex/auth.json"), login.to_string()).unwrap();
        assert_eq!(model_request(&probe_codex(&room, &[])), (true, Some("zstd")));
    });
}
