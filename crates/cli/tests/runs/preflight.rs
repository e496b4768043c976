//! Mistakes that callsheet finds before an agent starts and costs money.

use callsheet_testing::{CommandOutput, run_command, run_with_input};
use serde_json::Value;

use crate::project::{RunProject, fake_agent};

/// Returns the printed errors, without the places that were searched.
fn list_errors(output: &CommandOutput, code: i32) -> Vec<String> {
    assert_eq!(output.code, Some(code), "{output:?}");
    output.err().lines().filter(|line| line.starts_with("error[")).map(str::to_owned).collect()
}

/// Creates a project with a script that is not executable, and with programs whose interpreter does not
/// exist.
fn create_project() -> RunProject {
    let project = RunProject::new();
    project.write("plain.sh", "#!/bin/sh\n");
    project.write_program("orphan", "#!/no/such/interpreter\n");
    project.write_program("asked", "#!/usr/bin/env nosuchprog\n");
    project.commit();
    project
}

#[test]
fn missing_programs_fail_before_start() {
    let project = create_project();
    let at = |path: &str| project.path().join(path).display().to_string();
    let mark = project.beside("started").display().to_string();
    let agent = [fake_agent(), "write", &mark];
    let none = |name: &str| format!("program not found: `{name}`");
    let orphan = format!(
        "`{}` needs `/no/such/interpreter`, which cannot be started",
        project.beside("bin/orphan").display()
    );
    let asked =
        format!("`{}` needs `nosuchprog`, which cannot be started", project.beside("bin/asked").display());
    let checks: [(&str, String); 9] = [
        ("nosuchprog --x", none("nosuchprog")),
        ("env A=b nosuchprog --x", none("nosuchprog")),
        ("/usr/bin/env -S nosuchprog", none("nosuchprog")),
        ("asked", asked),
        ("./nothing", none("./nothing")),
        ("src/nothing.sh a", none("src/nothing.sh")),
        ("./plain.sh", format!("`{}` is not executable", at("./plain.sh"))),
        ("./src", format!("`{}` is not a regular file", at("./src"))),
        ("orphan", orphan),
    ];
    for (check, why) in &checks {
        let check = format!("t={check}");
        let run = project.run([&["-q", "run", "--check", &check, "x", "--"], &agent[..]].concat());
        assert_eq!(
            list_errors(&run, 4),
            [format!("error[ProgramNotFound]: cannot run the check `t`: {why}")]
        );
        let dry =
            project.run([&["-q", "run", "--dry-run", "--check", &check, "x", "--"], &agent[..]].concat());
        assert_eq!(list_errors(&dry, 4), list_errors(&run, 4));
        let flow =
            project.run([&["-q", "flow", "start", "sdd", "--check", &check, "x", "--"], &agent[..]].concat());
        assert_eq!(list_errors(&flow, 4), list_errors(&run, 4));
    }
    // All errors at once, each with the places that were searched.
    let all = project.run([
        "--json",
        "-q",
        "run",
        "--check",
        "a=nosuch",
        "--check",
        "b=true",
        "--check",
        "c=./nothing",
        "x",
        "--",
        "no-agent",
    ]);
    assert_eq!(all.code, Some(4));
    let lines: Vec<Value> = all.err().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let text = serde_json::to_string(&lines).unwrap();
    for (name, place) in [
        ("no-agent", project.beside("bin/no-agent")),
        ("nosuch", project.beside("bin/nosuch")),
        ("nothing", project.path().join("./nothing")),
    ] {
        assert!(
            text.contains(&format!("`{}{name}`", if name == "nothing" { "./" } else { "" })),
            "{name}: {text}"
        );
        assert!(text.contains(&place.display().to_string()), "{name}: {text}");
    }
    assert!(!text.contains("check `b`"), "{text}");
    for program in ["no-such-program", "./README.md", "/", "src", "orphan"] {
        let run = run_with_input(&mut project.program_command(&[], &[program]), b"Do it.");
        assert_eq!(run.error(), (Some(4), "program/not-found".into()), "{program}");
    }
    // An agent that is not installed, in a flow too.
    for args in [
        &["run", "-a", "codex", "x"][..],
        &["run", "--terminal", "-a", "claude", "x"],
        &["flow", "start", "sdd", "-a", "codex", "x"],
    ] {
        let mut command = project.command();
        // Real agents may be installed here.
        command.env("PATH", format!("{}:/usr/bin:/bin", project.beside("bin").display()));
        let run = run_command(command.args(["-q"]).args(args));
        let errors = list_errors(&run, 4);
        assert_eq!(errors.len(), 1, "{errors:?}");
        assert!(
            errors[0].starts_with("error[ProgramNotFound]: cannot start the agent: program not found: `"),
            "{errors:?}"
        );
    }
    assert!(
        !project.beside("started").exists() && !project.ledger().exists(),
        "nothing was started or recorded"
    );
    // The program of an earlier run is searched again.
    let first = project.run_agent(&["--check", "t=true"], &["exit", "1"]).expect_code(6).run_id();
    for again in [&["retry", &first][..], &["continue", &first, "More."]] {
        let run = project.run([&["-q"], again, &["--check", "t=nosuchprog", "--"], &agent].concat());
        assert_eq!(list_errors(&run, 4).len(), 1, "{again:?}");
    }
    assert!(!project.beside("started").exists());
    assert_eq!(project.run(["--json", "log"]).expect_code(0).json()["items"].as_array().unwrap().len(), 1);
}

/// A check is searched in the place where it runs: in the worktree.
#[test]
fn checks_are_searched_in_worktree() {
    let project = RunProject::new();
    // The script is not committed, so no other worktree has it.
    project.write("here.sh", "#!/bin/sh\n");
    let script = project.path().join("here.sh");
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let check = ["--check", "c=./here.sh"];
    project.run_agent(&check, &["exit", "0"]).expect_code(0);
    let own = [&check[..], &["--worktree", "--task-id", "T-1"]].concat();
    assert_eq!(project.run_agent(&own, &["exit", "0"]).error(), (Some(4), "program/not-found".into()));
    project.commit();
    let own = [&check[..], &["--worktree", "--task-id", "T-2"]].concat();
    project.run_agent(&own, &["exit", "0"]).expect_code(0);
}

#[test]
fn nonexistent_paths_cause_warnings() {
    let project = RunProject::new();
    let flags = ["--write", "/abs/**", "--write", "srx/**", "--write", "src/**", "--write", "new.txt"];
    let read =
        ["README.md", "docs/none.md", "docs/*.md", "*.md", "READ?E.md"].map(|path| ["--read-first", path]);
    let read = read.concat();
    let warned = |output: &CommandOutput| -> Vec<String> {
        let mut lines: Vec<String> =
            output.err().lines().filter(|line| line.starts_with("warning[")).map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let expected = [
        "warning[InputNotFound]: cannot use `--read-first docs/*.md`: no file matches",
        "warning[InputNotFound]: cannot use `--read-first docs/none.md`: the file does not exist",
        "warning[ScopeNowhere]: the write glob `/abs/**` is absolute and matches nothing in the project",
        "warning[ScopeNowhere]: the write glob `srx/**` begins with the directory `srx`, which does not exist",
    ];
    let run = [&["run"], &flags[..], &read, &["Do it.", "--", "true"]].concat();
    let dry = project.run([&["run", "--dry-run"], &run[1..]].concat()).expect_code(0);
    let ran = project.run(&run).expect_code(0);
    let again = project.run(["retry", "last", "--force"]).expect_code(0);
    for output in [&dry, &ran, &again] {
        assert_eq!(warned(output), expected, "{output:?}");
    }
}

/// Git itself would only name a revision that it cannot find.
#[test]
fn worktree_needs_commit() {
    let project = RunProject::without_repository();
    let agent = ["--", fake_agent(), "write", "new.txt"];
    let run =
        |flags: &[&str]| project.run([&["-q", "run", "--worktree"], flags, &["Do it."], &agent[..]].concat());
    let outside = format!("`{}` is not in a git repository; worktrees need one", project.path().display());
    let empty = "a worktree needs a commit to start from, and the repository has none".to_owned();
    let hints = ["run `git init`, or remove `--worktree`", "commit first, or run without `--worktree`"];
    for (message, hint) in [outside, empty].into_iter().zip(hints) {
        for flags in [&[][..], &["--task-id", "T-1"], &["--dry-run"]] {
            let ran = run(flags);
            let expected = format!("error[GitFailed]: {message}\n  = hint: {hint}\n");
            assert!(ran.err().ends_with(&expected), "{flags:?}: {}", ran.err());
            assert_eq!(ran.code, Some(3), "{flags:?}");
        }
        let json = project.run([&["--json", "-q", "run", "--worktree", "Do it."], &agent[..]].concat());
        assert_eq!(json.error(), (Some(3), "git/failed".into()));
        project.git(&["init", "-q"]);
    }
    // The hint works.
    project.git(&["-c", "user.name=n", "-c", "user.email=e", "commit", "-q", "--allow-empty", "-m", "First"]);
    run(&[]).expect_code(0);
    assert!(!project.path().join("new.txt").exists());
}
