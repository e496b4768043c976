//! The status of a task, derived from the checked-out files, regardless of the author of the commit.

use callsheet_testing::{git, run_with_input};

use crate::project::RunProject;

fn task_status(project: &RunProject, task: &str) -> String {
    let page = project.run(["status", task]).expect_code(0).out();
    page.lines().next().unwrap().strip_prefix(task).unwrap().trim_start().to_owned()
}

#[test]
fn work_committed_by_person_is_done() {
    let project = RunProject::new();
    let flags = ["--task-id", "D-1", "--write", "src/**", "--check", "ok=true"];
    let work = "echo 1 > src/d; ln -s d src/link; rm src/a.txt";
    run_with_input(&mut project.program_command(&flags, &["sh", "-c", work]), b"Do it.").expect_code(0);
    assert_eq!(task_status(&project, "D-1"), "ready  (uncommitted)");
    // Other work in the same commit, and other commits, do not affect it.
    project.write("mine.txt", "a person's");
    project.commit();
    assert_eq!(task_status(&project, "D-1"), "done");
    project.write("src/d", "later");
    project.commit();
    assert_eq!(task_status(&project, "D-1"), "done");
    // A part of the work is not enough.
    let flags = ["--task-id", "D-2", "--write", "src/**", "--check", "ok=true"];
    run_with_input(
        &mut project.program_command(&flags, &["sh", "-c", "echo 2 > src/e; echo 3 > src/f"]),
        b"Do it.",
    )
    .expect_code(0);
    project.git(&["add", "src/e"]);
    project.git(&["commit", "-q", "-m", "part"]);
    assert_eq!(task_status(&project, "D-2"), "ready  (uncommitted)");
    // Different contents are not the work of the run.
    project.write("src/f", "a person's");
    project.commit();
    assert_eq!(task_status(&project, "D-2"), "ready  (uncommitted)");
}

#[test]
fn squashed_worktree_counts_as_done() {
    let project = RunProject::new();
    let flags = ["--task-id", "W-1", "--worktree", "--check", "ok=true"];
    let ran =
        run_with_input(&mut project.program_command(&flags, &["sh", "-c", "echo 1 > src/w"]), b"Do it.")
            .expect_code(0);
    assert_eq!(task_status(&project, "W-1"), "ready  (uncommitted)");
    let worktree = ran.json()["worktree"].as_str().unwrap().to_owned();
    git(worktree.as_ref(), &["add", "-A"]);
    git(worktree.as_ref(), &["commit", "-q", "-m", "work"]);
    assert_eq!(task_status(&project, "W-1"), "ready  (merge_pending)");
    project.git(&["merge", "-q", "--squash", "callsheet/W-1"]);
    project.git(&["commit", "-q", "-m", "squashed"]);
    assert_eq!(task_status(&project, "W-1"), "done");
}

#[test]
fn failed_runs_are_never_ready() {
    let project = RunProject::new();
    let run = |task: &str, flags: &[&str], words: &[&str]| {
        project.run_agent(&[&["--task-id", task], flags].concat(), words);
        task_status(&project, task)
    };
    assert_eq!(run("F-1", &[], &["exit", "3"]), "failed  (run_failed, nothing_changed)");
    assert_eq!(
        run("F-2", &["--timeout", "1s"], &["sleep", "60000"]),
        "failed  (run_failed, nothing_changed)"
    );
    assert_eq!(
        run("F-3", &["--check", "c=false"], &["exit", "0"]),
        "failed  (checks_failed, nothing_changed)"
    );
    assert_eq!(
        run("F-4", &["--check", "c=true"], &["sleep", "300", "kill-guard", "sleep", "60000"]),
        "failed  (run_failed, nothing_changed)"
    );
    assert_eq!(run("F-5", &[], &["exit", "0"]), "ready  (nothing_changed)");
    project.write_program("odd", "\u{7f}ELF");
    run_with_input(
        &mut project.program_command(&["--task-id", "F-6", "--check", "c=true"], &["odd"]),
        b"Do it.",
    )
    .expect_code(6);
    assert_eq!(task_status(&project, "F-6"), "failed  (checks_pending, run_failed, nothing_changed)");
}

#[test]
fn closed_task_leaves_status() {
    let project = RunProject::new();
    project.run(["-q", "run", "--task-id", "T-1", "Do it", "--", "true"]).expect_code(0);
    project.run(["-q", "run", "Look at it\nand at that", "--", "true"]).expect_code(0);
    let tasks = |args: &[&str]| -> Vec<(String, String, bool)> {
        let status = project.run([&["--json", "status"], args].concat()).expect_code(0).json();
        let text = |task: &serde_json::Value, key: &str| task[key].as_str().unwrap().to_owned();
        let items = status["items"].as_array().unwrap().iter();
        items.map(|task| (text(task, "task"), text(task, "summary"), task["closed"] == true)).collect()
    };
    let nothing = "no run has changed anything".to_owned();
    let alone = ("r2".to_owned(), nothing.clone(), false);
    assert_eq!(tasks(&[]), [alone.clone(), ("T-1".into(), nothing.clone(), false)]);
    assert_eq!(project.run(["task", "close", "T-1"]).code, Some(9), "a person decides");
    let closed =
        project.run(["--json", "task", "close", "r1", "--reason", "no need", "--yes"]).expect_code(0).json();
    assert_eq!(
        (&closed["task"], &closed["decision"], &closed["name"]),
        (&"T-1".into(), &"close".into(), &"r1".into())
    );
    assert_eq!(tasks(&[]), std::slice::from_ref(&alone));
    assert_eq!(tasks(&["--all"]), [alone.clone(), ("T-1".into(), "closed: no need".into(), true)]);
    assert_eq!(project.run(["task", "close", "T-1", "--yes"]).code, Some(9));
    project.run(["-q", "task", "reopen", "T-1", "--yes"]).expect_code(0);
    assert_eq!(tasks(&[]), [alone.clone(), ("T-1".into(), nothing.clone(), false)]);
    // A new run opens a closed task again.
    project.run(["-q", "task", "close", "T-1", "--yes"]).expect_code(0);
    project.run(["-q", "retry", "T-1", "--force"]).expect_code(0);
    assert_eq!(tasks(&[]), [("T-1".into(), nothing, false), alone]);
    let listed: Vec<String> =
        project.run(["status"]).expect_code(0).out().lines().map(str::to_owned).collect();
    assert_eq!(
        listed,
        [
            "TASK  TEXT        STATUS  WHY                          NEXT",
            "T-1   Do it       ready   no run has changed anything  callsheet task close T-1",
            "r2    Look at it  ready   no run has changed anything  callsheet task close r2",
        ]
    );
}

#[test]
fn agent_cannot_close_task() {
    let project = RunProject::new();
    project.run(["-q", "run", "--task-id", "T-1", "Do it", "--", "true"]).expect_code(0);
    let close = format!("{} task close T-1 --yes; echo code $?", env!("CARGO_BIN_EXE_callsheet"));
    let ran =
        project.run(["run", "-q", "--full", "x", "--", "env", "-u", "CALLSHEET_RUN", "sh", "-c", &close]);
    assert!(!ran.out().contains("code 0"), "{}", ran.out());
    let status = project.run(["--json", "status", "T-1"]).expect_code(0).json();
    assert_eq!(status["items"][0]["closed"], false);
}
