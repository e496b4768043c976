//! callsheet itself killed by SIGKILL, at every boundary that has a name and at many that have none: the
//! report of `recover` is true, every run is recorded to its end, and no process continues.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use callsheet_testing::{run_command, wait_for_end, wait_until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::is_long;
use crate::project::{RunProject, fake_agent};

/// Returns a summary of the report of `recover` on the one unfinished run.
fn recover(project: &RunProject) -> Value {
    project.assert_no_process_left();
    let told = project.run(["--json", "recover"]).expect_code(0).json();
    project.assert_all_runs_finished();
    let [run] = told["items"].as_array().unwrap().as_slice() else { panic!("{told}") };
    let names = |key: &str, of: &str| -> Vec<Value> {
        run[key].as_array().unwrap().iter().map(|item| item[of].clone()).collect()
    };
    json!({
        "status": run["status"], "end": run["end"], "reason": run["reason"]["message"], "exit_code": run["exit_code"],
        "checks": names("checks", "result"), "changed": names("changed", "path"),
        "violations": names("violations", "path"), "receipts": run["receipts"],
    })
}

fn run_until_killed(project: &RunProject, flags: &[&str], words: &[&str]) -> Value {
    let flags: Vec<&str> = ["--write", "src/**"].iter().chain(flags).copied().collect();
    let output = project.run_agent(&flags, words);
    assert_eq!((output.code, output.out().as_str()), (None, ""), "{output:?}");
    // Until it is recovered it does not count as a run that ended well.
    let status = project.run(["--json", "status"]).expect_code(0).json();
    assert_eq!(
        (&status["items"][0]["status"], &status["items"][0]["runs"][0]["lost"]),
        (&json!("running"), &json!(true))
    );
    recover(project)
}

#[test]
fn killed_at_agent_start_is_recovered() {
    let project = RunProject::new();
    let lost = run_until_killed(&project, &["--check", "c=true"], &["kill-ours", "sleep", "60000"]);
    let receipts = lost["receipts"].clone();
    assert!(receipts == json!([]) || receipts == json!(["spawned"]), "{receipts}");
    assert_eq!(
        lost,
        json!({
            "status": "failed", "end": "lost", "reason": "callsheet was killed", "exit_code": null, "checks": ["pending"],
            "changed": [], "violations": [], "receipts": receipts,
        })
    );
}

#[test]
fn killed_during_output_is_recovered() {
    let project = RunProject::new();
    let words = [
        "say",
        "I begin.",
        "write",
        "src/new.txt",
        "write",
        "out.txt",
        "sleep",
        "400",
        "kill-ours",
        "sleep",
        "60000",
    ];
    assert_eq!(
        run_until_killed(&project, &[], &words),
        json!({
            "status": "failed", "end": "lost", "reason": "callsheet was killed", "exit_code": null, "checks": [],
            "changed": ["out.txt", "src/new.txt"], "violations": ["out.txt"], "receipts": ["spawned"],
        })
    );
    assert_eq!(project.run(["show", "last", "--stream", "stdout"]).expect_code(0).out(), "I begin.\n");
    // The next prompt contains the facts that are still visible.
    let next =
        project.run(["--json", "-q", "retry", "last", "--dry-run"]).expect_code(0).json()["text"].to_string();
    assert!(
        next.contains("Nobody saw how it ended.") && next.contains("`out.txt`: outside the write scope"),
        "{next}"
    );
}

#[test]
fn killed_in_check_keeps_agent_exit() {
    let project = RunProject::new();
    let check = format!("c={} kill-ours", fake_agent());
    assert_eq!(
        run_until_killed(&project, &["--check", &check, "--check", "d=true"], &["write", "src/new.txt"]),
        json!({
            "status": "completed", "end": "exited", "reason": null, "exit_code": 0, "checks": ["pending", "pending"],
            "changed": ["src/new.txt"], "violations": [], "receipts": ["spawned"],
        })
    );
}

#[test]
fn killed_with_guard_is_recovered() {
    let project = RunProject::new();
    let lost = run_until_killed(&project, &[], &["sleep", "300", "kill-ours", "kill-guard", "exit", "0"]);
    assert_eq!((&lost["end"], &lost["receipts"]), (&json!("lost"), &json!(["spawned"])));
}

/// A git that kills its caller at the n-th call: before the run is recorded, and after the agent's end.
#[test]
fn killed_at_git_call_loses_nothing() {
    let real = std::env::split_paths(&std::env::var_os("PATH").unwrap())
        .map(|dir| dir.join("git"))
        .find(|git| git.is_file())
        .unwrap();
    let (mut unrecorded, mut lost, mut kept) = (0, 0, 0);
    for call in 1.. {
        let project = RunProject::new();
        let count = project.beside("count");
        project.write_program(
            "git",
            &format!(
                "#!/bin/sh\nn=$(($(cat '{0}' 2>/dev/null || echo 0) + 1))\necho $n > '{0}'\n\
                 [ $n = {call} ] && kill -9 $PPID\nexec '{1}' \"$@\"\n",
                count.display(),
                real.display()
            ),
        );
        let output = project.run_agent(&["--check", "c=true"], &["write", "new.txt"]);
        fs::remove_file(project.beside("bin/git")).unwrap();
        project.assert_no_process_left();
        if output.code == Some(0) {
            assert_eq!(lost + unrecorded, call - 1);
            break;
        }
        assert_eq!((output.code, output.out().as_str()), (None, ""));
        let log = project.run(["--json", "log"]);
        if log.code == Some(4) {
            // There is no ledger yet, and nothing was started.
            assert!(!project.path().join("new.txt").exists());
            unrecorded += 1;
            continue;
        }
        let told = recover(&project);
        assert_eq!((&told["checks"], &told["changed"]), (&json!(["pending"]), &json!(["new.txt"])));
        assert_eq!(
            (&told["status"], &told["end"], &told["exit_code"]),
            (&json!("completed"), &json!("exited"), &json!(0))
        );
        kept += 1;
        lost += 1;
    }
    assert!(unrecorded > 0 && kept > 0, "{unrecorded} {kept}");
}

/// After the prompt is recorded, and before anything is started.
#[test]
fn killed_before_terminal_is_recovered() {
    let project = RunProject::new();
    project.write_program("claude", "#!/bin/sh\n");
    project.write_program("tmux", "#!/bin/sh\nkill -9 $PPID\n");
    let mut command = project.command();
    command.args(["--json", "-q", "run", "-a", "claude", "--terminal", "Do it."]);
    assert_eq!(run_command(&mut command).code, None);
    fs::remove_file(project.beside("bin/tmux")).unwrap();
    let lost = recover(&project);
    assert_eq!((&lost["end"], &lost["receipts"], &lost["changed"]), (&json!("lost"), &json!([]), &json!([])));
}

/// At any moment at all.
#[test]
fn killed_at_random_moment_is_recovered() {
    let rounds = if is_long() { 500 } else { 30 };
    let project = RunProject::new();
    // The duration of a whole run here: it is killed at any point of it.
    let begun = Instant::now();
    project.run_agent(&[], &["sleep", "20"]).expect_code(0);
    let whole = u64::try_from(begun.elapsed().as_millis()).unwrap() * 5 / 4;
    let mut known = 1;
    for round in 0..rounds {
        let words = [
            "say",
            "one",
            "write",
            "src/new.txt",
            "child-setsid",
            "sleep 60000",
            "sleep",
            "20",
            "say",
            "two",
        ];
        let running = project.start_agent(&["--check", "c=true"], &words);
        thread::sleep(Duration::from_millis(round * 293 % 400 * whole / 400));
        // The run may have ended already.
        let _ = kill(Pid::from_raw(i32::try_from(running.id()).unwrap()), Signal::SIGKILL);
        let output = wait_for_end(running);
        project.assert_no_process_left();
        let before = project.run(["--json", "log", "--limit", "10000"]);
        if before.code == Some(4) {
            continue;
        }
        let runs = before.expect_code(0).json()["items"].as_array().unwrap().len();
        let told = project.run(["--json", "recover"]).expect_code(0).json();
        let recovered = told["items"].as_array().unwrap();
        assert!(recovered.len() <= 1 && runs - known <= 1, "{told}");
        // If a run reported its own end, `recover` does not report another one.
        assert!(output.out().is_empty() || recovered.is_empty(), "{output:?} {told}");
        for run in recovered {
            assert!(run["end"] == "lost" || run["end"] == "exited", "{run}");
            assert_eq!(run["checks"][0]["result"], "pending");
        }
        known = runs;
    }
    project.assert_all_runs_finished();
    assert!(known > 1, "none of the killed ones was recorded");
}

/// After its last record, and before its directory is removed: nothing is added to the run.
#[test]
fn killed_after_last_record_adds_nothing() {
    let project = RunProject::new();
    let run = project.run_agent(&["--check", "c=true"], &["write", "new.txt"]).expect_code(0).run_id();
    let kinds = project.record_kinds(&run);
    let desk = project.beside("home/.local/state/callsheet/runs").join(&run);
    fs::create_dir_all(&desk).unwrap();
    assert_eq!(project.run(["recover"]).expect_code(0).out(), "no unfinished runs\n");
    assert_eq!(project.record_kinds(&run), kinds);
    assert_eq!(project.show(&run)["result"]["checks"][0]["result"], "passed");
    assert!(!desk.exists());
}

/// A run that another process drives is not finished by `recover`.
#[test]
fn recover_leaves_active_runs_alone() {
    let project = RunProject::new();
    let go = project.beside("go").display().to_string();
    let running = project.start_agent(&[], &["say", "one", "wait-for", &go]);
    wait_until("it runs", || project.run(["show", "last", "--stream", "stdout"]).out() == "one\n");
    let told = project.run(["--json", "recover"]).expect_code(0).json();
    assert_eq!((told["items"].as_array().unwrap().len(), told["running"].as_array().unwrap().len()), (0, 1));
    fs::write(go, "").unwrap();
    wait_for_end(running).expect_code(0);
    project.assert_all_runs_finished();
}
