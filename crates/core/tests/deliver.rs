//! Tests the delivery of prompts: the actions for every shipped agent, and that no text becomes a flag or a
//! command.
//!
//! `BLESS=1` rewrites `tests/deliver/*.json`.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::path::Path;
use std::{env, fs};

use callsheet_core::delivery::receipt::{AgentReport, DeliveryReceipt, ReceiptWatcher};
use callsheet_core::delivery::{
    Delivery, DeliveryAction, DeliveryContext, DeliveryText, McpServerCommand, PromptPart, by_file_line,
    find_at_paths, plan_delivery,
};
use callsheet_core::diag::Code;
use callsheet_core::library::agent::{Agent, DeliveryMethod, FirstLine, PermissionLevel, ToolCall};
use callsheet_core::library::layout::Layout;
use callsheet_core::request::scope::Scope;
use callsheet_core::{Builtin, Library, find_agent, list_names, split_words};
use serde_json::json;

fn find_shipped_agent(name: &str) -> Agent {
    find_agent(&Library::new(&Builtin), name, &Layout::default()).unwrap().1
}

fn shipped_agents() -> Vec<String> {
    list_names(&Builtin, "agents", &Layout::default())
}

/// Returns a context in which every field is set.
fn full_context() -> DeliveryContext {
    let line = by_file_line(&Library::new(&Builtin), &Layout::default(), "/work/run-1/prompt.md").unwrap();
    DeliveryContext {
        worktree: "/work/tree".into(),
        folder: "/work/run-1".into(),
        by_file: line,
        command: vec!["my-agent".into(), "--fast".into()],
        model: Some("some-model".into()),
        session: Some("11111111-1111-4111-8111-111111111111".into()),
        mcp: Some(McpServerCommand {
            command: "/bin/callsheet".into(),
            args: vec!["mcp".into(), "--role".into(), "co\"der".into()],
        }),
        scope: Scope { write: vec!["src/**".into()], exclude: vec!["secrets/**".into(), "odd (1)".into()] },
        permit: PermissionLevel::Edit,
        allow: ["pytest -q", "npm run test:unit *", "cargo test *"].map(str::to_owned).into(),
        env: [("CALLSHEET_RUN".to_owned(), "r1".to_owned())].into(),
        ..DeliveryContext::default()
    }
}

fn render_delivery(delivery: &Delivery) -> String {
    let talk: Vec<String> = delivery.diagnostics.iter().map(ToString::to_string).collect();
    let all = json!({ "by": delivery.by, "acts": delivery.acts, "talk": talk });
    serde_json::to_string_pretty(&all).unwrap() + "\n"
}

#[test]
fn shipped_agents_get_expected_delivery() {
    let mut different = Vec::new();
    for name in shipped_agents() {
        let agent = find_shipped_agent(&name);
        for by in &agent.prompt.by {
            let how = DeliveryContext { by: Some(*by), single_coder: true, ..full_context() };
            let found = render_delivery(&plan_delivery(&agent, "Do it.\n", &how).unwrap());
            let path = Path::new(env!("CARGO_MANIFEST_DIR"))
                .join(format!("tests/deliver/{name}-{}.json", by.name()));
            if env::var_os("BLESS").is_some() {
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(&path, &found).unwrap();
            } else if fs::read_to_string(&path).unwrap_or_default() != found {
                different.push(format!("{} should be\n{found}", path.display()));
            }
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
}

#[test]
fn split_delivery_is_as_expected() {
    let mut different = Vec::new();
    for name in ["claude", "codex"] {
        for by in [DeliveryMethod::Stdin, DeliveryMethod::File] {
            let how = DeliveryContext { by: Some(by), split: Some(16), ..full_context() };
            let delivery =
                plan_delivery(&find_shipped_agent(name), "Rules \"and\" so.\nDo it.\n", &how).unwrap();
            let parts = serde_json::to_string(&delivery.parts).unwrap();
            let found = render_delivery(&delivery) + &parts + "\n";
            let path = Path::new(env!("CARGO_MANIFEST_DIR"))
                .join(format!("tests/deliver/{name}-{}-split.json", by.name()));
            if env::var_os("BLESS").is_some() {
                fs::write(&path, &found).unwrap();
            } else if fs::read_to_string(&path).unwrap_or_default() != found {
                different.push(format!("{} should be\n{found}", path.display()));
            }
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
}

#[test]
fn unsplit_delivery_says_why() {
    let claude = find_shipped_agent("claude");
    let codex = find_shipped_agent("codex");
    let at = |split: usize| DeliveryContext { split: Some(split), ..full_context() };
    let said = |agent: &Agent, prompt: &str, how: &DeliveryContext| {
        let delivery = plan_delivery(agent, prompt, how).unwrap();
        assert_eq!(delivery.parts, [], "{prompt}");
        let notes = delivery.diagnostics.iter().filter(|diag| diag.code == Code::DeliverWhole);
        notes.map(|diag| diag.message.clone()).collect::<Vec<_>>().join("; ")
    };
    let as_one = |why: &str| format!("the prompt is delivered as one: {why}");
    assert_eq!(
        said(&claude, "Do it.", &at(0)),
        as_one("it begins with the task, so no part of it is shared")
    );
    assert_eq!(said(&claude, "Do it.\n", &at(6)), as_one("all of it is shared"));
    let long = "\"".repeat(70_000) + "\nDo it.";
    let why = "an argument is limited to 131071 bytes; the shared part needs 140027";
    assert_eq!(said(&codex, &long, &at(70_001)), as_one(why));
    assert_eq!(plan_delivery(&claude, &long, &at(70_001)).unwrap().parts.len(), 2);
    // An agent that cannot take parts is refused only if a person asked for them.
    let cannot = |agent: &Agent| format!("{} has no way to add a text to its system prompt", agent.name);
    for name in shipped_agents() {
        let agent = find_shipped_agent(&name);
        let asked = DeliveryContext { requires_split: true, ..at(7) };
        if agent.can_split() {
            assert!(matches!(name.as_str(), "claude" | "codex"), "the hint does not name {name}");
            assert_eq!(plan_delivery(&agent, "Rules.\nDo it.", &asked).unwrap().parts.len(), 2);
            continue;
        }
        assert_eq!(said(&agent, "Rules.\nDo it.", &at(7)), as_one(&cannot(&agent)));
        let refused = plan_delivery(&agent, "Rules.\nDo it.", &asked).unwrap_err();
        assert_eq!(refused.0[0].message, format!("the prompt cannot be split: {}", cannot(&agent)));
    }
    let resumed = DeliveryContext { resume: Some("abc".into()), ..at(7) };
    let terminal = DeliveryContext { by: Some(DeliveryMethod::Terminal), ..at(7) };
    for (how, why) in [
        (resumed, "a resumed session keeps its first system prompt"),
        (terminal, "in a terminal, the agent gets all of it in a file"),
    ] {
        assert_eq!(said(&claude, "Rules.\nDo it.", &how), as_one(why));
        let asked = DeliveryContext { requires_split: true, ..how };
        let refused = plan_delivery(&claude, "Rules.\nDo it.", &asked).unwrap_err();
        assert_eq!(refused.0[0].message, format!("the prompt cannot be split: {why}"));
    }
    // Half of a character is no part.
    assert!(plan_delivery(&claude, "é, do it.", &at(1)).is_err());
}

#[test]
fn own_part_alone_decides_method() {
    let claude = find_shipped_agent("claude");
    let prompt = "See @README.md\n\n/help me";
    let how = DeliveryContext { at_paths: vec!["README.md".into()], split: Some(16), ..full_context() };
    let delivery = plan_delivery(&claude, prompt, &how).unwrap();
    assert_eq!(delivery.by, DeliveryMethod::Stdin);
    assert_eq!(stdin(&delivery), &DeliveryText::Part { before: "\n".into(), start: 16, end: prompt.len() });
    assert_eq!(stdin(&delivery).to_text(prompt), "\n/help me");
    let prompt = "Rules of ours.\n\nSee @README.md";
    let delivery = plan_delivery(&claude, prompt, &how).unwrap();
    assert_eq!(delivery.by, DeliveryMethod::File);
    let parts = delivery.parts.iter().map(|part| (part.part, part.by)).collect::<Vec<_>>();
    let file = DeliveryMethod::File;
    assert_eq!(parts, [(PromptPart::Shared, file), (PromptPart::Own, file)]);
}

fn argv(delivery: &Delivery) -> &[String] {
    let argv = delivery.acts.iter().find_map(|act| match act {
        DeliveryAction::Spawn { argv, .. } | DeliveryAction::Open { argv, .. } => Some(argv),
        _ => None,
    });
    argv.unwrap()
}

fn stdin(delivery: &Delivery) -> &DeliveryText {
    delivery
        .acts
        .iter()
        .find_map(|act| if let DeliveryAction::Spawn { stdin, .. } = act { Some(stdin) } else { None })
        .unwrap()
}

#[test]
fn first_lines_precede_prompt_line() {
    let mut agent = find_shipped_agent("copilot");
    let typed = |agent: &Agent, single_coder: bool| -> Vec<String> {
        let how = DeliveryContext { by: Some(DeliveryMethod::Terminal), single_coder, ..full_context() };
        let acts = plan_delivery(agent, "Do it.", &how).unwrap().acts;
        let line = |act| if let DeliveryAction::Type { line, .. } = act { Some(line) } else { None };
        acts.into_iter().filter_map(line).collect()
    };
    let by_file = full_context().by_file;
    assert_eq!(typed(&agent, false), std::slice::from_ref(&by_file));
    assert_eq!(typed(&agent, true), ["/fleet".to_owned(), by_file.clone()]);
    let terminal = agent.terminal.as_mut().unwrap();
    terminal.first_lines.insert(0, FirstLine { line: "/always".into(), when: None });
    // The form in which recorded agents have it.
    terminal.single_coder = Some("/older".into());
    assert_eq!(typed(&agent, false), ["/always".to_owned(), by_file.clone()]);
    assert_eq!(typed(&agent, true), ["/always", "/fleet", "/older", &by_file]);
}

#[test]
fn minimal_context_gives_minimal_arguments() {
    let how = DeliveryContext { worktree: "/w".into(), folder: "/f".into(), ..DeliveryContext::default() };
    let of = |name: &str| plan_delivery(&find_shipped_agent(name), "Do it.", &how).unwrap();
    assert_eq!(argv(&of("claude")), ["claude", "-p", "--output-format", "stream-json", "--verbose"]);
    assert_eq!(argv(&of("codex")), ["codex", "exec", "--json", "--skip-git-repo-check", "-"]);
    assert_eq!(argv(&of("gemini")), ["gemini", "--output-format", "stream-json"]);
    assert_eq!(argv(&of("copilot")), ["copilot", "--output-format", "json"]);
    assert_eq!(argv(&of("opencode")), ["opencode", "run", "--format", "json"]);
    for name in ["claude", "codex", "gemini", "copilot", "opencode"] {
        let delivery = of(name);
        assert_eq!((delivery.acts.len(), delivery.diagnostics.len()), (1, 0), "{name}");
        assert_eq!(stdin(&delivery), &DeliveryText::Prompt { before: String::new() });
    }
}

#[test]
fn resumed_session_starts_no_new_one() {
    let how = DeliveryContext {
        resume: Some("abc".into()),
        model: None,
        mcp: None,
        allow: Vec::new(),
        ..full_context()
    };
    let of = |name: &str| argv(&plan_delivery(&find_shipped_agent(name), "Go on.", &how).unwrap()).join(" ");
    assert_eq!(
        of("claude"),
        "claude -p --output-format stream-json --verbose --resume abc --settings /work/run-1/settings.json \
         --permission-mode acceptEdits"
    );
    assert_eq!(
        of("codex"),
        "codex exec resume abc --json --skip-git-repo-check -c sandbox_mode=\"workspace-write\" -"
    );
    assert_eq!(of("gemini"), "gemini --output-format stream-json --resume abc --approval-mode auto_edit");
    assert_eq!(of("copilot"), "copilot --output-format json --resume=abc --allow-tool=write");
}

#[test]
fn altered_prompt_uses_fallback_delivery() {
    let claude = find_shipped_agent("claude");
    let command = plan_delivery(&claude, "/help me", &full_context()).unwrap();
    assert_eq!(stdin(&command), &DeliveryText::Prompt { before: "\n".into() });
    assert_eq!(stdin(&command).to_text("/help me"), "\n/help me");
    let at = DeliveryContext { at_paths: vec!["README.md".into()], ..full_context() };
    for name in ["claude", "gemini"] {
        let delivery = plan_delivery(&find_shipped_agent(name), "See @README.md", &at).unwrap();
        assert_eq!(delivery.by, DeliveryMethod::File);
        assert_eq!(
            delivery.acts[0],
            DeliveryAction::Write {
                path: "/work/run-1/prompt.md".into(),
                text: DeliveryText::Prompt { before: String::new() }
            }
        );
        let line = "Read and follow the instructions in /work/run-1/prompt.md\n";
        assert_eq!(stdin(&delivery), &DeliveryText::Text(line.into()));
        let why = format!(
            "warning[DeliverOtherwise]: the prompt is delivered by file: {} would replace `@README.md` in the prompt with files",
            find_shipped_agent(name).name
        );
        assert_eq!(delivery.diagnostics[0].to_string(), why);
    }
    // Other agents do not expand `@` paths.
    assert_eq!(
        plan_delivery(&find_shipped_agent("codex"), "See @README.md", &at).unwrap().by,
        DeliveryMethod::Stdin
    );
    let long = "x".repeat(1_048_577);
    assert_eq!(
        plan_delivery(&find_shipped_agent("codex"), &long, &full_context()).unwrap().by,
        DeliveryMethod::File
    );
    assert_eq!(
        plan_delivery(&find_shipped_agent("codex"), &long[1..], &full_context()).unwrap().by,
        DeliveryMethod::Stdin
    );
}

#[test]
fn unsafe_argument_falls_back_to_file() {
    let toml = "name = \"Own\"\n[start]\nprogram = \"own\"\nargs = [\"--\", { hole = \"prompt\" }]\n\
                [prompt]\nby = [\"argument\", \"file\"]\nmax_argument_bytes = 10\n";
    let own: Agent = toml::from_str(toml).unwrap();
    let of = |prompt: &str| plan_delivery(&own, prompt, &full_context()).unwrap();
    assert_eq!(argv(&of("a b\n$c")), ["own", "--", "a b\n$c"]);
    for prompt in ["12345678901", "-x", "a\0b"] {
        let delivery = of(prompt);
        assert_eq!(
            (delivery.by, argv(&delivery)),
            (DeliveryMethod::File, &["own".to_owned(), "--".to_owned()][..]),
            "{prompt}"
        );
    }
}

#[test]
fn all_refusals_are_reported_together() {
    let how = DeliveryContext {
        by: Some(DeliveryMethod::Argument),
        worktree: "here".into(),
        model: Some("-x".into()),
        resume: Some("a b".into()),
        env: [("A=B".to_owned(), "x\0".to_owned())].into(),
        ..full_context()
    };
    let told = plan_delivery(&find_shipped_agent("claude"), " \n", &how).unwrap_err();
    let told: Vec<String> = told.0.iter().map(|diag| diag.message.clone()).collect();
    assert_eq!(
        told,
        [
            "the prompt is empty",
            "invalid model name `-x`",
            "invalid session name `a b`",
            "`here` is not an absolute path",
            "`x\0` contains a NUL character, which an argument cannot contain",
            "invalid variable name `A=B`",
            "Claude Code does not accept a prompt by argument",
        ]
    );
    let nothing = DeliveryContext { command: Vec::new(), ..full_context() };
    let told = plan_delivery(&find_shipped_agent("command"), "x", &nothing).unwrap_err();
    assert_eq!(told.0[0].message, "A command needs a command line");
    for line in ["", "two\nlines", "/help", "!ls", "-x", "esc\u{1b}[201~"] {
        let how =
            DeliveryContext { by: Some(DeliveryMethod::Terminal), by_file: line.into(), ..full_context() };
        assert!(plan_delivery(&find_shipped_agent("claude"), "x", &how).is_err(), "{line:?}");
    }
}

/// Known attacks on command lines, shells, git, YAML, terminals and agents.
pub const HOSTILE: [&str; 25] = [
    "--settings=/tmp/x.json",
    "-p",
    "--dangerously-skip-permissions",
    "--",
    "-",
    "--upload-pack=touch x",
    "ext::sh -c x",
    "; rm -rf /",
    "$(touch x)",
    "`touch x`",
    "| cat",
    "&& x",
    "> /tmp/x",
    "a b --model c",
    "x\n--yolo",
    "x\0y",
    "@/etc/passwd",
    "/help",
    "!ls",
    "'quote",
    "\"quote",
    "\\",
    "../../x",
    "\u{1b}[201~\r",
    "x) Bash(*",
];

#[test]
fn hostile_values_keep_argument_shape() {
    let mut tried = 0;
    for name in shipped_agents() {
        let agent = find_shipped_agent(&name);
        for by in agent.prompt.by.clone() {
            let usual = DeliveryContext { by: Some(by), ..full_context() };
            let shape = argv(&plan_delivery(&agent, "x", &usual).unwrap()).to_vec();
            for hostile in HOSTILE {
                let fields: [(&str, DeliveryContext); 5] = [
                    ("model", DeliveryContext { model: Some(hostile.into()), ..usual.clone() }),
                    ("session", DeliveryContext { session: Some(hostile.into()), ..usual.clone() }),
                    (
                        "exclude",
                        DeliveryContext {
                            scope: Scope { exclude: vec![hostile.into()], ..usual.scope.clone() },
                            ..usual.clone()
                        },
                    ),
                    (
                        "write",
                        DeliveryContext {
                            scope: Scope { write: vec![hostile.into()], ..usual.scope.clone() },
                            ..usual.clone()
                        },
                    ),
                    (
                        "environment",
                        DeliveryContext {
                            env: [("CALLSHEET_ROLE".to_owned(), hostile.to_owned())].into(),
                            ..usual.clone()
                        },
                    ),
                ];
                for (field, how) in fields {
                    tried += 1;
                    let Ok(delivery) = plan_delivery(&agent, "x", &how) else { continue };
                    let found = argv(&delivery);
                    assert_eq!(found.len(), shape.len(), "{name} {field} {hostile:?}");
                    for (word, usual) in found.iter().zip(&shape) {
                        let is_value = word == hostile || word.strip_prefix("--resume=") == Some(hostile);
                        assert!(
                            word == usual || (is_value && !word.starts_with('-')),
                            "{name} {field}: {word}"
                        );
                    }
                }
                tried += 1;
                // Shipped agents never get the prompt as an argument.
                let prompt = if hostile.trim().is_empty() { "x" } else { hostile };
                assert_eq!(
                    argv(&plan_delivery(&agent, prompt, &usual).unwrap()),
                    shape,
                    "{name} {hostile:?}"
                );
            }
        }
    }
    assert!(tried > 2000, "{tried}");
}

#[test]
fn hostile_shared_part_stays_one_text() {
    for hostile in HOSTILE {
        let prompt = format!("{hostile}\u{7f}\n\nDo it.");
        let split = prompt.len() - "Do it.".len();
        let how = DeliveryContext { split: Some(split), ..full_context() };
        let claude = plan_delivery(&find_shipped_agent("claude"), &prompt, &how).unwrap();
        let file = "/work/run-1/shared.md";
        let named = argv(&claude).iter().position(|word| word == file).unwrap();
        assert_eq!(argv(&claude)[named - 1], "--append-system-prompt-file");
        let written = DeliveryText::Part { before: String::new(), start: 0, end: split };
        assert!(claude.acts.contains(&DeliveryAction::Write { path: file.into(), text: written.clone() }));
        assert_eq!(written.to_text(&prompt), prompt[..split]);
        let codex = plan_delivery(&find_shipped_agent("codex"), &prompt, &how).unwrap();
        let usual = plan_delivery(&find_shipped_agent("codex"), &prompt, &full_context()).unwrap();
        let [words @ .., flag, set, last] = argv(&codex) else { panic!("{:?}", argv(&codex)) };
        assert_eq!([words, std::slice::from_ref(last)].concat(), argv(&usual));
        let set: toml::Table = toml::from_str(set).unwrap();
        assert_eq!((flag.as_str(), set.len()), ("-c", 1));
        assert_eq!(set["developer_instructions"].as_str(), Some(&prompt[..split]), "{hostile:?}");
        assert_eq!(stdin(&codex).to_text(&prompt), "Do it.");
    }
}

#[test]
fn paths_after_at_signs_are_found() {
    let prompt = "See @README.md, (@src/a.rs) and @\"with blank.md\" or @with\\ blank.md; mail a@b.c, @x#L1-5 @é\n@/etc/passwd @";
    let expected = [
        "README.md,",
        "README.md",
        "src/a.rs)",
        "src/a.rs",
        "with blank.md",
        "with blank.md;",
        "b.c,",
        "b.c",
        "x#L1-5",
        "x",
        "é",
        "/etc/passwd",
    ];
    assert_eq!(find_at_paths(prompt), expected);
}

/// Returns the receipts for a recorded stream, each with its line number, and the agent's report.
fn receipts(name: &str, case: &str, prompt: &str) -> (Vec<(usize, DeliveryReceipt)>, AgentReport) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/streams/{name}/{case}.jsonl"));
    let agent = find_shipped_agent(name);
    let mut watch = ReceiptWatcher::new(&agent, prompt);
    let mut found = Vec::new();
    for (at, line) in fs::read_to_string(path).unwrap().lines().enumerate() {
        // Long lines arrive in pieces.
        let middle = line.floor_char_boundary(line.len() / 2);
        assert_eq!(watch.read_output(&line[..middle], true), []);
        found.extend(watch.read_output(&line[middle..], false).into_iter().map(|receipt| (at + 1, receipt)));
    }
    (found, watch.report)
}

#[test]
fn receipts_follow_stream_evidence() {
    use DeliveryReceipt::{Accepted, Acting, Echoed};
    let prompt = "Review the change.";
    let session = Some("00000000-0000-4000-8000-000000000000".to_owned());
    let tokens = AgentReport {
        session,
        input_tokens: Some(20),
        output_tokens: Some(10),
        cached_tokens: Some(0),
        all_input_tokens: Some(20),
        turns: Some(2),
        ended: true,
        ..AgentReport::default()
    };
    let (claude, told) = receipts("claude", "tool", prompt);
    assert_eq!(claude, [(1, Accepted), (3, Acting)]);
    let cost_usd = Some(0.000_280_000_000_000_000_03);
    let model = |name: &str| Some(name.to_owned());
    assert_eq!(told, AgentReport { cost_usd, model: model("claude-opus-5-5"), ..tokens.clone() });
    assert_eq!(receipts("codex", "tool", prompt), (vec![(3, Accepted), (5, Acting)], tokens.clone()));
    let tokens = AgentReport { model: model("gemini-2.5-pro"), ..tokens };
    assert_eq!(receipts("gemini", "tool", prompt), (vec![(1, Accepted), (2, Echoed), (5, Acting)], tokens));
    let (copilot, told) = receipts("copilot", "tool", prompt);
    let kinds: Vec<DeliveryReceipt> = copilot.iter().map(|(_, receipt)| *receipt).collect();
    assert_eq!((kinds, told.ended), (vec![Accepted, Echoed, Acting], true));
    // A different prompt is not an echo, and an agent that uses no tool does not act.
    assert_eq!(receipts("gemini", "tool", "Review the change").0, [(1, Accepted), (5, Acting)]);
    assert_eq!(receipts("claude", "verdict", prompt).0, [(1, Accepted)]);
}

/// A command of plain words is reported with the narrowest permission that the agent can be given.
#[test]
fn denied_calls_name_missing_permission() {
    for (agent, tool, allow) in [
        ("claude", "Bash", Some("run-tests -q *")),
        ("copilot", "bash", Some("run-tests *")),
        ("opencode", "bash", None),
    ] {
        let call = |detail: &str, allow: Option<&str>| ToolCall {
            tool: tool.to_owned(),
            detail: Some(detail.to_owned()),
            allow: allow.map(str::to_owned),
        };
        let (_, report) = receipts(agent, "denied", "Review the change.");
        assert_eq!(report.denied, [call("run-tests -q", allow), call("run-tests; rm x", None)], "{agent}");
    }
    // Its sandbox denies nothing.
    assert_eq!(receipts("codex", "denied", "Review the change.").1.denied, []);
}

#[test]
fn transcript_must_echo_exact_prompt() {
    let claude = find_shipped_agent("claude");
    let mut watch = ReceiptWatcher::new(&claude, "Do it.");
    for line in [
        r#"{"type":"assistant","message":{"content":"Do it."}}"#,
        r#"{"type":"user","message":{"content":"Do it"}}"#,
        "Do it.",
    ] {
        assert!(!watch.is_transcript_echo(line), "{line}");
    }
    assert!(watch.is_transcript_echo(r#"{"type":"user","message":{"role":"user","content":"Do it."}}"#));
    // The echo is reported only once.
    assert!(!watch.is_transcript_echo(r#"{"type":"user","message":{"role":"user","content":"Do it."}}"#));
}

#[test]
fn transcript_must_hold_both_parts() {
    let (claude, codex) = (find_shipped_agent("claude"), find_shipped_agent("codex"));
    let own = r#"{"type":"user","message":{"content":"Do it."}}"#;
    let shared = r#"{"type":"attachment","attachment":{"systemPrompt":["Yours.","Ours.\n\n"]}}"#;
    for lines in [[own, shared], [shared, own]] {
        let mut watch = ReceiptWatcher::new(&claude, "Do it.").with_shared("Ours.\n\n");
        assert_eq!(lines.map(|line| watch.is_transcript_echo(line)), [false, true]);
    }
    let mut watch = ReceiptWatcher::new(&claude, "Do it.").with_shared("Ours.");
    assert_eq!([own, shared].map(|line| watch.is_transcript_echo(line)), [false, false]);
    let line = |role: &str, text: &str| {
        json!({ "type": "response_item", "payload": { "role": role, "content": [{ "text": text }] } })
            .to_string()
    };
    let mut watch = ReceiptWatcher::new(&codex, "Do it.").with_shared("Ours.");
    assert!(!watch.is_transcript_echo(&line("user", "Ours.")));
    assert!(!watch.is_transcript_echo(&line("developer", "Ours.")));
    assert!(watch.is_transcript_echo(&line("user", "Do it.")));
}

#[test]
fn split_words_matches_shell() {
    let cases: [(&str, &[&str]); 7] = [
        ("cargo  test\t--all ", &["cargo", "test", "--all"]),
        (r#"a 'b c' "d e"f\ g"#, &["a", "b c", "d ef g"]),
        (r#"a "" '' \"x"#, &["a", "", "", "\"x"]),
        (r#"a "\$x \n \\" '$x `y` ; |'"#, &["a", "$x \\n \\", "$x `y` ; |"]),
        ("eslint src/*.js", &["eslint", "src/*.js"]),
        ("a b#c", &["a", "b#c"]),
        ("prog -x=--y @z", &["prog", "-x=--y", "@z"]),
    ];
    for (line, expected) in cases {
        assert_eq!(split_words(line).unwrap(), expected, "{line}");
    }
}

#[test]
fn lines_needing_shell_are_refused() {
    for line in [
        "a && b", "a | b", "a; b", "a > b", "$HOME/x", "a `b`", "a \"$x\"", "(a)", "a 'b", "a \"b", "a\\",
        "", "  ", "''", "a\nb", "# a", "a\0b",
    ] {
        assert!(split_words(line).is_err(), "{line}");
    }
}
