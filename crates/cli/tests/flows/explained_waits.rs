//! Tests the page of a flow that waits: the reasons, and commands that work when they are typed.
//!
//! `waits/NAME.page` is the page of each case, with ids and times replaced. `BLESS=1` rewrites the pages.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

use callsheet_testing::{CommandOutput, callsheet_program, mask_page, run_command, wait_for_end, wait_until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::flow_costs::write_codex;
use crate::flow_recovery::create_project_with_conflict;
use crate::parked::write_claude;
use crate::project::{FlowProject, wait_for_file};
use crate::rounds::{create_project_with_bad_architecture, run_before_agent};

/// A case: its name, the flags of the flow, and lines that the agent runs before it agrees with everything.
const CASES: [(&str, &[&str], &str); 14] = [
    (
        "inline-marker",
        &[],
        "challenge) cat > /dev/null; printf 'It is sound.\n\nSo <review>PASS</review> it is.\n'; exit 0",
    ),
    ("no-reply", &[], "challenge) cat > /dev/null; exit 0"),
    ("no-verdict", &[], "challenge) cat > /dev/null; echo 'It is sound.'; exit 0"),
    ("violation", &[], "challenge) echo secret > leaked.txt; echo more > 'two words.txt'"),
    (
        "violation-and-exit",
        &[],
        "challenge) cat > /dev/null; echo secret > leaked.txt; echo '<review>PASS</review>'; echo 'no key' >&2; exit 3",
    ),
    ("exit-code", &[], "challenge) cat > /dev/null; echo '<review>PASS</review>'; exit 3"),
    ("failed-check", &["--check", "tests=./check"], "nothing) "),
    (
        "failed-task",
        &[],
        "implement) cat > /dev/null; printf 'No.\n\n<task_status id=\"1.1\">FAILED</task_status>\n'; exit 0",
    ),
    (
        "stale-file",
        &[],
        "plan) if mkdir \"$MEET_AT/second\" 2> /dev/null; then cat > /dev/null; mkdir -p \"$CALLSHEET_SESSION/specs\"; \
         echo old > \"$CALLSHEET_SESSION/specs/login.md\"; printf 'Not yet.\n\n<review>NEEDS_REVISION</review>\n'; exit 0; fi; \
         cat > /dev/null; echo '# P' > \"$CALLSHEET_SESSION/proposal.md\"; printf '<review>PASS</review>\n'; exit 0",
    ),
    ("changelog", &[], "implement) echo change > src/new.txt"),
    ("question", &[], "plan) cat > /dev/null; echo '<question>Which database?</question>'; exit 0"),
    (
        "decision",
        &[],
        "challenge) cat > /dev/null; printf 'There is one.\n\n<review>REJECTED</review>\n'; exit 0",
    ),
    ("limit", &[], "plan) cat > /dev/null; echo '<review>NEEDS_REVISION</review>'; exit 0"),
    ("documents", &[], "challenge) echo more >> \"$CALLSHEET_SESSION/tasks.md\""),
];

fn start_case(name: &str, flags: &[&str], lines: &str) -> FlowProject {
    let project = FlowProject::new("quick.sh");
    run_before_agent(&project, &format!("case \"$CALLSHEET_PHASE\" in\n{lines} ;;\nesac"));
    match name {
        "changelog" => {
            project.write("CHANGELOG.md", "# Changelog\n");
            project.commit();
        }
        "failed-check" => {
            let check = project.write("check", "#!/bin/sh\nseq 1 9\necho 'form: no label'\nexit 1\n");
            fs::set_permissions(check, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
            project.commit();
        }
        _ => {}
    }
    let started = project.run(project.start_args("sdd", flags));
    assert_eq!(started.code, Some(1), "{name}: {}", started.err());
    project
}

/// A plan without tasks.
const EMPTY_PLAN: &str = "plan) cat > /dev/null; mkdir -p \"$CALLSHEET_SESSION/specs\"; cd \"$CALLSHEET_SESSION\"; \
    echo '# P' | tee proposal.md > specs/login.md; echo 'None.' > tasks.md; echo '<review>PASS</review>'; exit 0";

/// A further case: its name, and the function that creates the project and starts its flow.
type StartedCase = (&'static str, fn() -> FlowProject);

const STARTED_CASES: [StartedCase; 8] = [
    ("submission", || start_staged(create_project_with_bad_architecture(3))),
    // One lane after the other, so that their runs have the same names each time.
    ("conflicts", || start_staged(create_project_with_conflict())),
    ("refused-phase", || start_case("refused-phase", &[], EMPTY_PLAN)),
    ("failed-phase", || {
        let refused = r#"{"type":"system","subtype":"api_retry","attempt":1,"error_status":401}"#;
        start_claude(&format!("{refused}\n{refused}\n{refused}\n"), "exec sleep 600")
    }),
    ("cost-of-flow", || start_codex("max_cost_per_flow = 2.0\n")),
    ("cost-of-run", || start_codex("max_cost_per_flow = 1.5\n")),
    ("cost-of-day", || start_codex("max_cost_per_day = 2.0\n")),
    ("parked", || {
        let limit = r#"{"type":"assistant","message":{"id":"m","content":[]},"error":"rate_limit","api_error_status":429,"api_error_params":{"rate_limit_info":{"resetsAt":%s}}}"#;
        // The agent gives up, and the quota is available soon after.
        start_claude("", &format!("printf '{limit}\\n' \"$(($(date +%s) + 5))\"; exit 1"))
    }),
];

fn start_staged(project: FlowProject) -> FlowProject {
    let started = project.run(project.start_args("staged", &["--jobs", "1"]));
    assert_eq!(started.code, Some(1), "{}", started.err());
    project
}

/// Starts a flow whose agent prints `fault` once.
fn start_claude(fault: &str, then: &str) -> FlowProject {
    let project = FlowProject::new("quick.sh");
    write_claude(&project, fault, &format!("rm \"$MEET_AT/fault\"; {then}"));
    fs::write(project.meet_dir().join("fault"), "").unwrap();
    let start = ["--json", "-q", "flow", "start", "sdd", "Add a login to the site", "-a", "claude"];
    let started = project.run(start);
    assert_eq!(started.code, Some(1), "{}", started.err());
    project
}

/// Starts a flow each of whose runs costs a dollar, as estimated from its tokens, with these lines in the user's configuration.
fn start_codex(configuration: &str) -> FlowProject {
    let project = FlowProject::new("quick.sh");
    write_codex(&project);
    if configuration.contains("1.5") {
        // It exceeds the limit, and must still run when its cost is known.
        fs::write(project.meet_dir().join("slow-challenge"), "").unwrap();
    }
    project.write_beside("home/.config/callsheet/config.toml", configuration);
    let start = ["--json", "-q", "flow", "start", "sdd", "Add a login to the site", "-a", "codex:gpt-5"];
    let started = project.run(start);
    assert_eq!(started.code, Some(1), "{}", started.err());
    project
}

/// Replaces ids and durations, and the space between columns by one space.
fn normalize(page: &str) -> String {
    let line = |line: &str| {
        let indent = line.len() - line.trim_start().len();
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        format!("{:indent$}{}\n", "", words.join(" "))
    };
    mask_clock(&mask_page(page, "ID", "TIME")).lines().map(line).collect()
}

/// Replaces the time after `until`, with or without a date.
fn mask_clock(page: &str) -> String {
    let is_clock = |text: &str| text.starts_with(|first: char| first.is_ascii_digit());
    let mut parts = page.split(" until ");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |page, part| match is_clock(part) {
        true => {
            format!("{page} until CLOCK{}", part.trim_start_matches(|c: char| "0123456789-: ".contains(c)))
        }
        false => format!("{page} until {part}"),
    })
}

fn page_path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/flows/waits/{name}.page"))
}

/// Types a command of a page as a person would. Without a terminal, a decision needs `--yes`.
pub(crate) fn type_command(project: &FlowProject, command: &str) -> CommandOutput {
    let typed = command
        .replace("callsheet decide ", "callsheet decide --yes ")
        .replace("flow decide ", "flow decide --yes ")
        .replace('…', "The second");
    let program = callsheet_program();
    let script = format!("callsheet() {{ '{}' -C . \"$@\"; }}\n{typed}", program.display());
    let like = project.command();
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(script).current_dir(project.path());
    for (name, value) in like.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    run_command(&mut shell)
}

fn next_commands(status: &Value) -> Vec<String> {
    let next = status["next"].as_array().unwrap();
    next.iter().map(|step| step["command"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn waiting_flow_explains_itself() {
    let mut wrong = Vec::new();
    let scripted = CASES.iter().map(|(name, flags, lines)| (*name, start_case(name, flags, lines)));
    for (name, project) in scripted.chain(STARTED_CASES.iter().map(|(name, start)| (*name, start()))) {
        let page = normalize(&project.read_page());
        if env::var_os("BLESS").is_some() {
            fs::write(page_path(name), &page).unwrap();
        }
        let expected = fs::read_to_string(page_path(name)).unwrap_or_default();
        if page != expected {
            wrong.push(format!("waits/{name}.page should be (BLESS=1 writes it anew):\n{page}"));
        }
        // Looking changes nothing, and the first command about the flow works.
        let status = project.read_status();
        let commands = next_commands(&status);
        let is_look = |command: &&String| command.starts_with("callsheet show ");
        for command in commands.iter().filter(is_look) {
            type_command(&project, command).expect_code(0);
        }
        assert_eq!(project.read_status()["last_at"], status["last_at"], "{name}");
        let act = commands.iter().find(|command| command.contains("callsheet flow ")).unwrap();
        if let Some(until) = status["waits_for"][0]["parked_until_at"].as_str() {
            wait_until("the quota is used up", || *until < *callsheet_store::now());
        }
        let done = type_command(&project, act);
        assert!(matches!(done.code, Some(0 | 1)), "{name}: {act}: {:?} {}", done.code, done.err());
        assert_ne!(project.read_status()["last_at"], status["last_at"], "{name}: {act}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Commands name their flow, so they work whatever else is open.
#[test]
fn commands_name_their_flow() {
    let (name, flags, lines) = CASES[3];
    let project = start_case(name, flags, lines);
    let first = project.read_status();
    let id = first["flow"].as_str().unwrap().to_owned();
    let other = ["-q", "flow", "start", "sdd", "Add a logout", "--", "true"];
    assert_eq!(project.run(other).code, Some(1));
    let open = project.run_json(&["--json", "flow", "status"]);
    let named = |item: &Value| (item["name"].clone(), item["state"].clone(), item["phase"].clone());
    let items: Vec<_> = open["items"].as_array().unwrap().iter().map(named).collect();
    let logout = (json!("add-a-logout"), json!("waiting"), json!("plan"));
    assert_eq!(items, [logout.clone(), (first["name"].clone(), json!("waiting"), json!("challenge"))]);
    let page = project.run(["flow", "status"]).expect_code(0).out();
    assert_eq!(page.lines().count(), 3, "{page}");
    let all = next_commands(&first);
    let decided = type_command(&project, &all[0]);
    assert_eq!(decided.code, Some(0), "{}: {}", all[0], decided.err());
    let done = project.run_json(&["--json", "flow", "status", &id]);
    assert_eq!(done["state"], "done", "{done}");
    let open = project.run_json(&["--json", "flow", "status"]);
    assert_eq!(open["items"].as_array().unwrap().iter().map(named).collect::<Vec<_>>(), [logout]);
    assert_eq!(type_command(&project, "callsheet flow decide reject --flow add-a-logout").code, Some(1));
    let none = project.run(["flow", "status"]).expect_code(0);
    assert_eq!(none.out(), "");
    assert_eq!(none.err(), "no flow is open; `callsheet flow list` lists those that have ended\n");
}

#[test]
fn interrupted_flow_prints_resume_command() {
    let project = FlowProject::new("quick.sh");
    fs::write(project.meet_dir().join("wait"), "").unwrap();
    let agent = project.agent().to_str().unwrap();
    let start = ["-q", "flow", "start", "sdd", "Add a login", "--", agent];
    let driving = project.command_with(&start).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for_file(&project.meet_dir().join("here"));
    kill(Pid::from_raw(i32::try_from(driving.id()).unwrap()), Signal::SIGINT).unwrap();
    let ended = wait_for_end(driving);
    assert_eq!(ended.code, Some(130), "{}", ended.err());
    let command = "callsheet flow resume add-a-login";
    assert!(ended.out().contains(&format!("next:\n  {command}  ")), "{}", ended.out());
    fs::remove_file(project.meet_dir().join("wait")).unwrap();
    let resumed = type_command(&project, command);
    assert_eq!(resumed.code, Some(0), "{}", resumed.err());
}

/// A change that was approved while the flow was stopped counts at once.
#[test]
fn stopped_flow_counts_approvals() {
    let (name, flags, lines) = CASES[3];
    let project = start_case(name, flags, lines);
    let commands = next_commands(&project.read_status());
    assert_eq!(project.run(["-q", "flow", "stop"]).code, Some(0));
    let done = type_command(&project, &commands[0]);
    assert_eq!(done.code, Some(0), "{}", done.err());
    assert_eq!(project.read_status()["state"], "done");
}

/// The reasons are typed, and the runs are listed with phase, round and result.
#[test]
fn status_lists_reasons_and_runs() {
    let (name, flags, lines) = CASES[0];
    let project = start_case(name, flags, lines);
    let status = project.read_status();
    let wait = &status["waits_for"][0];
    let found = [&wait["code"], &wait["lane"], &wait["to"], &wait["details"], &wait["run"]];
    let run = &status["runs"][1];
    assert_eq!(found, [&json!("evidence"), &json!("all"), &json!("implement"), &json!(["reply.PASS"]), run]);
    let message =
        "`<review>PASS</review>` shares its paragraph with other text, so it does not count (line 3)";
    let lack = json!({
        "code": "reply_problem",
        "message": message,
        "need": "reply.PASS",
        "problem": "inline_marker",
        "line": 3,
        "path": null,
        "output": [],
    });
    assert_eq!(wait["lacks"], json!([lack]));
    let row =
        |item: &Value| json!([item["phase"], item["round"], item["lane"], item["agent"], item["reply"]]);
    let rows: Vec<Value> = status["items"].as_array().unwrap().iter().map(row).collect();
    let plan = json!(["plan", 1, "all", "command", "pass"]);
    assert_eq!(rows, [plan, json!(["challenge", 1, "all", "command", "no_verdict"])]);
}

/// A name that two flows share finds none of them, so their commands have ids.
#[test]
fn same_name_needs_id() {
    let project = FlowProject::new("quick.sh");
    let start = ["-q", "flow", "start", "sdd", "Add a login", "--id", "login", "--", "true"];
    assert_eq!(project.run(start).code, Some(1));
    fs::remove_dir_all(project.path().join(".callsheet/changes/login")).unwrap();
    assert_eq!(project.run(start).code, Some(1));
    let open = project.run_json(&["--json", "flow", "status"]);
    let items = open["items"].as_array().unwrap();
    assert_eq!(items.len(), 2);
    for item in items {
        let id = item["flow"].as_str().unwrap();
        let reject = next_commands(item).pop().unwrap();
        assert_eq!(reject, format!("callsheet flow decide reject --flow {id}"));
        assert_eq!(type_command(&project, &reject).code, Some(1));
        assert_eq!(project.run_json(&["--json", "flow", "status", id])["state"], "rejected");
    }
}
