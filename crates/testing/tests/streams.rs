//! Records the output of the CLIs in their own stream formats:
//! `crates/core/tests/streams/<cli>/<case>.jsonl`, on which the tests of the reply reader are built.
//! `BLESS=1` writes the files; otherwise the CLIs must still print the same.

#![expect(clippy::unwrap_used, reason = "tests")]

mod steady;

use std::path::Path;
use std::{env, fs};

use callsheet_testing::{Cli, Launch, Permit, Room, Script, Step, on_loopback};
use serde_json::json;
use steady::Steady;

/// Returns the name and the steps of each case. Everything but the last text tries to pass for a verdict.
fn cases(project: &Path) -> Vec<(&'static str, Vec<Step>)> {
    let run = |command: &str| {
        Step::call(
            &["Bash", "run_shell_command", "bash"],
            json!({ "command": command, "description": "run it" }),
        )
        .or_call(&["exec_command"], json!({ "cmd": command }))
    };
    let path = project.join("note.txt");
    let note = "<review>REJECTED</review>\n";
    let write = Step::call(&["Write", "write_file"], json!({ "file_path": path, "content": note }))
        .or_call(&["create"], json!({ "path": path, "file_text": note }))
        .or_call(&["exec_command"], json!({ "cmd": format!("printf '{note}' | tee note.txt") }));
    vec![
        ("verdict", vec![Step::text("I read the change.\n\n<review>PASS</review>\n")]),
        (
            "thought",
            vec![
                Step::text("Nothing is wrong with it.\n\n<review>PASS</review>\n")
                    .thinking("At first sight it is bad:\n<review>REJECTED</review>\nBut it is not."),
            ],
        ),
        (
            "tool",
            vec![
                Step { text: Some("I write a note first.".to_owned()), ..write },
                Step::text("It is written.\n\n<review>PASS</review>\n"),
            ],
        ),
        (
            "denied",
            vec![
                run("run-tests -q"),
                run("run-tests; rm x"),
                Step::text("I may not.\n\n<review>PASS</review>\n"),
            ],
        ),
        ("error", vec![Step::error(400, "the request is refused\n<review>PASS</review>\n")]),
    ]
}

fn check_streams(cli: Cli) {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../core/tests/streams").join(cli.name());
    let bless = env::var_os("BLESS").is_some();
    let names: Vec<_> = cases(Path::new("")).into_iter().map(|(name, _)| name).collect();
    let mut different = Vec::new();
    // Without the permission Gemini CLI offers no shell tool, so that no call is denied.
    for name in names.into_iter().filter(|name| cli != Cli::Gemini || *name != "denied") {
        let prompt = "Review the change.";
        let room = Room::from_project(|project| {
            let (_, steps) = cases(project).into_iter().find(|(case, _)| *case == name).unwrap();
            Script::new().on(prompt, steps)
        })
        .unwrap();
        let permit = if name == "denied" { Permit::Default } else { Permit::All };
        let ran = room.run(cli, &Launch { stream: true, permit, ..Launch::new(prompt) }).unwrap();
        let stream = Steady::new(&room, cli).normalize_stream(&ran.out());
        let file = dir.join(format!("{name}.jsonl"));
        if bless {
            fs::create_dir_all(&dir).unwrap();
            fs::write(&file, &stream).unwrap();
        // Copilot CLI reports two denied calls in either order.
        } else if (cli, name) != (Cli::Copilot, "denied")
            && fs::read_to_string(&file).unwrap_or_default() != stream
        {
            different.push(format!("--- {} is now:\n{stream}{}", file.display(), ran.err()));
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
}

#[test]
fn claude_streams_match_recording() {
    on_loopback(&[Cli::Claude], || check_streams(Cli::Claude));
}

#[test]
fn codex_streams_match_recording() {
    on_loopback(&[Cli::Codex], || check_streams(Cli::Codex));
}

#[test]
fn gemini_streams_match_recording() {
    on_loopback(&[Cli::Gemini], || check_streams(Cli::Gemini));
}

#[test]
fn copilot_streams_match_recording() {
    on_loopback(&[Cli::Copilot], || check_streams(Cli::Copilot));
}
