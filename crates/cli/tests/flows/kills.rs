//! A flow whose callsheet is killed, at any record, comes to the same end when it is resumed.

use std::process::{Command, Stdio};

use crate::world::World;

/// The short form kills at every tenth record, `./test --long` at every one.
fn step() -> usize {
    if std::env::var_os("CALLSHEET_LONG").is_some() { 1 } else { 10 }
}

fn killed_everywhere(agent: &str, flow: &str, jobs: &str) {
    let reference = World::new(agent);
    let code = reference.run(&reference.start(flow, &["--jobs", jobs])).code;
    let expected = reference.end();
    let mut killed = 0;
    for seq in (1..reference.head()).step_by(step()) {
        let world = World::new(agent);
        let mut start: Command = world.command(&world.start(flow, &["--jobs", jobs]));
        let child = start.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        if !world.kill_at(child, seq) {
            continue;
        }
        killed += 1;
        // Nothing but what the ledger knows: not which agent, not which flow. A flow that has ended is not resumed.
        if world.run(&["--json", "flow", "status"]).code == Some(4) {
            continue;
        }
        let resumed = world.run(&["--json", "-q", "flow", "resume"]);
        assert_eq!((resumed.code, resumed.err.as_str()), (code, ""), "killed at {seq}");
        assert_eq!(world.end(), expected, "killed at {seq}");
        let verified = world.run(&["verify", "--all"]);
        assert_eq!(verified.code, Some(0), "killed at {seq}: {}", verified.err);
    }
    assert!(killed > 0, "nothing was killed");
}

#[test]
fn c8_a_change_is_the_same_after_a_kill_at_any_record() {
    killed_everywhere("sdd.sh", "sdd", "1");
}

#[test]
fn c8_a_session_with_lanes_is_the_same_after_a_kill_at_any_record() {
    killed_everywhere("staged.sh", "staged", "3");
}
