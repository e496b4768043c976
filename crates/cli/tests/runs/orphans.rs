//! After any stop no process of a run is left, and the result reports the reason for its end.

use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::world::{World, fake_agent, summarize, wait_for_end, wait_until};

/// An agent with children in sessions of their own that ignore every request to end.
const STUBBORN: [&str; 6] = [
    "child-setsid",
    "ignore-term child-setsid+ignore-term+sleep+60000 sleep 60000",
    "child",
    "ignore-term sleep 60000",
    "say",
    "up",
];

fn wait_until_up(world: &World) {
    wait_until("it runs", || world.run(&["show", "last", "--stream", "stdout"]).out == "up\n");
}

#[test]
fn stop_ends_whole_process_tree() {
    for (stubborn, expected) in [
        (false, "130 cancelled: stopped by 15 | checks c:pending | receipts spawned"),
        (true, "130 cancelled: stopped by 9 | checks c:pending | receipts spawned"),
    ] {
        let world = World::new();
        let mut words = if stubborn { vec!["ignore-term"] } else { Vec::new() };
        words.extend(STUBBORN);
        words.extend(["sleep", "60000"]);
        let running = world.start_agent(&["--check", "c=true"], &words);
        wait_until_up(&world);
        let stop = world.run(&["--json", "stop", "last"]).expect_code(0);
        assert_eq!(stop.json()["why"], "asked for by `callsheet stop`");
        world.assert_no_process_left();
        let said = wait_for_end(running);
        assert_eq!(summarize(&said), expected);
        assert_eq!(stop.out, said.out);
        world.assert_all_runs_finished();
        assert_eq!(world.run(&["--json", "stop", "last"]).error(), (Some(9), "run/refused".into()));
    }
}

#[test]
fn interrupts_end_whole_process_tree() {
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        let world = World::new();
        let words: Vec<&str> = STUBBORN.iter().chain(&["sleep", "60000"]).copied().collect();
        let running = world.start_agent(&["--check", "c=true"], &words);
        wait_until_up(&world);
        kill(Pid::from_raw(i32::try_from(running.id()).unwrap()), signal).unwrap();
        let said = wait_for_end(running);
        assert_eq!(
            summarize(&said),
            "130 cancelled: stopped by 15 | checks c:pending | receipts spawned",
            "{signal}"
        );
        assert_eq!(said.json()["why"], "interrupted");
        world.assert_all_runs_finished();
    }
    // A second signal ends the wait for an agent that does not end.
    let world = World::new();
    let words: Vec<&str> =
        ["ignore-term"].iter().chain(&STUBBORN).chain(&["sleep", "60000"]).copied().collect();
    let running = world.start_agent(&[], &words);
    wait_until_up(&world);
    let pid = Pid::from_raw(i32::try_from(running.id()).unwrap());
    kill(pid, Signal::SIGINT).unwrap();
    thread::sleep(Duration::from_millis(300));
    kill(pid, Signal::SIGINT).unwrap();
    assert_eq!(wait_for_end(running).code, Some(130));
    world.assert_no_process_left();
    let told = world.run(&["--json", "recover"]).expect_code(0).json();
    assert_eq!(told["recovered"][0]["ended"], "lost");
    world.assert_all_runs_finished();
}

/// The agent has ended; only a check is still running.
#[test]
fn interrupt_ends_running_check() {
    let world = World::new();
    let check = |name: &str, words: &str| format!("{name}={} {words}", fake_agent());
    let first = check("first", "interrupt-ours sleep 60000");
    let said = world.run_agent(&["--check", &first, "--check", "second=true"], &["exit", "0"]);
    assert_eq!(
        summarize(&said),
        "130 completed: exited 0 | checks first:pending,second:pending | receipts spawned"
    );
    world.assert_all_runs_finished();
    // The same with `stop`.
    let world = World::new();
    let up = world.at("up").display().to_string();
    let running =
        world.start_agent(&["--check", &check("first", &format!("write {up} sleep 60000"))], &["exit", "0"]);
    wait_until("the check runs", || world.at("up").exists());
    world.run(&["stop", "last"]).expect_code(0);
    assert_eq!(
        summarize(&wait_for_end(running)),
        "130 completed: exited 0 | checks first:pending | receipts spawned"
    );
    world.assert_all_runs_finished();
}

#[test]
fn killed_callsheet_leaves_no_orphans() {
    let world = World::new();
    let words: Vec<&str> =
        ["ignore-term"].iter().chain(&STUBBORN).chain(&["sleep", "60000"]).copied().collect();
    let mut running = world.start_agent(&[], &words);
    wait_until_up(&world);
    running.kill().unwrap();
    wait_for_end(running);
    world.assert_no_process_left();
    // A person who wants to stop the run learns how it ended.
    let stop = world.run(&["--json", "stop", "last"]).expect_code(0).json();
    assert_eq!((&stop["ended"], &stop["why"]), (&"lost".into(), &"its callsheet died".into()));
    world.assert_all_runs_finished();
}
