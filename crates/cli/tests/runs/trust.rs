//! A repository of another author: nothing that its files ask for happens before the user agrees to exactly
//! that.

use std::fs;

use callsheet_testing::run_command;

use crate::project::{RunProject, fake_agent, summarize};

/// Returns everything that a project's file can ask for, each alone.
fn wishes(project: &RunProject) -> Vec<(&'static str, &'static str, String)> {
    let pwned = project.beside("pwned").display().to_string();
    let config = ".callsheet/config.toml";
    vec![
        ("check", config, format!("[checks]\nbuild = \"touch {pwned}\"\n")),
        ("environment", config, format!("[env]\nPATH = \"{pwned}\"\n")),
        ("ledger", config, format!("ledger = \"{pwned}\"\n")),
        (
            "agent",
            ".callsheet/agents/claude.toml",
            format!(
                "name = \"Claude\"\n[start]\nprogram = \"touch\"\nargs = [\"{pwned}\"]\n[prompt]\nby = [\"stdin\"]\n"
            ),
        ),
    ]
}

/// Commands that start a program, or report that they would.
const STARTS: [&[&str]; 2] =
    [&["run", "-a", "claude", "Do it."], &["run", "--dry-run", "-a", "claude", "Do it."]];

#[test]
fn nothing_happens_before_trust() {
    let count = wishes(&RunProject::new()).len();
    for index in 0..count {
        let project = RunProject::new();
        let (name, file, text) = wishes(&project).remove(index);
        project.write_program(
            "claude",
            &format!(
                "#!/bin/sh\n[ \"$1\" = --version ] || touch '{}'\n",
                project.beside("started").display()
            ),
        );
        project.write(file, &text);
        project.commit();
        let run = |args: &[&str]| project.run([&["--json", "-q"], args].concat());
        for args in STARTS {
            assert_eq!(run(args).error(), (Some(10), "trust/required".into()), "{name}");
        }
        let mut with_program: Vec<&str> = vec!["run", "Do it.", "--", fake_agent()];
        assert_eq!(run(&with_program).error(), (Some(10), "trust/required".into()), "{name}");
        with_program.insert(1, "--worktree");
        with_program.insert(2, "--task-id=T-1");
        assert_eq!(run(&with_program).error(), (Some(10), "trust/required".into()), "{name}");
        assert_eq!(run(&["trust"]).error(), (Some(10), "trust/required".into()), "{name}");
        for harmless in [
            &["compose", "Do it."][..],
            &["agents"],
            &["doctor"],
            &["check"],
            &["status"],
            &["config", "show"],
        ] {
            run(harmless);
        }
        assert!(!project.beside("pwned").exists() && !project.beside("started").exists(), "{name}");
        assert!(!project.ledger().exists(), "{name}");
        assert!(!project.beside("home/.local/state/callsheet/worktrees").exists(), "{name}");

        let show = run(&["trust", "--show"]).expect_code(0).json();
        assert_eq!(
            (&show["trusted"], show["asks_for"].as_array().unwrap().len()),
            (&false.into(), 1),
            "{name}"
        );
        assert_eq!(run(&["trust", "--yes"]).expect_code(0).json()["trusted"], true, "{name}");
        assert_eq!(run(&["trust", "--show"]).expect_code(0).json()["trusted"], true, "{name}");
        let trusted = run(STARTS[1]);
        // The search path of the project does not lead to a `claude`.
        let code = if name == "environment" { 4 } else { 0 };
        assert_eq!(trusted.code, Some(code), "{name}: {trusted:?}");

        // A changed byte results in a new question.
        project.write(
            file,
            text.replace("touch", "touch -a").replace("pwned", "pwned2").replace("allow", "warn") + "\n# x\n",
        );
        let changed = run(&["trust", "--show"]).expect_code(0).json()["trusted"].clone();
        let same = matches!(name, "permission");
        assert_eq!(changed, same, "{name}");
        project.write(file, &text);
        assert_eq!(run(&["trust", "--show"]).expect_code(0).json()["trusted"], true, "{name}");
        run(&["trust", "--revoke"]).expect_code(0);
        assert_eq!(run(STARTS[0]).error(), (Some(10), "trust/required".into()), "{name}");
        assert!(!project.beside("pwned").exists() && !project.beside("started").exists(), "{name}");
    }
}

#[test]
fn trust_covers_one_project_entirely() {
    let project = RunProject::new();
    let (_, file, text) = wishes(&project).remove(0);
    project.write(file, &text);
    project.run(["-q", "trust", "--yes"]).expect_code(0);
    let ran = project.run_agent(&[], &["exit", "0"]).expect_code(0);
    assert_eq!(
        (ran.json()["checks_outcome"].as_str(), project.beside("pwned").exists()),
        (Some("passed"), true)
    );
    // A copy of the project is another project.
    let copy = project.beside("copy");
    let mut clone = std::process::Command::new("cp");
    assert!(clone.args(["-r"]).arg(project.path()).arg(&copy).status().unwrap().success());
    let mut command = project.command();
    command.current_dir(&copy).args(["--json", "-q", "run", "Do it.", "--", fake_agent()]);
    assert_eq!(run_command(&mut command).error(), (Some(10), "trust/required".into()));
    // With one more request, callsheet asks about all of them again.
    project.write(
        ".callsheet/agents/mine.toml",
        "name = \"M\"\n[start]\nprogram = \"true\"\n[prompt]\nby = [\"stdin\"]\n",
    );
    assert_eq!(project.run_agent(&[], &["exit", "0"]).error(), (Some(10), "trust/required".into()));
    // No repository can bring its own trust along, and no other user can read ours.
    let kept = project.beside("home/.local/state/callsheet/trust");
    use std::os::unix::fs::PermissionsExt as _;
    assert_eq!(fs::metadata(&kept).unwrap().permissions().mode() & 0o777, 0o700);
    for entry in fs::read_dir(&kept).unwrap().flatten() {
        assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
}

/// If several configurations define a check, the project's counts if the project is trusted.
#[test]
fn project_check_overrides_user_check() {
    let project = RunProject::new();
    fs::create_dir_all(project.beside("home/.config/callsheet")).unwrap();
    let user = "[checks]\nc = \"true\"\nd = \"true\"\n";
    fs::write(project.beside("home/.config/callsheet/config.toml"), user).unwrap();
    project.write(".callsheet/config.toml", "[checks]\nc = \"false\"\n");
    project.run(["trust", "--yes"]).expect_code(0);
    let ran = project.run_agent(&[], &["exit", "0"]);
    assert_eq!(summarize(&ran), "1 completed: exited 0 | checks c:failed,d:passed | receipts spawned");
}

/// A flow does not begin, and leaves neither a folder nor a ledger.
#[test]
fn no_flow_begins_before_trust() {
    for blocking in ["check", "environment", "ledger", "agent"] {
        let project = RunProject::new();
        let wish = wishes(&project).into_iter().find(|(name, ..)| *name == blocking);
        let (name, file, text) = wish.unwrap();
        project.write_program(
            "claude",
            &format!("#!/bin/sh\ntouch '{}'\n", project.beside("started").display()),
        );
        project.write(file, &text);
        let run = |args: &[&str]| project.run([&["--json", "-q"], args].concat());
        for args in [
            &["flow", "start", "sdd", "Do it.", "-a", "claude"][..],
            &["flow", "start", "staged", "Do it.", "--id", "it", "-a", "claude"],
            &["flow", "start", "sdd", "Do it.", "--", fake_agent()],
        ] {
            assert_eq!(run(args).error(), (Some(10), "trust/required".into()), "{name}: {args:?}");
        }
        assert!(!project.beside("pwned").exists() && !project.beside("started").exists(), "{name}");
        assert!(!project.ledger().exists(), "{name}");
        for folder in [".callsheet/changes", ".callsheet/sessions"] {
            assert!(!project.path().join(folder).exists(), "{name}: {folder}");
        }
    }
}

/// A waiting flow continues only in a trusted project; stopping or rejecting it needs no trust.
#[test]
fn no_flow_continues_before_trust() {
    let project = RunProject::new();
    let run = |args: &[&str]| project.run([&["--json", "-q"], args].concat());
    let started = run(&["flow", "start", "sdd", "Do it.", "--", "false"]);
    assert_eq!(started.code, Some(1), "{started:?}");
    let (_, file, text) = wishes(&project).remove(0);
    project.write(file, &text);
    let last = || run(&["flow", "list"]).expect_code(0).json()["items"][0].clone();
    let changes = ["flow", "decide", "--yes", "changes", "More."];
    for args in [&["flow", "resume"][..], &["flow", "decide", "--yes", "approve"], &changes] {
        let before = last();
        assert_eq!(run(args).error(), (Some(10), "trust/required".into()), "{args:?}");
        assert_eq!(last(), before, "{args:?}");
    }
    assert!(!project.beside("pwned").exists());
    run(&["flow", "stop"]).expect_code(0);
    assert_eq!(run(&["flow", "decide", "--yes", "reject"]).code, Some(1));
    assert_eq!(last()["state"], "rejected");
}
