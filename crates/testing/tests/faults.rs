//! Records the output of the CLIs whose model does not answer, and that of long work:
//! `crates/core/tests/streams/faults/<cli>/<case>.out` and `.err`, and `crates/core/tests/streams/work/<cli>.jsonl`.
//! `BLESS=1` writes the files; otherwise the CLIs must still print the same.

#![expect(clippy::unwrap_used, reason = "tests")]

mod steady;

use std::path::{Path, PathBuf};
use std::{env, fs};

use callsheet_testing::{Cli, Launch, Room, Script, Step, error_body, on_loopback, refused_key, used_quota};
use serde_json::json;
use steady::Steady;

const PROMPT: &str = "Review the change.";

fn cases(cli: Cli) -> Vec<(&'static str, Step)> {
    let limited = error_body("rate_limit_error", 429, "RESOURCE_EXHAUSTED", "Slow down");
    let overloaded = error_body("overloaded_error", 503, "UNAVAILABLE", "Overloaded");
    let failure = Step::fail_with;
    vec![
        ("refused", refused_key()),
        ("limited", failure(429, limited, &[("retry-after", "1")])),
        ("quota", used_quota(cli)),
        ("overloaded", failure(if cli == Cli::Claude { 529 } else { 503 }, overloaded, &[])),
        ("dropped", Step::drop_connection()),
    ]
}

/// Sets a low limit of attempts, where a CLI has one.
fn launch(cli: Cli, case: &str, room: &Room) -> Launch<'static> {
    let mut launch = Launch { stream: true, ..Launch::new(PROMPT) };
    let mut set = |name: &str, value: &str| launch.env.push((name.to_owned(), value.to_owned()));
    match cli {
        Cli::Claude => {
            set("CLAUDE_CODE_MAX_RETRIES", "3");
            if case == "quota" {
                // Only a subscription has this limit.
                set("ANTHROPIC_API_KEY", "");
                set("CLAUDE_CODE_OAUTH_TOKEN", "sk-ant-oat01-test");
            }
        }
        Cli::Codex => {
            launch.extra = vec!["-c".to_owned(), "model_providers.mock.stream_max_retries=3".to_owned()];
        }
        Cli::Gemini => {
            let settings = json!({
                "security": { "auth": { "selectedType": "gemini-api-key" } },
                "privacy": { "usageStatisticsEnabled": false },
                "general": { "enableAutoUpdate": false, "maxAttempts": 2 },
            });
            fs::create_dir_all(room.home().join(".gemini")).unwrap();
            fs::write(room.home().join(".gemini/settings.json"), settings.to_string()).unwrap();
        }
        Cli::Copilot | Cli::Opencode => {}
    }
    launch
}

/// Keeps the lines of standard error about attempts, with the same delay in each.
fn normalize_errors(text: &str) -> String {
    let is_kept = |line: &&str| {
        ["Attempt ", "Suggested retry", "Please retry"].iter().any(|word| line.starts_with(word))
    };
    let digits = |word: &str| {
        let is_delay = word.ends_with("ms...") && word.starts_with(|c: char| c.is_ascii_digit());
        if is_delay { "1000ms...".to_owned() } else { word.to_owned() }
    };
    let lines = text.lines().filter(is_kept);
    lines.map(|line| format!("{}\n", line.split(' ').map(digits).collect::<Vec<_>>().join(" "))).collect()
}

/// Replaces the time for which Copilot CLI waited in all, which differs.
fn hide_wait(stream: &str) -> String {
    const BEFORE: &str = "total retry wait time: ";
    let mut parts = stream.split(BEFORE);
    let mut hidden = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        hidden += &format!("{BEFORE}5.00{rest}");
    }
    hidden
}

struct Recorder {
    different: Vec<String>,
}

impl Recorder {
    fn compare(&mut self, file: PathBuf, text: &str, errors: &str) {
        if env::var_os("BLESS").is_some() {
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, text).unwrap();
        } else if fs::read_to_string(&file).unwrap_or_default() != text {
            self.different.push(format!("--- {} is now:\n{text}{errors}", file.display()));
        }
    }
}

fn streams() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../core/tests/streams")
}

fn check_faults(cli: Cli) {
    let mut recorder = Recorder { different: Vec::new() };
    for (name, step) in cases(cli) {
        let room = Room::new(Script::new().on(PROMPT, vec![step])).unwrap();
        let ran = room.run(cli, &launch(cli, name, &room)).unwrap();
        let mut steady = Steady::new(&room, cli);
        let dir = streams().join("faults").join(cli.name());
        let out = hide_wait(&steady.normalize_stream(&ran.out()));
        recorder.compare(dir.join(format!("{name}.out")), &out, &ran.err());
        let errors = normalize_errors(&ran.err());
        if !errors.is_empty() {
            recorder.compare(dir.join(format!("{name}.err")), &errors, &ran.err());
        }
    }
    assert!(recorder.different.is_empty(), "{}", recorder.different.join("\n"));
}

/// Returns the steps of long work: files that are written and read, and commands.
fn work(project: &Path, count: usize) -> Vec<Step> {
    let step = |number: usize| {
        let path = project.join(format!("notes/day{number}/a note with a long name, number {number}.txt"));
        let text = format!("{{\"number\": {number}}}\n");
        match number % 3 {
            0 => Step::call(&["Write", "write_file"], json!({ "file_path": path, "content": text }))
                .or_call(&["create"], json!({ "path": path, "file_text": text }))
                .or_call(&["exec_command"], json!({ "cmd": format!("echo '{{\"number\": {number}}}'") })),
            1 => Step::call(
                &["Bash", "run_shell_command"],
                json!({ "command": format!("echo '{{\"a\": {number}}}' | wc -c"), "description": "count" }),
            )
            .or_call(
                &["bash"],
                json!({ "command": format!("echo '{{\"a\": {number}}}' | wc -c"), "description": "count" }),
            )
            .or_call(&["exec_command"], json!({ "cmd": format!("printf 'line {number}\\n' | wc -c") })),
            _ => {
                let path = project.join(format!(
                    "notes/day{}/a note with a long name, number {}.txt",
                    number - 2,
                    number - 2
                ));
                Step::call(&["Read", "read_file"], json!({ "file_path": path }))
                    .or_call(&["view"], json!({ "path": path }))
                    .or_call(&["exec_command"], json!({ "cmd": format!("seq {number} | tail -n 1") }))
            }
        }
    };
    let with_text = |number: usize| Step { text: Some(format!("I begin step {number}.")), ..step(number) };
    let mut steps: Vec<Step> = (0..count).map(with_text).collect();
    steps.push(Step::text("It is done.\n\n<review>PASS</review>\n"));
    steps
}

/// Repeats a recording in other folders until it has this many events.
fn repeat_with_changes(stream: &str, least: usize) -> String {
    let mut all = stream.to_owned();
    for round in 1.. {
        if all.lines().count() >= least {
            break;
        }
        all += &stream.replace("/notes/", &format!("/notes/{round}/"));
    }
    all
}

fn check_work(cli: Cli, count: usize) {
    let room = Room::from_project(|project| Script::new().on(PROMPT, work(project, count))).unwrap();
    let ran = room.run(cli, &Launch { stream: true, ..Launch::new(PROMPT) }).unwrap();
    let stream = Steady::new(&room, cli).normalize_stream(&ran.out());
    assert!(stream.lines().count() >= 50, "{} events: {}{}", stream.lines().count(), ran.out(), ran.err());
    let stream = repeat_with_changes(&stream, 200);
    let mut recorder = Recorder { different: Vec::new() };
    // The order of parallel events and the sizes of outputs differ, so a recording is not compared.
    if env::var_os("BLESS").is_some() {
        recorder.compare(streams().join("work").join(format!("{}.jsonl", cli.name())), &stream, "");
    }
}

#[test]
fn claude_faults_match_recording() {
    on_loopback(&[Cli::Claude], || check_faults(Cli::Claude));
}

#[test]
fn codex_faults_match_recording() {
    on_loopback(&[Cli::Codex], || check_faults(Cli::Codex));
}

#[test]
fn gemini_faults_match_recording() {
    on_loopback(&[Cli::Gemini], || check_faults(Cli::Gemini));
}

#[test]
fn copilot_faults_match_recording() {
    on_loopback(&[Cli::Copilot], || check_faults(Cli::Copilot));
}

#[test]
fn claude_work_has_many_events() {
    on_loopback(&[Cli::Claude], || check_work(Cli::Claude, 75));
}

#[test]
fn codex_work_has_many_events() {
    on_loopback(&[Cli::Codex], || check_work(Cli::Codex, 75));
}

#[test]
fn gemini_work_has_many_events() {
    on_loopback(&[Cli::Gemini], || check_work(Cli::Gemini, 16));
}

#[test]
fn copilot_work_has_many_events() {
    on_loopback(&[Cli::Copilot], || check_work(Cli::Copilot, 24));
}
