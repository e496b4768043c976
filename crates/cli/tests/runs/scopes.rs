//! Scopes from flags, profiles and the configuration; worktrees of tasks.

use std::fs;

use callsheet_testing::run_command;
use serde_json::{Value, json};

use crate::project::{RunProject, summarize};

fn run_scope(project: &RunProject, flags: &[&str]) -> Value {
    project.run_agent(flags, &["exit", "0"]).expect_code(0).json()["scope"].clone()
}

#[test]
fn c2_scope_is_merged_and_recorded() {
    let project = RunProject::new();
    project.write(
        ".callsheet/profiles/careful.md",
        "---\nwrite: [docs/**]\nexclude: [docs/secret/**]\n---\nYou are careful.\n",
    );
    project.commit();
    let both = |write: &[&str], exclude: &[&str]| json!({ "write": write, "exclude": exclude });
    assert_eq!(run_scope(&project, &[]), both(&[], &[]));
    assert_eq!(
        run_scope(&project, &["--write", "src/**", "--exclude", "a", "--exclude", "a"]),
        both(&["src/**"], &["a"])
    );
    assert_eq!(run_scope(&project, &["--role", "careful"]), both(&["docs/**"], &["docs/secret/**"]));
    assert_eq!(
        run_scope(&project, &["--role", "careful", "--write", "src/**"]),
        both(&["src/**"], &["docs/secret/**"])
    );
    project.write(".callsheet/config.toml", "write = [\"lib/**\"]\nexclude = [\"lib/gen/**\"]\n");
    assert_eq!(run_scope(&project, &[]), both(&["lib/**"], &["lib/gen/**"]));
    assert_eq!(
        run_scope(&project, &["--role", "careful", "--write", "src/**", "--exclude", "src/x"]),
        both(&["src/**"], &["src/x", "lib/gen/**", "docs/secret/**"])
    );
    // The prompt states the same scope, and the stated scope is the one that counts afterwards.
    let run = project.run_agent(&["--role", "careful"], &["write", "out.txt"]).expect_code(5);
    let prompt = project.prompt(&run.run_id());
    let told = "You may write only files that match:\n\n- `lib/**`\n\nNever touch files that match these, even if the list above allows them:\n\n\
                - `lib/gen/**`\n- `docs/secret/**`\n";
    assert!(prompt.contains(told), "{prompt}");
    project.write(".callsheet/config.toml", "");
    assert_eq!(
        project.show(&run.run_id())["launch"]["scope"],
        both(&["lib/**"], &["lib/gen/**", "docs/secret/**"])
    );
    assert_eq!(
        project.run(["--json", "retry", "last", "--dry-run"]).expect_code(0).json()["launch"]["scope"]["write"],
        json!(["lib/**"])
    );
}

#[test]
fn c8_each_task_has_own_worktree() {
    let project = RunProject::new();
    let task = |id: &'static str| ["--worktree", "--task-id", id, "--write", "src/**"];
    let first =
        project.run_agent(&task("T-1"), &["append", "src/a.txt", "write", "src/draft.txt"]).expect_code(0);
    let place = first.json()["worktree"].as_str().unwrap().to_owned();
    assert!(
        place.starts_with(project.beside("home/.local/state/callsheet/worktrees").to_str().unwrap()),
        "{place}"
    );
    assert_eq!(project.git(&["status", "--short", "--", "src"]), "", "the project itself is as it was");
    // The worktree is reused, with its uncommitted work.
    let second = project.run_agent(&task("T-1"), &["append", "src/draft.txt"]).expect_code(0);
    assert_eq!(
        summarize(&second),
        "0 completed: exited 0 | changed src/draft.txt:modified | receipts spawned"
    );
    assert_eq!(second.json()["worktree"], place.as_str());
    assert_eq!(fs::read_to_string(format!("{place}/src/draft.txt")).unwrap(), "writtenmore");
    assert_eq!(fs::read_to_string(format!("{place}/src/a.txt")).unwrap(), "a\nmore");
    // A retry works in the same worktree.
    let retry = project.run(["--json", "-q", "continue", "last", "Go on."]).expect_code(0);
    assert_eq!(retry.json()["worktree"], place.as_str());
    // Another task has another worktree.
    let other = project.run_agent(&task("T-2"), &["exit", "0"]).expect_code(0);
    assert_ne!(other.json()["worktree"], place.as_str());
    assert_eq!(
        project.git(&["branch", "--list", "callsheet/*", "--format=%(refname:short)"]),
        "callsheet/T-1\ncallsheet/T-2\n"
    );
    // A folder in the way is left unchanged.
    let in_the_way = std::path::Path::new(&place).with_file_name("T-3");
    fs::create_dir(&in_the_way).unwrap();
    fs::write(in_the_way.join("mine.txt"), "mine").unwrap();
    assert_eq!(project.run_agent(&task("T-3"), &["exit", "0"]).error(), (Some(3), "git/failed".into()));
    assert_eq!(fs::read_to_string(in_the_way.join("mine.txt")).unwrap(), "mine");
    project.assert_all_runs_finished();
    // Checked but uncommitted work leaves the task ready.
    project
        .run_agent(&["--worktree", "--task-id", "T-1", "--check", "c=true"], &["exit", "0"])
        .expect_code(0);
    assert_eq!(
        project.run(["status", "T-1"]).expect_code(0).out().lines().next(),
        Some("T-1  ready  (uncommitted)")
    );
}

#[test]
fn worktrees_need_repository() {
    let bare = RunProject::without_repository();
    assert_eq!(
        bare.run_agent(&["--worktree", "--task-id", "T-1"], &["exit", "0"]).error(),
        (Some(3), "git/failed".into())
    );
}

#[test]
fn dry_run_changes_nothing() {
    let project = RunProject::new();
    project.write_program("claude", "#!/bin/sh\n");
    project.write_program("cargo", "#!/bin/sh\n");
    let mut command = project.command();
    command.args([
        "run",
        "--dry-run",
        "--worktree",
        "--task-id",
        "T-1",
        "-a",
        "claude",
        "--exclude",
        "a",
        "--check",
        "c=cargo test",
        "Do it.",
    ]);
    let dry = run_command(&mut command).expect_code(0);
    let page = dry.out();
    for line in
        ["dry run: nothing is started or recorded\n", "  start      claude -p ", "  permits    edit\n"]
    {
        assert!(page.contains(line), "{page}");
    }
    for line in ["  never      a\n", "  check      c: cargo test\n", " bytes, about "] {
        assert!(page.contains(line), "{page}");
    }
    assert_eq!(project.git(&["branch", "--list", "callsheet/*"]), "");
    assert!(!project.beside("home/.local").exists() && !project.path().join(".callsheet").exists());
}
