//! Tests the cases in which a flow needs a person to continue.

use std::fs;

use callsheet_testing::{run_command, wait_until};
use serde_json::{Value, json};

use crate::project::{FlowProject, messages};

/// Returns the state of a flow, its phase, and the reasons why it waits.
fn waiting_state(project: &FlowProject) -> (Value, Value, Value) {
    let status = project.read_status();
    (status["state"].clone(), status["phase"].clone(), messages(&status["waits_for"]))
}

#[test]
fn t6_pass_with_failed_checks_waits() {
    let project = FlowProject::new("sdd.sh");
    let stopped = project.run(project.start_args("sdd", &["--check", "tests=false"]));
    assert_eq!(stopped.code, Some(1));
    let reason = "`1.1` cannot continue to `review`: it lacks checks-or-none";
    assert_eq!(waiting_state(&project), (json!("waiting"), json!("implement"), json!([reason])));
}

#[test]
fn t6_missing_verdict_never_advances() {
    let project = FlowProject::new("sdd.sh");
    let stopped =
        project.run(["--json", "-q", "flow", "start", "sdd", "Add a login to the site", "--", "true"]);
    assert_eq!(stopped.code, Some(1));
    let (state, phase, _) = waiting_state(&project);
    assert_eq!((state, phase), (json!("waiting"), json!("plan")));
}

#[test]
fn u4_round_limit_asks_person() {
    let project = FlowProject::new("sdd.sh");
    let agent = project.path().join("../revise");
    fs::write(&agent, "#!/bin/sh\ncat > /dev/null\necho '<review>NEEDS_REVISION</review>'\n").unwrap();
    fs::set_permissions(&agent, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let start =
        ["--json", "-q", "flow", "start", "sdd", "Add a login to the site", "--", agent.to_str().unwrap()];
    assert_eq!(project.run(start).code, Some(1));
    let reason = "phase `plan` reached its limit of rounds";
    assert_eq!(waiting_state(&project), (json!("waiting"), json!("plan"), json!([reason])));
    let mut by_agent = project.command_with(&["flow", "decide", "--yes", "approve"]);
    assert_eq!(run_command(by_agent.env("CALLSHEET_RUN", "x")).code, Some(9));
    let rejected = project.run(["--json", "-q", "flow", "decide", "--yes", "reject"]);
    assert_eq!(
        (rejected.code, &rejected.lines_json().last().unwrap()["state"]),
        (Some(1), &json!("rejected"))
    );
    assert_eq!(project.run(["flow", "decide", "--yes", "approve"]).code, Some(9));
}

#[test]
fn m16_straying_lane_is_not_merged() {
    let project = FlowProject::new("staged.sh");
    let start = project.start_args("staged", &["--jobs", "3"]);
    let stopped = run_command(project.command_with(&start).env("STRAYS", "2"));
    assert_eq!(stopped.code, Some(1), "{}", stopped.err());
    let (state, phase, why) = waiting_state(&project);
    assert_eq!(
        (state, phase, why),
        (
            json!("waiting"),
            json!("implementing"),
            json!(["`2` cannot continue to `reviewing`: it lacks clean"])
        )
    );
    let merged: Vec<bool> =
        (1..=3).map(|number| project.path().join(format!("src/p{number}/part.txt")).exists()).collect();
    assert_eq!((merged, project.path().join("stray.txt").exists()), (vec![true, false, true], false));
}

#[test]
fn m14_single_coder_does_whole_plan() {
    let project = FlowProject::new("staged.sh");
    assert_eq!(project.run(project.start_args("staged", &["--single-coder"])).code, Some(1));
    let coders = project
        .read_events()
        .into_iter()
        .filter(|event| event["data"]["phase"] == "implementing" && event["event"] == "flow.lane_started");
    assert_eq!(coders.count(), 1);
    assert_eq!(project.read_status()["phase"], "completing");
}

#[test]
fn c8_stopped_flow_resumes_in_place() {
    let project = FlowProject::new("sdd.sh");
    let reference = FlowProject::new("sdd.sh");
    assert_eq!(reference.run(reference.start_args("sdd", &[])).code, Some(0));
    let slow = project.path().join("../slow");
    fs::write(&slow, "#!/bin/sh\nsleep 0.4\nexec \"$@\"\n").unwrap();
    fs::set_permissions(&slow, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let agent = project.start_args("sdd", &[]);
    let start = [
        &["--json", "-q", "flow", "start", "sdd", "Add a login to the site", "--", slow.to_str().unwrap()],
        &agent[agent.len() - 1..],
    ]
    .concat();
    let mut driving = project.command_with(&start).stdout(std::process::Stdio::null()).spawn().unwrap();
    wait_until("the flow begins", || project.read_head() >= 12);
    // A second process cannot drive a flow that another one drives.
    assert_eq!(project.run(["flow", "resume"]).code, Some(9));
    let stopped = project.run(["--json", "flow", "stop"]);
    assert_eq!((stopped.code, &stopped.lines_json()[0]["state"]), (Some(0), &json!("stopped")));
    assert_eq!(driving.wait().unwrap().code(), Some(1));
    let resumed = project.run(["--json", "-q", "flow", "resume"]);
    assert_eq!((resumed.code, resumed.err().as_str()), (Some(0), ""));
    assert_eq!(project.read_result(), reference.read_result());
}
