//! Tests profiles that bind a role to an agent, parts of files, agent versions, and templates by plain name.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use crate::world::{Said, World, run_command};

const BOUND: &str =
    "---\nname: maintainer\nversion: 3\nagent: claude\nmodel: opus\npermit: ask\n---\nYou maintain.\n";

fn expect_success(said: Said) -> Said {
    assert_eq!(said.code, 0, "{}", said.err);
    said
}

#[test]
fn c2_profile_binds_agent_and_permission() {
    let world = World::new();
    world.write(".callsheet/profiles/maintainer.md", BOUND);
    let profile =
        json!({ "name": "maintainer", "version": "3", "agent": "claude", "model": "opus", "permit": "ask" });
    let asked = ["--role", "maintainer", "--write", "src/**", "Go"];
    let with = |first: &[&'static str]| [first, &asked].concat();
    assert_eq!(expect_success(world.run(with(&["explain", "--json"]))).json()["profile"], profile);
    let page = expect_success(world.run(with(&["explain"]))).out;
    let line = "maintainer, version 3, agent claude, model opus, permit ask";
    assert!(page.contains(&format!("\nProfile\n  {line}\n")), "{page}");

    expect_success(world.run(with(&["compose", "--record"])));
    let shown = expect_success(world.run(["--json", "show", "last"])).json();
    assert_eq!((&shown["agent"], &shown["profile"]), (&json!("claude"), &profile));
    let page = expect_success(world.run(["show", "last"])).out;
    assert!(page.lines().any(|shown| shown == format!("profile:  {line}")), "{page}");
    let log = expect_success(world.run(["--json", "log"])).json();
    assert_eq!(log["runs"][0]["profile"], profile);

    // An agent named on the command line takes precedence.
    expect_success(world.run(with(&["compose", "--record", "-a", "codex"])));
    assert_eq!(expect_success(world.run(["--json", "show", "last"])).json()["agent"], "codex");

    let claude = world.write("bin/claude", "#!/bin/sh\nexit 0\n");
    fs::set_permissions(&claude, fs::Permissions::from_mode(0o755)).unwrap();
    let dry = |more: &[&str]| -> Value {
        let path = format!("{}:{}", claude.parent().unwrap().display(), std::env::var("PATH").unwrap());
        let mut command = world.command();
        command.env("PATH", path).args(["--json", "run", "--dry-run"]).args(more).args(asked);
        expect_success(run_command(&mut command, b"")).json()["launch"].clone()
    };
    let launch = dry(&[]);
    assert_eq!((&launch["model"], &launch["permit"]), (&json!("opus"), &json!("ask")));
    let launch = dry(&["--model", "haiku", "--permit", "all"]);
    assert_eq!((&launch["model"], &launch["permit"]), (&json!("haiku"), &json!("all")));
    // A profile can lower the configured permission but never raise it.
    world.write(".callsheet/profiles/maintainer.md", BOUND.replace("permit: ask", "permit: all"));
    assert_eq!(dry(&[])["permit"], "edit");
}

#[test]
fn c9_embedded_lines_enter_prompt() {
    let world = World::new();
    world.write("src/a.rs", "one\ntwo\nthree\n");
    let ask = |agent: &str, embed: &str| {
        world.run(["-q", "compose", "-a", agent, "--write", "src/**", "--embed", embed, "Go"])
    };
    let task = |prompt: &str| {
        let (_, rest) = prompt.split_once("## Task\n\n").unwrap();
        rest.split_once("\n\n## Constraints").unwrap().0.replace(&workspace_text(), "WORKSPACE")
    };
    let workspace = "\n\n## Workspace\n\nWORKSPACE";
    assert_eq!(
        task(&expect_success(ask("claude", "src/a.rs:2-3")).out),
        format!("Go\n\n<file path=\"src/a.rs:2-3\">\ntwo\nthree\n</file>{workspace}")
    );
    assert_eq!(
        task(&expect_success(ask("claude", "src/a.rs")).out),
        format!("Go\n\n<file path=\"src/a.rs\">\none\ntwo\nthree\n</file>{workspace}")
    );
    assert_eq!(
        task(&expect_success(ask("codex", "src/a.rs:2-3")).out),
        format!("Go{workspace}\n\n## Read First\n\nRead these before you start:\n\n- `src/a.rs`")
    );
    let wrong = |embed: &str| {
        let said = ask("claude", embed);
        (said.code, said.err)
    };
    assert_eq!(
        wrong("src/a.rs:3-2"),
        (2, "error[usage/bad]: --embed takes PATH or PATH:L1-L2, and `3-2` are no lines\n".into())
    );
    assert_eq!(
        wrong("src/a.rs:3-4"),
        (2, "error[request/bad]: `src/a.rs:3-4`: the file has 3 lines\n".into())
    );
    assert_eq!(wrong("src/b.rs").0, 4);
}

/// Returns the text about the workspace for a project outside of git.
fn workspace_text() -> String {
    crate::world::read_shipped_body("templates/shared/workspace-folder.md")
}

#[test]
fn c4_workspace_is_worktree_inside_git() {
    let world = World::new();
    let compose = || expect_success(world.run(["-q", "compose", "--write", "src/**", "Go"])).out;
    let section = |words: &str| format!("\n\n## Workspace\n\n{words}\n\n## ");
    assert!(compose().contains(&section(&workspace_text())));
    world.write(".git/HEAD", "ref: refs/heads/main\n");
    assert!(compose().contains(&section(&crate::world::read_shipped_body("templates/shared/workspace.md"))));
}

#[test]
fn b3_loaded_files_depend_on_version() {
    let world = World::new();
    world.write("AGENTS.md", "Indent with blanks.\n");
    let loads = |agent: &str| {
        let explained =
            expect_success(world.run(["-q", "explain", "--json", "-r", "layers", "-a", agent, "Go"])).json();
        let absent = explained["absent"].as_array().unwrap().clone();
        let found = absent.iter().find(|absent| absent["what"] == "project:AGENTS.md");
        (found.map(|absent| absent["why"].clone()), explained["text"].as_str().unwrap().contains("Indent"))
    };
    let by_itself = (Some(json!("loaded_by_agent")), false);
    assert_eq!(loads("claude"), by_itself);
    assert_eq!(loads("CLAUDE"), by_itself);
    assert_eq!(loads("claude@2.1.277"), by_itself);
    assert_eq!(loads("claude@2.1.197"), (None, true));
    world.write("CLAUDE.md", "Indent with tabs.\n");
    assert_eq!(loads("claude"), (None, true));
}

#[test]
fn b2_t1_templates_found_by_name() {
    let world = World::new();
    world.write(".callsheet/templates/identity/clerk.md", "You are a clerk.\n");
    assert_eq!(expect_success(world.run(["templates", "show", "clerk"])).out, "You are a clerk.\n");
    let base = expect_success(world.run(["templates", "show", "system/BASE-plan"])).out;
    let claude = expect_success(world.run(["-v", "templates", "show", "system/CLAUDE-plan"]));
    assert_eq!(claude.out, base);
    assert_eq!(claude.err, "no `system/CLAUDE-plan`; `system/BASE-plan` is used\n");
    assert_eq!(world.run(["templates", "show", "system/CLAUDE-nothing"]).code, 3);

    world.write(".callsheet/config.toml", "[layout]\ntemplates = [\"src/prompts\"]\n");
    world.write("src/prompts/clerk.md", "You are a flat clerk.\n");
    let prompt = expect_success(world.run(["-q", "compose", "-r", "layers", "--role", "clerk", "Go"])).out;
    assert_eq!(prompt, "You are a flat clerk.\n\n---\n\nGo");
}

#[test]
fn template_alone_adds_agent() {
    let world = World::new();
    world.write(".callsheet/templates/system/QWEN-plan.md", "You are Qwen.\n");
    let composed = expect_success(world.run(["-v", "compose", "-p", "plan", "-a", "qwen", "Go"]));
    assert!(composed.out.contains("<system_prompt>You are Qwen.</system_prompt>"), "{}", composed.out);
    assert!(
        composed.err.contains("nothing is known of the agent `qwen` but its system templates"),
        "{}",
        composed.err
    );
    assert_eq!(world.run(["compose", "-p", "plan", "-a", "qwn", "Go"]).code, 3);
}

#[test]
fn c3_missing_read_first_path_warns() {
    let world = World::new();
    world.write("src/a.rs", "a\n");
    let said = expect_success(world.run([
        "compose",
        "--write",
        "src/**",
        "--read-first",
        "src/a.rs",
        "--read-first",
        "@src/b.rs",
        "Go",
    ]));
    let told = "warning[input/not-found]: the agent is to read `@src/b.rs` first, and there is no such file\n  = looked in project:@src/b.rs\n";
    assert_eq!(said.err, told);
}

#[test]
fn b6_invalid_tools_are_refused() {
    let world = World::new();
    let tools = r#"[{"name": "grep", "input_schema": {"type": "object"}}, {"function": {"name": "b", "parameters": {}}},
        1, {"nonsense": true}, {"name": " "}, {"name": "a", "input_schema": []}, {"function": 1}, {"name": "c", "description": 1}]"#;
    world.write("tools.json", tools);
    let said = world.run(["compose", "-r", "layers", "--tools", "tools.json", "--format", "json", "Go"]);
    let why = [
        "it is no object",
        "it has no `name`",
        "`name` is no text",
        "`input_schema` is no JSON Schema",
        "`function` is no object",
        "`description` is no text",
    ];
    let lines = why.iter().zip(2..).map(|(why, at)| {
        format!(
            "error[request/bad]: tools[{at}] is no definition of a tool: {why}\n  = hint: a tool has a `name`, and its \
             arguments as a JSON Schema in `input_schema` or `parameters`\n"
        )
    });
    assert_eq!((said.code, said.err), (2, lines.collect::<String>()));
}

/// Unreadable memory is omitted with a warning, and the prompt can be verified.
#[test]
fn b3_unreadable_memory_is_a_warning() {
    let world = World::new();
    world.write(".callsheet/memory/profile.md/inner.txt", "x");
    world.write("README.md", b"\xff\xfe");
    world.write("AGENTS.md", "Indent.\n");
    world.write(".callsheet/templates/identity/task-agent.md", "You carry out one task.\n");
    let said = expect_success(world.run(["compose", "-r", "layers", "--record", "Go"]));
    assert_eq!(
        said.out,
        "You carry out one task.\n\n---\n\n<file path=\"AGENTS.md\">\nIndent.\n</file>\n\n---\n\nGo"
    );
    let warnings: Vec<&str> = said.err.lines().filter(|line| line.starts_with("warning")).collect();
    assert_eq!(warnings.len(), 2, "{}", said.err);
    assert!(warnings[0].contains("`project:.callsheet/memory/profile.md` cannot be used"), "{}", said.err);
    assert!(warnings[1].contains("`project:README.md` cannot be used"), "{}", said.err);
    assert_eq!(world.run(["verify", "last"]).code, 0);
}

/// A file with CR LF line ends costs about as many tokens as with line feeds, and is read back unchanged.
#[test]
fn u2_carriage_returns_cost_few_tokens() {
    let world = World::new();
    world.write(".callsheet/templates/system/BASE-plan.md", "You plan.\n");
    let text: String = (0..500).map(|at| format!("if (a[{at}] < b) {{ return {at}; }}\n")).collect();
    let tokens = |text: &str| {
        world.write("a.c", text);
        let counted = expect_success(
            world.run(["-q", "--json", "compose", "--count", "-p", "plan", "-f", "a.c", "Go"]),
        );
        let xml = expect_success(world.run(["-q", "compose", "-p", "plan", "-f", "a.c", "Go"])).out;
        let read = callsheet_core::UnifiedPrompt::from_xml(&xml).unwrap();
        assert_eq!(read.context[0].content.as_str(), text);
        counted.json()["total"].as_u64().unwrap()
    };
    let plain = tokens(&text);
    let carriage_returns = tokens(&text.replace('\n', "\r\n"));
    assert!(carriage_returns * 100 <= plain * 102, "{carriage_returns} after {plain}");
}
