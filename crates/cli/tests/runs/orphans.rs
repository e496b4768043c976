//! After any stop no process of a run is left, and the result reports the reason for its end.

use std::thread;
use std::time::Duration;

use callsheet_testing::{wait_for_end, wait_until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::project::{RunProject, fake_agent, summarize};

/// An agent with children in sessions of their own that ignore every request to end.
const STUBBORN: [&str; 6] = [
    "child-setsid",
    "ignore-term child-setsid+ignore-term+sleep+60000 sleep 60000",
    "child",
    "ignore-term sleep 60000",
    "say",
    "up",
];

fn wait_until_up(project: &RunProject) {
    wait_until("it runs", || project.run(["show", "last", "--stream", "stdout"]).out() == "up\n");
}

#[test]
fn stop_ends_whole_process_tree() {
    for (stubborn, expected) in [
        (false, "130 cancelled: stopped by 15 | checks c:pending | receipts spawned"),
        (true, "130 cancelled: stopped by 9 | checks c:pending | receipts spawned"),
    ] {
        let project = RunProject::new();
        let mut words = if stubborn { vec!["ignore-term"] } else { Vec::new() };
        words.extend(STUBBORN);
        words.extend(["sleep", "60000"]);
        let running = project.start_agent(&["--check", "c=true"], &words);
        wait_until_up(&project);
        let stop = project.run(["--json", "stop", "last"]).expect_code(0);
        assert_eq!(stop.json()["reason"]["message"], "asked for by `callsheet stop`");
        project.assert_no_process_left();
        let output = wait_for_end(running);
        assert_eq!(summarize(&output), expected);
        assert_eq!(stop.out(), output.out());
        project.assert_all_runs_finished();
        assert_eq!(project.run(["--json", "stop", "last"]).error(), (Some(9), "run/refused".into()));
    }
}

#[test]
fn interrupts_end_whole_process_tree() {
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        let project = RunProject::new();
        let words: Vec<&str> = STUBBORN.iter().chain(&["sleep", "60000"]).copied().collect();
        let running = project.start_agent(&["--check", "c=true"], &words);
        wait_until_up(&project);
        kill(Pid::from_raw(i32::try_from(running.id()).unwrap()), signal).unwrap();
        let output = wait_for_end(running);
        assert_eq!(
            summarize(&output),
            "130 cancelled: stopped by 15 | checks c:pending | receipts spawned",
            "{signal}"
        );
        assert_eq!(output.json()["reason"]["message"], "interrupted");
        project.assert_all_runs_finished();
    }
    // A second signal ends the wait for an agent that does not end.
    let project = RunProject::new();
    let words: Vec<&str> =
        ["ignore-term"].iter().chain(&STUBBORN).chain(&["sleep", "60000"]).copied().collect();
    let running = project.start_agent(&[], &words);
    wait_until_up(&project);
    let pid = Pid::from_raw(i32::try_from(running.id()).unwrap());
    kill(pid, Signal::SIGINT).unwrap();
    thread::sleep(Duration::from_millis(300));
    kill(pid, Signal::SIGINT).unwrap();
    assert_eq!(wait_for_end(running).code, Some(130));
    project.assert_no_process_left();
    let told = project.run(["--json", "recover"]).expect_code(0).json();
    assert_eq!(told["items"][0]["end"], "lost");
    project.assert_all_runs_finished();
}

/// The agent has ended; only a check is still running.
#[test]
fn interrupt_ends_running_check() {
    let project = RunProject::new();
    let check = |name: &str, words: &str| format!("{name}={} {words}", fake_agent());
    let first = check("first", "interrupt-ours sleep 60000");
    let output = project.run_agent(&["--check", &first, "--check", "second=true"], &["exit", "0"]);
    assert_eq!(
        summarize(&output),
        "130 completed: exited 0 | checks first:pending,second:pending | receipts spawned"
    );
    project.assert_all_runs_finished();
    // The same with `stop`.
    let project = RunProject::new();
    let up = project.beside("up").display().to_string();
    let running = project
        .start_agent(&["--check", &check("first", &format!("write {up} sleep 60000"))], &["exit", "0"]);
    wait_until("the check runs", || project.beside("up").exists());
    project.run(["stop", "last"]).expect_code(0);
    assert_eq!(
        summarize(&wait_for_end(running)),
        "130 completed: exited 0 | checks first:pending | receipts spawned"
    );
    project.assert_all_runs_finished();
}

#[test]
fn killed_callsheet_leaves_no_orphans() {
    let project = RunProject::new();
    let words: Vec<&str> =
        ["ignore-term"].iter().chain(&STUBBORN).chain(&["sleep", "60000"]).copied().collect();
    let mut running = project.start_agent(&[], &words);
    wait_until_up(&project);
    running.kill().unwrap();
    wait_for_end(running);
    project.assert_no_process_left();
    // A person who wants to stop the run learns how it ended.
    let stop = project.run(["--json", "stop", "last"]).expect_code(0).json();
    assert_eq!((&stop["end"], &stop["reason"]["message"]), (&"lost".into(), &"callsheet was killed".into()));
    project.assert_all_runs_finished();
}
