//! Tests profiles that bind a role to an agent, parts of files, agent versions, and templates by plain name.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use callsheet_testing::{CommandOutput, TestProject, run_command};
use serde_json::{Value, json};

use crate::shipped::read_shipped_body;

const BOUND: &str =
    "---\nname: maintainer\nversion: 3\nagent: claude\nmodel: opus\npermit: ask\n---\nYou maintain.\n";

fn expect_success(output: CommandOutput) -> CommandOutput {
    assert_eq!(output.code, Some(0), "{}", output.err());
    output
}

#[test]
fn c2_profile_binds_agent_and_permission() {
    let project = TestProject::new();
    project.write(".callsheet/profiles/maintainer.md", BOUND);
    let profile = json!({
        "name": "maintainer", "version": "3", "agent": "claude", "model": "opus", "permit": "ask", "allow": [],
    });
    let asked = ["--role", "maintainer", "--write", "src/**", "Go"];
    let with = |first: &[&'static str]| [first, &asked].concat();
    assert_eq!(expect_success(project.run(with(&["explain", "--json"]))).json()["profile"], profile);
    let page = expect_success(project.run(with(&["explain"]))).out();
    let line = "maintainer, version 3, agent claude, model opus, permit ask";
    assert!(page.contains(&format!("\nProfile\n  {line}\n")), "{page}");

    expect_success(project.run(with(&["compose", "--record"])));
    let shown = expect_success(project.run(["--json", "show", "last"])).json();
    assert_eq!((&shown["agent"], &shown["profile"]), (&json!("claude"), &profile));
    let page = expect_success(project.run(["show", "last"])).out();
    assert!(page.lines().any(|shown| shown == format!("profile:  {line}")), "{page}");
    let log = expect_success(project.run(["--json", "log"])).json();
    assert_eq!(log["items"][0]["profile"], profile);

    // An agent named on the command line takes precedence.
    expect_success(project.run(with(&["compose", "--record", "-a", "codex"])));
    assert_eq!(expect_success(project.run(["--json", "show", "last"])).json()["agent"], "codex");

    let claude = project.write("bin/claude", "#!/bin/sh\nexit 0\n");
    fs::set_permissions(&claude, fs::Permissions::from_mode(0o755)).unwrap();
    let dry = |more: &[&str]| -> Value {
        let path = format!("{}:{}", claude.parent().unwrap().display(), std::env::var("PATH").unwrap());
        let mut command = project.command();
        command.env("PATH", path).args(["--json", "run", "--dry-run"]).args(more).args(asked);
        expect_success(run_command(&mut command)).json()["launch"].clone()
    };
    let launch = dry(&[]);
    assert_eq!((&launch["model"], &launch["permit"]), (&json!("opus"), &json!("ask")));
    let launch = dry(&["--model", "haiku", "--permit", "all"]);
    assert_eq!((&launch["model"], &launch["permit"]), (&json!("haiku"), &json!("all")));
    // A profile can lower the configured permission but never raise it.
    project.write(".callsheet/profiles/maintainer.md", BOUND.replace("permit: ask", "permit: all"));
    assert_eq!(dry(&[])["permit"], "edit");
}

#[test]
fn c9_embedded_lines_enter_prompt() {
    let project = TestProject::new();
    project.write("src/a.rs", "one\ntwo\nthree\n");
    let ask = |agent: &str, embed: &str| {
        project.run(["-q", "compose", "-a", agent, "--write", "src/**", "--embed", embed, "Go"])
    };
    let task = |prompt: &str| {
        let (_, rest) = prompt.split_once("## Task\n\n").unwrap();
        rest.split_once("\n\n## Constraints").unwrap().0.replace(&workspace_text(), "WORKSPACE")
    };
    let workspace = "\n\n## Workspace\n\nWORKSPACE";
    assert_eq!(
        task(&expect_success(ask("claude", "src/a.rs:2-3")).out()),
        format!("Go\n\n<file path=\"src/a.rs:2-3\">\ntwo\nthree\n</file>{workspace}")
    );
    assert_eq!(
        task(&expect_success(ask("claude", "src/a.rs")).out()),
        format!("Go\n\n<file path=\"src/a.rs\">\none\ntwo\nthree\n</file>{workspace}")
    );
    assert_eq!(
        task(&expect_success(ask("codex", "src/a.rs:2-3")).out()),
        format!("Go{workspace}\n\n## Read First\n\nRead these before you start:\n\n- `src/a.rs`")
    );
    let wrong = |embed: &str| {
        let output = ask("claude", embed);
        (output.code, output.err())
    };
    assert_eq!(
        wrong("src/a.rs:3-2"),
        (
            Some(2),
            "error[UsageBad]: invalid line range `3-2` for `--embed`: expected PATH or PATH:L1-L2\n".into()
        )
    );
    assert_eq!(
        wrong("src/a.rs:3-4"),
        (Some(2), "error[RequestBad]: `src/a.rs:3-4`: the file has 3 lines\n".into())
    );
    assert_eq!(wrong("src/b.rs").0, Some(4));
}

/// Returns the text about the workspace for a project outside of git.
fn workspace_text() -> String {
    read_shipped_body("templates/shared/workspace-folder.md")
}

#[test]
fn c4_workspace_is_worktree_inside_git() {
    let project = TestProject::new();
    let compose = || expect_success(project.run(["-q", "compose", "--write", "src/**", "Go"])).out();
    let section = |words: &str| format!("\n\n## Workspace\n\n{words}\n\n## ");
    assert!(compose().contains(&section(&workspace_text())));
    project.write(".git/HEAD", "ref: refs/heads/main\n");
    assert!(compose().contains(&section(&read_shipped_body("templates/shared/workspace.md"))));
}

#[test]
fn b3_loaded_files_depend_on_version() {
    let project = TestProject::new();
    project.write("AGENTS.md", "Indent with blanks.\n");
    let loads = |agent: &str| {
        let explained =
            expect_success(project.run(["-q", "explain", "--json", "-r", "layers", "-a", agent, "Go"]))
                .json();
        let absent = explained["absent"].as_array().unwrap().clone();
        let found = absent.iter().find(|absent| absent["what"] == "project:AGENTS.md");
        (
            found.map(|absent| absent["reason"]["code"].clone()),
            explained["text"].as_str().unwrap().contains("Indent"),
        )
    };
    let by_itself = (Some(json!("loaded_by_agent")), false);
    assert_eq!(loads("claude"), by_itself);
    assert_eq!(loads("CLAUDE"), by_itself);
    assert_eq!(loads("claude@2.1.277"), by_itself);
    assert_eq!(loads("claude@2.1.197"), (None, true));
    project.write("CLAUDE.md", "Indent with tabs.\n");
    assert_eq!(loads("claude"), (None, true));
}

#[test]
fn b2_t1_templates_found_by_name() {
    let project = TestProject::new();
    project.write(".callsheet/templates/identity/clerk.md", "You are a clerk.\n");
    assert_eq!(expect_success(project.run(["templates", "show", "clerk"])).out(), "You are a clerk.\n");
    let base = expect_success(project.run(["templates", "show", "system/BASE-plan"])).out();
    let claude = expect_success(project.run(["-v", "templates", "show", "system/CLAUDE-plan"]));
    assert_eq!(claude.out(), base);
    assert_eq!(claude.err(), "no `system/CLAUDE-plan`; using `system/BASE-plan`\n");
    assert_eq!(project.run(["templates", "show", "system/CLAUDE-nothing"]).code, Some(3));

    project.write(".callsheet/config.toml", "[layout]\ntemplates = [\"src/prompts\"]\n");
    project.write("src/prompts/clerk.md", "You are a flat clerk.\n");
    let prompt =
        expect_success(project.run(["-q", "compose", "-r", "layers", "--role", "clerk", "Go"])).out();
    assert_eq!(prompt, "You are a flat clerk.\n\n---\n\nGo");
}

#[test]
fn template_alone_adds_agent() {
    let project = TestProject::new();
    project.write(".callsheet/templates/system/QWEN-plan.md", "You are Qwen.\n");
    let composed = expect_success(project.run(["-v", "compose", "-p", "plan", "-a", "qwen", "Go"]));
    assert!(composed.out().contains("<system_prompt>You are Qwen.</system_prompt>"), "{}", composed.out());
    assert!(
        composed.err().contains("the agent `qwen` has system templates but no definition"),
        "{}",
        composed.err()
    );
    assert_eq!(project.run(["compose", "-p", "plan", "-a", "qwn", "Go"]).code, Some(3));
}

#[test]
fn c3_missing_read_first_path_warns() {
    let project = TestProject::new();
    project.write("src/a.rs", "a\n");
    let output = expect_success(project.run([
        "compose",
        "--write",
        "src/**",
        "--read-first",
        "src/a.rs",
        "--read-first",
        "@src/b.rs",
        "Go",
    ]));
    let told = "warning[InputNotFound]: cannot use `--read-first @src/b.rs`: the file does not exist\n  = looked in project:@src/b.rs\n";
    assert_eq!(output.err(), told);
}

#[test]
fn b6_invalid_tools_are_refused() {
    let project = TestProject::new();
    let tools = r#"[{"name": "grep", "input_schema": {"type": "object"}}, {"function": {"name": "b", "parameters": {}}},
        1, {"nonsense": true}, {"name": " "}, {"name": "a", "input_schema": []}, {"function": 1}, {"name": "c", "description": 1}]"#;
    project.write("tools.json", tools);
    let output = project.run(["compose", "-r", "layers", "--tools", "tools.json", "--format", "json", "Go"]);
    let why = [
        "expected an object",
        "it has no `name`",
        "`name` is not a string",
        "`input_schema` is not a JSON Schema",
        "`function` is not an object",
        "`description` is not a string",
    ];
    let lines = why.iter().zip(2..).map(|(why, at)| {
        format!(
            "error[RequestBad]: tools[{at}] is not a tool definition: {why}\n  = hint: a tool has a `name`, and its \
             arguments as a JSON Schema in `input_schema` or `parameters`\n"
        )
    });
    assert_eq!((output.code, output.err()), (Some(2), lines.collect::<String>()));
}

/// Unreadable memory is omitted with a warning, and the prompt can be verified.
#[test]
fn b3_unreadable_memory_is_a_warning() {
    let project = TestProject::new();
    project.write(".callsheet/memory/profile.md/inner.txt", "x");
    project.write("README.md", b"\xff\xfe");
    project.write("AGENTS.md", "Indent.\n");
    project.write(".callsheet/templates/identity/task-agent.md", "You carry out one task.\n");
    let output = expect_success(project.run(["compose", "-r", "layers", "--record", "Go"]));
    assert_eq!(
        output.out(),
        "You carry out one task.\n\n---\n\n<file path=\"AGENTS.md\">\nIndent.\n</file>\n\n---\n\nGo"
    );
    let err = output.err();
    let warnings: Vec<&str> = err.lines().filter(|line| line.starts_with("warning")).collect();
    assert_eq!(warnings.len(), 2, "{}", output.err());
    assert!(warnings[0].contains("cannot read `project:.callsheet/memory/profile.md`"), "{}", output.err());
    assert!(warnings[1].contains("cannot read `project:README.md`"), "{}", output.err());
    assert_eq!(project.run(["verify", "last"]).code, Some(0));
}

/// A file with CR LF line ends costs about as many tokens as with line feeds, and is read back unchanged.
#[test]
fn u2_carriage_returns_cost_few_tokens() {
    let project = TestProject::new();
    project.write(".callsheet/templates/system/BASE-plan.md", "You plan.\n");
    let text: String = (0..500).map(|at| format!("if (a[{at}] < b) {{ return {at}; }}\n")).collect();
    let tokens = |text: &str| {
        project.write("a.c", text);
        let counted = expect_success(
            project.run(["-q", "--json", "compose", "--count", "-p", "plan", "-f", "a.c", "Go"]),
        );
        let xml = expect_success(project.run(["-q", "compose", "-p", "plan", "-f", "a.c", "Go"])).out();
        let read = callsheet_core::UnifiedPrompt::from_xml(&xml).unwrap();
        assert_eq!(read.context[0].content.as_str(), text);
        counted.json()["total"].as_u64().unwrap()
    };
    let plain = tokens(&text);
    let carriage_returns = tokens(&text.replace('\n', "\r\n"));
    assert!(carriage_returns * 100 <= plain * 102, "{carriage_returns} after {plain}");
}
