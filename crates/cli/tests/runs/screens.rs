//! Screens of progress in a real terminal, at three widths: `screens/<case>-<columns>.txt`.
//! `BLESS=1` writes the files; times and ids are the same in all of them.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{env, fs};

use callsheet_testing::wait_until;
use serde_json::json;

use crate::model_faults::{INIT, retry, write_claude};
use crate::person_at_terminal::Terminal;
use crate::project::RunProject;
use crate::terminals::has_tmux;

const COLUMNS: [u32; 3] = [120, 80, 40];

/// Replaces ids and times by the same ones, of the same width.
pub(crate) fn normalize(screen: &str) -> String {
    let chars: Vec<char> = screen.chars().collect();
    let is_id = |at: usize| {
        chars.get(at..at + 36).is_some_and(|id| {
            let fits = |(at, c): (usize, &char)| {
                if matches!(at, 8 | 13 | 18 | 23) { *c == '-' } else { c.is_ascii_hexdigit() }
            };
            id.iter().enumerate().all(fits)
        })
    };
    let digit = |at: usize| chars.get(at).is_some_and(char::is_ascii_digit);
    let is_time = |at: usize| digit(at) && chars.get(at + 1) == Some(&':') && digit(at + 2) && digit(at + 3);
    let mut out = String::new();
    let mut at = 0;
    while at < chars.len() {
        if is_id(at) {
            out += "00000000-0000-7000-8000-000000000000";
            at += 36;
        } else if is_time(at) {
            out += "0:00";
            at += 4;
        } else {
            out.push(chars[at]);
            at += 1;
        }
    }
    // A duration is a number and a unit.
    let words: Vec<&str> = out.split(' ').collect();
    let is_unit = |word: &&&str| matches!(word.trim_end_matches([',', ')', ';', '\n']), "ms" | "s");
    let fixed = |(at, word): (usize, &&str)| match words.get(at + 1).filter(is_unit) {
        Some(_) if word.bytes().all(|byte| byte.is_ascii_digit()) => "1".to_owned(),
        _ if at > 0 && is_unit(&word) => word.replace("ms", "s"),
        _ => (*word).to_owned(),
    };
    words.iter().enumerate().map(fixed).collect::<Vec<_>>().join(" ")
}

fn golden(case: &str, columns: u32) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/runs/screens").join(format!("{case}-{columns}.txt"))
}

/// Waits for a screen that stays the same, and compares it with the golden one.
pub(crate) fn check_screen(terminal: &Terminal<'_>, case: &str, columns: u32, shown: &str) {
    let begun = Instant::now();
    let screen = loop {
        let screen = normalize(&terminal.capture_whole(true));
        assert!(begun.elapsed() < Duration::from_secs(90), "{screen}");
        std::thread::sleep(Duration::from_millis(700));
        if screen.contains(shown) && screen == normalize(&terminal.capture_whole(true)) {
            break screen;
        }
    };
    let raw = terminal.capture_whole(false);
    let live = raw.lines().rev().take_while(|line| line.contains("  0:"));
    assert!(
        live.clone().count() > 0 && live.clone().all(|line| line.chars().count() < columns as usize),
        "{raw}"
    );
    let file = golden(case, columns);
    if env::var_os("BLESS").is_some() {
        fs::write(&file, &screen).unwrap();
    }
    assert_eq!(screen, fs::read_to_string(file).unwrap());
}

fn call(id: &str, name: &str, input: &serde_json::Value) -> String {
    json!({
        "type": "assistant",
        "message": {
            "id": id, "content": [{ "type": "tool_use", "id": id, "name": name, "input": input }],
            "usage": { "input_tokens": 6200, "output_tokens": 140, "cache_read_input_tokens": 0 },
        },
    })
    .to_string()
}

fn result() -> String {
    json!({ "type": "user", "message": { "role": "user", "content": [{ "type": "tool_result", "content": "{\"a\": 1}" }] } })
        .to_string()
}

#[test]
fn running_agent_shows_its_call() {
    if !has_tmux() {
        return;
    }
    for columns in COLUMNS {
        let project = RunProject::new();
        let path = project.path().join("crates/app/src/run/progress/line_of_a_terminal.rs");
        let lines = [
            INIT.to_owned(),
            call("m1", "Bash", &json!({ "command": "pytest -q" })),
            result(),
            call("m2", "Read", &json!({ "file_path": path })),
        ];
        write_claude(&project, &lines, "exec sleep 600");
        let terminal = Terminal::open(&project, columns, &["run", "-a", "claude", "--write", "**", "Do it."]);
        check_screen(&terminal, "run", columns, "Read ");
        project.run(["stop", "last"]).expect_code(0);
    }
}

/// No line of a list is longer than the terminal, whatever is in it.
#[test]
fn lists_fit_terminal() {
    if !has_tmux() {
        return;
    }
    let project = RunProject::new();
    let long = "Fix the timeout of the form, which ends every session after a minute although nothing is set";
    let texts =
        [long, "\u{6642}\u{9593}\u{3092}\u{76f4}\u{3059}\u{3053}\u{3068} 1\t2 \u{1f680}\u{1f680}", "Short."];
    for (at, text) in texts.iter().cycle().take(9).enumerate() {
        let (task, text) = (format!("TASK-{at}"), text.repeat(at % 2 + 1));
        let flags = ["--task-id", &task, "--check", "all-of-the-tests=false"];
        let args = [&["-q", "run"], &flags[..2 * (at % 3)], &[&text, "--", "true"]].concat();
        project.run(args);
    }
    for list in ["log", "status"] {
        for columns in COLUMNS {
            let terminal = Terminal::open(&project, columns, &[list]);
            wait_until("the list ends", || terminal.capture_whole(false).contains("it exits with 0"));
            let (lines, joined) = (terminal.capture_whole(false), terminal.capture_whole(true));
            assert_eq!(lines, joined, "{list} at {columns}");
            assert!(lines.contains("TASK") && lines.lines().count() > 5, "{lines}");
        }
    }
}

#[test]
fn retrying_agent_is_shown() {
    if !has_tmux() {
        return;
    }
    for columns in COLUMNS {
        let project = RunProject::new();
        let lines: Vec<String> = [INIT.to_owned()]
            .into_iter()
            .chain((1..=3).map(|attempt| retry(Some(529), attempt, 500)))
            .collect();
        write_claude(&project, &lines, "exec sleep 600");
        let terminal = Terminal::open(&project, columns, &["run", "-a", "claude", "--write", "**", "Do it."]);
        check_screen(&terminal, "retry", columns, "retrying: 529");
        project.run(["stop", "last"]).expect_code(0);
    }
}

#[test]
fn flow_shows_line_for_each_lane() {
    if !has_tmux() {
        return;
    }
    let staged = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/flows/staged.sh");
    for columns in COLUMNS {
        let project = RunProject::new();
        for lane in ["1", "2"] {
            let path = format!("PLACE/src/p{lane}/part_with_a_long_name.txt");
            project.write_beside(
                &format!("lane{lane}.jsonl"),
                call("m1", "Write", &json!({ "file_path": path })) + "\n",
            );
        }
        let beside = project.beside("");
        project.write_program(
            "claude",
            &format!(
                "#!/bin/sh\n[ \"$1\" = --version ] && exit\ncat > \"$0.$$\"\necho '{INIT}'\n\
                 if [ \"$CALLSHEET_PHASE\" = implementing ]; then\n  sed \"s#PLACE#$PWD#\" '{}/lane'$CALLSHEET_LANE.jsonl\n  exec sleep 600\nfi\n\
                 sh '{}' < \"$0.$$\" > /dev/null\n\
                 echo '{{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\"result\":\"Done.\",\"total_cost_usd\":0.21}}'\n",
                beside.display(),
                staged.display()
            ),
        );
        let args = [
            "flow",
            "start",
            "staged",
            "Add login",
            "-a",
            "claude",
            "--by-file",
            "--jobs",
            "2",
            "--id",
            "login",
        ];
        let terminal = Terminal::open(&project, columns, &args);
        check_screen(&terminal, "flow", columns, "Write");
        terminal.send_keys(&["C-c"]);
        let screen = terminal.wait_for_end();
        assert!(screen.contains("it exits with 130"), "{screen}");
    }
}
