//! Journeys through the pages in a real browser, on a ledger that real runs and flows made, while an agent runs.

mod hostile;

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use callsheet_testing::{browser_script, report_missing, wait_until};
use serde_json::{Value, json};

use crate::project::FlowProject;
use crate::rounds::run_before_agent;

/// A program that is killed at the end of a test.
struct Background(Child);

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The agent of these flows: one flow asks a question, in the others the plan is rejected once.
const AGENT: &str = "case \"$CALLSHEET_PHASE $CALLSHEET_SESSION\" in
'plan '*asking*) if mkdir \"$MEET_AT/asked\" 2> /dev/null; then
    cat > /dev/null; echo '<question>Which database?</question>'; exit 0; fi ;;
'challenge '*judged*|'challenge '*waiting*) if mkdir \"$MEET_AT/${CALLSHEET_SESSION##*/}\" 2> /dev/null; then
    cat > /dev/null; printf '\\n<review>REJECTED</review>\\n'; exit 0; fi ;;
esac";

/// Texts that must stay texts, wherever they are shown.
const HOSTILE: &str = "</textarea><script>window.pwned=1</script><img src=x onerror=window.pwned=1>\u{202e}gnp\u{1b}[31m\u{7}' \" `${1}` {{7*7}} javascript:alert(1) <svg/onload=alert(1)> --><style>*{display:none}</style>";

fn run_task(project: &FlowProject, task: &str, text: &str, script: &str, code: i32) -> String {
    let checks = ["--check", "done=grep done src/a.txt"];
    let start = ["run", "-q", "--json", "--task-id", task, "--write", "src/**"];
    let words = [&start[..], &checks, &[text, "--", "sh", "-c", script]].concat();
    let ran = project.run(words).expect_code(code).json();
    ran["name"].as_str().unwrap().to_owned()
}

/// Runs a program that prints the recorded events of a real CLI with many tool calls, and returns the name of the run.
fn run_tools(project: &FlowProject, flags: &[&str]) -> String {
    let events = Path::new(env!("CARGO_MANIFEST_DIR")).join("../core/tests/streams/work/claude.jsonl");
    let script = format!(
        "#!/bin/sh\ncat > /dev/null\ncat '{}'\nprintf 'one\\ntwo\\nthree\\n' > src/notes.txt\n",
        events.display()
    );
    project.write_program("claude", &script);
    let start = ["run", "-q", "--json", "-a", "claude", "--task-id", "T-2", "--write", "src/**"];
    let task = ["--check", "three=grep three src/notes.txt", "Write three notes"];
    let ran = project.run([&start[..], flags, &task].concat());
    ran.json()["name"].as_str().unwrap().to_owned()
}

/// Starts a run that takes long, in a worktree of its own, and returns its name.
fn start_run(project: &FlowProject, task: &str, script: &str) -> (Background, String) {
    let mut command = project.command();
    command.args([
        "run",
        "-q",
        "--worktree",
        "--task-id",
        task,
        "--write",
        "src/**",
        "Work while a page looks",
    ]);
    command.args(["--", "sh", "-c", script]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let running = Background(command.spawn().unwrap());
    let newest = || project.run(["--json", "log", "--limit", "1"]).json()["items"][0].clone();
    wait_until("the run is recorded", || newest()["task"] == task && newest()["status"] == "running");
    let name = newest()["name"].as_str().unwrap().to_owned();
    (running, name)
}

/// Starts a flow that waits for a person, and returns its id and name.
fn start_flow(project: &FlowProject, request: &str) -> Value {
    let agent = project.agent().to_str().unwrap().to_owned();
    project.run(["-q", "flow", "start", "sdd", request, "--", &agent]).expect_code(1);
    let flow = project.run(["--json", "flow", "list"]).json()["items"][0].clone();
    json!({ "flow": flow["flow"], "name": flow["name"] })
}

/// Starts the server, and returns its address.
fn serve(project: &FlowProject) -> (Background, String) {
    start_server(project.command())
}

/// Starts the server by a command, and returns its address.
fn start_server(mut command: Command) -> (Background, String) {
    command.arg("serve").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut server = Background(command.spawn().unwrap());
    let mut address = String::new();
    BufReader::new(server.0.stdout.take().unwrap()).read_line(&mut address).unwrap();
    (server, address.trim().to_owned())
}

/// Returns the patterns of all addresses, from the source of the server.
fn read_routes() -> Vec<(&'static str, String)> {
    let source = include_str!("../../../../web/src/server.rs");
    let routes = source.split(".route(\"").skip(1).map(|rest| {
        let (pattern, rest) = rest.split_once('"').unwrap();
        (if rest.starts_with(", post(") { "POST" } else { "GET" }, pattern.to_owned())
    });
    routes.collect()
}

fn is_match(pattern: &str, path: &str) -> bool {
    let (mut parts, mut words) = (pattern.split('/'), path.split('/'));
    loop {
        match (parts.next(), words.next()) {
            (None, None) => return true,
            (Some(part), Some(_)) if part.starts_with("{*") => return true,
            (Some(part), Some(word)) if part == word || part.starts_with('{') && !word.is_empty() => {}
            _ => return false,
        }
    }
}

#[test]
fn every_page_and_action_has_journey() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/flows/browser/journeys.cjs");
    let mut browser = match browser_script(&script) {
        Ok(browser) => browser,
        Err(why) => return report_missing(&format!("the browser: {why}")),
    };
    let project = FlowProject::new("quick.sh");
    run_before_agent(&project, AGENT);
    let hostile_script = "cat > src/it.html; printf '\\033[31m%s\\033[0m\\n' \"$(cat src/it.html)\"; \
                          echo \"$(cat src/it.html)\" >&2; head -c 1000000 /dev/zero | tr '\\0' x; echo";
    let hostile = run_task(&project, "T-<b>", HOSTILE, hostile_script, 1);
    project.run(["-q", "task", "close", "T-<b>", "--yes"]).expect_code(0);
    let leak = "cat > /dev/null; for n in $(seq 3000); do echo line $n; done; echo 'error: boom'; \
                echo bad > leaked.txt; echo half > src/a.txt; printf '\\n<review>PASS</review>\\n'";
    let leak = run_task(&project, "T-1", "Write a file that leaks", leak, 5);
    let tools = run_tools(&project, &[]);
    let asking = start_flow(&project, "The asking flow");
    let judged = start_flow(&project, "The judged flow");
    let waiting = start_flow(&project, "The waiting flow");
    let go = project.meet_dir().join("go-on");
    let ticks =
        format!("while [ ! -e '{}' ]; do echo tick; sleep 0.1; done; echo live > src/live.txt", go.display());
    let (_live, live) = start_run(&project, "T-live", &ticks);
    let (_long, long) = start_run(&project, "T-long", "exec sleep 600");
    let file = project.beside("run.html");
    project.run(["-q", "show", &leak, "--html", file.to_str().unwrap()]).expect_code(0);
    assert!(file.metadata().unwrap().len() < 2_000_000);
    let flow_file = project.beside("flow.html");
    project
        .run(["-q", "flow", "status", "the-waiting-flow", "--html", flow_file.to_str().unwrap()])
        .expect_code(0);
    let (_server, address) = serve(&project);
    let facts = json!({
        "leak": leak, "tools": tools, "hostile": hostile, "asking": asking, "judged": judged, "waiting": waiting, "live": live, "long": long,
    });
    let shots = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/pages");
    if std::env::var_os("BLESS").is_some() {
        std::fs::create_dir_all(&shots).unwrap();
        browser.env("SHOTS", &shots);
    }
    browser.env("ADDRESS", &address).env("FACTS", facts.to_string()).env("GO", &go);
    browser.env("FILE", &file).env("FLOW_FILE", &flow_file);
    let result = finish_journeys(&mut browser);
    assert_eq!(result["problems"], json!([]), "{:#}", result["problems"]);
    assert!(shots.join("run-1440-light.png").exists(), "the documentation shows the pages");
    let asked: Vec<&str> =
        result["requests"].as_array().unwrap().iter().map(|it| it.as_str().unwrap()).collect();
    let is_visited = |method: &str, pattern: &str| {
        let paths = asked.iter().filter_map(|it| it.strip_prefix(method)?.strip_prefix(' '));
        paths.into_iter().any(|path| is_match(pattern, path))
    };
    let routes = read_routes();
    assert!(routes.len() > 15, "{routes:?}");
    let left: Vec<_> = routes.iter().filter(|(method, pattern)| !is_visited(method, pattern)).collect();
    assert!(left.is_empty(), "no journey visits {left:?}");
    assert_recorded(&project, &result["facts"]);
}

/// Runs the journeys to their end and returns their report.
fn finish_journeys(browser: &mut Command) -> Value {
    let ran = browser.stdin(Stdio::null()).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{out}\n{err}");
    serde_json::from_str(out.lines().last().unwrap_or_default()).unwrap()
}

/// Asserts that the ledger holds every action, by the page.
fn assert_recorded(project: &FlowProject, facts: &Value) {
    let word = |key: &str| facts[key].as_str().unwrap();
    let decisions = |run: &str| -> Vec<String> {
        let run = project.run(["--json", "show", run]).expect_code(0).json();
        let all = run["decisions"].as_array().unwrap().iter();
        all.map(|it| format!("{} {} {}", it["decision"], it["what"], it["by"]).replace('"', "")).collect()
    };
    let on_leak = decisions(word("leak"));
    for wanted in ["approve leaked.txt page", "retry run page", "continue run page"] {
        assert!(on_leak.iter().any(|it| it == wanted), "{wanted}: {on_leak:?}");
    }
    assert_eq!(decisions(word("long")), ["stop run page"]);
    let prompt = project.read_prompt(word("continued"));
    assert!(prompt.contains("leaked.txt:1\n> bad\nKeep this out of the <root>."), "{prompt}");
    assert!(prompt.contains("prompt:2\n") && prompt.contains("And add a test."), "{prompt}");
    for flow in ["asking", "judged"] {
        let id = facts[flow]["flow"].as_str().unwrap();
        let status = project.run(["--json", "flow", "status", id]).expect_code(0).json();
        assert_eq!((&status["state"], &status["decisions"][0]["by"]), (&json!("done"), &json!("page")));
    }
    project.run(["verify", "--all"]).expect_code(0);
}
