//! The MCP server that is attached to the agent of a run: a submission counts once, and only while the run
//! lasts.

use std::fs;
use std::io::Write as _;
use std::process::Stdio;

use callsheet_testing::{
    Cli, Room, Script, Step, check_mcp_session, on_loopback, run_command, run_with_input, wait_for_end,
    wait_until,
};
use serde_json::{Value, json};

use crate::project::RunProject;

/// Returns the messages of a client to the server, with calls of these tools.
fn messages(calls: &[(&str, Value)]) -> String {
    let hello = json!({
        "jsonrpc": "2.0", "id": 0, "method": "initialize",
        "params": { "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } },
    });
    let mut input =
        format!("{hello}\n{}\n", json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    for (id, (name, arguments)) in calls.iter().enumerate() {
        let params = json!({ "name": name, "arguments": arguments });
        let call = json!({ "jsonrpc": "2.0", "id": id + 1, "method": "tools/call", "params": params });
        input.push_str(&format!("{call}\n"));
    }
    input
}

/// Returns the answers to the calls, in order.
fn parse_answers(out: &str) -> Vec<Value> {
    let mut all: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    all.retain(|answer| answer["id"] != 0);
    all.sort_by_key(|answer| answer["id"].as_u64());
    all.into_iter().map(|mut answer| answer["result"].take()).collect()
}

fn submit_from_outside(project: &RunProject, run: &str, calls: &[(&str, Value)]) -> Vec<Value> {
    let mut command = project.command();
    command.args(["mcp", "--session", "session", "--role", "reviewer", "--run", run]);
    parse_answers(&run_with_input(&mut command, messages(calls).as_bytes()).expect_code(0).out())
}

fn review(summary: &str) -> (&'static str, Value) {
    ("submit_review", json!({ "verdict": "pass", "summary": summary }))
}

#[test]
fn m14_submission_counts_once_in_time() {
    let project = RunProject::new();
    fs::create_dir(project.path().join("session")).unwrap();
    let file = project.path().join("session/07_review/review.md");
    // The agent submits, changes the file by hand so that a second write would be visible, and submits the
    // same review and another one.
    fs::write(project.beside("first"), messages(&[review("Good.")])).unwrap();
    fs::write(project.beside("again"), messages(&[review("Good."), review("Good.")])).unwrap();
    fs::write(project.beside("other"), messages(&[review("Better.")])).unwrap();
    let agent = "submit() { \"$BIN\" mcp --session session --role reviewer --run $CALLSHEET_RUN < $W/$1 > $W/$1.out; }\n\
                 submit first; cp session/07_review/review.md $W/written; echo changed by hand > session/07_review/review.md\n\
                 submit again; cp session/07_review/review.md $W/kept; submit other\n\
                 echo up; while ! [ -e $W/go ]; do sleep 0.02; done\n";
    project.write("agent.sh", agent);
    let mut command = project.program_command(&["--role", "reviewer"], &["sh", "agent.sh"]);
    command.env("BIN", env!("CARGO_BIN_EXE_callsheet")).env("W", project.beside(""));
    let mut running =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    running.stdin.take().unwrap().write_all(b"Do it.").unwrap();
    wait_until("it runs", || project.run(["show", "last", "--stream", "stdout"]).out() == "up\n");
    let run = project.show("last")["run"].as_str().unwrap().to_owned();
    let read = |name: &str| fs::read_to_string(project.beside(name)).unwrap();
    for name in ["first", "again", "other"] {
        let output = read(&format!("{name}.out"));
        check_mcp_session(read(name).as_bytes(), output.as_bytes()).unwrap();
    }
    let first = parse_answers(&read("first.out"));
    assert_eq!(first[0]["isError"], false, "{first:?}");
    assert_eq!(parse_answers(&read("again.out")), [first[0].clone(), first[0].clone()]);
    assert_eq!(read("kept"), "changed by hand\n");
    // A different submission counts anew.
    let last = read("written").replace("Good.", "Better.");
    assert_eq!(fs::read_to_string(&file).unwrap(), last);

    // A process that the agent did not start cannot submit, neither for this run nor for another one.
    for run in [run.as_str(), "01a1e2ed-827b-77ce-a517-760036744626"] {
        let foreign = submit_from_outside(&project, run, &[review("Evil.")]);
        assert_eq!(foreign[0]["isError"], true, "{foreign:?}");
    }

    fs::write(project.beside("go"), "").unwrap();
    let result = wait_for_end(running).expect_code(0).json();
    let tools: Vec<_> =
        result["reply"]["submitted"].as_array().unwrap().iter().map(|one| one["tool"].clone()).collect();
    assert_eq!(tools, ["submit_review", "submit_review"]);
    let late = submit_from_outside(&project, &run, &[review("Too late.")]);
    assert_eq!(late[0]["isError"], true, "{late:?}");
    assert_eq!(fs::read_to_string(&file).unwrap(), last);
    let odd = project.run(["--json", "mcp", "--run", "last"]);
    assert_eq!(odd.error(), (Some(2), "usage/bad".into()));
    project.assert_all_runs_finished();
}

/// Runs the real CLI, attached by `run --mcp`.
fn assert_submits_once(cli: Cli) {
    let tool = cli.mcp_tool("submit_review");
    let call = || Step::call(&[&tool], json!({ "verdict": "pass", "summary": "It \"ends\"." }));
    let script = Script::new().on_marker("MARK", [call(), call(), Step::text("submitted")]);
    let room = Room::new(script).unwrap();
    let project = RunProject::in_private_dir();
    project.write("session/x", "");
    project.commit();
    let env = room.env(cli).unwrap();
    let path = format!("{}:{}", cli.program().unwrap().parent().unwrap().display(), env["PATH"]);
    let mut command = project.command();
    command.envs(&env).env("PATH", path).args([
        "--json",
        "-q",
        "run",
        "-a",
        cli.name(),
        "-r",
        "run",
        "--role",
        "reviewer",
    ]);
    command.args(["--mcp", "--session", "session", "--timeout", "150s"]);
    if cli == Cli::Gemini {
        command.args(["--model", "gemini-2.5-pro"]);
    }
    let ran = run_command(command.arg("MARK"));
    let offered: Vec<_> = room.mock.requests().iter().map(callsheet_testing::Request::tools).collect();
    assert_eq!(ran.code, Some(0), "{offered:?} {ran:?}");
    let result = ran.json();
    let submitted = result["reply"]["submitted"].as_array().cloned().unwrap_or_default();
    assert_eq!(submitted.len(), 1, "{result}");
    assert_eq!(submitted[0]["tool"], "submit_review");
    let review = fs::read_to_string(project.path().join("session/07_review/review.md")).unwrap();
    assert_eq!(review, "verdict: pass\n\n## Summary\n\nIt \"ends\".\n");
    project.assert_all_runs_finished();
}

#[test]
fn m14_claude_submits_once() {
    on_loopback(&[Cli::Claude], || assert_submits_once(Cli::Claude));
}

#[test]
fn m14_codex_submits_once() {
    on_loopback(&[Cli::Codex], || assert_submits_once(Cli::Codex));
}

#[test]
fn m14_gemini_submits_once() {
    on_loopback(&[Cli::Gemini], || assert_submits_once(Cli::Gemini));
}

#[test]
fn m14_copilot_submits_once() {
    on_loopback(&[Cli::Copilot], || assert_submits_once(Cli::Copilot));
}
