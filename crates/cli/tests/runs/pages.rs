//! The page after a run, for every outcome and every agent, from recorded streams.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use callsheet_testing::{
    Cli, CommandOutput, Room, Script, Step, mask_page, on_loopback, refused_key, run_command, run_with_input,
    used_quota, wait_until,
};
use serde_json::json;

use crate::agents::{cli_command, run_args, write_step};
use crate::project::RunProject;

/// An outcome: the stream that the agent prints, what else it does, and the exit code of callsheet.
struct PageCase {
    name: &'static str,
    stream: &'static str,
    /// The end of the script of the agent.
    script: &'static str,
    flags: &'static [&'static str],
    code: i32,
}

const CASES: &[PageCase] = &[
    PageCase {
        name: "success",
        stream: "tool",
        script: "echo done > src/a.txt",
        flags: &["--check", "done=grep -q done src/a.txt"],
        code: 0,
    },
    PageCase {
        name: "failing-check",
        stream: "tool",
        script: "echo no > src/a.txt",
        flags: &["--check", "done=grep done src/a.txt README.md"],
        code: 1,
    },
    PageCase {
        name: "scope-violation",
        stream: "tool",
        script: "echo done > src/a.txt; echo out > leaked.txt",
        flags: &[],
        code: 5,
    },
    PageCase { name: "nothing-changed", stream: "tool", script: "true", flags: &[], code: 0 },
    PageCase { name: "denied-tool", stream: "denied", script: "true", flags: &[], code: 0 },
    PageCase { name: "missing-key", stream: "refused", script: "exit 1", flags: &[], code: 6 },
    // Parked, if the agent reports the end of its quota.
    PageCase { name: "quota", stream: "quota", script: "exit 1", flags: &[], code: 6 },
    PageCase {
        name: "agent-failed",
        stream: "error",
        script: "echo 'cannot reach the model' >&2; exit 1",
        flags: &[],
        code: 6,
    },
];

/// Runs an agent whose output was recorded, and then does what the script says.
fn run_case(project: &RunProject, agent: &str, case: &PageCase) -> CommandOutput {
    write_agent(project, agent, case);
    let mut command = project.command();
    command.args(["run", "-q", "-a", agent, "--write", "src/**", "--task-id", "T-1"]).args(case.flags);
    run_command(command.arg("Do it."))
}

/// Writes a program in the place of an agent, which prints a recorded stream. Returns its number of lines.
fn write_agent(project: &RunProject, agent: &str, case: &PageCase) -> usize {
    let streams = Path::new(env!("CARGO_MANIFEST_DIR")).join("../core/tests/streams");
    let work = streams.join(agent).join(case.stream).with_extension("jsonl");
    let fault = streams.join("faults").join(agent).join(case.stream).with_extension("out");
    let stream = fs::read_to_string(if work.exists() { work } else { fault }).unwrap();
    let lines = stream.lines().count();
    let stream = project.write_beside("stream.jsonl", stream);
    let version = "case \"$1\" in --version) echo 99.0.0; exit;; esac";
    let (stream, end) = (stream.display(), case.script);
    project.write_program(agent, &format!("#!/bin/sh\n{version}\ncat > /dev/null\ncat {stream}\n{end}\n"));
    lines
}

/// Types every command that a page offers, and expects that callsheet understands it.
fn type_next_commands(project: &RunProject, page: &str) {
    let next = page.lines().skip_while(|line| *line != "next:").skip(1);
    let commands: Vec<&str> = next.filter_map(|line| line.trim_start().split("  ").next()).collect();
    assert!(!commands.is_empty(), "{page}");
    for line in commands {
        let line = line.strip_prefix("callsheet ").unwrap().replace('…', "more");
        let mut words = callsheet_core::split_words(&line).unwrap();
        // There is no person at a terminal to be asked.
        words.extend((words[0] == "decide").then(|| "--yes".to_owned()));
        let typed = project.run(&words);
        assert!(matches!(typed.code, Some(0 | 1 | 5 | 6)), "`{line}`: {typed:?}");
    }
}

/// Compares the pages of an agent with its golden file, and types the commands that they offer.
fn assert_pages(agent: &str) {
    let mut pages = String::new();
    // Without the permission Gemini CLI offers its model no shell tool, so that none is denied.
    let is_possible = |case: &&PageCase| agent != "gemini" || case.name != "denied-tool";
    for case in CASES.iter().filter(is_possible) {
        let project = RunProject::new();
        let ran = run_case(&project, agent, case).expect_code(case.code);
        pages += &format!("== {}\n{}\n", case.name, hide_moments(&mask_page(&ran.out(), "RUN", "TIME")));
        // `show` has the same page.
        assert!(project.run(["show", "last"]).out().contains(&ran.out()), "{}", case.name);
        type_next_commands(&project, &ran.out());
    }
    pages += &format!("== lost\n{}", lost_page(agent));
    compare_golden(&format!("{agent}.txt"), &pages);
}

/// Hides the time at which a quota is available again, which depends on the clock.
fn hide_moments(page: &str) -> String {
    let line = |line: &str| match line.split_once(" until ") {
        Some((before, _)) => format!("{before} until …\n"),
        None => format!("{line}\n"),
    };
    page.lines().map(line).collect()
}

/// Returns the page of a run whose callsheet was killed.
fn lost_page(agent: &str) -> String {
    let project = RunProject::new();
    let script = "echo half > src/a.txt; exec sleep 600";
    let case = PageCase { name: "lost", stream: "tool", script, flags: &[], code: 0 };
    let lines = write_agent(&project, agent, &case);
    let mut command = project.command();
    command.args(["run", "-q", "-a", agent, "--write", "src/**", "Do it."]);
    let mut running = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    wait_until("the agent writes", || project.read("src/a.txt") == "half\n");
    wait_until("its output is recorded", || {
        project.run(["show", "last", "--stream", "stdout"]).out().lines().count() == lines
    });
    running.kill().unwrap();
    running.wait().unwrap();
    project.wait_for_processes(Duration::from_secs(60));
    project.run(["-q", "recover"]).expect_code(0);
    let page = project.run(["show", "last"]).expect_code(0).out();
    let result =
        page.lines().skip_while(|line| !line.starts_with("run r1  lost")).take_while(|line| !line.is_empty());
    mask_page(&result.map(|line| format!("{line}\n")).collect::<String>(), "RUN", "TIME")
}

fn compare_golden(name: &str, page: &str) {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/runs/pages").join(name);
    if std::env::var_os("BLESS").is_some() {
        fs::create_dir_all(golden.parent().unwrap()).unwrap();
        fs::write(&golden, page).unwrap();
    }
    assert_eq!(page, fs::read_to_string(&golden).unwrap_or_default(), "{name}");
}

/// A case with a real CLI on the mock model.
struct CliCase {
    name: &'static str,
    /// The files that the model writes.
    files: &'static [&'static str],
    /// The steps after that.
    steps: fn(Cli) -> Vec<Step>,
    flags: &'static [&'static str],
    /// The exit code of callsheet.
    code: i32,
}

/// The first two run always, the others in the long form.
const CLI_CASES: [CliCase; 8] = [
    CliCase {
        name: "failing-check",
        files: &["src/in.txt"],
        steps: last_words,
        flags: &["--check", "bad=grep absent README.md src/in.txt"],
        code: 1,
    },
    CliCase {
        name: "agent-failed",
        files: &[],
        steps: |_| vec![Step::error(400, "the request is refused")],
        flags: &[],
        code: 6,
    },
    CliCase {
        name: "success",
        files: &["src/in.txt"],
        steps: last_words,
        flags: &["--check", "good=true"],
        code: 0,
    },
    CliCase {
        name: "scope-violation",
        files: &["src/in.txt", "leaked.txt"],
        steps: last_words,
        flags: &[],
        code: 5,
    },
    CliCase { name: "nothing-changed", files: &[], steps: last_words, flags: &[], code: 0 },
    // Gemini CLI offers its model a shell only if some command is allowed. Codex denies nothing: every command runs in its
    // sandbox.
    CliCase {
        name: "denied-tool",
        files: &[],
        steps: |_| vec![denied_call(), Step::text("I could not test it.")],
        flags: &["--allow", "make-it *"],
        code: 0,
    },
    CliCase { name: "missing-key", files: &[], steps: |_| vec![refused_key()], flags: &[], code: 6 },
    CliCase { name: "quota", files: &[], steps: |cli| vec![used_quota(cli)], flags: &[], code: 6 },
];

fn last_words(_: Cli) -> Vec<Step> {
    vec![Step::text("The timeout is fixed.\n\nI changed one file.")]
}

fn denied_call() -> Step {
    Step::call(
        &["Bash", "run_shell_command", "bash"],
        json!({ "command": "python3 tests.py", "description": "test it" }),
    )
    .or_call(&["exec_command"], json!({ "cmd": "test -e README.md" }))
}

/// Compares the pages after runs of a real CLI with golden files.
fn assert_cli_pages(cli: Cli) {
    let cases = if crate::is_long() { &CLI_CASES[..] } else { &CLI_CASES[..2] };
    for case in cases {
        let project = RunProject::in_private_dir();
        let steps = case.files.iter().map(|file| write_step(project.path(), file)).chain((case.steps)(cli));
        let room = Room::new(Script::new().on_marker("MARK", steps)).unwrap();
        let flags = [&["-q", "--write", "src/**"], case.flags].concat();
        let mut command = cli_command(&project, &room, cli);
        if cli == Cli::Claude && case.name == "quota" {
            // Only a subscription has this limit.
            command.env("ANTHROPIC_API_KEY", "").env("CLAUDE_CODE_OAUTH_TOKEN", "sk-ant-oat01-test");
        }
        let ran = run_with_input(command.args(run_args(cli, &flags)), b"MARK").expect_code(case.code);
        // The CLI names its own files in its errors.
        let program = cli.program().unwrap();
        let installed = program.ancestors().find(|path| path.ends_with("node_modules")).unwrap();
        let page = ran.out().replace(&installed.display().to_string(), "node_modules");
        let page = hide_moments(&mask_page(&page, "RUN", "TIME"));
        let page = hide_port(&hide_shutdown(&page));
        compare_golden(&format!("{}/{}.txt", cli.name(), case.name), &page);
    }
}

/// Hides the port of the mock model.
fn hide_port(page: &str) -> String {
    const HOST: &str = "127.0.0.1:";
    let mut parts = page.split(HOST);
    let first = parts.next().unwrap_or_default().to_owned();
    let number = |c: char| c.is_ascii_digit();
    parts.fold(first, |page, part| format!("{page}{HOST}PORT{}", part.trim_start_matches(number)))
}

/// Hides the line that Copilot CLI sometimes prints when it is ended.
fn hide_shutdown(page: &str) -> String {
    let is_kept = |line: &&str| !line.contains("after disposal has started");
    page.lines().filter(is_kept).map(|line| format!("{line}\n")).collect()
}

#[test]
fn real_claude_pages_match() {
    on_loopback(&[Cli::Claude], || assert_cli_pages(Cli::Claude));
}

#[test]
fn real_codex_pages_match() {
    on_loopback(&[Cli::Codex], || assert_cli_pages(Cli::Codex));
}

#[test]
fn real_gemini_pages_match() {
    on_loopback(&[Cli::Gemini], || assert_cli_pages(Cli::Gemini));
}

#[test]
fn real_copilot_pages_match() {
    on_loopback(&[Cli::Copilot], || assert_cli_pages(Cli::Copilot));
}

#[test]
fn claude_pages_match_golden_file() {
    assert_pages("claude");
}

#[test]
fn codex_pages_match_golden_file() {
    assert_pages("codex");
}

#[test]
fn gemini_pages_match_golden_file() {
    assert_pages("gemini");
}

#[test]
fn copilot_pages_match_golden_file() {
    assert_pages("copilot");
}

#[test]
fn opencode_pages_match_golden_file() {
    assert_pages("opencode");
}
