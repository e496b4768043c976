//! Tests `agents` and `doctor` on a machine that has only the programs a test installs.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use callsheet_testing::{CommandOutput, TestProject, run_command};
use serde_json::{Value, json};

/// Runs a command with these shell scripts as the only programs in `PATH`.
fn run_with_programs(project: &TestProject, programs: &[(&str, &str)], args: &[&str]) -> CommandOutput {
    let bin = project.home().join("bin");
    fs::create_dir_all(&bin).unwrap();
    for (name, script) in programs {
        let path = bin.join(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let found = run_command(project.command().env("PATH", &bin).args(args));
    let shown = bin.display().to_string();
    CommandOutput { stdout: found.out().replace(&shown, "BIN").into(), ..found }
}

const CLAUDE: (&str, &str) = ("claude", "[ \"$1\" = --version ] && echo '2.1.197 (Claude Code)'");

#[test]
fn agents_lists_installed_versions() {
    let project = TestProject::new();
    // Fails and prints no version.
    let copilot = ("copilot", "echo oops >&2; exit 1");
    let found = run_with_programs(&project, &[CLAUDE, copilot], &["agents"]);
    assert_eq!(
        found,
        CommandOutput::new(
            0,
            "claude     Claude Code    2.1.197 (Claude Code)  BIN/claude\n\
                  codex      Codex          `codex` is not installed\n\
                  command    A command      any program\n\
                  copilot    Copilot CLI    BIN/copilot\n\
                  gemini     Gemini CLI     `gemini` is not installed\n\
                  opencode   opencode       `opencode` is not installed\n",
            ""
        )
    );
    let json = run_with_programs(&project, &[], &["--json", "agents"]).json();
    assert_eq!(
        json["items"][0],
        json!({
            "agent": "claude", "name": "Claude Code", "source": "builtin:agents/claude.toml", "program": "claude",
            "path": "BIN/claude", "version": "2.1.197 (Claude Code)", "prompt_by": ["stdin", "file", "terminal"],
        })
    );
}

#[test]
fn project_agent_program_is_not_started() {
    let project = TestProject::new();
    let own = "name = \"Own\"\n[start]\nprogram = \"own\"\nversion = [\"--version\"]\n";
    project.write(".callsheet/agents/own.toml", own);
    let trap = project.home().join("trapped");
    let script = format!("touch '{}'", trap.display());
    for command in ["agents", "doctor"] {
        let found = run_with_programs(&project, &[("own", &script)], &[command]);
        assert!(found.out().contains("BIN/own"), "{}", found.out());
        assert!(!trap.exists());
    }
}

fn row(name: &str, state: &str, detail: &str, hint: &str) -> Value {
    let hints: Vec<&str> = Some(hint).filter(|hint| !hint.is_empty()).into_iter().collect();
    json!({ "name": name, "state": state, "detail": detail, "hints": hints })
}

#[test]
fn doctor_reports_missing_programs_with_fixes() {
    let project = TestProject::new();
    let all = [("git", "echo git version 2.47.3"), ("tmux", "echo tmux 3.3a"), CLAUDE];
    let good = run_with_programs(&project, &all, &["doctor"]);
    assert_eq!(
        good,
        CommandOutput::new(
            0,
            "good    git         git version 2.47.3\n\
                  good    tmux        tmux 3.3a\n\
                  absent  folder      no folder .callsheet\n                    run `callsheet init` to create it\n\
                  good    sqlite      SQLITE, can create and read a ledger\n\
                  absent  ledger      not created yet\n                    the first `callsheet run` creates it\n\
                  good    mcp         `callsheet` answers\n\
                  good    claude      2.1.197 (Claude Code) (BIN/claude)\n\
                  absent  codex       `codex` is not installed\n\
                  absent  copilot     `copilot` is not installed\n\
                  absent  gemini      `gemini` is not installed\n\
                  absent  opencode    `opencode` is not installed\n"
                .replace("SQLITE", rusqlite::version()),
            ""
        )
    );
    let poor = TestProject::new();
    poor.write(".callsheet/config.toml", "agent = \"codex\"\n");
    fs::set_permissions(poor.path().join(".callsheet"), fs::Permissions::from_mode(0o777)).unwrap();
    let found = run_with_programs(&poor, &[("claude", "exit 3")], &["--json", "doctor"]);
    assert_eq!(found.code, Some(1));
    let rows = [
        row(
            "git",
            "bad",
            "`git` is not installed",
            "install git; callsheet reads the changes of a run from it",
        ),
        row("tmux", "absent", "`tmux` is not installed", "install tmux to run agents in a terminal"),
        row("folder", "bad", "other users can write to .callsheet", "run `chmod go-w .callsheet`"),
        row("sqlite", "good", &format!("{}, can create and read a ledger", rusqlite::version()), ""),
        row("mcp", "good", "`callsheet` answers", ""),
        row("claude", "absent", "BIN/claude does not report its version", "run `claude` by hand to see why"),
        row(
            "codex",
            "bad",
            "`codex` is not installed, and is the configured agent",
            "install Codex, or name another agent in the configuration",
        ),
    ];
    let mut all = found.json()["items"].as_array().unwrap().clone();
    let ledger = all.remove(4);
    assert_eq!((&ledger["name"], &ledger["state"]), (&json!("ledger"), &json!("absent")));
    assert_eq!(all[..7], rows);
}

#[test]
fn doctor_tests_sqlite() {
    let project = TestProject::new();
    let nowhere = project.path().join("nowhere");
    let mut doctor = project.command();
    let output = run_command(doctor.args(["--json", "doctor"]).env("TMPDIR", &nowhere));
    let sqlite = output.json()["items"]
        .as_array()
        .unwrap()
        .iter()
        .find(|row| row["name"] == "sqlite")
        .unwrap()
        .clone();
    assert_eq!((output.code, &sqlite["state"]), (Some(1), &json!("bad")), "{sqlite}");
    assert_eq!(sqlite["hints"], json!(["check that TMPDIR is writable and has free space"]));
}
