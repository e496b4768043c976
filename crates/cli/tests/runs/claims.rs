//! A run claims its checkout: two runs are not blamed for each other's changes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Child;

use callsheet_testing::{CommandOutput, run_command, run_with_input, wait_for_end, wait_until};
use serde_json::{Value, json};

use crate::project::{RunProject, fake_agent};

/// Starts a run that works until the file `go` exists.
fn start_working(project: &RunProject, flags: &[&str]) -> Child {
    let go = project.beside("go").display().to_string();
    let running = project.start_agent(flags, &["say", "up", "wait-for", &go]);
    wait_until("it works", || project.run(["show", "last", "--stream", "stdout"]).out() == "up\n");
    running
}

fn release(project: &RunProject) {
    fs::write(project.beside("go"), "").unwrap();
}

/// Returns the exit code, the diagnostic code and the hints of the error.
fn parse_refusal(output: &CommandOutput) -> (Option<i32>, String, String) {
    let error = output.error_json();
    (output.code, error["code"].as_str().unwrap().to_owned(), error["hints"].to_string())
}

/// Runs the command in another directory.
fn run_in(project: &RunProject, dir: &Path, args: &[&str]) -> CommandOutput {
    run_command(project.command().current_dir(dir).args(args))
}

fn count_runs(project: &RunProject) -> usize {
    project.run(["--json", "log"]).expect_code(0).json()["items"].as_array().unwrap().len()
}

#[test]
fn second_run_in_checkout_is_refused() {
    let project = RunProject::new();
    project.write("part/.callsheet/config.toml", "");
    project.commit();
    let earlier = project.run_agent(&[], &["exit", "1"]).expect_code(6).run_id();
    std::os::unix::fs::symlink(project.path(), project.beside("link")).unwrap();
    std::os::unix::fs::symlink(project.path().join("part"), project.beside("deep")).unwrap();
    let first = start_working(&project, &["--task-id", "T-1"]);
    let id = project.run(["--json", "log", "--limit", "1"]).expect_code(0).json()["items"][0]["run"]
        .as_str()
        .unwrap()
        .to_owned();
    let agent = [fake_agent(), "write", "started.txt"];
    let other = project.beside("other.db").display().to_string();
    let run = &["run", "Do it.", "--"][..];
    let top = project.path().to_owned();
    let ways: [(PathBuf, &[&str]); 9] = [
        (top.clone(), run),
        (project.beside("link"), run),
        (top.join("part"), run),
        (project.beside("deep"), run),
        (top.join("src"), run),
        (top.clone(), &["--ledger", &other, "run", "Do it.", "--"]),
        (top.clone(), &["run", "--task-id", "T-2", "Do it.", "--"]),
        (top.clone(), &["retry", &earlier, "--"]),
        (top.clone(), &["continue", &earlier, "More.", "--"]),
    ];
    let before = count_runs(&project);
    for (dir, way) in &ways {
        let refused = run_in(&project, dir, &[&["--json", "-q"][..], way, &agent].concat());
        let (code, kind, hint) = parse_refusal(&refused);
        assert_eq!((code, kind.as_str()), (Some(9), "run/refused"), "{dir:?} {way:?}");
        assert!(hint.contains("--worktree") && hint.contains("--share") && hint.contains(&id), "{hint}");
    }
    let flow = project.run([&["--json", "-q", "flow", "start", "sdd", "Do it.", "--"], &agent[..]].concat());
    assert_eq!(flow.error(), (Some(9), "run/refused".into()));
    assert_eq!(count_runs(&project), before, "nothing was recorded");
    assert!(!project.path().join("started.txt").exists(), "nothing was started");
    // A worktree of its own is another checkout, with a task and without.
    let own = project.run_agent(&["--worktree"], &["write", "own.txt"]).expect_code(0);
    let name = format!("/run-{}", own.run_id());
    assert!(own.json()["worktree"].as_str().unwrap().trim_end_matches('/').ends_with(&name), "{own:?}");
    assert_eq!(own.json()["attribution"], "worktree");
    // The worktree is reused, and is not the project's checkout.
    let again =
        project.run(["--json", "-q", "retry", &own.run_id(), "--", fake_agent(), "exit", "0"]).expect_code(0);
    assert_eq!(again.json()["worktree"], own.json()["worktree"]);
    release(&project);
    assert_eq!(wait_for_end(first).expect_code(0).json()["attribution"], "checkout");
    // The checkout is free now.
    project.run_agent(&[], &agent[1..]).expect_code(0);
    project.assert_all_runs_finished();
}

/// Without git a folder is part of the folders above it.
#[test]
fn folders_without_git_are_claimed() {
    let project = RunProject::without_repository();
    fs::create_dir_all(project.path().join("part")).unwrap();
    let first = start_working(&project, &[]);
    for dir in [project.path().to_owned(), project.path().join("part")] {
        let refused = run_in(&project, &dir, &["--json", "-q", "run", "x", "--", "true"]);
        assert_eq!(refused.error(), (Some(9), "run/refused".into()), "{dir:?}");
    }
    release(&project);
    wait_for_end(first).expect_code(0);
}

#[test]
fn shared_checkout_makes_changes_uncertain() {
    let project = RunProject::new();
    let (go, end) = (project.beside("go").display().to_string(), project.beside("end").display().to_string());
    fs::create_dir(project.path().join("tests")).unwrap();
    let one = ["--task-id", "P-1", "--write", "src/**"];
    let first =
        project.start_agent(&one, &["say", "up", "wait-for", &go, "write", "src/one.txt", "wait-for", &end]);
    wait_until("it works", || project.run(["show", "last", "--stream", "stdout"]).out() == "up\n");
    let two = ["--task-id", "P-2", "--write", "tests/**", "--share"];
    let words =
        ["say", "on", "wait-for", &go, "write", "tests/two.txt", "write", "other.txt", "wait-for", &end];
    let second = project.start_agent(&two, &words);
    wait_until("both work", || project.run(["show", "last", "--stream", "stdout"]).out() == "on\n");
    release(&project);
    let made = ["src/one.txt", "other.txt"].map(|path| project.path().join(path));
    wait_until("both wrote", || made.iter().all(|path| path.exists()));
    fs::write(end, "").unwrap();
    let (first, second) = (wait_for_end(first), wait_for_end(second));
    let paths = |output: &CommandOutput, key: &str| -> Vec<Value> {
        output.json()[key].as_array().unwrap().iter().map(|item| item["path"].clone()).collect()
    };
    // No run may write `other.txt`, so it is a violation of both; the rest is a note.
    for (output, other, uncertain) in
        [(&first, &second, json!(["tests/two.txt"])), (&second, &first, json!(["src/one.txt"]))]
    {
        assert_eq!(output.code, Some(5), "{output:?}");
        assert_eq!(paths(output, "violations"), [json!("other.txt")]);
        let mut result = output.json();
        assert_eq!(
            (&result["uncertain"], &result["shared_with"], &result["attribution"]),
            (&uncertain, &json!([other.run_id()]), &json!("shared"))
        );
        result.as_object_mut().unwrap().remove("schema");
        assert_eq!(project.show(&output.run_id())["result"], result);
    }
    project.assert_all_runs_finished();
}

#[test]
fn claim_of_dead_process_is_released() {
    let project = RunProject::new();
    let mut first = start_working(&project, &[]);
    let id =
        project.run(["--json", "log"]).expect_code(0).json()["items"][0]["run"].as_str().unwrap().to_owned();
    first.kill().unwrap();
    wait_for_end(first);
    project.assert_no_process_left();
    // The next run is not blamed for the lost one, nor the lost one for the next.
    let next = project.run_agent(&["--write", "src/**"], &["write", "src/next.txt"]).expect_code(0);
    assert_eq!(next.json()["shared_with"], json!([]));
    let told = project.run(["--json", "recover"]).expect_code(0).json();
    assert_eq!(told["items"][0]["shared_with"], json!([next.run_id()]));
    assert_eq!(told["items"][0]["run"], id.as_str());
    project.assert_all_runs_finished();
}

#[test]
fn flow_holds_claim_for_lanes() {
    let project = RunProject::new();
    let (up, go) = (project.beside("up").display().to_string(), project.beside("go").display().to_string());
    let mut command = project.command();
    command.args(["-q", "flow", "start", "sdd", "Do it.", "--", fake_agent(), "write", &up, "wait-for", &go]);
    command.stdin(std::process::Stdio::null());
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let driving = command.spawn().unwrap();
    wait_until("a lane works", || project.beside("up").exists());
    let refused = project.run(["--json", "-q", "run", "x", "--", "true"]);
    assert_eq!(refused.error(), (Some(9), "run/refused".into()));
    assert!(refused.err().contains("flow "), "{refused:?}");
    // The lanes belong to the flow and are not refused: the flow continues until it needs a person.
    release(&project);
    let waits = wait_for_end(driving);
    assert!(waits.code == Some(1) && !waits.err().contains("RunRefused"), "{waits:?}");
    // While the flow waits, nothing works in the checkout. Its runs are not tasks.
    project.run(["-q", "run", "--task-id", "T-9", "x", "--", "true"]).expect_code(0);
    let listed = project.run(["status"]).expect_code(0).out();
    assert_eq!(
        listed.lines().collect::<Vec<_>>(),
        [
            "TASK  TEXT  STATUS  WHY                          NEXT",
            "T-9   x     ready   no run has changed anything  callsheet task close T-9"
        ]
    );
}

#[test]
fn person_can_claim_own_change() {
    let project = RunProject::new();
    let go = project.beside("go").display().to_string();
    let flags = ["--task-id", "T-1", "--write", "src/**", "--check", "c=true"];
    let running = project.start_agent(&flags, &["say", "up", "write", "src/b.txt", "wait-for", &go]);
    wait_until("it works", || project.run(["show", "last", "--stream", "stdout"]).out() == "up\n");
    project.write("notes.txt", "written by a person");
    project.write("draft.txt", "written by a person");
    release(&project);
    let ran = wait_for_end(running).expect_code(5);
    let run = ran.run_id();
    let decide = |args: &[&str]| project.run([&["--json", "-q", "decide", &run], args].concat());
    let page = project.run(["show", &run]).expect_code(0).out();
    assert!(page.contains("--mine"), "{page}");
    // Only a person makes this decision.
    let script = format!("exec \"$0\" -C . decide --yes {run} notes.txt --mine");
    let by_agent = ["sh", "-c", &script, env!("CARGO_BIN_EXE_callsheet")];
    let agent = run_with_input(&mut project.program_command(&["--worktree"], &by_agent), b"Do it.")
        .expect_code(6)
        .json();
    assert_eq!(agent["exit_code"], 9);
    assert_eq!(decide(&["notes.txt", "--mine"]).error(), (Some(9), "person/required".into()));
    assert_eq!(decide(&["--yes", "nothing.txt", "--mine"]).error(), (Some(4), "run/no-violation".into()));
    assert_eq!(decide(&["--yes", "src/b.txt", "--approve"]).error(), (Some(4), "run/no-violation".into()));
    for path in ["notes.txt", "draft.txt", "src/b.txt"] {
        assert_eq!(decide(&["--yes", path, "--mine"]).expect_code(0).json()["decision"], "mine", "{path}");
        assert_eq!(decide(&["--yes", path, "--mine"]).error(), (Some(9), "run/refused".into()));
    }
    let decided: Vec<Value> = project.show(&run)["result"]["violations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|violation| json!([violation["path"], violation["decision"]]))
        .collect();
    assert_eq!(decided, [json!(["draft.txt", "mine"]), json!(["notes.txt", "mine"])]);
    // The change does not count against the run any more.
    let status = project.run(["status", "T-1"]).expect_code(0).out();
    assert_eq!(status.lines().next(), Some("T-1  ready  (uncommitted)"));
    project.assert_all_runs_finished();
}
