//! Tests several flows in one project: worktrees and branches of earlier ones are reported and do not
//! interfere.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Output, Stdio};

use serde_json::json;

use crate::world::World;

const APPROVE: [&str; 6] = ["--json", "-q", "flow", "decide", "--yes", "approve"];

fn read_parts(world: &World) -> Vec<String> {
    let part = |number: u32| fs::read_to_string(world.project().join(format!("src/p{number}/part.txt")));
    (1..=3).map(|number| part(number).unwrap()).collect()
}

fn remove_parts(world: &World) {
    (1..=3).for_each(|number| fs::remove_dir_all(world.project().join(format!("src/p{number}"))).unwrap());
}

/// Starts a session without `-q` and `--json`. Returns its output for people.
fn start_session(world: &World, id: &str) -> Output {
    let agent = world.agent().to_str().unwrap();
    let args = ["flow", "start", "staged", "Add a login", "--id", id, "--jobs", "3", "--", agent];
    world.command(&args).output().unwrap()
}

fn list_branches(world: &World) -> BTreeSet<String> {
    let mut git = std::process::Command::new("git");
    let list =
        git.current_dir(world.project()).args(["branch", "--format=%(refname:short)"]).output().unwrap();
    let list = String::from_utf8(list.stdout).unwrap();
    list.lines().filter(|name| name.starts_with("callsheet/")).map(str::to_owned).collect()
}

#[test]
fn ten_successive_sessions_have_own_lanes() {
    let world = World::new("staged.sh");
    for number in 1..=10 {
        let output = start_session(&world, &format!("s{number}"));
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{number}: {said}");
        let status = world.read_status();
        assert_eq!(
            (&status["state"], &status["phase"]),
            (&json!("waiting"), &json!("completing")),
            "{status}"
        );
        assert_eq!(read_parts(&world), ["part 1\n", "part 2\n", "part 3\n"]);
        let left: Vec<&str> = said.lines().filter(|line| line.contains("that flows have left")).collect();
        let count = 3 * (number - 1);
        let told = [
            format!("worktrees that flows have left: {count},"),
            format!("branches that flows have left: {count},"),
        ];
        let told: &[String] = if count == 0 { &[] } else { &told };
        assert_eq!(left.len(), told.len(), "{said}");
        assert!(left.iter().zip(told).all(|(line, told)| line.starts_with(told)), "{said}");
        let flow = status["flow"].as_str().unwrap().to_owned();
        let own = |lane: u32| format!("callsheet/lane-{flow}-003-{lane}");
        assert!(
            (1..=3).all(|lane| list_branches(&world).contains(&own(lane))),
            "{:?}",
            list_branches(&world)
        );
        assert_eq!(world.run(&APPROVE).code, Some(0));
        remove_parts(&world);
    }
    assert_eq!(list_branches(&world).len(), 30);
}

#[test]
fn three_concurrent_sessions_share_project() {
    let world = World::new("staged.sh");
    let ids = ["one", "two", "three"];
    let begin = |id: &&str| {
        let start = world.start_args("staged", &["--jobs", "3", "--share", "--id", id]);
        world.command(&start).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let running: Vec<_> = ids.iter().map(begin).collect();
    for (id, child) in ids.iter().zip(running) {
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        let status = world.run(&["--json", "flow", "status", id]).lines.remove(0);
        assert_eq!((output.status.code(), said.as_str()), (Some(1), ""), "{id}: {status}");
        assert_eq!(
            (&status["state"], &status["phase"]),
            (&json!("waiting"), &json!("completing")),
            "{status}"
        );
    }
    assert_eq!(read_parts(&world), ["part 1\n", "part 2\n", "part 3\n"]);
    for id in ids {
        assert_eq!(world.run(&[&APPROVE[..], &["--flow", id]].concat()).code, Some(0), "{id}");
    }
    // Without `--share` the second flow is refused.
    let alone = World::new("quick.sh");
    fs::write(alone.meet_dir().join("wait"), "").unwrap();
    let begun = alone.command(&alone.start_args("sdd", &[])).stdout(Stdio::null()).spawn();
    while !alone.meet_dir().join("here").exists() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert_eq!(alone.run(&alone.start_args("sdd", &["--id", "second"])).code, Some(9));
    fs::remove_file(alone.meet_dir().join("wait")).unwrap();
    assert_eq!(begun.unwrap().wait().unwrap().code(), Some(0));
}

#[test]
fn recreated_project_is_new() {
    let world = World::new("staged.sh");
    assert_eq!(start_session(&world, "first").status.code(), Some(1));
    assert_eq!(world.run(&APPROVE).code, Some(0));
    fs::remove_dir_all(world.project()).unwrap();
    fs::create_dir_all(world.project().join("src")).unwrap();
    fs::write(world.project().join("src/lib.txt"), "lib\n").unwrap();
    for args in [&["init", "-q"][..], &["add", "-A"], &["commit", "-q", "-m", "first"]] {
        world.git(args);
    }
    let output = start_session(&world, "first");
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("worktrees that flows have left: 3, such as "), "{said}");
    assert!(!said.contains("branches that flows have left"), "{said}");
    assert_eq!(read_parts(&world), ["part 1\n", "part 2\n", "part 3\n"]);
    let flow = world.read_status()["flow"].as_str().unwrap().to_owned();
    assert!(list_branches(&world).iter().all(|branch| branch.contains(&flow)));
}

/// A relative path of a program is resolved once, against the directory of the command, even in worktrees.
#[test]
fn relative_program_path_works_in_worktrees() {
    let world = World::new("staged.sh");
    let start = ["--json", "-q", "flow", "start", "staged", "Add a login", "--jobs", "3", "--", "../agent"];
    let ended = world.run(&start);
    assert_eq!((ended.code, ended.err.as_str()), (Some(1), ""));
    let status = world.read_status();
    assert_eq!((&status["phase"], read_parts(&world).len()), (&json!("completing"), 3), "{status}");
    fs::write(world.home().join("../hello"), "#!/bin/sh\ncat > /dev/null\necho hello\n").unwrap();
    fs::set_permissions(world.home().join("../hello"), std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .unwrap();
    let check = "said=../hello";
    let run = ["--json", "-q", "run", "x", "--worktree", "--check", check, "--", "../hello"];
    let ran = world.run_json(&run);
    assert_eq!((&ran["exit_code"], &ran["checks"][0]["result"]), (&json!(0), &json!("passed")), "{ran}");
    let run = ran["run"].as_str().unwrap();
    let retried = world.run_json(&["--json", "-q", "retry", run, "--force", "--worktree"]);
    assert_eq!(retried["exit_code"], 0, "{retried}");
}

/// `CLAUDE` means `claude`, as everywhere else.
#[test]
fn agent_names_ignore_case() {
    let world = World::new("staged.sh");
    let start = ["flow", "start", "sdd", "Add a login", "-a", "CLAUDE", "--agent-for", "plan=CODEX:o3"];
    let refused = world.run(&start);
    assert!(!refused.err.contains("CLAUDE") && !refused.err.contains("CODEX"), "{}", refused.err);
}
