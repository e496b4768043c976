//! Records the output of the CLIs in their own stream formats:
//! `crates/core/tests/streams/<cli>/<case>.jsonl`, on which the tests of the reply reader are built.
//! `BLESS=1` writes the files; otherwise the CLIs must still print the same.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::path::{Path, PathBuf};
use std::{env, fs};

use callsheet_testing::{Cli, Launch, Permit, Room, Script, Step, on_loopback};
use serde_json::{Value, json};

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
            vec![run("pytest -q"), run("pytest; rm x"), Step::text("I may not.\n\n<review>PASS</review>\n")],
        ),
        ("error", vec![Step::error(400, "the request is refused\n<review>PASS</review>\n")]),
    ]
}

fn check_streams(cli: Cli) {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../core/tests/streams").join(cli.name());
    let bless = env::var_os("BLESS").is_some();
    let names: Vec<_> = cases(Path::new("")).into_iter().map(|(name, _)| name).collect();
    let mut different = Vec::new();
    for name in names {
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
        } else if fs::read_to_string(&file).unwrap_or_default() != stream {
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

/// Replaces exactly the values that differ from run to run and from machine to machine.
struct Steady {
    paths: Vec<(String, &'static str)>,
    ids: Vec<String>,
}

impl Steady {
    fn new(room: &Room, cli: Cli) -> Self {
        let dashed = |path: PathBuf| path.display().to_string().replace(['/', '.', '_'], "-");
        let paths = vec![
            (room.path().display().to_string(), "/room"),
            (dashed(room.path().to_owned()), "-room"),
            (cli.home().unwrap().display().to_string(), "/cli"),
            // Copilot names the folder of its own files after the platform.
            ("linux-arm64".to_owned(), "linux-x64"),
        ];
        Self { paths, ids: Vec::new() }
    }

    fn normalize_stream(&mut self, stream: &str) -> String {
        let mut out = String::new();
        for line in stream.lines() {
            let mut event: Value = serde_json::from_str(line).unwrap();
            // Ensures that the stored file has the CLI's own JSON formatting.
            assert_eq!(event.to_string(), line);
            self.normalize_value(&mut event);
            out += &format!("{event}\n");
        }
        out
    }

    fn normalize_value(&mut self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.normalize_text(text),
            Value::Array(values) => values.iter_mut().for_each(|value| self.normalize_value(value)),
            Value::Object(map) => {
                for (key, value) in map {
                    let measured = ["_ms", "Ms", "Bytes"].iter().any(|unit| key.ends_with(unit));
                    if value.is_number() && measured {
                        *value = json!(0);
                    } else if key == "metrics" {
                        // Lengths and token counts, which depend on the paths.
                        *value = json!({});
                    } else if key == "messaging_socket_path" {
                        // Named after the process.
                        *value = json!("/room/tmp/socket");
                    } else {
                        self.normalize_value(value);
                    }
                }
            }
            _ => {}
        }
    }

    fn normalize_text(&mut self, text: &str) -> String {
        let mut rest = text.to_owned();
        for (path, name) in &self.paths {
            rest = rest.replace(path, name);
        }
        if let Some((_shell, command)) = rest.split_once(" -lc ").filter(|(shell, _)| shell.starts_with('/'))
        {
            rest = format!("/bin/bash -lc {command}");
        }
        let mut out = String::new();
        while let Some(first) = rest.chars().next() {
            let len = if has_shape(&rest, "hhhhhhhh-hhhh-hhhh-hhhh-hhhhhhhhhhhh") {
                let id = &rest[..36];
                let known = self.ids.iter().position(|seen| seen == id);
                let number = known.unwrap_or_else(|| {
                    self.ids.push(id.to_owned());
                    self.ids.len() - 1
                });
                out += &format!("00000000-0000-4000-8000-{number:012}");
                36
            } else if has_shape(&rest, "dddd-dd-ddTdd:dd:dd.ddd") {
                out += "2000-01-01T00:00:00.000";
                23
            } else if has_shape(&rest, "_ddddddddddddd_d") {
                out += "_0000000000000";
                14
            } else {
                out.push(first);
                first.len_utf8()
            };
            rest.drain(..len);
        }
        out
    }
}

/// Checks whether a text begins like the pattern, in which `h` is any hexadecimal digit and `d` any decimal
/// one.
fn has_shape(text: &str, pattern: &str) -> bool {
    text.len() >= pattern.len()
        && text.bytes().zip(pattern.bytes()).all(|(byte, wanted)| match wanted {
            b'h' => byte.is_ascii_hexdigit(),
            b'd' => byte.is_ascii_digit(),
            _ => byte == wanted,
        })
}
