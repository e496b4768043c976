//! The cost of a flow: its total says whether it contains estimates, and its limits make the flow wait.

use std::fs;
use std::path::Path;

use callsheet_testing::TestProject;
use serde_json::{Value, json};

use crate::explained_waits::type_command;
use crate::project::FlowProject;

/// Writes a program that works like `quick.sh` and prints its text as the Python expression `events` says. It does not end in a
/// phase for which `$MEET_AT/slow-PHASE` exists.
fn write_agent(project: &TestProject, name: &str, events: &str) {
    let quick = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/flows/quick.sh");
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = --version ] && exit\nsh '{}' | python3 -c '\nimport json, sys\ntext = sys.stdin.read()\n\
         for event in {events}:\n    print(json.dumps(event))'\n\
         if [ -e \"$MEET_AT/slow-$CALLSHEET_PHASE\" ]; then exec sleep 600; fi\n",
        quick.display()
    );
    project.write_program(name, &script);
}

/// Writes a program `codex` that uses tokens for a dollar of the model `gpt-5`, and reports no cost.
pub(crate) fn write_codex(project: &TestProject) {
    let events = r#"({"type": "thread.started", "thread_id": "t"}, {"type": "turn.started"}, {"type": "item.completed", "item": {"id": "i", "type": "agent_message", "text": text}}, {"type": "turn.completed", "usage": {"input_tokens": 1000000, "cached_input_tokens": 400000, "output_tokens": 20000}})"#;
    write_agent(project, "codex", events);
}

/// Writes a program `claude` that reports a cost of half a dollar.
fn write_claude(project: &TestProject) {
    let events = r#"[{"type": "result", "subtype": "success", "is_error": False, "result": text, "total_cost_usd": 0.5}]"#;
    write_agent(project, "claude", events);
}

fn configure(project: &FlowProject, lines: &str) {
    project.write_beside("home/.config/callsheet/config.toml", lines);
}

/// Returns the total cost of a flow in JSON.
fn total(status: &Value) -> Value {
    json!([status["cost_microusd"], status["cost_estimated"]])
}

fn cost_row(page: &str) -> &str {
    page.lines().find_map(|line| line.strip_prefix("  cost       ")).unwrap_or_default()
}

/// One estimated run makes the total an estimate; costs that agents report are exact.
#[test]
fn flow_cost_names_estimates() {
    let project = FlowProject::new("quick.sh");
    write_codex(&project);
    write_claude(&project);
    let start = ["flow", "start", "sdd", "Add a login", "-a", "claude"];
    let ran = project.run(start).expect_code(0);
    let ended: Vec<String> = ran.err().lines().filter(|line| line.contains('$')).map(str::to_owned).collect();
    assert_eq!(ended.len(), 11, "{ended:?}");
    assert!(ended[0].starts_with("plan all: PASS (") && ended[0].contains(", $0.50, run r1"), "{ended:?}");
    assert!(ended[10].ends_with(", $0.50; the flow is done, $3.00"), "{ended:?}");
    assert_eq!(cost_row(&ran.out()), "$3.00");
    assert_eq!(total(&project.run_json(&["--json", "flow", "status"])), json!([null, null]));
    assert_eq!(total(&project.read_status()), json!([3_000_000, false]));

    let args = [&start[..3], &["Add a logout", "-a", "claude", "--agent-for", "review=codex:gpt-5"]].concat();
    let ran = project.run(args).expect_code(0);
    let ended: Vec<String> = ran.err().lines().filter(|line| line.contains('$')).map(str::to_owned).collect();
    let is_about = |line: &&String| line.contains("about $");
    let about: Vec<&String> = ended.iter().filter(is_about).collect();
    assert_eq!((ended.len(), about.len()), (11, 3), "{ended:?}");
    assert!(
        about[0].starts_with("review all: PASS (") && about[0].contains(", about $1.00, run "),
        "{about:?}"
    );
    assert!(
        about[1].starts_with("review ended: ") && about[1].contains(", about $1.00; next: archive"),
        "{about:?}"
    );
    assert!(about[2].ends_with(", $0.50; the flow is done, about $3.50"), "{about:?}");
    assert_eq!(cost_row(&ran.out()), "about $3.50");
    let status = project.run_json(&["--json", "flow", "status", "add-a-logout"]);
    assert_eq!(total(&status), json!([3_500_000, true]));
    let last = project.run_json(&["--json", "flow", "list"])["items"][0].clone();
    assert_eq!(total(&last), json!([3_500_000, true]));
}

/// The configured limit of a flow stops it before the next lane, and a person lets it spend the same amount again.
#[test]
fn flow_limit_makes_flow_wait() {
    let project = FlowProject::new("quick.sh");
    write_codex(&project);
    configure(&project, "max_cost_per_flow = 2.0\n");
    let ran = project.run(["-q", "flow", "start", "sdd", "Add a login", "-a", "codex:gpt-5"]).expect_code(1);
    let reason = "the cost limit of $2.00 was reached (spent about $2.00)";
    assert!(ran.out().contains(&format!("  waits for  {reason}\n")), "{}", ran.out());
    let status = project.read_status();
    let waits = &status["waits_for"];
    assert_eq!((&waits[0]["code"], &waits[0]["message"]), (&json!("cost"), &json!(reason)), "{status}");
    assert_eq!((total(&status), &status["phase"]), (json!([2_000_000, true]), &json!("implement")));
    let next = status["next"][0].clone();
    let command = next["command"].as_str().unwrap();
    assert_eq!(command, "callsheet flow decide approve --flow add-a-login");
    assert_eq!(next["purpose"], "let it spend the same amount again");
    type_command(&project, command).expect_code(1);
    let status = project.read_status();
    assert_eq!((total(&status), &status["phase"]), (json!([4_000_000, true]), &json!("review")));
    let reason = "the cost limit of $4.00 was reached (spent about $4.00)";
    assert_eq!((&status["waits_for"][0]["message"], &status["next"][0]), (&json!(reason), &next));
    type_command(&project, command).expect_code(0);
    assert_eq!(project.read_status()["state"], "done");
    // A flag of the start is stronger than the configuration.
    let args = ["-q", "flow", "start", "sdd", "Add a logout", "--max-cost", "9", "-a", "codex:gpt-5"];
    project.run(args).expect_code(0);
}

/// A run that would exceed the limit of its flow is ended.
#[test]
fn flow_limit_ends_its_run() {
    let project = FlowProject::new("quick.sh");
    write_codex(&project);
    configure(&project, "max_cost_per_flow = 1.5\n");
    fs::write(project.meet_dir().join("slow-challenge"), "").unwrap();
    project.run(["-q", "flow", "start", "sdd", "Add a login", "-a", "codex:gpt-5"]).expect_code(1);
    let status = project.read_status();
    assert_eq!((total(&status), &status["phase"]), (json!([2_000_000, true]), &json!("challenge")));
    assert_eq!(status["items"][1]["outcome"], "over_cost", "{status}");
    let lack = &status["waits_for"][0]["lacks"][0];
    let why = "the agent exceeded its cost limit (over the cost limit of $0.50 (spent about $1.00))";
    assert_eq!((&lack["need"], &lack["message"]), (&json!("exit"), &json!(why)), "{status}");
}

/// The limit of the day refuses the next run of a flow, which waits and continues once the limit is raised.
#[test]
fn day_limit_makes_flow_wait() {
    let project = FlowProject::new("quick.sh");
    write_codex(&project);
    configure(&project, "max_cost_per_day = 2.0\n");
    let ran = project.run(["-q", "flow", "start", "sdd", "Add a login", "-a", "codex:gpt-5"]).expect_code(1);
    let reason = "the cost limit was reached: the runs of today cost about $2.00 of $2.00";
    assert!(ran.out().contains(reason), "{}", ran.out());
    let status = project.read_status();
    assert_eq!((&status["state"], &status["waits_for"][0]["code"]), (&json!("waiting"), &json!("failed")));
    let next = status["next"][0]["command"].as_str().unwrap();
    assert_eq!(next, "callsheet flow resume add-a-login");
    type_command(&project, next).expect_code(1);
    assert_eq!(project.read_status()["waits_for"], status["waits_for"]);
    // A single run is refused for the same reason.
    let run = project.run(["--json", "-q", "run", "-a", "codex", "--model", "gpt-5", "Do it."]);
    assert_eq!(run.error(), (Some(7), "cost/limit".into()));
    assert!(run.err().contains(reason) && run.err().contains("raise `max_cost_per_day`"), "{}", run.err());
    configure(&project, "max_cost_per_day = 100.0\n");
    type_command(&project, next).expect_code(0);
    assert_eq!(total(&project.read_status()), json!([6_000_000, true]));
}
