//! Tests both flows from start to end by their whole traces.

use std::fs;
use std::path::Path;

use callsheet_testing::run_command;
use serde_json::Value;

use crate::project::{FlowProject, sha256};

/// Renders the trace of a flow: every event, and the prompt and the records of each run. Ids are numbered by
/// first appearance.
fn render_trace(project: &FlowProject) -> String {
    let mut runs: Vec<String> = Vec::new();
    let mut trace = String::new();
    let events = project.read_events();
    // The order in which the documents of lanes are seen depends on timing.
    let is_told = |event: &&Value| event["event"] != "flow.documents";
    let mut of_flow: Vec<&Value> =
        events.iter().filter(|event| !event["flow"].is_null()).filter(is_told).collect();
    // Concurrent lanes record their events in any order: sort them by lane.
    let detail = |event: &&Value, key: &str| event["data"]["detail"][key].clone();
    of_flow
        .chunk_by_mut(|a, b| {
            detail(a, "entry") == detail(b, "entry")
                && !detail(a, "lane").is_null()
                && !detail(b, "lane").is_null()
        })
        .for_each(|lanes| {
            lanes.sort_by_key(|event| event["data"]["detail"]["lane"].as_str().map(str::to_owned))
        });
    for event in of_flow {
        let mut detail = event["data"]["detail"].clone();
        if let Some(Value::String(run)) = detail.get_mut("run") {
            if !runs.contains(run) {
                runs.push(run.clone());
            }
            *run = format!("run {}", runs.iter().position(|known| known == run).unwrap() + 1);
        }
        let (phase, name) = (event["data"]["phase"].as_str().unwrap(), event["event"].as_str().unwrap());
        trace += &format!("{phase}: {name} {detail}\n");
    }
    for (at, run) in runs.iter().enumerate() {
        let of_run = |event: &&Value| event["run"].as_str() == Some(run);
        let mut kinds: Vec<&str> =
            events.iter().filter(of_run).map(|event| event["event"].as_str().unwrap()).collect();
        // The number of records for an output depends on timing.
        kinds.dedup();
        trace += &format!("run {}: {} {}\n", at + 1, sha256(&project.read_prompt(run)), kinds.join(" "));
    }
    trace
}

fn compare_trace(name: &str, trace: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/flows").join(name);
    if std::env::var_os("BLESS").is_some() {
        fs::write(&file, trace).unwrap();
    }
    assert_eq!(trace, fs::read_to_string(file).unwrap_or_default());
}

#[test]
fn t6_u5_revised_change_trace() {
    let project = FlowProject::new("sdd.sh");
    let done = project.run(project.start_args("sdd", &["--check", "form=test -e src/lib.txt"]));
    assert_eq!((done.code, done.err().as_str()), (Some(0), ""));
    assert_eq!(done.lines_json().last().unwrap()["state"], "done");
    compare_trace("sdd.expect", &render_trace(&project));
    let folder = project.path().join(".callsheet/changes/archive/add-a-login-to-the-site");
    for file in [
        "proposal.md",
        "specs/login.md",
        "tasks.md",
        "CHALLENGE.md",
        "IMPLEMENTATION.md",
        "REVIEW.md",
        "ARCHIVE.md",
    ] {
        assert!(folder.join(file).is_file(), "{file}");
    }
    assert_eq!(fs::read_to_string(folder.join("REVIEW.md")).unwrap(), "Fixed.\n\n<review>PASS</review>\n");
}

#[test]
fn m12_m13_m15_replanned_session_trace() {
    let project = FlowProject::new("staged.sh");
    let start = project.start_args("staged", &["--jobs", "3"]);
    let mut command = project.command_with(&start);
    // Each of the three coders continues only after all of them have started.
    let waits = run_command(command.env("MEET", project.meet_dir()));
    assert_eq!((waits.code, waits.err().as_str()), (Some(1), ""));
    let last = waits.lines_json().pop().unwrap();
    assert_eq!((&last["state"], &last["phase"]), (&"waiting".into(), &"completing".into()));
    let state: Value = serde_json::from_str(
        &fs::read_to_string(project.path().join(".callsheet/sessions/add-a-login-to-the-site/state.json"))
            .unwrap(),
    )
    .unwrap();
    assert_eq!((&state["phase"], &state["subplan_count"]), (&"completing".into(), &3.into()));
    let secret = "the key is ghp_Tz5Xw8Qn3Lk9Vb7Rm2Pd6Hs4Gj1Fc0Ya8Ue5";
    assert_eq!(project.run(["--json", "-q", "flow", "decide", "--yes", "changes", secret]).code, Some(9));
    let again =
        project.run(["--json", "-q", "flow", "decide", "--yes", "changes", "Export the times as well"]);
    assert_eq!((again.code, again.err().as_str()), (Some(1), ""));
    assert_eq!(again.lines_json().last().unwrap()["phase"], "completing");
    let done = project.run(["--json", "-q", "flow", "decide", "--yes", "approve"]);
    assert_eq!((done.code, done.err().as_str()), (Some(0), ""));
    for number in 1..=4 {
        let part = fs::read_to_string(project.path().join(format!("src/p{number}/part.txt"))).unwrap();
        assert_eq!(part, format!("part {number}\n"));
    }
    compare_trace("staged.expect", &render_trace(&project));
}

#[test]
fn m15_second_review_sees_first_findings() {
    let project = FlowProject::new("sdd.sh");
    assert_eq!(project.run(project.start_args("sdd", &[])).code, Some(0));
    let ended = project.read_events().into_iter().filter(|event| event["event"] == "flow.lane_ended");
    let reviews: Vec<String> = ended
        .filter(|event| event["data"]["phase"] == "review")
        .map(|event| project.read_prompt(event["data"]["detail"]["run"].as_str().unwrap()))
        .collect();
    let findings = "<artifact name=\"REVIEW.md\"><![CDATA[R1.1 Finding: the form has no label.\n\n<review>NEEDS_CHANGES</review>\n]]></artifact>\
                    <artifact name=\"FIXES.yaml\">findings:\n  - id: R1.1\n    finding: the form has no label.\n    reported: COMPLETED\nchanged_files:\n  - done-R1.1.txt\n  - fixed.txt\n</artifact>";
    let shown: Vec<bool> = reviews.iter().map(|prompt| prompt.contains(findings)).collect();
    assert_eq!(shown, [false, true]);
}
