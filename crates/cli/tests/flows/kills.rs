//! Tests that a flow whose callsheet is killed at any moment has the same result after it is resumed.

use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::world::World;

/// Returns the number of kills per flow.
fn kill_count() -> u64 {
    if std::env::var_os("CALLSHEET_LONG").is_some() { 100 } else { 10 }
}

const CHECKS: [&str; 4] = ["--check", "form=test -e src/lib.txt", "--check", "slow=sleep 0.02"];

fn check_kills(agent: &str, flow: &str, jobs: &str) {
    let more = [&["--jobs", jobs][..], &CHECKS].concat();
    let reference = World::new(agent);
    let code = reference.run(&reference.start_args(flow, &more)).code;
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
        let world = World::new(agent);
        let mut start = world.command(&world.start_args(flow, &more));
        let child = start.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        if !world.kill_at(child, seq, later, with_guards) {
            continue;
        }
        killed += 1;
        world.wait_until_alone();
        // `resume` names neither the agent nor the flow: the ledger knows both. It cannot resume a flow that
        // has no record yet.
        if world.run(&["--json", "flow", "status"]).code == Some(4) {
            continue;
        }
        let resumed = world.run(&["--json", "-q", "flow", "resume", "--same-prompt"]);
        assert_eq!((resumed.code, resumed.err.as_str()), (code, ""), "{told}");
        assert_eq!(world.read_result(), expected, "{told}: {}", world.read_status()["waits_for"]);
        world.assert_nothing_is_paid_twice();
        let verified = world.run(&["verify", "--all"]);
        assert_eq!(verified.code, Some(0), "{told}: {}", verified.err);
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

fn wait_for(path: &std::path::Path) {
    let begun = Instant::now();
    while !path.exists() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{} does not come", path.display());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The agent had ended and its checks had not: the checks run again, and the agent is not paid twice.
#[test]
fn flow_killed_during_checks_repeats_checks() {
    for (with_guards, recovered) in [(false, false), (true, false), (false, true)] {
        let reference = World::new("quick.sh");
        assert_eq!(reference.run(&reference.start_args("sdd", &["--check", "waits=true"])).code, Some(0));
        let world = World::new("quick.sh");
        let check = world.meet_dir().join("check.sh");
        let text = format!(
            "if mkdir '{0}/first' 2> /dev/null; then sleep 30; fi\nexit 0\n",
            world.meet_dir().display()
        );
        fs::write(&check, text).unwrap();
        let check = format!("waits=sh {}", check.display());
        let child = world
            .command(&world.start_args("sdd", &["--check", &check]))
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        wait_for(&world.meet_dir().join("first"));
        World::kill(child, with_guards);
        if with_guards {
            // No guard is left to end the processes.
            world.kill_rest();
        }
        if recovered {
            assert_eq!(world.run(&["-q", "recover"]).code, Some(0));
        }
        let resumed = world.run(&["--json", "-q", "flow", "resume"]);
        assert_eq!((resumed.code, resumed.err.as_str()), (Some(0), ""));
        assert_eq!(world.read_result().prompts, reference.read_result().prompts);
        world.assert_nothing_is_paid_twice();
        let runs = |world: &World| world.read_status()["runs"].as_array().unwrap().len();
        assert_eq!(runs(&world), runs(&reference));
    }
}

/// A killed agent had changed the sources of its prompt. The next one gets a prompt from the current files or
/// the same prompt, and the ledger has both prompts with their origins.
#[test]
fn m8_killed_lane_gets_chosen_prompt() {
    for same in [false, true] {
        let world = World::new("sdd.sh");
        let script = "if [ \"$CALLSHEET_PHASE\" = implement ] && mkdir \"$MEET_AT/first\" 2> /dev/null; then sleep 30; fi";
        world.run_after_agent(script);
        let child = world.command(&world.start_args("sdd", &[])).stdout(Stdio::null()).spawn().unwrap();
        wait_for(&world.meet_dir().join("first"));
        World::kill(child, false);
        world.wait_until_alone();
        let resume = ["--json", "-q", "flow", "resume", "--same-prompt"];
        assert_eq!(world.run(if same { &resume } else { &resume[..4] }).code, Some(0));
        let runs: Vec<String> = world
            .read_events()
            .iter()
            .map(|event| &event["data"]["detail"])
            .filter(|detail| detail["event"] == "lane_started" && detail["lane"] == "1.1")
            .map(|detail| detail["run"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(runs.len(), 2);
        let (first, second) = (world.read_prompt(&runs[0]), world.read_prompt(&runs[1]));
        assert!(!first.contains("progress"), "it holds what it was to write");
        assert_eq!((first == second, second.contains("progress")), (same, !same));
        let shown = |run: &str| world.run_json(&["--json", "show", run]);
        assert_eq!(shown(&runs[1])["parent"], runs[0].as_str());
        for (run, prompt) in runs.iter().zip([first, second]) {
            let explained = world.run_json(&["--json", "show", run, "--origins"]);
            assert_eq!(explained["text"], prompt.as_str());
            assert!(!explained["origins"].as_array().unwrap().is_empty());
        }
        world.assert_nothing_is_paid_twice();
    }
}

/// The review names the changes of the killed run.
#[test]
fn u5_killed_fix_is_reviewed_whole() {
    let reference = World::new("sdd.sh");
    assert_eq!(reference.run(&reference.start_args("sdd", &[])).code, Some(0));
    let world = World::new("sdd.sh");
    world.run_after_agent("if [ -e fixed.txt ] && mkdir \"$MEET_AT/first\" 2> /dev/null; then sleep 30; fi");
    let child = world.command(&world.start_args("sdd", &[])).stdout(Stdio::null()).spawn().unwrap();
    wait_for(&world.meet_dir().join("first"));
    World::kill(child, true);
    world.kill_rest();
    assert_eq!(world.run(&["--json", "-q", "flow", "resume", "--same-prompt"]).code, Some(0));
    assert_eq!(world.read_result(), reference.read_result());
}
