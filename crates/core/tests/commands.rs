//! Tests that the rules of every agent allow exactly the commands that they were made for.
//!
//! The readers below are written from the documentation of the agents' rules, and from the probes that the agents' files report.
//! 2,000 lists of commands; 100,000 with `CALLSHEET_LONG=1`.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::sync::LazyLock;

use callsheet_core::delivery::{DeliveryAction, DeliveryContext, DeliveryText, plan_delivery};
use callsheet_core::library::agent::{Agent, PermissionLevel};
use callsheet_core::library::layout::Layout;
use callsheet_core::{AllowedCommand, Builtin, FileFormat, Library, ReadErrorCodes, find_agent, read_data};
use proptest::prelude::*;
use regex_automata::meta::Regex;
use serde_json::{Value, json};

fn find_shipped_agent(name: &str) -> Agent {
    find_agent(&Library::new(&Builtin), name, &Layout::default()).unwrap().1
}

/// What an agent gets: its arguments, and the files beside it.
struct Launched {
    argv: Vec<String>,
    files: Vec<(String, String)>,
    warnings: usize,
}

fn launch(agent: &Agent, allow: &[String]) -> Launched {
    let context = DeliveryContext {
        worktree: "/work".into(),
        folder: "/run".into(),
        by_file: "Read it".into(),
        permit: PermissionLevel::Edit,
        allow: allow.to_vec(),
        ..DeliveryContext::default()
    };
    let delivery = plan_delivery(agent, "Do it.", &context).unwrap();
    let mut launched = Launched { argv: Vec::new(), files: Vec::new(), warnings: delivery.diagnostics.len() };
    for act in delivery.acts {
        match act {
            DeliveryAction::Spawn { argv, .. } => launched.argv = argv,
            DeliveryAction::Write { path, text: DeliveryText::Text(text) } => {
                launched.files.push((path, text))
            }
            _ => {}
        }
    }
    launched
}

impl Launched {
    fn file(&self, name: &str) -> Option<&str> {
        let path = format!("/run/{name}");
        self.files.iter().find(|(file, _)| *file == path).map(|(_, text)| text.as_str())
    }
}

/// Reads `permissions.allow` of the settings: `Bash(LINE)` is one line, `Bash(LINE:*)` a line and what follows it after a space.
fn claude_allows(launched: &Launched, line: &str) -> bool {
    let Some(settings) = launched.file("settings.json") else { return false };
    let settings: Value = serde_json::from_str(settings).unwrap();
    settings["permissions"]["allow"].as_array().unwrap().iter().any(|rule| {
        let rule = rule.as_str().unwrap().strip_prefix("Bash(").unwrap().strip_suffix(')').unwrap();
        let (start, is_prefix) = rule.strip_suffix(":*").map_or((rule, false), |start| (start, true));
        assert!(!start.contains(['(', ')', '*']), "{rule}");
        line == start || is_prefix && line.strip_prefix(start).is_some_and(|rest| rest.starts_with(' '))
    })
}

/// Reads the policy: a pattern is searched in the call as JSON, with NUL characters around each field.
fn gemini_allows(launched: &Launched, line: &str) -> bool {
    let Some(policy) = launched.file("policy.toml") else { return false };
    assert_eq!(launched.argv.last().unwrap(), "/run/policy.toml");
    let code = callsheet_core::diag::Code::AgentBad;
    let codes = ReadErrorCodes { bad: code, unknown: code };
    let policy: Value = read_data("policy", &policy.into(), FileFormat::Toml, codes).unwrap();
    let call = format!("{{\0\"command\":{}\0,\0\"description\":\"x\"\0}}", json!(line));
    policy["rule"].as_array().unwrap().iter().any(|rule| {
        assert_eq!((&rule["toolName"], &rule["decision"]), (&json!("run_shell_command"), &json!("allow")));
        Regex::new(rule["argsPattern"].as_str().unwrap()).unwrap().is_match(&call)
    })
}

/// Reads `--allow-tool=shell(NAME:*)`: NAME is the program, of some programs with its subcommand, or the beginning of it.
fn copilot_allows(agent: &Agent, launched: &Launched, line: &str) -> bool {
    let words: Vec<&str> = line.split(' ').collect();
    let has_subcommand =
        agent.commands.as_ref().unwrap().subcommands.iter().any(|program| program == words[0]);
    let name = words[..words.len().min(if has_subcommand { 2 } else { 1 })].join(" ");
    let rules = launched.argv.iter().filter_map(|arg| arg.strip_prefix("--allow-tool=shell("));
    rules.into_iter().any(|rule| {
        let start = rule.strip_suffix(":*)").unwrap();
        assert!(!start.contains(['(', ')', '*', ':', ',']), "{rule}");
        name == start || name.strip_prefix(start).is_some_and(|rest| rest.starts_with(' '))
    })
}

const WORDS: &[&str] = &[
    "pytest",
    "pytes",
    "pytestx",
    "-q",
    "--",
    "npm",
    "run",
    "test",
    "tests",
    "test:unit",
    "cargo",
    "a.b",
    "axb",
    "a+b",
    "aab",
    "./x",
    "tests/a.py",
    "k=v",
    "é",
    "a,b",
    "x:",
    "@x",
    "50%",
];

fn words() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(prop::sample::select(WORDS).prop_map(str::to_owned), 1..4)
}

fn config() -> ProptestConfig {
    let long = std::env::var_os("CALLSHEET_LONG").is_some_and(|long| long == "1");
    ProptestConfig {
        cases: if long { 100_000 } else { 2_000 },
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// The agents that have rules.
static AGENTS: LazyLock<[(&str, Agent); 3]> =
    LazyLock::new(|| ["claude", "gemini", "copilot"].map(|name| (name, find_shipped_agent(name))));

fn assert_exact(commands: &[AllowedCommand], asked: &[Vec<String>]) {
    for (name, agent) in &*AGENTS {
        let texts: Vec<String> = commands.iter().map(ToString::to_string).collect();
        let launched = launch(agent, &texts);
        let possible: Vec<_> =
            commands.iter().filter(|command| agent.check_command(command).is_ok()).collect();
        assert_eq!(launched.warnings, commands.len() - possible.len(), "{name}: {texts:?}");
        for words in asked {
            let line = words.join(" ");
            let allows = match *name {
                "claude" => claude_allows(&launched, &line),
                "gemini" => gemini_allows(&launched, &line),
                _ => copilot_allows(agent, &launched, &line),
            };
            let expected = possible.iter().any(|command| command.allows(words));
            assert_eq!(allows, expected, "{name}: {texts:?} and {line}");
        }
    }
}

proptest! {
    #![proptest_config(config())]

    /// The rules of an allow list, read back, allow a command if and only if the list does.
    #[test]
    fn rules_allow_exactly_listed_commands(
        listed in prop::collection::vec((words(), any::<bool>()), 0..4),
        others in prop::collection::vec(words(), 1..4),
        added in words(),
    ) {
        let commands: Vec<AllowedCommand> =
            listed.iter().filter_map(|(words, more)| AllowedCommand::from_words(words, *more)).collect();
        let mut asked = others;
        for command in &commands {
            asked.push(command.words().to_vec());
            asked.push([command.words(), &added].concat());
            asked.push(command.words()[..command.words().len() - 1].to_vec());
        }
        asked.retain(|words| !words.is_empty());
        assert_exact(&commands, &asked);
    }

    /// Whatever a person types is refused, or allows exactly the words that it shows.
    #[test]
    fn typed_text_never_widens_rule(text in r#"(pytest|npm run|[a-z]{1,3})?[ -~é\n\t]{0,12}( \*)?"#) {
        if let Ok(command) = AllowedCommand::parse(&text) {
            let words = command.words().to_vec();
            let more = [&words[..], &["more".to_owned()]].concat();
            let other = vec!["rm".to_owned(), "x".to_owned()];
            let joined = [&words[..words.len() - 1], &[format!("{}x", words[words.len() - 1])]].concat();
            assert_exact(&[command], &[words, more, other, joined]);
        }
    }
}

/// Operators after an allowed command are not further arguments. The other agents split such a line themselves.
#[test]
fn gemini_rule_excludes_shell_operators() {
    let launched = launch(&find_shipped_agent("gemini"), &["pytest *".to_owned()]);
    for line in ["pytest", "pytest -q", "pytest -k \"not slow\"", "pytest 'a b'"] {
        assert!(gemini_allows(&launched, line), "{line}");
    }
    for line in [
        "pytest > x",
        "pytest; rm x",
        "pytest && rm x",
        "pytest | rm",
        "pytest $(rm x)",
        "pytest `rm x`",
        "pytest $HOME",
        "pytest & rm",
        "pytest <(rm x)",
        "pytestx",
        "pytest\"x\"",
        "./pytest",
        " pytest",
        "rm pytest ",
    ] {
        assert!(!gemini_allows(&launched, line), "{line}");
    }
}

#[test]
fn agents_without_rules_get_none() {
    for name in ["codex", "opencode"] {
        let agent = find_shipped_agent(name);
        let (with, without) = (launch(&agent, &["pytest *".to_owned()]), launch(&agent, &[]));
        assert_eq!((with.argv, with.files, with.warnings), (without.argv, without.files, 0), "{name}");
    }
}

#[test]
fn inexpressible_commands_are_reported() {
    let rule = |name: &str, text: &str| {
        let found = find_shipped_agent(name).check_command(&AllowedCommand::parse(text).unwrap());
        found.map(Option::unwrap).map_err(|diag| diag.message)
    };
    let refused = |text: &str, why: &str| Err(format!("Copilot CLI cannot be allowed `{text}`: {why}"));
    assert_eq!(rule("claude", "npm run test:unit *"), Ok("Bash(npm run test:unit:*)".to_owned()));
    assert_eq!(rule("claude", "pytest -q"), Ok("Bash(pytest -q)".to_owned()));
    assert_eq!(rule("copilot", "cargo test *"), Ok("shell(cargo test:*)".to_owned()));
    let compared = "it compares only `pytest`; `pytest *` would allow more";
    assert_eq!(rule("copilot", "pytest"), refused("pytest", compared));
    assert_eq!(rule("copilot", "pytest -q *"), refused("pytest -q *", compared));
    assert_eq!(rule("copilot", "a:b *"), refused("a:b *", "`:` means something else in its rules"));
}
