//! Flows with the real CLIs on the mock model, several of them in one flow.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use callsheet_mock::{Cli, Room, Script, Step, on_loopback};
use serde_json::{Value, json};

/// A file that the agent writes, by whichever tool it has for that.
fn write(project: &Path, file: &str, text: &str) -> Step {
    let path = project.join(file);
    Step::call(&["Write", "write_file"], json!({ "file_path": path, "content": text }))
        .or_call(&["create"], json!({ "path": path, "file_text": text }))
}

/// The program in a room, with the settings of all these CLIs.
fn callsheet(room: &Room, clis: &[Cli], args: &[&str]) -> Command {
    let mut env: BTreeMap<String, String> = BTreeMap::new();
    let mut path = Vec::new();
    for cli in clis {
        path.push(cli.program().unwrap().parent().unwrap().display().to_string());
        env.extend(room.env(*cli).unwrap());
    }
    path.push(std::env::var("PATH").unwrap());
    env.insert("PATH".into(), path.join(":"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_callsheet"));
    command.current_dir(room.project()).env_clear().envs(env).args(["-C", "."]).args(args);
    command
}

fn repository(room: &Room) {
    let project = room.project();
    fs::create_dir(project.join("src")).unwrap();
    fs::write(project.join("src/lib.txt"), "lib\n").unwrap();
    let identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"];
    for args in [&["init", "-q"][..], &["add", "-A"], &["commit", "-q", "-m", "first"]] {
        let mut git = Command::new("git");
        assert!(git.current_dir(&project).args(identity).args(args).status().unwrap().success());
    }
}

/// The lines that a command printed, where it went as expected.
fn lines(command: &mut Command, code: i32) -> Vec<Value> {
    let output = command.output().unwrap();
    let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert_eq!(output.status.code(), Some(code), "{err}\n{}", out.lines().last().unwrap_or_default());
    out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Phase, round and verdict of every lane that ended.
fn story(lines: &[Value]) -> Vec<String> {
    let ended = lines.iter().filter(|line| line["event"] == "lane_ended");
    let word = |line: &Value| {
        let words = line["data"]["evidence"].as_array().unwrap().iter().filter_map(Value::as_str);
        words
            .filter(|word| word.starts_with("reply.") || word.starts_with("submission."))
            .collect::<Vec<_>>()
            .join(" ")
    };
    ended
        .map(|line| {
            format!("{} {} {}", line["data"]["entry"], line["data"]["lane"].as_str().unwrap(), word(line))
        })
        .collect()
}

const CLIS: [Cli; 3] = [Cli::Gemini, Cli::Codex, Cli::Claude];

#[test]
fn t6_u5_a_change_by_gemini_codex_and_claude() {
    on_loopback(&CLIS, || {
        let folder = ".callsheet/changes/login";
        let room = Room::with(|project| {
            let plan = |last: &str| {
                [
                    write(project, &format!("{folder}/proposal.md"), "# Proposal\n"),
                    write(project, &format!("{folder}/specs/login.md"), "# Spec\n"),
                    write(project, &format!("{folder}/tasks.md"), "- [ ] 1.1 The form\n"),
                    Step::text(last),
                ]
            };
            // What an earlier round said tells a later one from it.
            Script::new()
                .on_marker("PLAN-TWO", plan("Whole.\n<review>PASS</review>"))
                .on_marker("PLAN-ONE", plan("PLAN-TWO\n<review>PASS</review>"))
                .on_marker("CHALLENGE-ONE", [Step::text("It holds.\n<review>PASS</review>")])
                .on_marker(
                    "You implement",
                    [
                        write(project, "src/login.txt", "form\n"),
                        Step::text("<task_status id=\"1.1\">COMPLETED</task_status>"),
                    ],
                )
                .on_marker("REVIEW-ONE", [Step::text("Fixed.\n<review>PASS</review>")])
                .on_marker("You plan", plan("PLAN-ONE\n<review>NEEDS_REVISION</review>"))
                .on_marker("You challenge", [Step::text("CHALLENGE-ONE\n<review>NEEDS_REVISION</review>")])
                .on_marker("You review", [Step::text("REVIEW-ONE\n<review>NEEDS_CHANGES</review>")])
                .on_marker("You close", [Step::text("Archived.")])
        })
        .unwrap();
        repository(&room);
        let start = [
            "--json",
            "-q",
            "flow",
            "start",
            "sdd",
            "Add a login",
            "--id",
            "login",
            "--agent-for",
            "plan=gemini:gemini-2.5-pro",
            "--agent-for",
            "challenge=codex",
            "--agent-for",
            "review=codex",
            "--agent",
            "claude",
            "--check",
            "form=test -e src/lib.txt",
            "--timeout",
            "3m",
        ];
        let told = lines(&mut callsheet(&room, &CLIS, &start), 0);
        assert_eq!(
            story(&told),
            [
                "1 all reply.NEEDS_REVISION",
                "2 all reply.PASS",
                "3 all reply.NEEDS_REVISION",
                "4 all reply.PASS",
                "5 all reply.PASS",
                "6 1.1 reply.complete",
                "7 all reply.NEEDS_CHANGES",
                "8 all reply.complete",
                "9 all reply.PASS",
                "10 all ",
            ]
        );
        assert_eq!(fs::read_to_string(room.project().join("src/login.txt")).unwrap(), "form\n");
        // Every prompt reached its model as it was recorded.
        let said: Vec<String> =
            room.mock.requests().iter().flat_map(callsheet_mock::Request::user_texts).collect();
        for run in told.last().unwrap()["runs"].as_array().unwrap() {
            let prompt =
                callsheet(&room, &CLIS, &["show", run.as_str().unwrap(), "--prompt"]).output().unwrap();
            let prompt = String::from_utf8(prompt.stdout).unwrap();
            assert!(said.contains(&prompt), "{run}");
        }
    });
}
