//! Tests that a flow whose callsheet is killed at any moment has the same result after it is resumed.

use std::fs;
use std::process::Stdio;
use std::time::Duration;

use crate::project::{FlowProject, wait_for_file};

/// Returns the number of kills per flow.
fn kill_count() -> u64 {
    if std::env::var_os("CALLSHEET_LONG").is_some() { 100 } else { 10 }
}

const CHECKS: [&str; 4] = ["--check", "form=test -e src/lib.txt", "--check", "slow=sleep 0.02"];

fn check_kills(agent: &str, flow: &str, jobs: &str) {
    let more = [&["--jobs", jobs][..], &CHECKS].concat();
    let reference = FlowProject::new(agent);
    let code = reference.run(reference.start_args(flow, &more)).code;
    let expected = reference.read_result();
    let (records, mut seed, mut killed) = (reference.read_head(), 7_u64, 0);
    for number in 0..kill_count() {
        let mut random = |most: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % most
        };
        // Spread the kills evenly over the flow, also between its records.
        let seq = 1 + (number * (records - 1) + random(records)) / kill_count();
        let (later, with_guards) = (Duration::from_millis(random(25)), number % 2 == 1);
        let told = format!("killed {later:?} after record {seq}, with guards: {with_guards}");
        let project = FlowProject::new(agent);
        let mut start = project.command_with(&project.start_args(flow, &more));
        let child = start.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        if !project.kill_at(child, seq, later, with_guards) {
            continue;
        }
        killed += 1;
        project.wait_for_agents();
        // `resume` names neither the agent nor the flow: the ledger knows both. It cannot resume a flow that
        // has no record yet.
        if !project.has_flow() {
            continue;
        }
        let resumed = project.run(["--json", "-q", "flow", "resume", "--same-prompt"]);
        assert_eq!((resumed.code, resumed.err().as_str()), (code, ""), "{told}");
        assert_eq!(project.read_result(), expected, "{told}: {}", project.read_status()["waits_for"]);
        project.assert_nothing_is_paid_twice();
        let verified = project.run(["verify", "--all"]);
        assert_eq!(verified.code, Some(0), "{told}: {}", verified.err());
    }
    assert!(killed > kill_count() / 2, "only {killed} were killed");
}

#[test]
fn c8_killed_change_resumes_identically() {
    check_kills("sdd.sh", "sdd", "1");
}

#[test]
fn c8_killed_session_resumes_identically() {
    check_kills("staged.sh", "staged", "3");
}

/// The agent had ended and its checks had not: the checks run again, and the agent is not paid twice.
#[test]
fn flow_killed_during_checks_repeats_checks() {
    for (with_guards, recovered) in [(false, false), (true, false), (false, true)] {
        let reference = FlowProject::new("quick.sh");
        assert_eq!(reference.run(reference.start_args("sdd", &["--check", "waits=true"])).code, Some(0));
        let project = FlowProject::new("quick.sh");
        let check = project.meet_dir().join("check.sh");
        let text = format!(
            "if mkdir '{0}/first' 2> /dev/null; then sleep 30; fi\nexit 0\n",
            project.meet_dir().display()
        );
        fs::write(&check, text).unwrap();
        let check = format!("waits=sh {}", check.display());
        let child = project
            .command_with(&project.start_args("sdd", &["--check", &check]))
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        wait_for_file(&project.meet_dir().join("first"));
        FlowProject::kill(child, with_guards);
        if with_guards {
            // No guard is left to end the processes.
            project.kill_rest();
        }
        if recovered {
            assert_eq!(project.run(["-q", "recover"]).code, Some(0));
        }
        let resumed = project.run(["--json", "-q", "flow", "resume"]);
        assert_eq!((resumed.code, resumed.err().as_str()), (Some(0), ""));
        assert_eq!(project.read_result().prompts, reference.read_result().prompts);
        project.assert_nothing_is_paid_twice();
        let runs = |project: &FlowProject| project.read_status()["runs"].as_array().unwrap().len();
        assert_eq!(runs(&project), runs(&reference));
        for run in project.read_status()["runs"].as_array().unwrap() {
            let shown = project.run(["show", "--json", run.as_str().unwrap()]).json();
            let checks = shown["result"]["checks"].as_array().unwrap();
            let results: Vec<_> = checks.iter().map(|check| (&check["name"], &check["result"])).collect();
            assert_eq!(results, [(&"waits".into(), &"passed".into())]);
        }
    }
}

/// A killed agent had changed the sources of its prompt. The next one gets a prompt from the current files or
/// the same prompt, and the ledger has both prompts with their origins.
#[test]
fn m8_killed_lane_gets_chosen_prompt() {
    for same in [false, true] {
        let project = FlowProject::new("sdd.sh");
        let script = "if [ \"$CALLSHEET_PHASE\" = implement ] && mkdir \"$MEET_AT/first\" 2> /dev/null; then sleep 30; fi";
        project.run_after_agent(script);
        let child =
            project.command_with(&project.start_args("sdd", &[])).stdout(Stdio::null()).spawn().unwrap();
        wait_for_file(&project.meet_dir().join("first"));
        FlowProject::kill(child, false);
        project.wait_for_agents();
        let resume = ["--json", "-q", "flow", "resume", "--same-prompt"];
        assert_eq!(project.run(if same { &resume } else { &resume[..4] }).code, Some(0));
        let runs: Vec<String> = project
            .read_events()
            .iter()
            .filter(|event| event["event"] == "flow.lane_started")
            .map(|event| &event["data"]["detail"])
            .filter(|detail| detail["lane"] == "1.1")
            .map(|detail| detail["run"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(runs.len(), 2);
        let (first, second) = (project.read_prompt(&runs[0]), project.read_prompt(&runs[1]));
        assert!(!first.contains("progress"), "it holds what it was to write");
        assert_eq!((first == second, second.contains("progress")), (same, !same));
        let shown = |run: &str| project.run_json(&["--json", "show", run]);
        assert_eq!(shown(&runs[1])["parent"], runs[0].as_str());
        for (run, prompt) in runs.iter().zip([first, second]) {
            let explained = project.run_json(&["--json", "show", run, "--origins"]);
            assert_eq!(explained["text"], prompt.as_str());
            assert!(!explained["origins"].as_array().unwrap().is_empty());
        }
        project.assert_nothing_is_paid_twice();
    }
}

/// The review names the changes of the killed run.
#[test]
fn u5_killed_fix_is_reviewed_whole() {
    let reference = FlowProject::new("sdd.sh");
    assert_eq!(reference.run(reference.start_args("sdd", &[])).code, Some(0));
    let project = FlowProject::new("sdd.sh");
    project
        .run_after_agent("if [ -e fixed.txt ] && mkdir \"$MEET_AT/first\" 2> /dev/null; then sleep 30; fi");
    let child = project.command_with(&project.start_args("sdd", &[])).stdout(Stdio::null()).spawn().unwrap();
    wait_for_file(&project.meet_dir().join("first"));
    FlowProject::kill(child, true);
    project.kill_rest();
    assert_eq!(project.run(["--json", "-q", "flow", "resume", "--same-prompt"]).code, Some(0));
    assert_eq!(project.read_result(), reference.read_result());
}
