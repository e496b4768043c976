//! A flow whose agent has no quota left, or no key: it waits with this reason, and continues afterwards.

use std::fs;
use std::path::Path;

use callsheet_testing::TestProject;
use serde_json::{Value, json};

use crate::project::FlowProject;

/// Writes a program `claude` that works like `quick.sh`, and prints `fault` before that while `$MEET_AT/fault` exists.
pub(crate) fn write_claude(project: &TestProject, fault: &str, then: &str) {
    let quick = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/flows/quick.sh");
    let fault = project.write_beside("fault.jsonl", fault);
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = --version ] && exit\nif [ -e \"$MEET_AT/fault\" ]; then cat > /dev/null; cat '{}'; {then}; fi\n\
         sh '{}' | python3 -c 'import json, sys; print(json.dumps({{\"type\": \"result\", \"subtype\": \"success\", \"is_error\": False, \"result\": sys.stdin.read()}}))'\n",
        fault.display(),
        quick.display()
    );
    project.write_program("claude", &script);
}

fn run_flow(project: &FlowProject, words: &[&str]) -> (Option<i32>, Value) {
    let ran = project.run([&["--json", "-q", "flow"], words].concat());
    (ran.code, ran.lines_json().pop().unwrap_or_default())
}

const START: [&str; 5] = ["start", "sdd", "Add a login", "-a", "claude"];

#[test]
fn parked_flow_waits_for_quota() {
    let project = FlowProject::new("quick.sh");
    let limit = json!({
        "type": "assistant", "message": { "id": "m", "content": [] }, "error": "rate_limit", "api_error_status": 429,
        "api_error_params": { "rate_limit_info": { "resetsAt": 4_102_444_800_u64 } },
    });
    write_claude(&project, &format!("{limit}\n"), "exit 1");
    fs::write(project.meet_dir().join("fault"), "").unwrap();
    let (code, flow) = run_flow(&project, &START);
    let why = &flow["waits_for"][0];
    assert_eq!((code, &flow["state"], &why["code"]), (Some(1), &json!("waiting"), &json!("parked")));
    assert_eq!(why["parked_until_at"], "2100-01-01T00:00:00.000000Z");
    // A program that resumes it too early is refused, and nothing is started.
    let runs = flow["runs"].as_array().unwrap().len();
    let early = project.run(["--json", "flow", "resume"]);
    assert_eq!(early.error(), (Some(9), "run/refused".into()));
    assert!(early.err().contains("flow decide approve"), "{}", early.err());
    // A person can try at once: the lane runs again.
    let (_, flow) = run_flow(&project, &["decide", "approve", "--yes"]);
    assert_eq!((&flow["state"], flow["runs"].as_array().unwrap().len()), (&json!("waiting"), runs + 1));
    fs::remove_file(project.meet_dir().join("fault")).unwrap();
    let (_, flow) = run_flow(&project, &["decide", "approve", "--yes"]);
    assert_ne!(
        (&flow["phase"], flow["waits_for"][0]["code"].as_str()),
        (&json!("plan"), Some("parked")),
        "{flow}"
    );
    assert!(flow["runs"].as_array().unwrap().len() > runs + 2, "{flow}");
}

#[test]
fn flow_without_key_can_resume() {
    let project = FlowProject::new("quick.sh");
    let refused = r#"{"type":"system","subtype":"api_retry","attempt":1,"error_status":401}"#;
    write_claude(&project, &format!("{refused}\n{refused}\n{refused}\n"), "exec sleep 600");
    fs::write(project.meet_dir().join("fault"), "").unwrap();
    let (code, flow) = run_flow(&project, &START);
    let message = flow["waits_for"][0]["message"].as_str().unwrap_or_default();
    assert_eq!((code, &flow["waits_for"][0]["code"]), (Some(1), &json!("failed")), "{flow}");
    assert!(message.contains("401 authentication failed 3 times: none of ANTHROPIC_API_KEY"), "{message}");
    fs::remove_file(project.meet_dir().join("fault")).unwrap();
    let (_, flow) = run_flow(&project, &["resume"]);
    assert!(flow["runs"].as_array().unwrap().len() > 2, "{flow}");
}

#[test]
fn flow_reports_lanes_and_phases() {
    let project = FlowProject::new("quick.sh");
    let told = project.beside("told").display().to_string();
    let notify = format!("sh -c 'echo \"$CALLSHEET_OUTCOME $CALLSHEET_NAME$CALLSHEET_RUN\" >> \"{told}\"'");
    let agent = project.agent().display().to_string();
    let ran = project.run([
        "flow",
        "start",
        "sdd",
        "Add a login",
        "--id",
        "login",
        "--notify",
        &notify,
        "--",
        &agent,
    ]);
    let err = ran.err();
    assert!(!err.contains('\u{1b}'), "{err}");
    let lane = err
        .lines()
        .find(|line| line.starts_with("plan ") && line.contains(": PASS ("))
        .unwrap_or_else(|| panic!("{err}"));
    assert!(lane.contains("exit") && lane.contains("clean") && lane.contains("s, run "), "{lane}");
    assert!(
        err.lines().any(
            |line| line.starts_with("plan ended: round 1, 1 lane, ") && line.ends_with("next: challenge")
        ),
        "{err}"
    );
    let told = fs::read_to_string(told).unwrap();
    let state = if ran.code == Some(0) { "done" } else { "waiting" };
    assert_eq!(told, format!("{state} login\n"));
}
