//! Tests several flows in one project: worktrees and branches of earlier ones are reported and do not
//! interfere.

use std::collections::BTreeSet;
use std::fs;
use std::process::Stdio;

use callsheet_testing::{CommandOutput, wait_for_end};
use serde_json::json;

use crate::project::{FlowProject, wait_for_file};

const APPROVE: [&str; 6] = ["--json", "-q", "flow", "decide", "--yes", "approve"];

fn read_parts(project: &FlowProject) -> Vec<String> {
    let part = |number: u32| fs::read_to_string(project.path().join(format!("src/p{number}/part.txt")));
    (1..=3).map(|number| part(number).unwrap()).collect()
}

fn remove_parts(project: &FlowProject) {
    (1..=3).for_each(|number| fs::remove_dir_all(project.path().join(format!("src/p{number}"))).unwrap());
}

/// Starts a session without `-q` and `--json`. Returns its output for people.
fn start_session(project: &FlowProject, id: &str) -> CommandOutput {
    let agent = project.agent().to_str().unwrap();
    let args = ["flow", "start", "staged", "Add a login", "--id", id, "--jobs", "3", "--", agent];
    project.run(args)
}

fn list_branches(project: &FlowProject) -> BTreeSet<String> {
    let list = project.git(&["branch", "--format=%(refname:short)"]);
    list.lines().filter(|name| name.starts_with("callsheet/")).map(str::to_owned).collect()
}

#[test]
fn ten_successive_sessions_have_own_lanes() {
    let project = FlowProject::new("staged.sh");
    for number in 1..=10 {
        let output = start_session(&project, &format!("s{number}"));
        let err = output.err();
        assert_eq!(output.code, Some(1), "{number}: {err}");
        let status = project.read_status();
        assert_eq!(
            (&status["state"], &status["phase"]),
            (&json!("waiting"), &json!("completing")),
            "{status}"
        );
        assert_eq!(read_parts(&project), ["part 1\n", "part 2\n", "part 3\n"]);
        assert!(!err.contains("flows left "), "{err}");
        let flow = status["flow"].as_str().unwrap().to_owned();
        let own = |lane: u32| format!("callsheet/lane-{flow}-003-{lane}");
        assert!(
            (1..=3).all(|lane| list_branches(&project).contains(&own(lane))),
            "{:?}",
            list_branches(&project)
        );
        assert_eq!(project.run(APPROVE).code, Some(0));
        remove_parts(&project);
        assert_eq!(list_branches(&project), BTreeSet::new(), "{number}");
        assert_eq!(lane_files(&project), Vec::<String>::new(), "{number}");
    }
}

/// Work that is not in the project is never removed: files that changed after the merge, and commits.
#[test]
fn lanes_with_own_work_are_kept() {
    let project = FlowProject::new("staged.sh");
    assert_eq!(start_session(&project, "first").code, Some(1));
    let flow = project.read_status()["flow"].as_str().unwrap().to_owned();
    let worktree = |lane: u32| {
        let list = project.git(&["worktree", "list", "--porcelain"]);
        let name = format!("lane-{flow}-003-{lane}");
        let path =
            list.lines().find_map(|line| line.strip_prefix("worktree ").filter(|at| at.ends_with(&name)));
        path.unwrap().to_owned()
    };
    fs::write(format!("{}/later.txt", worktree(1)), "later\n").unwrap();
    project.git(&["-C", &worktree(2), "add", "-A"]);
    project.git(&["-C", &worktree(2), "commit", "-q", "-m", "own"]);
    let approved = project.run(["flow", "decide", "--yes", "approve"]);
    assert_eq!(approved.code, Some(0), "{}", approved.err());
    let kept: Vec<String> = (1..=2).map(|lane| format!("callsheet/lane-{flow}-003-{lane}")).collect();
    assert_eq!(list_branches(&project), kept.into_iter().collect());
    assert_eq!(approved.err().matches("kept the worktree of ").count(), 2, "{}", approved.err());
    let next = start_session(&project, "second").err();
    assert!(next.contains("flows left 2 worktrees, such as "), "{next}");
    assert!(next.contains("flows left 2 branches, such as "), "{next}");
}

/// Returns everything below the folder of lanes except for its lock.
fn lane_files(project: &FlowProject) -> Vec<String> {
    let found = std::process::Command::new("find").arg(project.home()).output().unwrap();
    let found = String::from_utf8(found.stdout).unwrap();
    found
        .lines()
        .filter(|path| path.contains("/lanes/") && !path.ends_with("/lock"))
        .map(str::to_owned)
        .collect()
}

#[test]
fn three_concurrent_sessions_share_project() {
    let project = FlowProject::new("staged.sh");
    let ids = ["one", "two", "three"];
    let begin = |id: &&str| {
        let start = project.start_args("staged", &["--jobs", "3", "--share", "--id", id]);
        project.command_with(&start).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let running: Vec<_> = ids.iter().map(begin).collect();
    for (id, child) in ids.iter().zip(running) {
        let output = wait_for_end(child);

        let status = project.run(["--json", "flow", "status", id]).lines_json().remove(0);
        assert_eq!((output.code, output.err().as_str()), (Some(1), ""), "{id}: {status}");
        assert_eq!(
            (&status["state"], &status["phase"]),
            (&json!("waiting"), &json!("completing")),
            "{status}"
        );
    }
    assert_eq!(read_parts(&project), ["part 1\n", "part 2\n", "part 3\n"]);
    for id in ids {
        assert_eq!(project.run([&APPROVE[..], &["--flow", id]].concat()).code, Some(0), "{id}");
    }
    // Without `--share` the second flow is refused.
    let alone = FlowProject::new("quick.sh");
    fs::write(alone.meet_dir().join("wait"), "").unwrap();
    let begun = alone.command_with(&alone.start_args("sdd", &[])).stdout(Stdio::null()).spawn();
    wait_for_file(&alone.meet_dir().join("here"));
    assert_eq!(alone.run(alone.start_args("sdd", &["--id", "second"])).code, Some(9));
    fs::remove_file(alone.meet_dir().join("wait")).unwrap();
    assert_eq!(begun.unwrap().wait().unwrap().code(), Some(0));
}

#[test]
fn recreated_project_is_new() {
    let project = FlowProject::new("staged.sh");
    assert_eq!(start_session(&project, "first").code, Some(1));
    assert_eq!(project.run(APPROVE).code, Some(0));
    fs::remove_dir_all(project.path()).unwrap();
    fs::create_dir_all(project.path().join("src")).unwrap();
    fs::write(project.path().join("src/lib.txt"), "lib\n").unwrap();
    for args in [&["init", "-q"][..], &["add", "-A"], &["commit", "-q", "-m", "first"]] {
        project.git(args);
    }
    let output = start_session(&project, "first");
    let err = output.err();
    assert_eq!(output.code, Some(1), "{err}");
    assert!(!err.contains("flows left "), "{err}");
    assert_eq!(read_parts(&project), ["part 1\n", "part 2\n", "part 3\n"]);
    let flow = project.read_status()["flow"].as_str().unwrap().to_owned();
    assert!(list_branches(&project).iter().all(|branch| branch.contains(&flow)));
}

/// A relative path of a program is resolved once, against the directory of the command, even in worktrees.
#[test]
fn relative_program_path_works_in_worktrees() {
    let project = FlowProject::new("staged.sh");
    let start = ["--json", "-q", "flow", "start", "staged", "Add a login", "--jobs", "3", "--", "../agent"];
    let ended = project.run(start);
    assert_eq!((ended.code, ended.err().as_str()), (Some(1), ""));
    let status = project.read_status();
    assert_eq!((&status["phase"], read_parts(&project).len()), (&json!("completing"), 3), "{status}");
    fs::write(project.home().join("../hello"), "#!/bin/sh\ncat > /dev/null\necho hello\n").unwrap();
    fs::set_permissions(project.home().join("../hello"), std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .unwrap();
    let check = "said=../hello";
    let run = ["--json", "-q", "run", "x", "--worktree", "--check", check, "--", "../hello"];
    let ran = project.run_json(&run);
    assert_eq!((&ran["exit_code"], &ran["checks"][0]["result"]), (&json!(0), &json!("passed")), "{ran}");
    let run = ran["run"].as_str().unwrap();
    let retried = project.run_json(&["--json", "-q", "retry", run, "--force", "--worktree"]);
    assert_eq!(retried["exit_code"], 0, "{retried}");
}

/// `CLAUDE` means `claude`, as everywhere else.
#[test]
fn agent_names_ignore_case() {
    let project = FlowProject::new("staged.sh");
    let start = ["flow", "start", "sdd", "Add a login", "-a", "CLAUDE", "--agent-for", "plan=CODEX:o3"];
    let refused = project.run(start);
    assert!(!refused.err().contains("CLAUDE") && !refused.err().contains("CODEX"), "{}", refused.err());
}
