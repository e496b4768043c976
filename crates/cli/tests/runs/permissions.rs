//! Commands that an agent may run without asking: from flags, configuration and profiles to the rules of the agent, and from a
//! denied call to the flag that lets it pass.

use callsheet_testing::{Cli, CommandOutput, Room, Script, Step, on_loopback, run_with_input};
use serde_json::{Value, json};

use crate::is_long;
use crate::project::{RunProject, fake_agent};

/// Creates a project with a `claude` that is denied a test and a compound command.
fn create_project() -> RunProject {
    let project = RunProject::new();
    let denied = |command: &str| json!({ "tool_name": "Bash", "tool_use_id": "t", "tool_input": { "command": command } });
    let result = json!({
        "type": "result", "subtype": "success", "is_error": false, "result": "I could not test it.", "session_id": "s",
        "permission_denials": [denied("pytest -q tests"), denied("pytest; rm x"), denied("npm run test:unit")],
    });
    let init = json!({ "type": "system", "subtype": "init", "session_id": "s" });
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = --version ] && echo 2.1.325 && exit\ncat > prompt.txt\ncat <<'END'\n{init}\n{result}\nEND\n"
    );
    project.write_program("claude", &script);
    project.write_program("pytest", "#!/bin/sh\n");
    project
}

fn plan(project: &RunProject, flags: &[&str]) -> Value {
    let args = [&["--json", "-q", "run", "--dry-run", "-a", "claude"], flags, &["Do it."]].concat();
    project.run(args).expect_code(0).json()
}

/// Returns the rules in the settings that a plan writes for Claude Code.
fn rules(plan: &Value) -> Vec<String> {
    let writes = plan["actions"].as_array().unwrap().iter().filter(|act| act["act"] == "write");
    let settings = writes.filter(|act| act["path"].as_str().unwrap().ends_with("/settings.json"));
    let texts =
        settings.map(|act| serde_json::from_str::<Value>(act["text"]["text"].as_str().unwrap()).unwrap());
    let list = |settings: Value| settings["permissions"]["allow"].as_array().unwrap().clone();
    texts.flat_map(list).map(|rule| rule.as_str().unwrap().to_owned()).collect()
}

const NAMED: &str =
    "You may run these commands without asking, each alone in its line, without pipes and redirections:";

#[test]
fn c4_allowed_commands_are_named() {
    let project = create_project();
    let plan =
        plan(&project, &["--allow", "cargo  build", "--allow", "pytest *", "--check", "tests=pytest -q"]);
    assert_eq!(plan["launch"]["allow"], json!(["cargo build", "pytest *"]));
    assert_eq!(plan["launch"]["allowed"], json!(["cargo build", "pytest *", "pytest -q *"]));
    assert_eq!(rules(&plan), ["Bash(cargo build)", "Bash(pytest:*)", "Bash(pytest -q:*)"]);
    let expected = format!(
        "{NAMED}\n\n- `cargo build`\n- `pytest`, also with more arguments\n- `pytest -q`, also with more arguments\n"
    );
    assert!(plan["text"].as_str().unwrap().contains(&expected), "{}", plan["text"]);
    let page = project
        .run(["run", "--dry-run", "-a", "claude", "--allow", "pytest *", "Do it."])
        .expect_code(0)
        .out();
    assert!(page.contains("allow") && page.contains("pytest *"), "{page}");
}

#[test]
fn prompt_without_permissions_names_none() {
    let project = create_project();
    project.write_beside("home/.config/callsheet/config.toml", "allow_checks = false\n");
    let check = ["--check", "tests=pytest -q"];
    for flags in [
        &check[..],
        &["--permit", "ask", "--check", "tests=pytest -q"],
        &["--permit", "all", "--allow", "pytest *"],
    ] {
        let plan = plan(&project, flags);
        assert_eq!((&plan["launch"]["allowed"], rules(&plan)), (&json!([]), Vec::new()), "{flags:?}");
        assert!(!plan["text"].as_str().unwrap().contains(NAMED), "{flags:?}");
    }
    let args = [
        "--json",
        "run",
        "--dry-run",
        "--write",
        "src/**",
        "--allow",
        "pytest *",
        "Do it.",
        "--",
        fake_agent(),
    ];
    let plan = project.run(args).expect_code(0);
    assert_eq!(plan.json()["launch"]["allowed"], json!([]));
    let warning = &plan.json()["diagnostics"][0];
    assert_eq!(warning["code"], "allow/unsupported", "{warning}");
}

#[test]
fn odd_command_is_refused_before_start() {
    let project = create_project();
    for command in ["pytest; rm x", "*", "pytest)", "pytest -k 'a b'", "$(x)", "a:* *", ""] {
        for start in [&["run", "-a", "claude"][..], &["flow", "start", "sdd", "-a", "claude"]] {
            let args = [&["--json", "-q"], start, &["--allow", command, "Do it."]].concat();
            assert_eq!(project.run(args).error(), (Some(2), "usage/bad".into()), "{command}");
        }
    }
    project.write_beside("home/.config/callsheet/config.toml", "allow = [\"pytest; rm x\"]\n");
    let run = project.run(["--json", "-q", "run", "-a", "claude", "Do it."]);
    assert_eq!(run.error(), (Some(3), "config/bad".into()));
}

#[test]
fn project_allows_nothing_before_trust() {
    let project = create_project();
    project.write_beside("home/.config/callsheet/config.toml", "allow = [\"make *\"]\n");
    project.write(".callsheet/config.toml", "allow = [\"curl *\"]\n");
    project.write(".callsheet/profiles/tester.md", "---\nallow: [\"wget *\"]\n---\nYou test.\n");
    let flags = ["--role", "tester"];
    assert_eq!(rules(&plan(&project, &flags)), ["Bash(make:*)"]);
    let asked = project.run(["--json", "trust", "--show"]).expect_code(0).json()["asks_for"].to_string();
    assert!(asked.contains("curl *") && asked.contains("wget *"), "{asked}");
    project.run(["-q", "trust", "--yes"]).expect_code(0);
    assert_eq!(rules(&plan(&project, &flags)), ["Bash(make:*)", "Bash(curl:*)", "Bash(wget:*)"]);
    // Another command is another request.
    project.write(".callsheet/profiles/tester.md", "---\nallow: [\"nc *\"]\n---\nYou test.\n");
    assert_eq!(rules(&plan(&project, &flags)), ["Bash(make:*)"]);
    // Nothing goes beyond the limits of the user.
    project.run(["-q", "trust", "--yes"]).expect_code(0);
    project.write_beside(
        "home/.config/callsheet/config.toml",
        "allow = [\"make *\"]\n[hard]\nallow = [\"make *\", \"pytest *\"]\n",
    );
    let plan = plan(&project, &["--role", "tester", "--allow", "pytest -q", "--allow", "cargo *"]);
    assert_eq!(rules(&plan), ["Bash(pytest -q)", "Bash(make:*)"]);
}

#[test]
fn denied_call_suggests_its_flag() {
    let project = create_project();
    let args = ["-q", "run", "-a", "claude", "--check", "fails=false", "Do it."];
    let page = project.run(args).expect_code(1).out();
    for line in [
        "denied     Bash: pytest -q tests  (to allow it: --allow 'pytest -q tests *')\n",
        "denied     Bash: pytest; rm x\n",
        "denied     Bash: npm run test:unit  (to allow it: --allow 'npm run test:unit *')\n",
    ] {
        assert!(page.contains(line), "{page}");
    }
    let run =
        project.run(["--json", "log"]).expect_code(0).json()["items"][0]["run"].as_str().unwrap().to_owned();
    let denied = &project.run(["--json", "show", &run]).expect_code(0).json()["result"]["usage"]["denied"];
    assert_eq!(
        *denied,
        json!([
            { "tool": "Bash", "detail": "pytest -q tests", "allow": "pytest -q tests *" },
            { "tool": "Bash", "detail": "pytest; rm x", "allow": null },
            { "tool": "Bash", "detail": "npm run test:unit", "allow": "npm run test:unit *" },
        ])
    );
    let next = "callsheet retry r1 --allow 'pytest -q tests *' --allow 'npm run test:unit *'";
    assert!(page.contains(next), "{page}");
    let words = ["retry", &run, "--allow", "pytest -q tests *", "--allow", "npm run test:unit *"];
    let again = project.run([&["--json", "-q"][..], &words].concat()).expect_code(1);
    let launch = project.show(&again.run_id())["launch"].clone();
    assert_eq!(launch["allow"], json!(["pytest -q tests *", "npm run test:unit *"]));
    assert_eq!(launch["allowed"], json!(["pytest -q tests *", "npm run test:unit *", "false *"]));
    assert!(project.prompt(&again.run_id()).contains("- `npm run test:unit`, also with more arguments\n"));
    // A retry of the retry keeps them, and may add one although nothing else has changed.
    let third = project.run(["--json", "-q", "retry", &again.run_id(), "--allow", "make *"]).expect_code(1);
    let launch = project.show(&third.run_id())["launch"].clone();
    assert_eq!(launch["allow"], json!(["pytest -q tests *", "npm run test:unit *", "make *"]));
    project.assert_all_runs_finished();
}

/// A line for the shell, and whether it runs if `python3 make.py *` is allowed.
type Line = (&'static str, bool);

/// The lines with `one` allowed and one denied, and more of them in the long form.
fn lines(cli: Cli) -> Vec<Line> {
    let is_sandbox = cli == Cli::Codex;
    let mut lines = vec![("python3 make.py a1", true), ("python3 other.py a2", is_sandbox)];
    if is_long() {
        lines.extend([
            ("python3 make.py", true),
            ("python3 make.pyx a3", is_sandbox),
            ("python3 make.py a4; python3 other.py a5", is_sandbox),
            ("python3 make.py a6 && python3 other.py a7", is_sandbox),
            ("python3 make.py $(python3 other.py a8)", is_sandbox),
            ("python3 make.py a9 | python3 other.py a10", is_sandbox),
            ("python3 make.py a11\npython3 other.py a12", is_sandbox),
            ("/usr/bin/env python3 make.py a13", is_sandbox),
        ]);
    }
    lines
}

fn assert_rules_hold(cli: Cli) {
    let lines = lines(cli);
    // Copilot compares the program alone, so that the program itself must be the difference.
    let line = |text: &str| match cli {
        Cli::Copilot => text.replace("python3 make.py", "make-it").replace("python3 other.py", "other-one"),
        _ => text.to_owned(),
    };
    let call = |text: &str| {
        Step::call(
            &["Bash", "run_shell_command", "bash"],
            json!({ "command": line(text), "description": "run it" }),
        )
        .or_call(&["exec_command"], json!({ "cmd": line(text) }))
    };
    let steps = lines.iter().map(|(text, _)| call(text)).chain([Step::text("I tried.")]);
    let room = Room::new(Script::new().on_marker("MARK", steps)).unwrap();
    let project = RunProject::in_private_dir();
    let script = "import sys\nopen('made.txt', 'a').write(' '.join(sys.argv[1:]) + '|')\n";
    for name in ["make.py", "make.pyx", "other.py"] {
        project.write(name, script);
    }
    for name in ["make-it", "other-one"] {
        project.write_program(name, "#!/bin/sh\nprintf '%s|' \"$*\" >> made.txt\n");
    }
    let allowed = line("python3 make.py *");
    let flags = ["--json", "-q", "run", "-a", cli.name(), "--timeout", "150s", "--allow", &allowed];
    let mut command = project.command();
    let env = room.env(cli).unwrap();
    let program = cli.program().unwrap();
    let path = format!(
        "{}:{}:{}",
        project.beside("bin").display(),
        program.parent().unwrap().display(),
        env["PATH"]
    );
    command.envs(&env).env("PATH", path).args(flags);
    if cli == Cli::Gemini {
        command.args(["--model", "gemini-2.5-pro"]);
    }
    let ran: CommandOutput = run_with_input(command.arg("-"), b"MARK");
    let ran = ran.expect_code(0);
    let prompt = project.prompt(&ran.run_id());
    assert!(
        prompt.contains(&format!("- `{}`, also with more arguments\n", line("python3 make.py"))),
        "{prompt}"
    );
    let made = std::fs::read_to_string(project.path().join("made.txt")).unwrap_or_default();
    let first: Vec<&str> = made.split('|').collect();
    assert!(first.contains(&"a1"), "{made}: {}", ran.json());
    for (at, (text, runs)) in lines.iter().enumerate().filter(|(_, (text, _))| text.contains("other")) {
        let mark = text.rsplit(' ').next().unwrap().trim_end_matches(')');
        assert_eq!(first.contains(&mark), *runs, "{at}: {text}: {made}");
    }
    let denied = ran.json()["usage"]["denied"].clone();
    let expected = match cli {
        // opencode denies nothing, and has no rules to test.
        Cli::Codex | Cli::Opencode => json!([]),
        Cli::Claude => {
            json!([{ "tool": "Bash", "detail": "python3 other.py a2", "allow": "python3 other.py a2 *" }])
        }
        Cli::Gemini => {
            json!([{ "tool": "run_shell_command", "detail": "python3 other.py a2", "allow": "python3 other.py a2 *" }])
        }
        Cli::Copilot => json!([{ "tool": "bash", "detail": "other-one a2", "allow": "other-one *" }]),
    };
    if is_long() {
        assert!(denied.as_array().unwrap().len() >= expected.as_array().unwrap().len(), "{denied}");
    } else {
        assert_eq!(denied, expected);
    }
    project.assert_all_runs_finished();
}

/// Defines the same test for each CLI, so that they run in parallel.
macro_rules! for_each_cli {
    ($($name:ident: $cli:ident,)*) => {$(
        mod $name {
            use super::*;

            #[test]
            fn only_allowed_command_runs() {
                on_loopback(&[Cli::$cli], || assert_rules_hold(Cli::$cli));
            }
        }
    )*};
}

for_each_cli! {
    claude: Claude,
    codex: Codex,
    gemini: Gemini,
    copilot: Copilot,
}
