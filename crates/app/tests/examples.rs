//! Runs the examples as programs.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use callsheet_testing::TestProject;

/// Copies an agent's script next to a project.
fn install(project: &TestProject, script: &Path) -> String {
    let name = script.file_name().unwrap().to_str().unwrap();
    let path = project.write_beside(name, fs::read(script).unwrap());
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Returns a command that runs an example in the environment of a project.
fn example(project: &TestProject, name: &str) -> Command {
    let program = std::env::current_exe().unwrap().parent().unwrap().join("../examples").join(name);
    // `cargo test --test examples` does not build examples.
    if !program.exists() {
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "--quiet", "--package", "callsheet", "--example", name]);
        assert!(build.current_dir(env!("CARGO_MANIFEST_DIR")).status().unwrap().success());
    }
    let mut command = Command::new(program);
    command.arg(project.path()).env("HOME", project.home());
    command.env("XDG_STATE_HOME", project.home().join(".local/state"));
    command
}

/// Runs a program that must succeed, and returns its standard output.
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let out = String::from_utf8(output.stdout).unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), err.as_str()), (Some(0), ""), "{out}");
    out
}

#[test]
fn external_agent_is_recorded_and_observed() {
    let project = TestProject::with_repository();
    let out = run(&mut example(&project, "external_agent"));
    let (id, rest) = out.split_once(": ").unwrap();
    assert_eq!(rest, "reply pass, exit code 5\noutside of the scope: outside.txt\n");
    let again = run(&mut example(&project, "external_agent"));
    assert_ne!(again.split_once(": ").unwrap().0, id, "a run of its own");
}

#[test]
fn orchestrator_needs_the_library_alone() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let source = fs::read_to_string(here.join("examples/orchestrator.rs")).unwrap();
    assert!(source.lines().count() <= 80);
    let uses = source.lines().filter(|line| line.starts_with("use "));
    assert!(uses.clone().all(|line| line.starts_with("use std::") || line.starts_with("use callsheet::")));
    assert!(!source.contains("callsheet_"), "a crate below the library");
    let project = TestProject::with_repository();
    install(&project, &here.join("../cli/tests/flows/sdd.sh"));
    let agent = install(&project, &here.join("tests/orchestrator.sh"));
    let out = run(example(&project, "orchestrator").arg(agent));
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines[0].rsplit_once(", ").unwrap().1, "5 sections", "{out}");
    assert!(lines[1].starts_with("recorded: "), "{out}");
    assert_eq!(lines[2], "first run: completed, exit code 1, reply none");
    assert_eq!(lines[3], "second run: completed, exit code 0");
    assert_eq!(lines[4], "flow add-a-login-to-the-site: done in `archive`");
    assert_eq!(project.read("src/fix.txt"), "fixed\n");
}

#[test]
fn stepped_flow_starts_no_agent() {
    let project = TestProject::with_repository();
    let agent = install(&project, &Path::new(env!("CARGO_MANIFEST_DIR")).join("../cli/tests/flows/sdd.sh"));
    // Claude Code is not on this path, and `sh` is.
    let out = run(example(&project, "stepped_flow").arg(agent).env("PATH", "/usr/bin:/bin"));
    let expected = "plan all: needs_revision
plan all: pass
challenge all: needs_revision
plan all: pass
challenge all: pass
implement 1.1: complete
implement 1.2: complete
review all: needs_changes
implement all: complete
review all: pass
archive all: complete
flow add-a-login-to-the-site: done in `archive`
";
    assert_eq!(out, expected);
}
